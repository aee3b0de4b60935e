#include "runtime/memory/internal/rank_arenas.h"

#include <utility>

namespace tessera {

Bytes RankArenas::bytes_to_add(const TaskGraph& graph, Rank rank) const {
  ArenaBlocks after = blocks_;
  after.add(graph, rank);
  return after.size() - size();
}

IndexedVector<MeshIndex, std::byte*> RankArenas::lend(
    const TaskGraph& graph, Rank rank, const std::function<Device&(MeshIndex)>& device) {
  ArenaBlocks after = blocks_;
  const IndexedVector<MeshIndex, std::optional<size_t>> block_of = after.add(graph, rank);
  std::vector<DeviceMemory> added(after.blocks().size() - memory_.size());
  for (const MeshIndex mesh : block_of.indices())
    if (const auto block = block_of[mesh]; block && *block >= memory_.size())
      added[*block - memory_.size()] = device(mesh).allocate(after.blocks()[*block].size);
  blocks_ = std::move(after);
  for (DeviceMemory& memory : added) memory_.push_back(std::move(memory));
  IndexedVector<MeshIndex, std::byte*> addresses;
  for (const MeshIndex mesh : block_of.indices())
    addresses.push_back(block_of[mesh] ? memory_[*block_of[mesh]].address() : nullptr);
  return addresses;
}

}  // namespace tessera
