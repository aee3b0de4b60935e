#include "runtime/device/device.h"

#include <cstring>
#include <thread>

#include "kernels/bind.h"

namespace tessera {
namespace {

class HostStream : public DeviceStream {
 public:
  void launch(const BoundKernel& kernel, const KernelBuffers& buffers) override {
    guard([&] { kernel.run(buffers); });
  }
  void copy_in(std::byte* device, const std::byte* host, Bytes size) override {
    guard([&] { std::memcpy(device, host, size.value()); });
  }
  void copy_out(std::byte* host, const std::byte* device, Bytes size) override {
    copy_in(host, device, size);
  }
  void record(DeviceEvent& event) override {
    event.expect();
    event.reach(error_);
  }

 private:
  template <typename Work>
  void guard(const Work& work) {
    if (error_) return;
    try {
      work();
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  std::exception_ptr error_;
};

class HostDevice : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kHost; }
  DeviceMemory allocate(Bytes size) override {
    const auto buffer = std::make_shared<AlignedBuffer>(size);
    return {buffer->data(), size, [keep = buffer]() mutable { keep.reset(); }};
  }
  std::unique_ptr<DeviceStream> make_stream() override { return std::make_unique<HostStream>(); }
  BoundKernel bind(const LocalCall& call, const KernelSet* own) const override {
    return bind_kernel(call, own);
  }
};

}  // namespace

DeviceMemory::DeviceMemory(std::byte* address, Bytes size, std::function<void()> release)
    : address_(address), size_(size), owner_(address, Release{std::move(release)}) {}

DeviceEvent::~DeviceEvent() {
  while (calling_.load(std::memory_order_acquire) > 0) std::this_thread::yield();
}

void DeviceEvent::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

void DeviceEvent::reach(const std::exception_ptr& error) {
  error_ = error;
  calling_.fetch_add(1, std::memory_order_relaxed);
  reached_.store(true, std::memory_order_release);
  if (on_reached_) on_reached_();
  calling_.fetch_sub(1, std::memory_order_release);
}

std::unique_ptr<Device> make_host_device() {
  return std::make_unique<HostDevice>();
}

}  // namespace tessera
