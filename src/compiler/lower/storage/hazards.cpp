#include "compiler/lower/storage/hazards.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "compiler/lower/internal/storage/range_counter.h"

namespace tessera {
namespace {

/// A set of numbers below a limit that gives them back in ascending order, without comparisons.
class NumberSet {
 public:
  explicit NumberSet(size_t limit) : words_(limit / 64 + 1, 0) {}

  void add(size_t number) { words_[number / 64] |= uint64_t{1} << (number % 64); }
  /// Calls visit(number) for each, and empties the set.
  template <class Visit>
  void drain(const Visit& visit) {
    for (size_t i = 0; i < words_.size(); ++i)
      for (uint64_t& word = words_[i]; word != 0; word &= word - 1)
        visit(i * 64 + static_cast<size_t>(std::countr_zero(word)));
  }

 private:
  std::vector<uint64_t> words_;
};

struct ByteRange {
  int64_t begin = 0, end = 0;
};
bool is_below(const ByteRange& a, const ByteRange& b) {
  return a.begin < b.begin;
}

/// Goes through the blocks by their begins, and knows the bytes that are in use meanwhile. A block
/// is fixed, or it is read elsewhere and may be moved.
class WaitReducer {
 public:
  WaitReducer(const LiveBlocks& blocks, BlockLayout& layout)
      : blocks_(blocks),
        layout_(layout),
        fixed_(RangeCounter::of_bytes(blocks, layout, false)),
        movable_(RangeCounter::of_bytes(blocks, layout, true)) {
    std::vector<BlockIndex> by_offset(blocks.indices().begin(), blocks.indices().end());
    std::stable_sort(by_offset.begin(), by_offset.end(), [&](BlockIndex a, BlockIndex b) {
      return layout_.offsets[a] < layout_.offsets[b];
    });
    for (BlockIndex block : by_offset) {
      const bool is_movable = blocks[block].is_read_elsewhere;
      lives_.push_back(
          {blocks[block].begin, blocks[block].end, block, is_movable ? kMovable : places_.size()});
      if (!is_movable) places_.push_back(range_of(block));
    }
    std::stable_sort(lives_.begin(), lives_.end(),
                     [](const Life& a, const Life& b) { return a.begin < b.begin; });
    used_places_ = NumberSet(places_.size());
  }

  void run(int64_t steps) {
    const IndexedVector<BlockIndex, bool> is_chosen = choose(steps);
    for (const Life& life : lives_) {
      if (!is_chosen[life.block]) continue;
      advance_to(life.begin);
      move(life.block, used_beside(life));
    }
    layout_.size = 0;
    for (BlockIndex i : blocks_.indices()) layout_.size = std::max(layout_.size, range_of(i).end);
  }

 private:
  static constexpr size_t kMovable = std::numeric_limits<size_t>::max();

  struct Life {
    int begin = 0, end = 0;
    BlockIndex block;
    size_t place = kMovable;  // of a fixed block in places_
  };

  ByteRange range_of(BlockIndex block) const {
    return {layout_.offsets[block], layout_.offsets[block] + blocks_[block].bytes};
  }

  /// Two blocks that are both read elsewhere wait for each other: in this step and in the next one.
  int64_t count_hazards_at(ByteRange range) const {
    return fixed_.count_sharing(range.begin, range.end) +
           2 * movable_.count_sharing(range.begin, range.end);
  }

  /// The blocks with the most waits for each block that is alive with them, as many as `steps`
  /// allows.
  IndexedVector<BlockIndex, bool> choose(int64_t steps) const {
    struct Candidate {
      BlockIndex block;
      int64_t hazards = 0, beside = 0;
    };
    const RangeCounter instants = RangeCounter::of_instants(blocks_);
    std::vector<Candidate> candidates;
    for (BlockIndex i : blocks_.indices())
      if (blocks_[i].is_read_elsewhere)
        candidates.push_back({i, count_hazards_at(range_of(i)) - 2,  // except for itself
                              instants.count_sharing(blocks_[i].begin, blocks_[i].end + 1)});
    std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
      return a.hazards * b.beside > b.hazards * a.beside;
    });
    IndexedVector<BlockIndex, bool> is_chosen(blocks_.size(), false);
    for (const Candidate& candidate : candidates) {
      steps -= candidate.beside;
      if (steps < 0) break;
      is_chosen[candidate.block] = candidate.hazards > 0;
    }
    return is_chosen;
  }

  void advance_to(int instant) {
    for (; begun_ < lives_.size() && lives_[begun_].begin <= instant; ++begun_)
      alive_.push_back(lives_[begun_]);
    std::erase_if(alive_, [&](const Life& life) { return life.end < instant; });
  }

  /// The bytes of the other blocks that are alive at some instant of a life, by begin.
  ///   requires  the instant is its begin
  std::vector<ByteRange> used_beside(const Life& life) {
    std::vector<ByteRange> moved;
    const auto add = [&](const Life& other) {
      if (other.place != kMovable)
        used_places_.add(other.place);
      else if (other.block != life.block)
        moved.push_back(range_of(other.block));
    };
    for (const Life& other : alive_) add(other);
    for (size_t i = begun_; i < lives_.size() && lives_[i].begin <= life.end; ++i) add(lives_[i]);
    std::sort(moved.begin(), moved.end(), is_below);
    std::vector<ByteRange> all;
    auto next = moved.begin();
    used_places_.drain([&](size_t place) {
      for (; next != moved.end() && is_below(*next, places_[place]); ++next) all.push_back(*next);
      all.push_back(places_[place]);
    });
    all.insert(all.end(), next, moved.end());
    return all;
  }

  /// Gives the block the place beside `used` that the fewest others share. The two ends of each gap
  /// are enough to look at.
  void move(BlockIndex block, const std::vector<ByteRange>& used) {
    const int64_t bytes = blocks_[block].bytes;
    ByteRange best = range_of(block);
    movable_.remove(best.begin, best.end);
    int64_t fewest = count_hazards_at(best), free_from = 0;
    const auto consider = [&](int64_t offset) {
      if (fewest == 0) return;
      const ByteRange range{offset, offset + bytes};
      const int64_t hazards = count_hazards_at(range);
      if (hazards >= fewest) return;
      fewest = hazards;
      best = range;
    };
    const auto consider_gap_to = [&](int64_t end) {
      if (free_from + bytes > end) return;
      consider(free_from);
      consider(end - bytes);
    };
    for (const ByteRange& range : used) {
      consider_gap_to(range.begin);
      free_from = std::max(free_from, range.end);
    }
    consider_gap_to(layout_.size);
    movable_.add(best.begin, best.end);
    layout_.offsets[block] = best.begin;
  }

  const LiveBlocks& blocks_;
  BlockLayout& layout_;
  RangeCounter fixed_, movable_;   // their bytes
  std::vector<Life> lives_;        // by begin
  size_t begun_ = 0;               // of lives_
  std::vector<Life> alive_;        // of those that began
  std::vector<ByteRange> places_;  // of the fixed blocks, by begin
  NumberSet used_places_ = NumberSet(0);
};

}  // namespace

int64_t count_hazards(const LiveBlocks& blocks, const BlockLayout& layout) {
  const RangeCounter here = RangeCounter::of_bytes(blocks, layout, false);
  const RangeCounter elsewhere = RangeCounter::of_bytes(blocks, layout, true);
  int64_t count = 0;
  for (BlockIndex i : blocks.indices()) {
    if (!blocks[i].is_read_elsewhere) continue;
    const int64_t begin = layout.offsets[i], end = begin + blocks[i].bytes;
    count += here.count_sharing(begin, end) + elsewhere.count_sharing(begin, end) - 1;
  }
  return count;
}

void reduce_hazards(const LiveBlocks& blocks, int64_t steps, BlockLayout& layout) {
  WaitReducer(blocks, layout).run(steps);
}

}  // namespace tessera
