// The definitions of the results are Float16 and BFloat16, which compute in double without tricks.
#include "base/tensor/narrow_float.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tessera {
namespace {

template <typename T>
class NarrowFloat : public ::testing::Test {};
using Types = ::testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(NarrowFloat, Types);

template <typename T>
void expect_rounds_as_defined(float x) {
  const T expected(static_cast<double>(x));
  ASSERT_EQ(round_to<T>(x).bits, expected.bits) << std::hexfloat << x;
}

TYPED_TEST(NarrowFloat, EveryBitPatternIsWidenedExactlyAndComesBack) {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const TypeParam x = TypeParam::of_bits(static_cast<uint16_t>(pattern));
    const double expected = x.to_double();
    const float wide = to_float(x);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << pattern;
      ASSERT_EQ(std::signbit(wide), std::signbit(expected)) << pattern;
      ASSERT_TRUE(std::isnan(round_to<TypeParam>(wide).to_double())) << pattern;
    } else {
      ASSERT_EQ(static_cast<double>(wide), expected) << pattern;
      ASSERT_EQ(round_to<TypeParam>(wide).bits, pattern) << pattern;
    }
  }
}

TYPED_TEST(NarrowFloat, RoundsAsDefinedAroundEveryNumberAndEveryMiddle) {
  constexpr float kFar = std::numeric_limits<float>::infinity();
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto low = TypeParam::of_bits(static_cast<uint16_t>(pattern)).to_double();
    const auto high = TypeParam::of_bits(static_cast<uint16_t>(pattern + 1)).to_double();
    if (std::isnan(low) || std::isnan(high)) continue;
    const auto middle = static_cast<float>((low + high) / 2);
    for (const float x : {static_cast<float>(low), middle})
      for (const float near : {x, std::nextafter(x, kFar), std::nextafter(x, -kFar)})
        expect_rounds_as_defined<TypeParam>(near);
  }
}

TYPED_TEST(NarrowFloat, RoundsAsDefinedOverTheWholeRangeOfF32) {
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 9973) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (!std::isnan(x)) expect_rounds_as_defined<TypeParam>(x);
  }
}

}  // namespace
}  // namespace tessera
