// The memory of the arenas of a rank, which its programs share.
#pragma once

#include <optional>
#include <vector>

#include "base/index.h"
#include "base/units.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// The blocks in which a rank has the arenas of its programs. One program runs at a time, and no
/// arena has content between two steps, so that a block is used by many programs, each of which has
/// one arena in it.
class ArenaBlocks {
 public:
  struct Block {
    DeviceKind device = DeviceKind::kHost;
    Bytes size{0};
  };

  /// Gives each arena of a program a block, the largest arena first: the smallest one of its device
  /// that has space and no other arena of the program; where there is none, a new one of its size.
  ///   returns  by mesh: the index of the block; nothing where the rank has no arena
  IndexedVector<MeshIndex, std::optional<size_t>> add(const TaskGraph& graph, Rank rank);

  const std::vector<Block>& blocks() const { return blocks_; }
  Bytes size() const;  // of all blocks

 private:
  size_t block_for(const Block& arena, const std::vector<bool>& is_taken);

  std::vector<Block> blocks_;
};

}  // namespace tessera
