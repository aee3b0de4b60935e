#include "task_graph/tasks/arena_blocks.h"

#include <algorithm>

namespace tessera {

IndexedVector<MeshIndex, std::optional<size_t>> ArenaBlocks::add(const TaskGraph& graph,
                                                                 Rank rank) {
  std::vector<MeshIndex> meshes;
  for (const MeshIndex mesh : graph.meshes.indices())
    if (graph.arenas[mesh] > Bytes(0) && graph.meshes[mesh]->coordinate_of(rank))
      meshes.push_back(mesh);
  std::ranges::stable_sort(meshes, std::ranges::greater(),
                           [&](MeshIndex mesh) { return graph.arenas[mesh]; });
  IndexedVector<MeshIndex, std::optional<size_t>> block_of(graph.meshes.size());
  std::vector<bool> is_taken(blocks_.size(), false);
  for (const MeshIndex mesh : meshes) {
    const size_t block = block_for({device_of(graph, mesh), graph.arenas[mesh]}, is_taken);
    is_taken.resize(blocks_.size(), false);
    is_taken[block] = true;
    block_of[mesh] = block;
  }
  return block_of;
}

size_t ArenaBlocks::block_for(const Block& arena, const std::vector<bool>& is_taken) {
  std::optional<size_t> best;
  for (size_t i = 0; i < blocks_.size(); ++i)
    if (!is_taken[i] && blocks_[i].device == arena.device && blocks_[i].size >= arena.size &&
        (!best || blocks_[i].size < blocks_[*best].size))
      best = i;
  if (best) return *best;
  blocks_.push_back(arena);
  return blocks_.size() - 1;
}

Bytes ArenaBlocks::size() const {
  Bytes sum{0};
  for (const Block& block : blocks_) sum += block.size;
  return sum;
}

}  // namespace tessera
