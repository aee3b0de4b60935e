// Groups of processes and their collectives, which a CollectiveBackend executes.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "runtime/comm/collective_backend.h"
#include "runtime/comm/internal/frame_channel.h"

namespace tessera {

/// threads  any; the backend is called with the lock of the channel
class ProcessGroups {
 public:
  ProcessGroups(FrameChannel& channel, CollectiveBackend& backend)
      : channel_(channel), backend_(backend) {}

  /// The number of the group, which is made when it is new.
  ///   waits  for the processes of a new group, and blocks progress meanwhile; see
  ///          CollectiveBackend::split
  int group_of(const std::vector<int>& processes);

  /// Does CollectiveBackend::start.
  void start(const Collective& what, GroupStream on, const std::byte* source, std::byte* target,
             Countdown& in_flight);

 private:
  FrameChannel& channel_;
  CollectiveBackend& backend_;
  std::map<std::vector<int>, int> groups_;  // by processes; guarded by the lock of the channel
};

}  // namespace tessera
