#include "compiler/lower/internal/storage/range_counter.h"

#include <algorithm>

namespace tessera {

SortedNumbers::SortedNumbers(std::vector<int64_t> numbers) : numbers_(std::move(numbers)) {
  std::sort(numbers_.begin(), numbers_.end());
  const size_t buckets = 2 * numbers_.size() + 1;
  const auto greatest = static_cast<size_t>(numbers_.empty() ? 0 : numbers_.back());
  while (greatest >> shift_ >= buckets) ++shift_;
  starts_.assign(buckets + 1, 0);
  for (int64_t number : numbers_) ++starts_[bucket_of(number) + 1];
  for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
}

int64_t SortedNumbers::count_below(int64_t limit) const {
  const size_t bucket = bucket_of(limit);
  const auto begin = numbers_.begin();
  return std::lower_bound(begin + starts_[bucket], begin + starts_[bucket + 1], limit) - begin;
}

void SortedNumbers::add(int64_t number) {
  numbers_.insert(numbers_.begin() + count_below(number), number);
  for (size_t i = bucket_of(number) + 1; i < starts_.size(); ++i) ++starts_[i];
}

void SortedNumbers::remove(int64_t number) {
  numbers_.erase(numbers_.begin() + count_below(number));
  for (size_t i = bucket_of(number) + 1; i < starts_.size(); ++i) --starts_[i];
}

RangeCounter::RangeCounter(std::vector<int64_t> begins, std::vector<int64_t> ends)
    : begins_(std::move(begins)), ends_(std::move(ends)) {}

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
  return begins_.count_below(end) - ends_.count_below(begin + 1);
}

void RangeCounter::add(int64_t begin, int64_t end) {
  begins_.add(begin);
  ends_.add(end);
}

void RangeCounter::remove(int64_t begin, int64_t end) {
  begins_.remove(begin);
  ends_.remove(end);
}

}  // namespace tessera
