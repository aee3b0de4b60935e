// The streams of a rank in a program of which a part runs on its device.
#pragma once

#include <vector>

#include "device/device.h"
#include "executor/recorder.h"
#include "tasks/task_graph.h"

namespace tessera {

/// One stream of a rank and where it stands in the step. The thread of the rank takes the acts of
/// all of them from here.
struct RankStream {
  /// What an observer is to see of the act: copies on the host, by register.
  struct Seen {
    RegisterIndex reg;
    std::vector<std::byte> bytes;
  };

  TaskStream stream;
  std::vector<int> places;  // of its tasks in the order list
  size_t next = 0;          // of places
  bool is_acting =
      false;  // on the device; what the thread of the rank does is over when it returns
  DeviceStream* device = nullptr;
  DeviceEvent ended;
  Recorder::Time begin = {};
  std::vector<Seen> seen;

  /// on_ended  of each act: as DeviceEvent
  RankStream(TaskStream which, std::vector<int> tasks, std::function<void()> on_ended)
      : stream(which), places(std::move(tasks)), ended(std::move(on_ended)) {}
  bool is_done() const { return !is_acting && next == places.size(); }
};

}  // namespace tessera
