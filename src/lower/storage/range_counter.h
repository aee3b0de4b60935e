// A set of ranges that counts how many of them share a number with another one.
#pragma once

#include <vector>

#include "lower/storage/live_blocks.h"

namespace tessera {

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
  ///   time  O(log n)
  int64_t count_sharing(int64_t begin, int64_t end) const;

  /// time  O(n)
  void add(int64_t begin, int64_t end);
  /// requires  the range is one of the set
  /// time      O(n)
  void remove(int64_t begin, int64_t end);

 private:
  RangeCounter(std::vector<int64_t> begins, std::vector<int64_t> ends);

  std::vector<int64_t> begins_, ends_;  // ascending
};

}  // namespace tessera
