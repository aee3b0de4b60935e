// The arenas of one rank, in which its programs have their registers.
#pragma once

#include <functional>
#include <vector>

#include "runtime/device/device.h"
#include "task_graph/tasks/arena_blocks.h"

namespace tessera {

/// The programs of a runtime share them: a step of one program begins when all steps of the others
/// have ended in all processes (InFlightSteps).
///
///   threads  the thread of the rank
class RankArenas {
 public:
  /// Bytes that lend() would allocate.
  Bytes bytes_to_add(const TaskGraph& graph, Rank rank) const;
  /// The memory for the arenas of a program, of which new is allocated where there is too little.
  ///   device   of a mesh to which the rank belongs
  ///   returns  by mesh: the address, valid as long as this; nullptr where the rank has no arena
  ///   throws   std::bad_alloc
  IndexedVector<MeshIndex, std::byte*> lend(const TaskGraph& graph, Rank rank,
                                            const std::function<Device&(MeshIndex)>& device);
  Bytes size() const { return blocks_.size(); }

 private:
  ArenaBlocks blocks_;
  std::vector<DeviceMemory> memory_;  // by block
};

}  // namespace tessera
