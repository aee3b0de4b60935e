// Elements as numbers, for code that is written once for all element types.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>

#include "base/error.h"
#include "base/tensor/dtype.h"

namespace tessera {

/// The nearest integer, ties to even; the nearest end of the range for numbers outside it; 0 for a
/// NaN.
template <std::integral T>
T nearest_integer(double value) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(value)) return 0;
  const double whole = std::nearbyint(value);
  if (whole <= static_cast<double>(Limits::min())) return Limits::min();
  if (whole >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<T>(whole);
}

/// An element type as a C++ type.
///   Stored     the type of elements in memory
///   to_number  the value; exact except for i64 beyond 2^53
///   nearest    the nearest element: floats round to even, integers as nearest_integer, a bool is
///              true unless the number is 0
template <DType kType, typename T>
struct Element {
  using Stored = T;
  static constexpr DType kDType = kType;

  static double to_number(T element) {
    if constexpr (requires { element.to_double(); })
      return element.to_double();
    else
      return static_cast<double>(element);
  }
  static T nearest(double number) {
    if constexpr (kType == DType::kBool)
      return number != 0;
    else if constexpr (std::integral<T>)
      return nearest_integer<T>(number);
    else
      return T(number);
  }
};

/// Calls `visitor` with the Element of `dtype`.
///   example  visit_element(dtype, [&]<typename E>(E) { sum<typename E::Stored>(data); });
template <typename Visitor>
decltype(auto) visit_element(DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DType::kF32: return visitor(Element<DType::kF32, float>());
    case DType::kI32: return visitor(Element<DType::kI32, int32_t>());
    case DType::kBool: return visitor(Element<DType::kBool, uint8_t>());
    case DType::kF64: return visitor(Element<DType::kF64, double>());
    case DType::kI64: return visitor(Element<DType::kI64, int64_t>());
    case DType::kI8: return visitor(Element<DType::kI8, int8_t>());
    case DType::kU8: return visitor(Element<DType::kU8, uint8_t>());
    case DType::kF16: return visitor(Element<DType::kF16, Float16>());
    case DType::kBF16: return visitor(Element<DType::kBF16, BFloat16>());
  }
  throw InternalError("unknown element type");
}

}  // namespace tessera
