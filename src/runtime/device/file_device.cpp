#include "runtime/device/file_device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/device/internal/stream_thread.h"

namespace tessera {
namespace {

class FileStream : public DeviceStream {
 public:
  FileStream(const FileDevice& device, std::function<void(bool is_read)> delay)
      : device_(device),
        delay_(std::move(delay)),
        thread_([this](const StreamThread::Work& work) { run(work); }) {}

  void launch(const BoundKernel&, const KernelBuffers&) override {
    throw InternalError("a kernel is launched on a file");
  }
  void copy_in(std::byte* device, const std::byte* host, Bytes size) override {
    thread_.give({.to = device, .from = host, .size = size});
  }
  void copy_out(std::byte* host, const std::byte* device, Bytes size) override {
    thread_.give({.to = host, .from = device, .size = size, .is_out = true});
  }
  void record(DeviceEvent& event) override {
    event.expect();
    thread_.give({.event = &event});
  }

 private:
  void run(const StreamThread::Work& work) {
    if (work.is_out)
      device_.read(work.to, work.from, work.size);
    else
      device_.write(work.to, work.from, work.size);
    if (delay_) delay_(work.is_out);
  }

  const FileDevice& device_;
  const std::function<void(bool is_read)> delay_;
  StreamThread thread_;  // last: it uses the members above
};

}  // namespace

FileDevice::~FileDevice() {
  if (file_ >= 0) close(file_);
}

void FileDevice::refuse(const std::string& what, int error) const {
  throw UserError(
      what, std::string("the system says: ") + std::strerror(error),
      "set TMPDIR to a folder on a disk with more free space, or use a plan whose offload "
      "keeps less there",
      ExitCode::kFailure);
}

void FileDevice::open() {
  std::error_code error;
  folder_ = options_.folder.empty() ? std::filesystem::temp_directory_path(error) : options_.folder;
  if (error) refuse("there is no folder for temporary files", error.value());
  std::string path = (folder_ / "tessera-offload-XXXXXX").string();
  file_ = mkostemp(path.data(), O_CLOEXEC);
  if (file_ < 0) refuse("cannot make the file of offloaded state in " + folder_.string(), errno);
  unlink(path.c_str());
}

DeviceMemory FileDevice::allocate(Bytes size) {
  const std::lock_guard lock(mutex_);
  if (file_ < 0) open();
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t length = std::max<size_t>(1, (size.value() + page - 1) / page) * page;
  if (const int error = posix_fallocate(file_, size_, static_cast<off_t>(length)); error != 0)
    refuse("the file of offloaded state in " + folder_.string() + " cannot grow from " +
               to_text(Bytes(size_)) + " to " +
               to_text(Bytes(size_ + static_cast<int64_t>(length))),
           error);
  void* pages = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file_, size_);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  auto* address = static_cast<std::byte*>(pages);
  blocks_[address] = {size_, length};
  size_ += static_cast<int64_t>(length);
  return {address, size, [this, address] {
            const std::lock_guard inner(mutex_);
            munmap(address, blocks_.at(address).length);
            blocks_.erase(address);
          }};
}

std::unique_ptr<DeviceStream> FileDevice::make_stream() {
  return std::make_unique<FileStream>(*this, options_.delay);
}

BoundKernel FileDevice::bind(const LocalCall&, const KernelSet*) const {
  throw InternalError("a kernel is bound for a file");
}

void FileDevice::release_pages(const DeviceMemory& memory) {
  if (memory.address())
    madvise(memory.address(), static_cast<size_t>(memory.size().value()), MADV_DONTNEED);
}

int64_t FileDevice::offset_of(const std::byte* address) const {
  const std::lock_guard lock(mutex_);
  auto block = blocks_.upper_bound(address);
  ensure(block != blocks_.begin(), "a stream of a file copies from and to that file");
  --block;
  return block->second.offset + (address - block->first);
}

void FileDevice::read(std::byte* to, const std::byte* address, Bytes size) const {
  const int64_t offset = offset_of(address);
  for (int64_t done = 0; done < size.value();) {
    const ssize_t count =
        pread(file_, to + done, static_cast<size_t>(size.value() - done), offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) refuse("cannot read offloaded state in " + folder_.string(), errno);
    done += count;
  }
}

void FileDevice::write(std::byte* address, const std::byte* from, Bytes size) const {
  const int64_t offset = offset_of(address);
  for (int64_t done = 0; done < size.value();) {
    const ssize_t count =
        pwrite(file_, from + done, static_cast<size_t>(size.value() - done), offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) refuse("cannot write offloaded state in " + folder_.string(), errno);
    done += count;
  }
}

}  // namespace tessera
