// Functions for operators along one dim. Other modules do not include it.
#pragma once

#include <string>

#include "ir/ops/detail.h"

namespace tessera::detail {

/// A tensor around one of its dims: element (o, i, n) is at (o * extent + i) * inner + n.
struct Lanes {
  int64_t outer = 1, extent = 1, inner = 1;

  Lanes(const Shape& shape, int dim) : extent(shape[dim]) {
    for (int d = 0; d < dim; ++d) outer *= shape[d];
    for (int d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  }
  size_t at(int64_t o, int64_t i, int64_t n) const { return (o * extent + i) * inner + n; }
  /// Calls visit(o, n) for every lane, in row-major order.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t n = 0; n < inner; ++n) visit(o, n);
  }
};

/// Adds one parallel factor for each dim of `shape`, d0, d1, ..., except that the factor of dim
/// `dim` is of `kind`.
inline OperandFactors add_lane_factors(ShardingRule& rule, const Shape& shape, int dim,
                                       FactorKind kind = FactorKind::kWhole,
                                       ReduceOp reduce = ReduceOp::kSum) {
  const OperandFactors factors = add_factors(rule, shape);
  Factor& along = rule.factors[factors[dim].factor];
  along.kind = kind;
  along.reduce = reduce;
  return factors;
}

/// `factors` with another factor for dim `dim`, for a result with another extent.
inline OperandFactors with_dim(OperandFactors factors, int dim, int factor) {
  factors[dim] = {factor, 1};
  return factors;
}

/// The reduction of parts of which at most one has each element and the others have zeros.
inline ReduceOp masked_reduce(DType dtype) {
  return dtype == DType::kBool ? ReduceOp::kAny : ReduceOp::kSum;
}

}  // namespace tessera::detail
