// A tensor around one of its dims, for kernels along a dim.
#pragma once

#include "kernels/cpu/common/operands.h"

namespace tessera {

/// Element (o, i, n) is at (o * extent + i) * inner + n.
struct Lanes {
  int64_t outer = 1, extent = 1, inner = 1;
};

/// throws  InternalError when the shape has no such dim
inline Lanes lanes_of(const LocalCall& call, const Shape& shape, int64_t dim) {
  require(call, dim >= 0 && dim < shape.size(), "works along a dim of its operand");
  Lanes lanes{1, shape[dim], 1};
  for (int d = 0; d < shape.size(); ++d) {
    if (d < dim) lanes.outer *= shape[d];
    if (d > dim) lanes.inner *= shape[d];
  }
  return lanes;
}

/// Do two shapes differ at most in dim `dim`?
inline bool equal_beside(const Shape& a, const Shape& b, int64_t dim) {
  bool equal = a.size() == b.size();
  for (int d = 0; equal && d < a.size(); ++d) equal = d == dim || a[d] == b[d];
  return equal;
}

}  // namespace tessera
