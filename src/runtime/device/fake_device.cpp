#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "base/error.h"
#include "base/threads/clock_time.h"
#include "kernels/bind.h"
#include "runtime/device/device.h"
#include "runtime/device/internal/stream_thread.h"

namespace tessera {
namespace {

using Clock = StreamThread::Clock;

Clock::duration duration_of(double seconds) {
  return clock_time(Seconds(seconds));
}

std::byte* map_pages(size_t size, int protection) {
  void* pages = mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(pages);
}

/// Maps addresses of the device to bytes of the host. The addresses are pages that may not be
/// accessed; only streams know where the bytes are.
///   threads  any
class FakeMemory {
 public:
  std::byte* add(Bytes size) {
    const size_t page = sysconf(_SC_PAGESIZE);
    const size_t length = (size.value() / page + 1) * page;
    std::byte* address = map_pages(length, PROT_NONE);
    std::byte* bytes = map_pages(length, PROT_READ | PROT_WRITE);
    const std::lock_guard lock(mutex_);
    blocks_[address] = {bytes, length};
    return address;
  }

  void remove(std::byte* address) {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(address);
    munmap(block->second.bytes, block->second.length);
    munmap(address, block->second.length);
    blocks_.erase(block);
  }

  /// The bytes of an address; nullptr for nullptr.
  std::byte* find(const std::byte* address) const {
    if (!address) return nullptr;
    const std::lock_guard lock(mutex_);
    auto block = blocks_.upper_bound(const_cast<std::byte*>(address));
    const bool is_first = block == blocks_.begin();
    if (!is_first) --block;
    ensure(!is_first && address < block->first + block->second.length,
           "a stream of a device works in the memory of its device");
    return block->second.bytes + (address - block->first);
  }

 private:
  struct Block {
    std::byte* bytes = nullptr;
    size_t length = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::byte*, Block> blocks_;
};

class FakeStream : public DeviceStream {
 public:
  FakeStream(std::shared_ptr<const FakeMemory> memory, const FakeDeviceOptions& options)
      : memory_(std::move(memory)),
        options_(options),
        thread_([this](const StreamThread::Work& work) { run(work); }) {}

  void launch(const BoundKernel& kernel, const KernelBuffers& buffers) override {
    thread_.give({.kernel = &kernel, .buffers = buffers});
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
    wait_until(work.given + duration_of(options_.launch.value()));
    work.kernel ? run_kernel(work) : run_copy(work);
  }

  void run_kernel(const StreamThread::Work& work) {
    use_one_thread_for_kernels();
    inputs_.clear();
    outputs_.clear();
    for (const std::byte* input : work.buffers.inputs) inputs_.push_back(memory_->find(input));
    for (std::byte* output : work.buffers.outputs) outputs_.push_back(memory_->find(output));
    const auto begin = Clock::now();
    work.kernel->run({inputs_, outputs_, memory_->find(work.buffers.workspace)});
    const auto taken = Clock::now() - begin;
    if (options_.slowness > 1)
      wait_until(begin +
                 duration_of(std::chrono::duration<double>(taken).count() * options_.slowness));
  }

  void run_copy(const StreamThread::Work& work) const {
    const size_t size = work.size.value();
    if (work.is_out)
      std::memcpy(work.to, memory_->find(work.from), size);
    else
      std::memcpy(memory_->find(work.to), work.from, size);
  }

  const std::shared_ptr<const FakeMemory> memory_;
  const FakeDeviceOptions options_;
  std::vector<const std::byte*> inputs_;  // only the thread of the stream uses it and the next one
  std::vector<std::byte*> outputs_;
  StreamThread thread_;  // last: it uses the members above
};

class FakeDevice : public Device {
 public:
  explicit FakeDevice(const FakeDeviceOptions& options) : options_(options) {
    ensure(options.slowness >= 1 && options.launch >= Seconds(0),
           "a fake device is no faster than the host");
  }
  DeviceKind kind() const override { return DeviceKind::kFake; }
  DeviceMemory allocate(Bytes size) override {
    std::byte* address = memory_->add(size);
    return {address, size, [memory = memory_, address] { memory->remove(address); }};
  }
  std::unique_ptr<DeviceStream> make_stream() override {
    return std::make_unique<FakeStream>(memory_, options_);
  }
  BoundKernel bind(const LocalCall& call, const KernelSet* own) const override {
    return bind_kernel(call, own);
  }

 private:
  const FakeDeviceOptions options_;
  const std::shared_ptr<FakeMemory> memory_ = std::make_shared<FakeMemory>();
};

}  // namespace

std::unique_ptr<Device> make_fake_device(const FakeDeviceOptions& options) {
  return std::make_unique<FakeDevice>(options);
}

}  // namespace tessera
