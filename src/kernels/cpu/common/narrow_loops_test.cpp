// The definitions of the results are Float16 and BFloat16, which compute in double without tricks.
#include "kernels/cpu/common/narrow_loops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tessera {
namespace {

template <typename T>
class NarrowLoops : public ::testing::Test {};
using Types = ::testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(NarrowLoops, Types);

std::vector<uint16_t> every_pattern() {
  std::vector<uint16_t> patterns;
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern)
    patterns.push_back(static_cast<uint16_t>(pattern));
  return patterns;
}

TYPED_TEST(NarrowLoops, WidenEveryBitPatternExactly) {
  const std::vector<uint16_t> patterns = every_pattern();
  std::vector<float> wide(patterns.size());
  find_widen_loop(dtype_of<TypeParam>())(patterns.data(), wide.data(), std::ssize(wide));
  for (size_t i = 0; i < patterns.size(); ++i) {
    const double expected = TypeParam::of_bits(patterns[i]).to_double();
    ASSERT_EQ(std::isnan(wide[i]), std::isnan(expected)) << patterns[i];
    ASSERT_EQ(std::signbit(wide[i]), std::signbit(expected)) << patterns[i];
    if (std::isnan(expected)) continue;
    ASSERT_EQ(static_cast<double>(wide[i]), expected) << patterns[i];
  }
}

TYPED_TEST(NarrowLoops, RoundAsDefinedAtEveryNumberAtEveryMiddleAndBesideThem) {
  constexpr float kFar = std::numeric_limits<float>::infinity();
  std::vector<float> numbers;
  for (const uint16_t pattern : every_pattern()) {
    const double low = TypeParam::of_bits(pattern).to_double();
    const double high = TypeParam::of_bits(static_cast<uint16_t>(pattern + 1)).to_double();
    if (std::isnan(low) || std::isnan(high)) continue;
    const auto middle = static_cast<float>((low + high) / 2);
    for (const float x : {static_cast<float>(low), middle})
      for (const float near : {x, std::nextafter(x, kFar), std::nextafter(x, -kFar)})
        numbers.push_back(near);
  }
  std::vector<uint16_t> rounded(numbers.size());
  find_round_loop(dtype_of<TypeParam>())(numbers.data(), rounded.data(), std::ssize(numbers));
  for (size_t i = 0; i < numbers.size(); ++i)
    ASSERT_EQ(rounded[i], TypeParam(static_cast<double>(numbers[i])).bits)
        << std::hexfloat << numbers[i];
}

TYPED_TEST(NarrowLoops, AnElementHasTheSameBitsAtEveryPositionAndInEveryLength) {
  for (int64_t count = 0; count < 40; ++count) {
    std::vector<float> numbers;
    for (int64_t i = 0; i < count; ++i) numbers.push_back(0.1f * static_cast<float>(i) - 1.7f);
    std::vector<uint16_t> rounded(numbers.size() + 1, 0xabcd);
    find_round_loop(dtype_of<TypeParam>())(numbers.data(), rounded.data(), count);
    for (size_t i = 0; i < numbers.size(); ++i)
      ASSERT_EQ(rounded[i], TypeParam(static_cast<double>(numbers[i])).bits);
    ASSERT_EQ(rounded.back(), 0xabcd) << "nothing is written after the end";
  }
}

TYPED_TEST(NarrowLoops, ANaNStaysOneWithItsSign) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> numbers{nan, -nan, std::bit_cast<float>(0x7f800001u)};
  std::vector<uint16_t> rounded(numbers.size());
  find_round_loop(dtype_of<TypeParam>())(numbers.data(), rounded.data(), 3);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double value = TypeParam::of_bits(rounded[i]).to_double();
    EXPECT_TRUE(std::isnan(value)) << i;
    EXPECT_EQ(std::signbit(value), std::signbit(numbers[i])) << i;
  }
}

}  // namespace
}  // namespace tessera
