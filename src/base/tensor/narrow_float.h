// Fast conversions between f32 and the floats of 16 bits. Float16 and BFloat16
// (base/tensor/dtype.h) define the results: rounding to the nearest number with ties to even,
// overflow to infinity.
#pragma once

#include <bit>
#include <cstdint>

#include "base/tensor/dtype.h"

namespace tessera {

inline float to_float(BFloat16 x) {
  return std::bit_cast<float>(uint32_t{x.bits} << 16);
}

inline float to_float(Float16 x) {
  constexpr uint32_t kExponent = 0x7c00u << 13;
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  uint32_t bits = (uint32_t{x.bits} & 0x7fffu) << 13;
  const uint32_t exponent = bits & kExponent;
  bits += kRebias;
  if (exponent == kExponent) {
    bits += (128u - 16u) << 23;  // infinities and NaN
  } else if (exponent == 0) {
    // A subnormal number: the addition of the implicit 1 and its subtraction normalize it.
    bits += 1u << 23;
    bits = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) - 0x1p-14f);
  }
  return std::bit_cast<float>(bits | (uint32_t{x.bits} & 0x8000u) << 16);
}

inline BFloat16 to_bfloat16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const uint32_t rounded = is_nan ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
  return BFloat16::of_bits(static_cast<uint16_t>(rounded >> 16));
}

/// source  F. Giesen, "float_to_half_fast3_rtne"
inline Float16 to_float16(float x) {
  constexpr uint32_t kInfinity = 255u << 23, kOverflow = (127u + 16u) << 23;
  constexpr uint32_t kMinNormal = 113u << 23;
  constexpr uint32_t kSubnormal = ((127u - 15u) + (23u - 10u) + 1u) << 23;  // 0.5, as bits
  const uint32_t given = std::bit_cast<uint32_t>(x), sign = given & 0x80000000u;
  const uint32_t bits = given ^ sign;
  uint32_t result = 0;
  if (bits > kInfinity)
    result = 0x7e00u | (bits >> 13 & 0x3ffu);
  else if (bits >= kOverflow)
    result = 0x7c00u;
  else if (bits < kMinNormal)  // the addition aligns the fraction, and rounds it
    result =
        std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + std::bit_cast<float>(kSubnormal)) -
        kSubnormal;
  else
    result = (bits - ((127u - 15u) << 23) + 0xfffu + (bits >> 13 & 1u)) >> 13;
  return Float16::of_bits(static_cast<uint16_t>(result | sign >> 16));
}

/// The same by type, for code that is written once for both.
template <typename T>
T round_to(float x);
template <>
inline Float16 round_to<Float16>(float x) {
  return to_float16(x);
}
template <>
inline BFloat16 round_to<BFloat16>(float x) {
  return to_bfloat16(x);
}

}  // namespace tessera
