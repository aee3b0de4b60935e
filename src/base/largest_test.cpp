#include "base/largest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tessera {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

double largest(double start, const std::vector<double>& values) {
  return largest_of(values.size(), start, [&](size_t i) { return values[i]; });
}

TEST(LargestOf, FindsItAtEveryPlaceOfEveryLength) {
  for (size_t count = 0; count < 20; ++count) {
    EXPECT_EQ(largest(3, std::vector<double>(count, -1)), 3);
    for (size_t at = 0; at < count; ++at) {
      std::vector<double> values(count, -1);
      values[at] = 7;
      EXPECT_EQ(largest(3, values), 7) << at << " of " << count;
    }
  }
}

TEST(LargestOf, InfinityIsTheLargest) {
  EXPECT_EQ(largest(-kInfinite, std::vector<double>(9, -kInfinite)), -kInfinite);
  EXPECT_EQ(largest(0, {1, kInfinite, 2}), kInfinite);
}

TEST(LargestOf, ANanCountsOnlyAsTheStart) {
  for (size_t at = 0; at < 17; ++at) {
    std::vector<double> values(17, 2);
    values[at] = kNan;
    EXPECT_EQ(largest(0, values), 2) << at;
    EXPECT_TRUE(std::isnan(largest(kNan, values))) << at;
  }
}

}  // namespace
}  // namespace tessera
