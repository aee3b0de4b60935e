// Links of a tree that cost the same wherever they are on a level, which is found in two steps.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "cluster/mapping/internal/device_tree.h"

namespace tessera {

class UniformLinks {
 public:
  /// Nothing when links of one level differ, when there are direct links, or when the devices are
  /// of several types.
  static std::optional<UniformLinks> from(const DeviceTree& tree);

  /// From the inside out.
  const std::vector<LinkPrice>& prices() const { return prices_; }
  /// The level of the link between two places.
  ///   requires  the places differ
  int level(Place a, Place b) const { return level_of_bit_[std::bit_width(code_[a] ^ code_[b])]; }

 private:
  std::vector<LinkPrice> prices_;
  /// By place: the numbers of the children on its path, the innermost one in the lowest bits. The
  /// highest bit in which two codes differ gives the level.
  std::vector<uint64_t> code_;
  std::vector<int> level_of_bit_;
};

}  // namespace tessera
