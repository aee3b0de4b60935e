#include "tools/replay/replay_statistics.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(ReplayStatistics, AreOfAbsoluteErrorsButForTheBias) {
  const ErrorStatistics all = statistics_of(std::vector<double>{-0.3, 0.1, 0.1, -0.1});
  EXPECT_EQ(all.count, 4);
  EXPECT_NEAR(all.mean, 0.15, 1e-12);
  EXPECT_NEAR(all.median, 0.1, 1e-12);
  EXPECT_NEAR(all.worst, 0.3, 1e-12);
  EXPECT_NEAR(all.bias, -0.05, 1e-12);
}

TEST(ReplayStatistics, OfNothingAreZero) {
  EXPECT_EQ(statistics_of({}).count, 0);
  EXPECT_EQ(statistics_of({}).mean, 0);
}

TEST(ReplayStatistics, AQuantileIsBetweenTwoNumbers) {
  EXPECT_DOUBLE_EQ(quantile({4, 1, 2, 3}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 2, 3}, 1), 4);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.9), 7);
}

}  // namespace
}  // namespace tessera
