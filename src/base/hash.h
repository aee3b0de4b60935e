// Hashes of several things, for tables in memory.
#pragma once

#include <cstddef>
#include <functional>

namespace tessera {

/// Combines the hashes of things, in their order. Different lists have different hashes except for
/// one pair in 2^64. Differs from run to run where those of std::hash do; for hashes that are
/// stored use stable_hash (base/random.h).
class Hasher {
 public:
  template <class Thing>
  void add(const Thing& thing) {
    value_ = mixed(value_ + kStep + std::hash<Thing>()(thing));
  }
  template <class Things>
  void add_each(const Things& things) {
    add(things.end() - things.begin());
    for (const auto& thing : things) add(thing);
  }
  std::size_t value() const { return value_; }

 private:
  static constexpr std::size_t kStep = 0x9e3779b97f4a7c15;

  /// Every bit of the result depends on every bit of `x`: the finalizer of SplitMix64.
  static constexpr std::size_t mixed(std::size_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  std::size_t value_ = 0;
};

}  // namespace tessera
