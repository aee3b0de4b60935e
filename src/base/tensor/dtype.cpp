#include "base/tensor/dtype.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tessera {
namespace {

constexpr bool is_in_order() {
  for (uint8_t i = 0; i < kDTypes.size(); ++i)
    if (kDTypes[i].dtype != DType{i}) return false;
  return true;
}
static_assert(is_in_order());
static_assert(sizeof(Float16) == 2 && sizeof(BFloat16) == 2);

/// A binary floating-point format of 16 bits: a sign, an exponent, a fraction.
struct Format {
  int exponent_bits;
  int fraction_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  /// The exponent of the least number whose leading 1 is implicit.
  int min_exponent() const { return 1 - bias(); }
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << fraction_bits; }
  uint32_t quiet_bit() const { return 1u << (fraction_bits - 1); }
};
constexpr Format kHalf{5, 10};
constexpr Format kBrain{8, 7};

constexpr int kDoubleFraction = 52;
constexpr uint64_t kDoubleFractionMask = (uint64_t{1} << kDoubleFraction) - 1;

/// The bits of a magnitude. Division by a power of two is exact, so nearbyint rounds once. The sum
/// carries into the exponent when the fraction overflows.
uint32_t magnitude_bits(const Format& format, double magnitude) {
  if (std::isinf(magnitude)) return format.infinity();
  const int exponent = magnitude == 0 ? format.min_exponent()
                                      : std::max(std::ilogb(magnitude), format.min_exponent());
  if (exponent > format.bias()) return format.infinity();
  const auto units =
      static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent)));
  const auto exponents = static_cast<uint32_t>(exponent - format.min_exponent());
  return std::min((exponents << format.fraction_bits) + units, format.infinity());
}

/// A NaN keeps its sign and the upper bits of its payload and becomes quiet.
uint16_t encode(const Format& format, double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint64_t payload = (bits & kDoubleFractionMask) >> (kDoubleFraction - format.fraction_bits);
  const uint64_t magnitude = std::isnan(value) ? format.infinity() | format.quiet_bit() | payload
                                               : magnitude_bits(format, std::abs(value));
  return static_cast<uint16_t>((bits >> 63 << 15) | magnitude);
}

double decode(const Format& format, uint16_t bits) {
  const uint32_t magnitude = bits & 0x7fffu;
  const uint64_t sign = uint64_t{bits} >> 15 << 63;
  const uint32_t fraction = magnitude & ((1u << format.fraction_bits) - 1);
  if (magnitude >= format.infinity()) {
    const uint64_t payload = uint64_t{fraction} << (kDoubleFraction - format.fraction_bits);
    return std::bit_cast<double>(sign | uint64_t{0x7ff} << kDoubleFraction | payload);
  }
  const int exponents = static_cast<int>(magnitude >> format.fraction_bits);
  const uint32_t units = fraction + (exponents > 0 ? 1u << format.fraction_bits : 0);
  const double value =
      std::ldexp(units, std::max(exponents, 1) - format.bias() - format.fraction_bits);
  return sign ? -value : value;
}

}  // namespace

std::string dtype_names() {
  std::string names(kDTypes.front().text);
  for (size_t i = 1; i < kDTypes.size(); ++i)
    names += (i + 1 == kDTypes.size() ? " or " : ", ") + std::string(kDTypes[i].text);
  return names;
}

DType parse_dtype(std::string_view text) {
  for (const DTypeTraits& row : kDTypes)
    if (text == row.text) return row.dtype;
  throw UserError("'" + std::string(text) + "' is not an element type",
                  "tensors hold " + dtype_names(), "use one of these");
}

Float16::Float16(double value) : bits(encode(kHalf, value)) {}
double Float16::to_double() const {
  return decode(kHalf, bits);
}

BFloat16::BFloat16(double value) : bits(encode(kBrain, value)) {}
double BFloat16::to_double() const {
  return decode(kBrain, bits);
}

}  // namespace tessera
