// A queue of work with a thread of its own, for the streams of devices.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/device/device.h"

namespace tessera {

/// Waits until `time`. The operating system wakes a thread a little late, so the last part of the
/// time is spent polling the clock.
void wait_until(std::chrono::steady_clock::time_point time);

/// Executes its work in the order in which it is given.
///
///   threads  one caller of give()
///   failure  as of DeviceStream: after work has thrown, no further work is executed, and every
///            event throws the same exception
class StreamThread {
 public:
  using Clock = std::chrono::steady_clock;

  /// A kernel, an event, or a copy.
  struct Work {
    const BoundKernel* kernel = nullptr;
    KernelBuffers buffers = {};
    DeviceEvent* event = nullptr;
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    Bytes size{0};
    bool is_out = false;  // of a copy: from the device
    Clock::time_point given = {};
  };

  /// run  executes a kernel or a copy, on the thread of the stream
  explicit StreamThread(std::function<void(const Work&)> run);
  /// Executes what was given, and ends the thread.
  ~StreamThread();
  StreamThread(const StreamThread&) = delete;
  StreamThread& operator=(const StreamThread&) = delete;

  void give(Work work);

 private:
  void work();
  void run_one(const Work& work);

  const std::function<void(const Work&)> run_;
  std::exception_ptr error_;  // only the thread uses it
  std::mutex mutex_;
  std::condition_variable given_;
  std::vector<Work> waiting_;
  bool is_stopping_ = false;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace tessera
