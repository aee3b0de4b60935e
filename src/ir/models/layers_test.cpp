#include "ir/models/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/error.h"
#include "ir/models/testing/bench.h"

namespace tessera {
namespace {

using testing::ElementsAre;

TEST(Linear, MultipliesTheLastDimAndAddsTheBias) {
  Bench bench;
  const ValueId x = bench.input("x", f32({2, 1, 2}), {1, 2, 3, 4});
  const ValueId y = linear(bench.context, x, 3, "up");
  EXPECT_THAT(variable_lines(bench.graph), ElementsAre("up.weight f32[2,3] = normal(0.0, 0.02)",
                                                       "up.bias f32[3] = constant(0.0)"));
  bench.set("up.weight", {1, 0, 2, 0, 1, 3});
  bench.set("up.bias", {10, 20, 30});
  EXPECT_EQ(bench.builder.shape(y), (Shape{2, 1, 3}));
  // (1,2) W = (1, 2, 2 + 6); (3,4) W = (3, 4, 6 + 12)
  EXPECT_THAT(bench.value(y), ElementsAre(11, 22, 38, 13, 24, 48));
}

TEST(Linear, WorksOnARowAndWithoutBias) {
  Bench bench;
  const ValueId y =
      linear(bench.context, bench.input("x", f32({2}), {1, 2}), 1, "head", 0.5, false);
  EXPECT_THAT(variable_lines(bench.graph), ElementsAre("head.weight f32[2,1] = normal(0.0, 0.5)"));
  bench.set("head.weight", {3, 4});
  EXPECT_THAT(bench.value(y), ElementsAre(11));
}

TEST(Embedding, PicksRows) {
  Bench bench;
  const ValueId y =
      embedding(bench.context, bench.input("ids", i32({1, 3}), {2, 0, 2}), 3, 2, "tokens");
  EXPECT_THAT(variable_lines(bench.graph),
              ElementsAre("tokens.weight f32[3,2] = normal(0.0, 0.02)"));
  bench.set("tokens.weight", {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(bench.builder.shape(y), (Shape{1, 3, 2}));
  EXPECT_THAT(bench.value(y), ElementsAre(5, 6, 1, 2, 5, 6));
}

TEST(LayerNorm, MakesRowsOfMeanZeroAndVarianceOne) {
  Bench bench;
  const ValueId y =
      layer_norm(bench.context, bench.input("x", f32({2, 4}), {1, 2, 3, 6, 5, 5, 5, 5}), "norm");
  EXPECT_THAT(variable_lines(bench.graph), ElementsAre("norm.weight f32[4] = constant(1.0)",
                                                       "norm.bias f32[4] = constant(0.0)"));
  bench.set("norm.weight", {1, 1, 2, 1});
  bench.set("norm.bias", {0, 0, 0, 10});
  // Row 0: mean 3, variance (4 + 1 + 0 + 9) / 4 = 3.5. Row 1 is constant: zeros, then the bias.
  const double scale = 1 / std::sqrt(3.5 + 1e-5);
  // 1/4 is exact; epsilon is rounded to f32, which moves 3.5 by less than 2^-24.
  expect_near(bench.value(y), {-2 * scale, -scale, 0, 3 * scale + 10, 0, 0, 0, 10}, 4 * 0x1p-24);
}

TEST(RmsNorm, DividesByTheRootOfTheMeanSquareAndDoesNotCenter) {
  Bench bench;
  const ValueId y =
      rms_norm(bench.context, bench.input("x", f32({2, 4}), {1, 2, 3, 6, 5, 5, 5, 5}), "norm");
  EXPECT_THAT(variable_lines(bench.graph), ElementsAre("norm.weight f32[4] = constant(1.0)"));
  bench.set("norm.weight", {1, 1, 2, 1});
  // Row 0: mean square (1 + 4 + 9 + 36) / 4 = 12.5. Row 1: 25.
  const double first = 1 / std::sqrt(12.5 + 1e-5), second = 5 / std::sqrt(25 + 1e-5);
  // epsilon is rounded to f32, which moves a mean square by less than 2^-24
  expect_near(bench.value(y),
              {first, 2 * first, 6 * first, 6 * first, second, second, 2 * second, second},
              0x1p-24);
}

TEST(RmsNorm, OfZerosIsZero) {
  Bench bench;
  EXPECT_THAT(bench.value(rms_norm(bench.context, bench.input("x", f32({3}), {0, 0, 0}), "norm")),
              ElementsAre(0, 0, 0));
}

TEST(Dropout, KeepsTheMeanAndScalesWhatItKeeps) {
  Bench bench;
  bench.context.step = bench.input("step", i32({}), {7});
  const int64_t count = 10000;
  const ValueId x = bench.input("x", f32({count}), std::vector<double>(count, 2.0));
  const ValueId y = dropout(bench.context, x, 0.25, "drop");
  double sum = 0;
  for (double value : bench.value(y)) {
    // 1 / 0.75 is rounded to f32.
    EXPECT_NEAR(value, value == 0 ? 0 : 2 / 0.75, 4 * 0x1p-24);
    sum += value;
  }
  // An element is 8/3 with probability 3/4: mean 2, variance 3/4 * 64/9 - 4 = 4/3. Five deviations
  // of the mean of 10000 are allowed.
  EXPECT_NEAR(sum / count, 2.0, 5 * std::sqrt(4.0 / 3 / count));
}

TEST(Dropout, DrawsAnewAtEachStepAndAlikeAtTheSame) {
  Bench bench;
  bench.context.step = bench.input("step", i32({}), {7});
  const ValueId y = dropout(bench.context,
                            bench.input("x", f32({64}), std::vector<double>(64, 1.0)), 0.5, "drop");
  const std::vector<double> first = bench.value(y);
  EXPECT_EQ(bench.value(y), first);
  bench.set("step", {8});
  EXPECT_NE(bench.value(y), first);
}

TEST(Dropout, OfRateZeroOrOutsideTrainingIsTheOperandItself) {
  Bench bench;
  const ValueId x = bench.input("x", f32({2}), {1, 2});
  EXPECT_EQ(dropout(bench.context, x, 0, "drop"), x);
  bench.context.training = false;
  EXPECT_EQ(dropout(bench.context, x, 0.5, "drop"), x);
  EXPECT_TRUE(bench.graph.ops().empty());
}

TEST(Dropout, OfRateOneIsABrokenPromise) {
  Bench bench;
  EXPECT_THROW(dropout(bench.context, bench.input("x", f32({2}), {1, 2}), 1, "drop"),
               InternalError);
}

TEST(Gelu, IsTheTanhForm) {
  Bench bench;
  const std::vector<double> x = {-20, -3, -1, -0.5, 0, 0.5, 1, 3, 20};
  std::vector<double> expected;
  for (double v : x)
    expected.push_back(
        0.5 * v * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v))));
  const ValueId y = gelu(bench.context, bench.input("x", f32({9}), x));
  // Two scalars are rounded to f32, in an angle a whose gate changes by at most |a| logistic'(a) <=
  // 0.3 of that; this is multiplied by x, which is at most 20.
  expect_near(bench.value(y), expected, 2 * 0.3 * 20 * 0x1p-24);
}

TEST(Relu, CutsBelowZero) {
  Bench bench;
  EXPECT_THAT(bench.value(relu(bench.context, bench.input("x", f32({3}), {-2, 0, 3}))),
              ElementsAre(0, 0, 3));
}

TEST(Silu, IsXTimesItsLogistic) {
  Bench bench;
  const std::vector<double> x = {-30, -1, 0, 1, 30};
  std::vector<double> expected;
  for (double v : x) expected.push_back(v / (1 + std::exp(-v)));
  expect_near(bench.value(silu(bench.context, bench.input("x", f32({5}), x))), expected,
              30 * 4 * 0x1p-53);
}

TEST(Swiglu, GatesOneProjectionByTheSiluOfAnother) {
  const int64_t rows = 3, width = 2, inner = 5;
  Bench bench;
  const std::vector<double> x = normal_numbers("x", rows * width),
                            gate = normal_numbers("gate", width * inner);
  const std::vector<double> up = normal_numbers("up", width * inner),
                            down = normal_numbers("down", inner * width);
  const ValueId y =
      swiglu(bench.context, bench.input("x", f32({1, rows, width}), x), inner, 0.25, "ffn");
  EXPECT_THAT(variable_lines(bench.graph),
              ElementsAre("ffn.gate.weight f32[2,5] = normal(0.0, 0.02)",  //
                          "ffn.up.weight f32[2,5] = normal(0.0, 0.02)",    //
                          "ffn.down.weight f32[5,2] = normal(0.0, 0.25)"));
  bench.set("ffn.gate.weight", gate);
  bench.set("ffn.up.weight", up);
  bench.set("ffn.down.weight", down);
  std::vector<double> expected(rows * width, 0.0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t h = 0; h < inner; ++h) {
      double g = 0, u = 0;
      for (int64_t c = 0; c < width; ++c) {
        g += x[r * width + c] * gate[c * inner + h];
        u += x[r * width + c] * up[c * inner + h];
      }
      for (int64_t c = 0; c < width; ++c)
        expected[r * width + c] += g / (1 + std::exp(-g)) * u * down[h * width + c];
    }
  expect_near(bench.value(y), expected,
              1e3 * 0x1p-53);  // some twenty terms of size one to ten, in doubles
}

TEST(Softmax, SharesAddToOneByRow) {
  Bench bench;
  const double log2 = std::log(2.0);
  const ValueId y =
      softmax(bench.context, bench.input("x", f32({2, 3}), {0, 0, log2, 0, log2, 2 * log2}));
  // 1 : 1 : 2 and 1 : 2 : 4
  expect_near(bench.value(y), {0.25, 0.25, 0.5, 1.0 / 7, 2.0 / 7, 4.0 / 7}, 8 * 0x1p-53);
}

TEST(Softmax, OfLargeNumbersIsFinite) {
  Bench bench;
  const ValueId y = softmax(bench.context, bench.input("x", f32({2, 2}), {1e30, 1e30, -1e30, 1e4}));
  EXPECT_THAT(bench.value(y), ElementsAre(0.5, 0.5, 0, 1));
}

struct Entropy {
  double loss, count;
};
Entropy entropy_of(const std::vector<double>& logits, const std::vector<double>& labels) {
  Bench bench;
  const auto rows = static_cast<int64_t>(labels.size());
  const auto classes = static_cast<int64_t>(logits.size()) / rows;
  const ValueId x = bench.input("logits", f32({rows, classes}), logits);
  const CrossEntropy entropy =
      cross_entropy(bench.context, x, bench.input("labels", i32({rows}), labels), "loss");
  return {bench.value(entropy.loss)[0], bench.value(entropy.count)[0]};
}

TEST(CrossEntropy, IsTheMeanSurpriseOfTheLabels) {
  const double log3 = std::log(3.0);
  // Row 0 has shares 1/4 and 3/4 and label 1: -log(3/4). Row 1 has shares 1/2 and 1/2 and label 0:
  // log 2.
  const Entropy entropy = entropy_of({0, log3, 5, 5}, {1, 0});
  EXPECT_NEAR(entropy.loss, (std::log(4.0 / 3) + std::log(2.0)) / 2, 16 * 0x1p-53);
  EXPECT_EQ(entropy.count, 2);
}

TEST(CrossEntropy, DoesNotCountLabelsBelowZero) {
  const double log3 = std::log(3.0);
  const Entropy entropy = entropy_of({0, log3, 7, -7, 5, 5}, {1, -1, -100});
  EXPECT_NEAR(entropy.loss, std::log(4.0 / 3), 16 * 0x1p-53);
  EXPECT_EQ(entropy.count, 1);
}

TEST(CrossEntropy, WithoutValidLabelsIsZero) {
  const Entropy entropy = entropy_of({1, 2, 3, 4}, {-1, -1});
  EXPECT_EQ(entropy.loss, 0);
  EXPECT_EQ(entropy.count, 0);
}

TEST(CrossEntropy, OfLargeLogitsIsFinite) {
  EXPECT_EQ(entropy_of({1e30, 0, 0, 1e4}, {0, 0}).loss,
            5000);  // the first is certain; the second is off by 10^4
}

TEST(CrossEntropy, CountsOverEveryLeadingDim) {
  Bench bench;
  const ValueId logits = bench.input("logits", f32({2, 3, 4}), std::vector<double>(24, 1.5));
  const ValueId labels = bench.input("labels", i32({2, 3}), {0, 1, 2, 3, -1, 0});
  const CrossEntropy entropy = cross_entropy(bench.context, logits, labels, "loss");
  EXPECT_NEAR(bench.value(entropy.loss)[0], std::log(4.0), 16 * 0x1p-53);  // four equal classes
  EXPECT_THAT(bench.value(entropy.count), ElementsAre(5));
}

TEST(CrossEntropy, ReadsNoLogitByItsIndex) {
  // A split vocabulary needs only reductions.
  Bench bench;
  const ValueId logits = bench.input("logits", f32({2, 3}), std::vector<double>(6, 0));
  cross_entropy(bench.context, logits, bench.input("labels", i32({2}), {0, 1}), "loss");
  for (const Op& op : bench.graph.ops()) EXPECT_NE(op.kind, "gather") << op.name;
}

}  // namespace
}  // namespace tessera
