// How many sends of an axis of a grid stay inside of sets of ranks.
#pragma once

#include "cluster/mapping/internal/problem.h"

namespace tessera {

/// What one send of the axis costs over a link.
inline double send_price(const GridAxis& axis, const LinkPrice& link) {
  return axis.weight * (static_cast<double>(axis.bytes.value()) * link.per_byte +
                        axis.messages * link.per_message);
}

/// The most sends between k of the ranks of one line, divided by k.
///
///   requires  1 <= k <= the size of the axis
inline double sends_a_rank(const GridAxis& axis, int k) {
  switch (axis.pattern) {
    case AxisPattern::kRing: return k == axis.size && k > 1 ? 1 : (k - 1.0) / k;
    case AxisPattern::kChain: return 2 * (k - 1.0) / k;
    case AxisPattern::kAllPairs: return k - 1.0;
  }
  return 0;
}

}  // namespace tessera
