#include "base/finite.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace tessera {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool are_finite(const std::vector<float>& values) {
  return all_finite(DType::kF32, std::as_bytes(std::span(values)));
}

TEST(Finite, TheLargestAndTheSmallestNumbersAre) {
  EXPECT_TRUE(are_finite({}));
  EXPECT_TRUE(
      are_finite({0.0F, -0.0F, std::numeric_limits<float>::max(),
                  std::numeric_limits<float>::lowest(), std::numeric_limits<float>::denorm_min()}));
}

TEST(Finite, OneThatIsNotIsFoundAtAnyPlace) {
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::quiet_NaN()})
    for (size_t at = 0; at < 9; ++at) {
      std::vector<float> values(9, 1.0F);
      values[at] = bad;
      EXPECT_FALSE(are_finite(values)) << bad << " at " << at;
    }
}

TEST(Finite, WholeNumbersWithTheBitsOfNoNumberAre) {
  const std::vector<uint32_t> bits(4, 0x7fc00000);
  EXPECT_TRUE(all_finite(DType::kI32, std::as_bytes(std::span(bits))));
}

}  // namespace
}  // namespace tessera
