// The arithmetic of the reductions, written once for kernels, references and tests.
#pragma once

#include <concepts>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/tensor/reduce_op.h"

namespace tessera {

/// The identity of the reduction: 0 for a sum; minus infinity or the least integer for a maximum.
template <typename T>
constexpr T identity_of(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAny: return T{0};
    case ReduceOp::kProd:
    case ReduceOp::kAll: return T{1};
    case ReduceOp::kMax: return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case ReduceOp::kMin: return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  throw InternalError("unknown reduction");
}

/// Combines two values. Sums and products of integers wrap around. The maximum and the minimum of a
/// NaN and any value are NaN.
template <ReduceOp kOp, typename T>
constexpr T combine(T a, T b) {
  if constexpr (std::integral<T> && (kOp == ReduceOp::kSum || kOp == ReduceOp::kProd)) {
    using Unsigned = std::make_unsigned_t<T>;
    const auto x = static_cast<Unsigned>(a), y = static_cast<Unsigned>(b);
    return static_cast<T>(kOp == ReduceOp::kSum ? x + y : x * y);
  } else if constexpr (kOp == ReduceOp::kSum) {
    return a + b;
  } else if constexpr (kOp == ReduceOp::kProd) {
    return a * b;
  } else if constexpr (kOp == ReduceOp::kMax) {
    return a < b || b != b ? b : a;
  } else if constexpr (kOp == ReduceOp::kMin) {
    return b < a || b != b ? b : a;
  } else if constexpr (std::integral<T>) {
    return static_cast<T>(kOp == ReduceOp::kAny ? a | b : a & b);
  } else {
    return (kOp == ReduceOp::kAny ? a != 0 || b != 0 : a != 0 && b != 0) ? 1 : 0;
  }
}

/// Calls `visitor` with the reduction as a constant: std::integral_constant<ReduceOp, op>.
template <typename Visitor>
constexpr decltype(auto) visit_reduce_op(ReduceOp op, Visitor&& visitor) {
  switch (op) {
    case ReduceOp::kSum: return visitor(std::integral_constant<ReduceOp, ReduceOp::kSum>());
    case ReduceOp::kMax: return visitor(std::integral_constant<ReduceOp, ReduceOp::kMax>());
    case ReduceOp::kMin: return visitor(std::integral_constant<ReduceOp, ReduceOp::kMin>());
    case ReduceOp::kProd: return visitor(std::integral_constant<ReduceOp, ReduceOp::kProd>());
    case ReduceOp::kAny: return visitor(std::integral_constant<ReduceOp, ReduceOp::kAny>());
    case ReduceOp::kAll: return visitor(std::integral_constant<ReduceOp, ReduceOp::kAll>());
  }
  throw InternalError("unknown reduction");
}

/// combine() for a reduction that is known only at run time.
template <typename T>
constexpr T combine(ReduceOp op, T a, T b) {
  return visit_reduce_op(op, [a, b](auto constant) { return combine<constant.value>(a, b); });
}

}  // namespace tessera
