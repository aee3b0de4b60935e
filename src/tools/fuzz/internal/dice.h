// Random choices for programs, meshes and placements, determined by a seed. The same seed gives the
// same choices on every machine.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace tessera::fuzz {

class Dice {
 public:
  /// The choices of one `purpose` do not depend on how many were made for another.
  Dice(uint64_t seed, std::string_view purpose) : stream_(random_key(seed, purpose), 0) {}

  /// A whole number in [0, count).  requires  count >= 1
  int64_t below(int64_t count) {
    return static_cast<int64_t>(static_cast<double>(stream_.uniform(thrown_++)) *
                                static_cast<double>(count));
  }
  /// A whole number in [low, high].
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(double probability) {
    return static_cast<double>(stream_.uniform(thrown_++)) < probability;
  }

  template <typename T>
  const T& pick(const std::vector<T>& choices) {
    ensure(!choices.empty(), "dice need a choice");
    return choices[below(static_cast<int64_t>(choices.size()))];
  }
  template <typename T>
  void shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[below(static_cast<int64_t>(i))]);
  }

 private:
  RandomStream stream_;
  uint64_t thrown_ = 0;
};

}  // namespace tessera::fuzz
