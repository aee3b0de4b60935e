#include "ir/ops/detail.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tessera::detail {
namespace {

TEST(Tolerance, OfOneRoundingIsHalfAUnitInTheLastPlace) {
  // The largest error of rounding a number just above 1 is 2^-24.
  const double between = 1 + 0x1p-24;
  EXPECT_LE(std::abs(static_cast<double>(static_cast<float>(between)) - between),
            rounding_error(between, 1));
  EXPECT_EQ(rounding_error(-8, 1), 8 * 0x1p-24);
  EXPECT_EQ(rounding_error(8, 3), 3 * 8 * 0x1p-24);
}

TEST(Tolerance, OfTheExactAndOfTheInfiniteIsZero) {
  EXPECT_EQ(rounding_error(8, 0), 0);
  EXPECT_EQ(rounding_error(std::numeric_limits<double>::infinity(), 1), 0);
  EXPECT_EQ(rounding_error(std::numeric_limits<double>::quiet_NaN(), 1), 0);
}

TEST(Tolerance, AllowsSubnormalsToBecomeZero) {
  EXPECT_GE(rounding_error(0x1p-130, 1), 0x1p-130);
}

TEST(Tolerance, AllowsOverflow) {
  EXPECT_EQ(rounding_error(1e39, 1), std::numeric_limits<double>::infinity());
  EXPECT_LT(rounding_error(1e38, 1), 1e31);  // 1e38 2^-24 = 6.0e30
}

TEST(Tolerance, OfASumGrowsWithItsTermsAndTheirSizes) {
  // 1024 terms that add up to 8 in absolute value: 2^10 2^-24 / (1 - 2^-14) x 8.
  EXPECT_DOUBLE_EQ(summation_error(1024, 8), 8 * 0x1p-14 / (1 - 0x1p-14));
}

TEST(Tolerance, OfAnActualSumHolds) {
  // The worst order for equal terms is one at a time.
  float sum = 0;
  for (int i = 0; i < 100000; ++i) sum += 0.1f;
  const double exact_sum = 100000.0 * static_cast<double>(0.1f);
  EXPECT_LE(std::abs(static_cast<double>(sum) - exact_sum), summation_error(100000, exact_sum));
  EXPECT_GT(std::abs(static_cast<double>(sum) - exact_sum), 0);
}

TEST(Tolerance, OfIntegersBeginsWhereF32CannotHoldThem) {
  EXPECT_EQ(integer_roundings(-0x1p24), 0);
  EXPECT_EQ(integer_roundings(0x1p24 + 1), 1);
}

TEST(OpsIndex, StepsInRowMajorOrder) {
  const Shape shape{2, 1, 3};
  Dims index{0, 0, 0};
  int64_t flat = 0;
  do {
    EXPECT_EQ(row_major_index(index, shape), flat++);
  } while (advance_index(index, shape));
  EXPECT_EQ(flat, 6);
  EXPECT_EQ(index, (Dims{0, 0, 0}));
}

TEST(OpsIndex, OfAScalarHasOneStep) {
  Dims index;
  EXPECT_FALSE(advance_index(index, {}));
  EXPECT_EQ(row_major_index(index, {}), 0);
}

TEST(OpsWork, CountsEveryOperandOnce) {
  const Attributes none;
  const OpView op{"y", none, {{DType::kF32, {4, 2}}, {DType::kBool, {8}}}, {{DType::kI32, {4, 2}}}};
  EXPECT_EQ(operand_bytes(op), Bytes(32 + 8 + 32));
  EXPECT_EQ(elementwise_work(op, 3).flops, Flops(24));
}

}  // namespace
}  // namespace tessera::detail
