// What the kernels of a rank run on, behind one interface: a memory, and streams that work in it
// while the thread of the rank goes on. The host is one device, an accelerator another; this
// interface leaves room for a real one, of which there is none yet.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>

#include "kernels/kernel.h"
#include "shard/layout/device_kind.h"

namespace tessera {

/// Memory of a device, given back with its object; aligned to kTensorAlignment, zeros at first.
///
///   address  of the device: the host neither reads nor writes there, but hands it to streams, and
///   may reckon with it
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(std::byte* address, Bytes size, std::function<void()> release);
  std::byte* address() const { return address_; }
  Bytes size() const { return size_; }

 private:
  struct Release {
    std::function<void()> give_back;
    void operator()(std::byte*) const { give_back(); }
  };
  std::byte* address_ = nullptr;
  Bytes size_{0};
  std::unique_ptr<std::byte, Release> owner_;
};

/// A point in a stream that work comes to.
///
///   threads  the stream reaches it; the rank that recorded it asks
class DeviceEvent {
 public:
  /// on_reached  is called on whatever thread the stream has, each time: to wake who waits. It must
  /// not block, nor call the stream
  explicit DeviceEvent(std::function<void()> on_reached = {})
      : on_reached_(std::move(on_reached)) {}
  /// Waits until a stream that has reached it is done with it.
  ~DeviceEvent();
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  /// Has the stream come to where it was recorded last? True before the first time.
  bool reached() const { return reached_.load(std::memory_order_acquire); }
  /// throws  what a kernel before it threw.  requires  reached()
  void rethrow() const;

  // For streams.
  void expect() { reached_.store(false, std::memory_order_relaxed); }
  void reach(const std::exception_ptr& error);

 private:
  std::function<void()> on_reached_;
  std::exception_ptr error_;
  std::atomic<bool> reached_{true};
  std::atomic<int> calling_{0};  // streams between reached_ and the end of on_reached_
};

/// Work in the order in which it is given. What it uses (buffers, kernels, events) lives until an
/// event behind it is reached. After a kernel has thrown, nothing further runs, and every event
/// throws the same.
///
///   threads  one caller
///   memory   nothing in the steady state
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  /// The spans in `buffers` stay; they hold addresses of the device.
  virtual void launch(const BoundKernel& kernel, const KernelBuffers& buffers) = 0;
  virtual void copy_in(std::byte* device, const std::byte* host, Bytes size) = 0;
  virtual void copy_out(std::byte* host, const std::byte* device, Bytes size) = 0;
  virtual void record(DeviceEvent& event) = 0;
};

/// One device of one rank. It outlives its memory and its streams.
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  /// throws  std::bad_alloc
  virtual DeviceMemory allocate(Bytes size) = 0;
  virtual std::unique_ptr<DeviceStream> make_stream() = 0;
};

/// The memory of the program; its streams work at once, on the thread of the caller.
std::unique_ptr<Device> make_host_device();

struct FakeDeviceOptions {
  Seconds launch{0};    // from a call to a stream until its work may begin
  double slowness = 1;  // >= 1: how many times as long a kernel takes as on the host
};
/// An accelerator that is pretended, to find what a real one would not forgive. Its memory has
/// addresses at which the host faults when it reads or writes; a stream refuses addresses that are
/// not its device's. Each stream is a thread.
std::unique_ptr<Device> make_fake_device(const FakeDeviceOptions& options = {});

}  // namespace tessera
