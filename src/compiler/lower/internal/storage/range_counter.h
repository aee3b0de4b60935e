// A set of ranges that counts how many of them share a number with another one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/lower/internal/storage/live_blocks.h"

namespace tessera {

/// Numbers in ascending order, none of them negative, with an index: buckets of equal width, about
/// two for each number. A search looks into one bucket, so that it takes constant time where the
/// numbers are spread evenly.
class SortedNumbers {
 public:
  explicit SortedNumbers(std::vector<int64_t> numbers);

  /// How many are less than `limit`.
  ///   time  O(1 + log m) for the m numbers of its bucket
  int64_t count_below(int64_t limit) const;
  /// time  O(n)
  void add(int64_t number);
  /// requires  the number is there
  /// time      O(n)
  void remove(int64_t number);

 private:
  size_t bucket_of(int64_t number) const {
    return std::min(static_cast<size_t>(std::max<int64_t>(number, 0)) >> shift_,
                    starts_.size() - 2);
  }

  std::vector<int64_t> numbers_;
  int shift_ = 0;                // bucket of a number: its bits above these, or the last bucket
  std::vector<int64_t> starts_;  // by bucket: where it begins in numbers_; finally their count
};

/// Ranges [begin, end) of bytes or of instants, none of which is empty.
class RangeCounter {
 public:
  /// The bytes of the blocks that are read elsewhere, or of all others.
  ///   time  O(n log n)
  static RangeCounter of_bytes(const LiveBlocks& blocks, const BlockLayout& layout,
                               bool are_read_elsewhere);
  /// The instants of all blocks.
  ///   time  O(n log n)
  static RangeCounter of_instants(const LiveBlocks& blocks);

  /// How many share a number with [begin, end).
  ///   time  that of two searches in SortedNumbers
  int64_t count_sharing(int64_t begin, int64_t end) const;

  /// time  O(n)
  void add(int64_t begin, int64_t end);
  /// requires  the range is one of the set
  /// time      O(n)
  void remove(int64_t begin, int64_t end);

 private:
  RangeCounter(std::vector<int64_t> begins, std::vector<int64_t> ends);

  SortedNumbers begins_, ends_;
};

}  // namespace tessera
