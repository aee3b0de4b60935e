// Memory in a file: what streams and the host see of it, and what happens when the disk is full.
#include "runtime/device/file_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/testing/error.h"
#include "base/testing/test_folder.h"
#include "runtime/device/testing/finish.h"

namespace tessera {
namespace {

using testing::Each;
using testing::HasSubstr;

std::span<float> floats_of(const DeviceMemory& memory) {
  return {reinterpret_cast<float*>(memory.address()),
          static_cast<size_t>(memory.size().value()) / sizeof(float)};
}

std::vector<float> numbers(int count) {
  std::vector<float> list(count);
  std::iota(list.begin(), list.end(), 1.0f);
  return list;
}

TEST(FileDevice, MemoryBeginsAsZeros) {
  FileDevice device;
  const DeviceMemory memory = device.allocate(Bytes(40'000));
  EXPECT_THAT(floats_of(memory), Each(0));
}

TEST(FileDevice, StreamsReadWhatTheHostHasWrittenAndTheHostWhatStreamsHave) {
  FileDevice device;
  const DeviceMemory other = device.allocate(Bytes(100)), memory = device.allocate(Bytes(40'000));
  const std::vector<float> written = numbers(10'000);
  const auto stream = device.make_stream();
  stream->copy_in(memory.address(), reinterpret_cast<const std::byte*>(written.data()),
                  memory.size());
  finish(*stream);
  EXPECT_TRUE(std::ranges::equal(floats_of(memory), written));
  EXPECT_THAT(floats_of(other), Each(0));
  std::ranges::reverse(floats_of(memory));
  FileDevice::release_pages(memory);
  std::vector<float> read(10'000);
  stream->copy_out(reinterpret_cast<std::byte*>(read.data()), memory.address(), memory.size());
  finish(*stream);
  EXPECT_TRUE(std::equal(read.rbegin(), read.rend(), written.begin()));
}

TEST(FileDevice, CopiesPartsAtTheirAddresses) {
  FileDevice device;
  const DeviceMemory memory = device.allocate(Bytes(8 * sizeof(float)));
  const std::vector<float> written = numbers(3);
  const auto stream = device.make_stream();
  stream->copy_in(memory.address() + 2 * sizeof(float),
                  reinterpret_cast<const std::byte*>(written.data()), Bytes(3 * sizeof(float)));
  finish(*stream);
  EXPECT_THAT(floats_of(memory), testing::ElementsAre(0, 0, 1, 2, 3, 0, 0, 0));
}

TEST(FileDevice, LeavesNoFileBehind) {
  const TestFolder folder;
  FileDevice device({.folder = folder.path()});
  const DeviceMemory memory = device.allocate(Bytes(100));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(FileDevice, RunsNoKernels) {
  FileDevice device;
  EXPECT_THROW(device.make_stream()->launch({}, {}), InternalError);
}

/// Files may have n bytes while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : before_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit lower{bytes, limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &lower);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, before_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*before_)(int);
  rlimit limit_{};
};

TEST(FileDevice, SaysThatItsDiskHasNoRoom) {
  const TestFolder folder;
  FileDevice device({.folder = folder.path()});
  const DeviceMemory memory = device.allocate(Bytes(1 << 20));
  const FileSizeLimit limit(2 << 20);
  const std::string message =
      error_testing::message_of(ExitCode::kFailure, [&] { device.allocate(Bytes(4 << 20)); });
  EXPECT_THAT(message, HasSubstr("cannot grow from 1 MiB to 5 MiB\n  why: the system says: "));
  EXPECT_THAT(message, HasSubstr("\n  fix: set TMPDIR to a folder on a disk with more free space"));
}

}  // namespace
}  // namespace tessera
