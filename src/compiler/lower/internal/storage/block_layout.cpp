#include "compiler/lower/internal/storage/block_layout.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "compiler/lower/internal/storage/skyline.h"
#include "compiler/lower/internal/storage/unplaced_blocks.h"

namespace tessera {
namespace {

/// Exponents of the size and of the length of life, whose product is the weight of a block at
/// first. No order suits all programs: the second suits pipelines of many micro-batches.
struct Weighing {
  int size, length;
};
constexpr Weighing kWeighings[] = {{1, 1}, {1, 0}, {2, 1}, {1, 2}, {0, 1}};
constexpr size_t kLayoutsAtLeast = 2, kLayoutsAtMost = 100;
constexpr double kRaise = 4;  // of the weight of a block that is too high

/// Larger first; exact, because IEEE 754 defines the product of two numbers.
using Weights = IndexedVector<BlockIndex, double>;

Weights weigh(const LiveBlocks& blocks, Weighing weighing) {
  Weights weights;
  for (const LiveBlock& block : blocks) {
    double weight = 1;
    for (int i = 0; i < weighing.size; ++i) weight *= static_cast<double>(block.bytes);
    for (int i = 0; i < weighing.length; ++i) weight *= block.end - block.begin + 1;
    weights.push_back(weight);
  }
  return weights;
}

class LayoutSearch {
 public:
  explicit LayoutSearch(const LiveBlocks& blocks)
      : blocks_(in_sections(blocks)), bound_(live_bound(blocks)), unplaced_(blocks_) {
    for (const LiveBlock& block : blocks_) sections_ = std::max(sections_, block.end + 1);
    for (Weighing weighing : kWeighings) weights_.push_back(weigh(blocks_, weighing));
  }

  BlockLayout run(int64_t& steps) {
    BlockLayout best;
    for (size_t made = 0; made < kLayoutsAtMost; ++made) {
      if (made >= kLayoutsAtLeast && unplaced_.visits() > steps) break;
      Weights& weights = weights_[made % weights_.size()];
      BlockLayout layout = lay_out_by(weights);
      raise_too_high(layout, weights);
      if (made == 0 || layout.size < best.size) best = std::move(layout);
      if (best.size == bound_) break;
    }
    steps -= std::min(steps, unplaced_.visits());
    return best;
  }

 private:
  /// Fills the lowest place, again and again: by the block of the largest weight that lives within
  /// its time.
  BlockLayout lay_out_by(const Weights& weights) {
    std::vector<BlockIndex> order(blocks_.indices().begin(), blocks_.indices().end());
    std::stable_sort(order.begin(), order.end(),
                     [&](BlockIndex a, BlockIndex b) { return weights[a] > weights[b]; });
    unplaced_.restart(order);
    Skyline skyline(sections_);
    BlockLayout layout{IndexedVector<BlockIndex, int64_t>(blocks_.size(), 0), 0};
    for (int placed = 0; placed < blocks_.size();) {
      const Skyline::Piece piece = skyline.lowest();
      const BlockIndex block = unplaced_.take(piece.begin, piece.end);
      if (block.is_none()) {
        skyline.raise_lowest();
        continue;
      }
      const LiveBlock& put = blocks_[block];
      skyline.put_on_lowest(put.begin, put.end, put.bytes);
      layout.offsets[block] = piece.height;
      layout.size = std::max(layout.size, piece.height + put.bytes);
      ++placed;
    }
    return layout;
  }

  void raise_too_high(const BlockLayout& layout, Weights& weights) const {
    for (BlockIndex i : blocks_.indices())
      if (layout.offsets[i] + blocks_[i].bytes > bound_) weights[i] *= kRaise;
  }

  const LiveBlocks blocks_;
  const int64_t bound_;
  int sections_ = 0;
  UnplacedBlocks unplaced_;
  std::vector<Weights> weights_;
};

}  // namespace

BlockLayout lay_out(const LiveBlocks& blocks, int64_t& steps) {
  return blocks.empty() ? BlockLayout() : LayoutSearch(blocks).run(steps);
}

}  // namespace tessera
