#include "base/tensor/dtype.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/error.h"
#include "base/tensor/element.h"

namespace tessera {
namespace {

using testing::ThrowsMessage;

constexpr double kDoubleInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(DType, HasANameAndASize) {
  EXPECT_EQ(to_text(DType::kF32), "f32");
  EXPECT_EQ(to_text(DType::kI32), "i32");
  EXPECT_EQ(to_text(DType::kBool), "bool");
  EXPECT_EQ(to_text(DType::kBF16), "bf16");
  EXPECT_EQ(size_of(DType::kF32), 4);
  EXPECT_EQ(size_of(DType::kBool), 1);
  EXPECT_EQ(size_of(DType::kI64), 8);
  EXPECT_EQ(size_of(DType::kF16), 2);
}

TEST(DType, ComesBackFromItsName) {
  for (const DTypeTraits& row : kDTypes) EXPECT_EQ(parse_dtype(row.text), row.dtype);
}

TEST(DType, RefusesOtherNames) {
  EXPECT_THAT(
      [] { parse_dtype("f80"); },
      ThrowsMessage<UserError>("'f80' is not an element type\n"
                               "  why: tensors hold f32, i32, bool, f64, i64, i8, u8, f16 or bf16\n"
                               "  fix: use one of these"));
}

TEST(DType, SizesAndRoundoffsAreThoseOfTheStoredTypes) {
  for (const DTypeTraits& row : kDTypes)
    visit_element(row.dtype, [&]<typename E>(E) {
      EXPECT_EQ(row.dtype, E::kDType);
      EXPECT_EQ(row.size, static_cast<int64_t>(sizeof(typename E::Stored))) << row.text;
      EXPECT_TRUE(is_stored_as<typename E::Stored>(row.dtype)) << row.text;
      if (!is_float(row.dtype)) return;
      // 1 + 2u is the number after 1, and 1 + u is halfway between, so it rounds to the even 1.
      const auto rounded = [](double x) { return E::to_number(E::nearest(x)); };
      EXPECT_EQ(rounded(1 + 2 * row.unit_roundoff), 1 + 2 * row.unit_roundoff) << row.text;
      EXPECT_EQ(rounded(1 + row.unit_roundoff), 1) << row.text;
    });
}

template <typename T>
void expect_every_bit_pattern_comes_back() {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const T number = T::of_bits(static_cast<uint16_t>(pattern));
    const double value = number.to_double();
    const T back(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(back.to_double())) << pattern;
      EXPECT_EQ(back.bits >> 15, pattern >> 15) << pattern;
    } else {
      ASSERT_EQ(back.bits, pattern) << value;
    }
  }
}

TEST(Float16, EveryBitPatternComesBack) {
  expect_every_bit_pattern_comes_back<Float16>();
}

TEST(BFloat16, EveryBitPatternComesBack) {
  expect_every_bit_pattern_comes_back<BFloat16>();
}

/// For every two neighbours: numbers below their middle round down, numbers above it round up, and
/// the middle rounds to the even one.
template <typename T>
void expect_rounding_between_all_neighbours(uint16_t infinity) {
  for (uint16_t low = 0; low + 1 < infinity; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    const double a = T::of_bits(low).to_double(), b = T::of_bits(high).to_double();
    const double middle = (a + b) / 2;  // exact in double
    ASSERT_LT(a, b);
    ASSERT_EQ(T(std::nextafter(middle, -1)).bits, low);
    ASSERT_EQ(T(std::nextafter(middle, kDoubleInfinity)).bits, high);
    ASSERT_EQ(T(middle).bits, low % 2 == 0 ? low : high);
    ASSERT_EQ(T(-middle).bits, T(middle).bits | 0x8000);
  }
}

TEST(Float16, RoundsToTheNearestNumberAndTiesToEven) {
  expect_rounding_between_all_neighbours<Float16>(0x7c00);
}

TEST(BFloat16, RoundsToTheNearestNumberAndTiesToEven) {
  expect_rounding_between_all_neighbours<BFloat16>(0x7f80);
}

TEST(Float16, HasTheNumbersOfTheStandard) {
  EXPECT_EQ(Float16::of_bits(0x3c00).to_double(), 1);
  EXPECT_EQ(Float16::of_bits(0x7bff).to_double(), 65504);
  EXPECT_EQ(Float16::of_bits(0x0001).to_double(), 0x1p-24);
  EXPECT_EQ(Float16::of_bits(0xc000).to_double(), -2);
  EXPECT_EQ(Float16(65519).to_double(), 65504);
  EXPECT_EQ(Float16(65520).to_double(), kDoubleInfinity);  // halfway to 65536
  EXPECT_EQ(Float16(-1e300).to_double(), -kDoubleInfinity);
  EXPECT_EQ(Float16(0x1p-25).to_double(), 0);
  EXPECT_EQ(Float16(-0.0).bits, 0x8000);
  EXPECT_TRUE(std::isnan(Float16(kNaN).to_double()));
  // Rounding through f32 would give 1 + 2^-10 here.
  EXPECT_EQ(Float16(1 + 0x1p-11 - 0x1p-40).to_double(), 1);
}

TEST(BFloat16, IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(BFloat16::of_bits(0x3f80).to_double(), 1);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).to_double(), kDoubleInfinity);
  EXPECT_EQ(BFloat16::of_bits(0x7f7f).to_double(), 0x1.fep127);
  EXPECT_EQ(BFloat16::of_bits(0x0001).to_double(), 0x1p-133);
}

TEST(NearestInteger, StaysInItsRange) {
  EXPECT_EQ(nearest_integer<int8_t>(2.5), 2);
  EXPECT_EQ(nearest_integer<int8_t>(-128.6), -128);
  EXPECT_EQ(nearest_integer<uint8_t>(255.4), 255);
  EXPECT_EQ(nearest_integer<uint8_t>(-3), 0);
  EXPECT_EQ(nearest_integer<int32_t>(kNaN), 0);
  EXPECT_EQ(nearest_integer<int64_t>(0x1p63), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(nearest_integer<int64_t>(-kDoubleInfinity), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(nearest_integer<int64_t>(0x1p62), int64_t{1} << 62);
}

}  // namespace
}  // namespace tessera
