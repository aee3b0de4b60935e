// Hashes of several things, for tables in memory.
#pragma once

#include <cstddef>
#include <functional>

namespace tessera {

/// Combines the hashes of things, in their order. Differs from run to run where those of std::hash
/// do; for hashes that are stored use stable_hash (base/random.h).
class Hasher {
 public:
  template <class Thing>
  void add(const Thing& thing) {
    value_ ^= std::hash<Thing>()(thing) + 0x9e3779b97f4a7c15 + (value_ << 6) + (value_ >> 2);
  }
  template <class Things>
  void add_each(const Things& things) {
    add(things.end() - things.begin());
    for (const auto& thing : things) add(thing);
  }
  std::size_t value() const { return value_; }

 private:
  std::size_t value_ = 0;
};

}  // namespace tessera
