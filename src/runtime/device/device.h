// The interface to the hardware that executes the kernels of a rank: kernels, a memory, and streams
// that work while the thread of the rank continues. The host is a device with one stream.
//
// A further kind of device is a folder that implements Device and DeviceStream. For CUDA:
//   bind         picks a kernel of its catalogue for a call; its run() launches on the given stream
//   allocate     cudaMalloc
//   make_stream  a cudaStream_t; record() enqueues an event and a host function that reaches it
// Exchanges between such devices are a backend of runtime/exchange/exchange_backend.h.
#pragma once

#include <atomic>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>

#include "kernels/kernel.h"
#include "kernels/kernel_set.h"
#include "sharding/layout/device_kind.h"

namespace tessera {

/// Memory of a device, freed with this object. It is aligned to kTensorAlignment and zeroed.
///
///   address  an address of the device: the host passes it to streams and adds offsets to it, but
///            does not read or write there
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(std::byte* address, Bytes size, std::function<void()> release);
  std::byte* address() const { return address_; }
  Bytes size() const { return size_; }

 private:
  struct Release {
    std::function<void()> free;
    void operator()(std::byte*) const { free(); }
  };
  std::byte* address_ = nullptr;
  Bytes size_{0};
  std::unique_ptr<std::byte, Release> owner_;
};

/// A point in the work of a stream.
///
///   threads  the thread of the stream reaches it; the rank that recorded it polls it
class DeviceEvent {
 public:
  /// `on_reached` is called each time, on the thread of the stream, to wake a thread that waits. It
  /// must not block and must not call the stream.
  explicit DeviceEvent(std::function<void()> on_reached = {})
      : on_reached_(std::move(on_reached)) {}
  /// Waits until a stream that has reached it no longer uses it.
  ~DeviceEvent();
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  /// Has the stream reached the point at which it was recorded last? True before the first time.
  bool reached() const { return reached_.load(std::memory_order_acquire); }
  /// Throws the exception of a kernel that was launched before the event.  requires  reached()
  void rethrow() const;

  // These are for streams.
  void expect() { reached_.store(false, std::memory_order_relaxed); }
  void reach(const std::exception_ptr& error);

 private:
  std::function<void()> on_reached_;
  std::exception_ptr error_;
  std::atomic<bool> reached_{true};
  std::atomic<int> calling_{0};  // streams between reached_ and the end of on_reached_
};

/// Executes its work in the order in which the work is given. The buffers, kernels and events of
/// the work stay until an event after it is reached. After a kernel has thrown, no further work is
/// executed, and every event throws the same exception.
///
///   threads  one caller
///   memory   nothing is allocated in the steady state
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
  /// The kernel that the streams of this device launch for a call: the one of `own`, or else the
  /// one of the catalogue of this device.
  ///   requires, throws  as bind_kernel (kernels/bind.h)
  virtual BoundKernel bind(const LocalCall& call, const KernelSet* own) const = 0;
};

/// The memory and the kernels of the CPU. A stream executes its work at once, on the thread of the
/// caller; an event is reached when it is recorded.
std::unique_ptr<Device> make_host_device();

struct FakeDeviceOptions {
  Seconds launch{0};    // from a call of a stream until its work may begin
  double slowness = 1;  // >= 1: the time of a kernel relative to that on the host
};
struct FileDeviceOptions {
  /// Where the file is; empty: the folder for temporary files of the system, which $TMPDIR
  /// names.
  std::filesystem::path folder = {};
  /// A stream calls it on its thread after each copy, which is done when the call returns: tests
  /// make copies longer. Empty: they take what they take.
  std::function<void(bool is_read)> delay = {};
};
/// A simulated accelerator, which finds mistakes that a real one would not tolerate. The host
/// faults when it reads or writes at an address of its memory; a stream refuses addresses of other
/// memory. Each stream is a thread.
std::unique_ptr<Device> make_fake_device(const FakeDeviceOptions& options = {});

}  // namespace tessera
