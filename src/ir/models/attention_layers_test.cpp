#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/models/layers.h"
#include "ir/models/testing/bench.h"

namespace tessera {
namespace {

using testing::ElementsAre;

TEST(SelfAttention, NamesItsProjectionsByHead) {
  Bench bench;
  const ValueId x = bench.input("x", f32({2, 3, 8}), std::vector<double>(48, 1));
  const ValueId y = self_attention(bench.context, x,
                                   {.heads = 4, .causal = true, .out_deviation = 0.125}, "attn");
  EXPECT_THAT(
      variable_lines(bench.graph),
      ElementsAre(
          "attn.q.weight f32[8,4,2] = normal(0.0, 0.02)", "attn.q.bias f32[4,2] = constant(0.0)",
          "attn.k.weight f32[8,4,2] = normal(0.0, 0.02)", "attn.k.bias f32[4,2] = constant(0.0)",
          "attn.v.weight f32[8,4,2] = normal(0.0, 0.02)", "attn.v.bias f32[4,2] = constant(0.0)",
          "attn.out.weight f32[4,2,8] = normal(0.0, 0.125)",
          "attn.out.bias f32[8] = constant(0.0)"));
  EXPECT_EQ(bench.builder.shape(y), (Shape{2, 3, 8}));
}

/// One head of width 2 whose projections are the identity, so that q = k = v = x, and the output
/// adds (100, 200).
std::vector<double> identity_attention(bool causal) {
  Bench bench;
  const ValueId x = bench.input("x", f32({1, 2, 2}), {1, 0, 0, 1});
  const ValueId y = self_attention(bench.context, x, {.heads = 1, .causal = causal}, "attn");
  for (const char* part : {"q", "k", "v", "out"})
    bench.set("attn." + std::string(part) + ".weight", {1, 0, 0, 1});
  bench.set("attn.out.bias", {100, 200});
  return bench.value(y);
}

TEST(SelfAttention, MixesTheValuesByTheSoftmaxOfScaledProducts) {
  // Query i has the score 1/sqrt 2 with itself and 0 with the other; its share is s = e^(1/sqrt 2)
  // / (e^(1/sqrt 2) + 1).
  const double share = std::exp(1 / std::sqrt(2.0)) / (std::exp(1 / std::sqrt(2.0)) + 1);
  const double tolerance =
      200 * 0x1p-24 /
      16;  // the scale is rounded to f32 and moves a share by less than 1/16 of that
  expect_near(identity_attention(false), {100 + share, 201 - share, 101 - share, 200 + share},
              tolerance);
  expect_near(identity_attention(true), {101, 200, 101 - share, 200 + share},
              tolerance);  // the first query sees itself alone
}

TEST(SelfAttention, WithoutBiasesAndWithGroupedHeadsHasTheseVariables) {
  Bench bench;
  const ValueId x = bench.input("x", f32({2, 3, 8}), std::vector<double>(48, 1));
  self_attention(bench.context, x, {.heads = 4, .kv_heads = 2, .bias = false}, "attn");
  EXPECT_THAT(variable_lines(bench.graph),
              ElementsAre("attn.q.weight f32[8,4,2] = normal(0.0, 0.02)",
                          "attn.k.weight f32[8,2,2] = normal(0.0, 0.02)",
                          "attn.v.weight f32[8,2,2] = normal(0.0, 0.02)",
                          "attn.out.weight f32[4,2,8] = normal(0.0, 0.02)"));
}

TEST(SelfAttention, OfHeadsThatDoNotDivideIsABrokenPromise) {
  Bench bench;
  const ValueId x = bench.input("x", f32({1, 1, 6}), std::vector<double>(6, 1));
  EXPECT_THROW(self_attention(bench.context, x, {.heads = 4}, "a"), InternalError);
  EXPECT_THROW(self_attention(bench.context, x, {.heads = 3, .kv_heads = 2}, "b"), InternalError);
}

/// Sizes of an attention layer, for plain loops.
struct Sizes {
  int64_t batch = 2, places = 3, source = 3, width = 12, heads = 6, kv_heads = 2;
  int64_t head() const { return width / heads; }
};

/// The definition of attention() in plain loops: no biases, no rotation; query head h uses key and
/// value head h / (heads / kv_heads).
std::vector<double> plain_attention(const Sizes& n, bool causal, const std::vector<double>& x,
                                    const std::vector<double>& source,
                                    const std::vector<double>& wq, const std::vector<double>& wk,
                                    const std::vector<double>& wv, const std::vector<double>& wo) {
  const auto projected = [&](const std::vector<double>& in, int64_t row,
                             const std::vector<double>& w, int64_t heads, int64_t h, int64_t d) {
    double sum = 0;
    for (int64_t e = 0; e < n.width; ++e)
      sum += in[row * n.width + e] * w[(e * heads + h) * n.head() + d];
    return sum;
  };
  std::vector<double> y(static_cast<size_t>(n.batch * n.places * n.width), 0.0);
  for (int64_t b = 0; b < n.batch; ++b)
    for (int64_t s = 0; s < n.places; ++s)
      for (int64_t h = 0; h < n.heads; ++h) {
        const int64_t group = h / (n.heads / n.kv_heads), seen = causal ? s + 1 : n.source;
        std::vector<double> share;
        double total = 0;
        for (int64_t t = 0; t < seen; ++t) {
          double score = 0;
          for (int64_t d = 0; d < n.head(); ++d)
            score += projected(x, b * n.places + s, wq, n.heads, h, d) *
                     projected(source, b * n.source + t, wk, n.kv_heads, group, d);
          total += share.emplace_back(std::exp(score / std::sqrt(static_cast<double>(n.head()))));
        }
        for (int64_t d = 0; d < n.head(); ++d) {
          double mixed = 0;
          for (int64_t t = 0; t < seen; ++t)
            mixed +=
                share[t] / total * projected(source, b * n.source + t, wv, n.kv_heads, group, d);
          for (int64_t e = 0; e < n.width; ++e)
            y[(b * n.places + s) * n.width + e] += mixed * wo[(h * n.head() + d) * n.width + e];
        }
      }
  return y;
}

struct AttentionCase {
  std::string name;
  Sizes sizes;
  bool causal;
};

class AttentionLoops : public testing::TestWithParam<AttentionCase> {};

TEST_P(AttentionLoops, AgreeWithTheLayer) {
  const Sizes n = GetParam().sizes;
  const int64_t kv = n.width * n.kv_heads * n.head();
  const auto x = normal_numbers("x", n.batch * n.places * n.width),
             source = normal_numbers("source", n.batch * n.source * n.width);
  auto wq = normal_numbers("q", n.width * n.width), wk = normal_numbers("k", kv),
       wv = normal_numbers("v", kv);
  const auto wo = normal_numbers("o", n.width * n.width);
  for (auto* weights : {&wq, &wk, &wv})
    for (double& weight : *weights) weight *= 0.3;  // scores of about one
  Bench bench;
  const ValueId given = bench.input("x", f32({n.batch, n.places, n.width}), x);
  const ValueId other = bench.input("source", f32({n.batch, n.source, n.width}), source);
  const AttentionOptions options{
      .heads = n.heads, .kv_heads = n.kv_heads, .causal = GetParam().causal, .bias = false};
  const ValueId y = attention(bench.context, given, other, options, "attn");
  bench.set("attn.q.weight", wq);
  bench.set("attn.k.weight", wk);
  bench.set("attn.v.weight", wv);
  bench.set("attn.out.weight", wo);
  // The scale is rounded to f32: a score of at most ten changes by 10 * 2^-24, a share by at most a
  // quarter of that, and an output by as much for each of its 12 mixed channels of at most ten.
  expect_near(bench.value(y), plain_attention(n, GetParam().causal, x, source, wq, wk, wv, wo),
              10 * 0x1p-24 / 4 * 12 * 10);
}

INSTANTIATE_TEST_SUITE_P(
    Attention, AttentionLoops,
    testing::Values(AttentionCase{"FullHeads", {.kv_heads = 6}, false},
                    AttentionCase{"Causal", {.kv_heads = 6}, true},
                    AttentionCase{"GroupsOfThree", {.kv_heads = 2}, true},
                    AttentionCase{"OneKeyHead", {.kv_heads = 1}, false},
                    AttentionCase{"ALongerSource", {.source = 5, .kv_heads = 3}, false},
                    AttentionCase{"AShorterSource", {.places = 4, .source = 2}, false}),
    [](const auto& given) { return given.param.name; });

TEST(RepeatHeads, PutsTheCopiesOfAHeadInARow) {
  Bench bench;
  // Heads 1, 2 at place 0; 3, 4 at place 1
  const ValueId x = bench.input("x", f32({1, 2, 2, 1}), {1, 2, 3, 4});
  EXPECT_EQ(repeat_heads(bench.context, x, 1, "once"), x);
  const ValueId y = repeat_heads(bench.context, x, 3, "thrice");
  EXPECT_EQ(bench.builder.shape(y), (Shape{1, 2, 6, 1}));
  EXPECT_THAT(bench.value(y), ElementsAre(1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4));
}

// The interpreter computes in doubles, except that scalars are rounded to f32 as in kernels. The
// exponent of the frequencies has a relative error of 2^-24, at most ln(base), and the angle has
// that error times the position.
double angle_error(int64_t places, double base) {
  return static_cast<double>(places) * std::log(base) * 0x1p-24;
}

/// x[1,places,1,width] after rotation.
std::vector<double> turned(const std::vector<double>& x, int64_t places, double base) {
  Bench bench;
  const auto width = static_cast<int64_t>(x.size()) / places;
  const ValueId given = bench.input("x", f32({1, places, 1, width}), x);
  const RotaryAngles angles = rotary_angles(bench.context, places, width / 2, base);
  return bench.value(rotary(bench.context, given, angles, "turned"));
}

TEST(Rotary, TurnsEachPairOfChannelsByItsAngle) {
  const int64_t places = 5, width = 6;
  const std::vector<double> x = normal_numbers("x", places * width);
  std::vector<double> expected(x.size());
  for (int64_t s = 0; s < places; ++s)
    for (int64_t c = 0; c < width / 2; ++c) {
      const double angle =
          static_cast<double>(s) * std::pow(100.0, -2.0 * static_cast<double>(c) / width);
      const double a = x[s * width + c], b = x[s * width + c + width / 2];
      expected[s * width + c] = a * std::cos(angle) - b * std::sin(angle);
      expected[s * width + c + width / 2] = b * std::cos(angle) + a * std::sin(angle);
    }
  expect_near(turned(x, places, 100), expected,
              4 * angle_error(places, 100));  // |a| + |b| < 4 * sqrt 2 / 2 a pair
}

TEST(Rotary, LeavesTheFirstPlaceAsItIs) {
  EXPECT_THAT(turned({1, 2, 3, 4}, 1, 10000), ElementsAre(1, 2, 3, 4));
}

TEST(Rotary, MakesProductsThatDependOnTheDifferenceOfPlacesOnly) {
  // The same query and the same key at every position.
  const int64_t places = 7, width = 4;
  const std::vector<double> q = {0.5, -1, 2, 0.25}, k = {1, 0.75, -0.5, 2};
  std::vector<double> queries, keys;
  for (int64_t s = 0; s < places; ++s) {
    queries.insert(queries.end(), q.begin(), q.end());
    keys.insert(keys.end(), k.begin(), k.end());
  }
  const std::vector<double> turned_q = turned(queries, places, 50),
                            turned_k = turned(keys, places, 50);
  const auto product = [&](int64_t s, int64_t t) {
    double sum = 0;
    for (int64_t c = 0; c < width; ++c) sum += turned_q[s * width + c] * turned_k[t * width + c];
    return sum;
  };
  // Two products of four channels of at most two.
  const double tolerance = 2 * 4 * 2 * 2 * angle_error(places, 50);
  for (int64_t s = 0; s + 1 < places; ++s)
    for (int64_t t = 0; t + 1 < places; ++t)
      EXPECT_NEAR(product(s, t), product(s + 1, t + 1), tolerance) << s << " " << t;
  EXPECT_GT(std::abs(product(3, 0) - product(0, 0)), 1000 * tolerance);
  EXPECT_GT(std::abs(product(3, 0) - product(0, 3)), 1000 * tolerance);  // before is not after
}

TEST(Rotary, OfFewerFeaturesThanAnglesTurnIsABrokenPromise) {
  Bench bench;
  const ValueId x = bench.input("x", f32({1, 1, 1, 3}), {1, 2, 3});
  const RotaryAngles angles = rotary_angles(bench.context, 1, 2, 10);
  EXPECT_THROW(rotary(bench.context, x, angles, "turned"), InternalError);
}

TEST(SelfAttention, WithRotaryPositionsSeesHowFarApartTokensAre) {
  // The same token is everywhere. Without positions each position gets the same result. With two
  // equal keys of different values, the share depends on the distance.
  const auto mixed = [](double base) {
    Bench bench;
    const ValueId x = bench.input("x", f32({1, 3, 2}), {1, 1, 1, -1, 1, 1});
    const ValueId y =
        self_attention(bench.context, x, {.heads = 1, .bias = false, .rotary_base = base}, "attn");
    bench.set("attn.q.weight", {1, 0, 0, 0});  // q = k = (1, 0) everywhere
    bench.set("attn.k.weight", {1, 0, 0, 0});
    bench.set("attn.v.weight", {0, 0, 0, 1});  // v = (0, 1), (0, -1), (0, 1)
    bench.set("attn.out.weight", {1, 0, 0, 1});
    return bench.value(y);
  };
  const double third = 1.0 / 3;
  expect_near(mixed(0), {0, third, 0, third, 0, third}, 8 * 0x1p-53);
  // One channel pair rotates by 1 per position: the score of positions s and t is cos(s - t) / sqrt
  // 2.
  const auto weight = [](double distance) { return std::exp(std::cos(distance) / std::sqrt(2.0)); };
  const double end = (weight(0) - weight(1) + weight(2)) / (weight(0) + weight(1) + weight(2));
  const double middle = (2 * weight(1) - weight(0)) / (2 * weight(1) + weight(0));
  expect_near(mixed(10000), {0, end, 0, middle, 0, end},
              4 * 0x1p-24);  // the scale is rounded to f32
}

}  // namespace
}  // namespace tessera
