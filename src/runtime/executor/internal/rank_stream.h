// A stream of a rank: its tasks in the order of the order list, and the act that is in flight on
// it.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/executor/internal/bound_task.h"
#include "runtime/executor/internal/record/recorder.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// The host is a device with one stream: its acts run on the thread of the rank and are complete
/// when they have been launched. The stream of an accelerator has a queue; the event of an act is
/// reached when the work before it is done.
struct RankStream {
  /// A register that the observer will see when the act ends: a copy on the host.
  struct ObservedCopy {
    RegisterIndex reg;
    std::vector<std::byte> bytes;
  };
  struct Entry {
    TaskId task;
    int position = 0;  // in the order list
  };

  TaskStream stream;
  DeviceStream* queue;  // nullptr: the host
  std::vector<Entry> entries = {};
  size_t next = 0;         // index in entries
  bool is_acting = false;  // is an act of entries[next] in flight?
  DeviceEvent completion;
  Recorder::Time begin = {};
  std::vector<ObservedCopy> observed = {};

  /// `on_completion`: as DeviceEvent.
  RankStream(TaskStream which, DeviceStream* device_queue, std::function<void()> on_completion)
      : stream(which), queue(device_queue), completion(std::move(on_completion)) {}
  bool is_host() const { return !queue; }
  bool is_done() const { return next == entries.size(); }
  const Entry& next_entry() const { return entries[next]; }
  /// Runs a kernel on the host at once, or enqueues it on the device.
  void launch(const BoundKernel& kernel, const KernelBuffers& buffers) {
    if (queue)
      queue->launch(kernel, buffers);
    else
      kernel.run(buffers);
  }
  /// Call after the last kernel or copy of an act.
  void record_completion() {
    if (queue) queue->record(completion);
  }
};

}  // namespace tessera
