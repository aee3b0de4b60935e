#include "lower/storage/range_counter.h"

#include <algorithm>

namespace tessera {

RangeCounter::RangeCounter(std::vector<int64_t> begins, std::vector<int64_t> ends)
    : begins_(std::move(begins)), ends_(std::move(ends)) {
  std::sort(begins_.begin(), begins_.end());
  std::sort(ends_.begin(), ends_.end());
}

RangeCounter RangeCounter::of_bytes(const LiveBlocks& blocks, const BlockLayout& layout,
                                    bool are_read_elsewhere) {
  std::vector<int64_t> begins, ends;
  for (BlockIndex i : blocks.indices()) {
    if (blocks[i].is_read_elsewhere != are_read_elsewhere) continue;
    begins.push_back(layout.offsets[i]);
    ends.push_back(layout.offsets[i] + blocks[i].bytes);
  }
  return {std::move(begins), std::move(ends)};
}

RangeCounter RangeCounter::of_instants(const LiveBlocks& blocks) {
  std::vector<int64_t> begins, ends;
  for (const LiveBlock& block : blocks) {
    begins.push_back(block.begin);
    ends.push_back(block.end + 1);
  }
  return {std::move(begins), std::move(ends)};
}

int64_t RangeCounter::count_sharing(int64_t begin, int64_t end) const {
  const auto first_behind = std::lower_bound(begins_.begin(), begins_.end(), end);
  const auto last_before = std::upper_bound(ends_.begin(), ends_.end(), begin);
  return (first_behind - begins_.begin()) - (last_before - ends_.begin());
}

void RangeCounter::add(int64_t begin, int64_t end) {
  begins_.insert(std::lower_bound(begins_.begin(), begins_.end(), begin), begin);
  ends_.insert(std::lower_bound(ends_.begin(), ends_.end(), end), end);
}

void RangeCounter::remove(int64_t begin, int64_t end) {
  begins_.erase(std::lower_bound(begins_.begin(), begins_.end(), begin));
  ends_.erase(std::lower_bound(ends_.begin(), ends_.end(), end));
}

}  // namespace tessera
