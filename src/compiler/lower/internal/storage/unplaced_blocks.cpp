#include "compiler/lower/internal/storage/unplaced_blocks.h"

#include <algorithm>
#include <tuple>

namespace tessera {
namespace {

constexpr int kSlotsOfLeaf = 8;

}  // namespace

UnplacedBlocks::UnplacedBlocks(const LiveBlocks& blocks) : slot_of_(blocks.size()) {
  for (BlockIndex i : blocks.indices())
    slots_.push_back({blocks[i].begin, blocks[i].end, kTaken, 0, i});
  while (leaves_ * kSlotsOfLeaf < blocks.size()) leaves_ *= 2;
  first_slot_.assign(leaves_ + 1, blocks.size());
  nodes_.resize(2 * leaves_);
  divide(1, 0, blocks.size(), false);
  for (int slot = 0; slot < blocks.size(); ++slot) slot_of_[slots_[slot].block] = slot;
}

/// Gives the slots [low, high) to the leaves below the node: by begin and by end in turn.
void UnplacedBlocks::divide(int node, int low, int high, bool by_end) {
  if (node >= leaves_) {
    first_slot_[node - leaves_] = low;
    for (int slot = low; slot < high; ++slot) slots_[slot].leaf = node - leaves_;
    return;
  }
  const int middle = low + (high - low) / 2;
  const auto key = [by_end](const Slot& slot) {
    return std::tuple(by_end ? slot.end : slot.begin, by_end ? slot.begin : slot.end, slot.block);
  };
  std::nth_element(slots_.begin() + low, slots_.begin() + middle, slots_.begin() + high,
                   [&](const Slot& a, const Slot& b) { return key(a) < key(b); });
  divide(2 * node, low, middle, !by_end);
  divide(2 * node + 1, middle, high, !by_end);
}

void UnplacedBlocks::restart(std::span<const BlockIndex> order) {
  int rank = 0;
  for (BlockIndex block : order) slots_[slot_of_[block]].rank = rank++;
  for (int leaf = 0; leaf < leaves_; ++leaf) nodes_[leaves_ + leaf] = node_of_leaf(leaf);
  for (int node = leaves_ - 1; node > 0; --node) nodes_[node] = node_above(node);
}

BlockIndex UnplacedBlocks::take(int begin, int end) {
  Slot* best = nullptr;
  find(1, begin, end, best);
  if (!best) return {};
  best->rank = kTaken;
  int node = leaves_ + best->leaf;
  nodes_[node] = node_of_leaf(best->leaf);
  for (node /= 2; node > 0; node /= 2) nodes_[node] = node_above(node);
  return best->block;
}

UnplacedBlocks::Node UnplacedBlocks::node_of_leaf(int leaf) const {
  Node node;
  for (int i = first_slot_[leaf]; i < first_slot_[leaf + 1]; ++i) {
    const Slot& slot = slots_[i];
    if (slot.rank == kTaken) continue;
    node.min_rank = std::min(node.min_rank, slot.rank);
    node.last_begin = std::max(node.last_begin, slot.begin);
    node.first_end = std::min(node.first_end, slot.end);
  }
  return node;
}

UnplacedBlocks::Node UnplacedBlocks::node_above(int node) const {
  const Node &a = nodes_[2 * node], &b = nodes_[2 * node + 1];
  return {std::min(a.min_rank, b.min_rank), std::max(a.last_begin, b.last_begin),
          std::min(a.first_end, b.first_end)};
}

/// Makes `best` the foremost block below the node that lives within [begin, end], if it is before
/// `best`.
void UnplacedBlocks::find(int node, int begin, int end, Slot*& best) {
  const Node& here = nodes_[node];
  if (here.min_rank >= (best ? best->rank : kTaken) || here.last_begin < begin ||
      here.first_end > end)
    return;
  ++visits_;
  if (node < leaves_) {
    const bool right_first = nodes_[2 * node + 1].min_rank < nodes_[2 * node].min_rank;
    find(2 * node + (right_first ? 1 : 0), begin, end, best);
    find(2 * node + (right_first ? 0 : 1), begin, end, best);
    return;
  }
  for (int i = first_slot_[node - leaves_]; i < first_slot_[node - leaves_ + 1]; ++i) {
    Slot& slot = slots_[i];
    if (slot.rank < (best ? best->rank : kTaken) && slot.begin >= begin && slot.end <= end)
      best = &slot;
  }
}

}  // namespace tessera
