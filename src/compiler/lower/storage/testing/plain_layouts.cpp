#include "compiler/lower/storage/testing/plain_layouts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "base/tensor/tensor.h"

namespace tessera {
namespace {

bool live_together(const LiveBlock& a, const LiveBlock& b) {
  return a.begin <= b.end && b.begin <= a.end;
}

std::vector<BlockIndex> sorted(const LiveBlocks& blocks, const auto& is_before) {
  std::vector<BlockIndex> order(blocks.indices().begin(), blocks.indices().end());
  std::stable_sort(order.begin(), order.end(), is_before);
  return order;
}

int64_t end_of(const LiveBlocks& blocks, const BlockLayout& layout, BlockIndex block) {
  return layout.offsets[block] + blocks[block].bytes;
}

/// The blocks that are alive, by offset.
class AliveBlocks {
 public:
  AliveBlocks(const LiveBlocks& blocks, const BlockLayout& layout)
      : blocks_(blocks), layout_(layout) {}

  /// "" or which block of those that are alive shares bytes with it.
  std::string add(BlockIndex block) {
    const int64_t begin = layout_.offsets[block], end = end_of(blocks_, layout_, block);
    const auto [at, is_new] = by_offset_.emplace(begin, block);
    if (!is_new) return share_text(block, at->second);
    if (const auto next = std::next(at); next != by_offset_.end() && next->first < end)
      return share_text(block, next->second);
    if (at != by_offset_.begin())
      if (const auto before = std::prev(at); end_of(blocks_, layout_, before->second) > begin)
        return share_text(block, before->second);
    return "";
  }
  void remove(BlockIndex block) { by_offset_.erase(layout_.offsets[block]); }

 private:
  static std::string share_text(BlockIndex a, BlockIndex b) {
    return "blocks " + std::to_string(a.value()) + " and " + std::to_string(b.value()) +
           " share bytes";
  }

  const LiveBlocks& blocks_;
  const BlockLayout& layout_;
  std::map<int64_t, BlockIndex> by_offset_;
};

}  // namespace

BlockLayout first_fit_by_size(const LiveBlocks& blocks) {
  BlockLayout layout{IndexedVector<BlockIndex, int64_t>(blocks.size(), 0), 0};
  std::vector<BlockIndex> placed;  // by offset
  for (BlockIndex index : sorted(
           blocks, [&](BlockIndex a, BlockIndex b) { return blocks[a].bytes > blocks[b].bytes; })) {
    int64_t offset = 0;
    for (BlockIndex other : placed) {
      if (!live_together(blocks[other], blocks[index])) continue;
      if (offset + blocks[index].bytes <= layout.offsets[other]) break;
      offset = std::max(offset, end_of(blocks, layout, other));
    }
    layout.offsets[index] = offset;
    layout.size = std::max(layout.size, end_of(blocks, layout, index));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [&](int64_t o, BlockIndex i) { return o < layout.offsets[i]; }),
                  index);
  }
  return layout;
}

// In the order of the offsets of a least layout, each block on top of those before it that live
// with it is not higher than there.
int64_t min_size(const LiveBlocks& blocks) {
  std::vector<BlockIndex> order(blocks.indices().begin(), blocks.indices().end());
  int64_t smallest = std::numeric_limits<int64_t>::max();
  do {
    int64_t size = 0;
    IndexedVector<BlockIndex, int64_t> ends(blocks.size(), 0);
    for (size_t i = 0; i < order.size(); ++i) {
      int64_t offset = 0;
      for (size_t j = 0; j < i; ++j)
        if (live_together(blocks[order[i]], blocks[order[j]]))
          offset = std::max(offset, ends[order[j]]);
      ends[order[i]] = offset + blocks[order[i]].bytes;
      size = std::max(size, ends[order[i]]);
    }
    smallest = std::min(smallest, size);
  } while (std::next_permutation(order.begin(), order.end()));
  return smallest;
}

std::string offence_of(const LiveBlocks& blocks, const BlockLayout& layout) {
  if (layout.offsets.size() != blocks.size()) return "not every block has an offset";
  int64_t size = 0;
  for (BlockIndex i : blocks.indices()) {
    if (layout.offsets[i] < 0 || layout.offsets[i] % kTensorAlignment != 0)
      return "block " + std::to_string(i.value()) + " is not aligned";
    size = std::max(size, end_of(blocks, layout, i));
  }
  if (size != layout.size) return "the size is not the end of the highest block";
  const auto by_begin =
      sorted(blocks, [&](BlockIndex a, BlockIndex b) { return blocks[a].begin < blocks[b].begin; });
  const auto by_end =
      sorted(blocks, [&](BlockIndex a, BlockIndex b) { return blocks[a].end < blocks[b].end; });
  AliveBlocks alive(blocks, layout);
  auto ended = by_end.begin();
  for (BlockIndex block : by_begin) {
    for (; blocks[*ended].end < blocks[block].begin; ++ended) alive.remove(*ended);
    if (const std::string offence = alive.add(block); !offence.empty()) return offence;
  }
  return "";
}

}  // namespace tessera
