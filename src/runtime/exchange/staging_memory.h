// Staging memory for data that a rank receives from other processes and then combines.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/tensor/tensor.h"
#include "base/units.h"

namespace tessera {

/// One area for the exchange at its turn, and some for prefetches.
class StagingMemory {
 public:
  StagingMemory() = default;
  /// `largest` is the most that one exchange needs.
  StagingMemory(Bytes largest, int64_t prefetch_areas)
      : stride_(align_up(largest.value())),
        memory_(Bytes(stride_ * (1 + prefetch_areas))),
        is_taken_(prefetch_areas, false) {}

  /// An area for a prefetch; -1 when none is free.
  int acquire() {
    const auto free = std::find(is_taken_.begin(), is_taken_.end(), false);
    if (free == is_taken_.end()) return -1;
    *free = true;
    return static_cast<int>(free - is_taken_.begin());
  }
  void release(int area) { is_taken_[area] = false; }
  /// Area -1 belongs to the exchange at its turn.
  std::byte* area(int area) { return memory_.data() + stride_ * (area + 1); }
  Bytes size() const { return memory_.size(); }

 private:
  int64_t stride_ = 0;
  AlignedBuffer memory_;
  std::vector<bool> is_taken_;  // by area
};

}  // namespace tessera
