#include "base/text/count_text.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(CountText, DigitsAreGroupedByThree) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(grouped(-123), "-123");
}

TEST(CountText, ACountAgreesWithItsNoun) {
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(8, "batch"), "8 batches");
  EXPECT_EQ(counted(2, "process"), "2 processes");
  EXPECT_EQ(counted(4000, "step"), "4,000 steps");
}

}  // namespace
}  // namespace tessera
