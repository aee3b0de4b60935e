// A price: how long something takes, as an estimate and as a lower bound.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace tessera {

/// The estimate is for decisions, and for predictions of a step. The floor is for lower bounds: it
/// assumes that all that can overlap does, and neither latency nor contention. A bound adds and
/// compares price floors only, so it stays below every estimate that is made of the same parts.
///
///   ensures  of every price that this module makes, floor <= estimate
struct Price {
  Seconds estimate{0};
  Seconds floor{0};

  constexpr Price operator+(Price other) const {
    return {estimate + other.estimate, floor + other.floor};
  }
  constexpr Price& operator+=(Price other) { return *this = *this + other; }
  constexpr bool operator==(const Price&) const = default;
};

/// The price of two things that happen at the same time, each on devices or links of its own.
constexpr Price max(Price a, Price b) {
  return {std::max(a.estimate, b.estimate), std::max(a.floor, b.floor)};
}

}  // namespace tessera
