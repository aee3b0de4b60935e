#include "training/engine/text/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace tessera {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// Four tokens of probability 1/2, 1/4, 1/8, 1/8, not in that order. The error of f32 logs is 2^-24
// of their size, which is at most 2.1.
const std::vector<float> kLogits = {std::log(0.125f), std::log(0.5f), std::log(0.125f),
                                    std::log(0.25f)};

auto near(double probability) {
  return DoubleNear(probability, 1e-6);
}

TEST(Sampling, WithoutFiltersATokenHasItsProbability) {
  EXPECT_THAT(token_probabilities(kLogits, {}),
              ElementsAre(near(0.125), near(0.5), near(0.125), near(0.25)));
}

TEST(Sampling, TemperatureRaisesProbabilitiesToItsInverse) {
  // 1/2: squares, 1/4 + 1/16 + 1/64 + 1/64 = 22/64.
  EXPECT_THAT(token_probabilities(kLogits, {.temperature = 0.5}),
              ElementsAre(near(1. / 22), near(16. / 22), near(1. / 22), near(4. / 22)));
}

TEST(Sampling, TemperatureZeroTakesTheLikeliestAndOfEqualsTheLower) {
  EXPECT_THAT(token_probabilities(kLogits, {.temperature = 0}), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(token_probabilities(std::vector<float>{1, 3, 3, 2}, {.temperature = 0}),
              ElementsAre(0, 1, 0, 0));
}

TEST(Sampling, TopKLeavesTheLikeliestAndOfEqualsTheLower) {
  EXPECT_THAT(token_probabilities(kLogits, {.top_k = 2}),
              ElementsAre(0, near(2. / 3), 0, near(1. / 3)));
  EXPECT_THAT(token_probabilities(kLogits, {.top_k = 3}),
              ElementsAre(near(1. / 7), near(4. / 7), 0, near(2. / 7)));
  EXPECT_EQ(token_probabilities(kLogits, {.top_k = 9}), token_probabilities(kLogits, {}));
}

TEST(Sampling, TopPLeavesTheFewestThatReachIt) {
  // The sums from the most probable token on are 0.5, 0.75, 0.875, 1. The test uses no top_p that
  // equals a sum, because rounding would decide.
  EXPECT_THAT(token_probabilities(kLogits, {.top_p = 0.4}), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(token_probabilities(kLogits, {.top_p = 0.6}),
              ElementsAre(0, near(2. / 3), 0, near(1. / 3)));
  EXPECT_THAT(token_probabilities(kLogits, {.top_p = 0.8}),
              ElementsAre(near(1. / 7), near(4. / 7), 0, near(2. / 7)));
  EXPECT_THAT(token_probabilities(kLogits, {.top_p = 1e-9}),
              ElementsAre(0, 1, 0, 0));  // one is always left
}

TEST(Sampling, TheNucleusIsCountedAfterTemperatureAndTopK) {
  // The squares over 22 are 16, 4, 1, 1. The first two of three reach 16/21 + 4/21 > 0.9; with the
  // earlier probabilities, 0.75 would not.
  EXPECT_THAT(token_probabilities(kLogits, {.temperature = 0.5, .top_k = 3, .top_p = 0.9}),
              ElementsAre(0, near(0.8), 0, near(0.2)));
  // Of the first two alone the most probable one has 2/3 > 0.6; of all it has 0.5.
  EXPECT_THAT(token_probabilities(kLogits, {.top_k = 2, .top_p = 0.6}), ElementsAre(0, 1, 0, 0));
}

TEST(Sampling, ALargeLogitDoesNotOverflow) {
  EXPECT_THAT(token_probabilities(std::vector<float>{3e38f, -3e38f}, {.temperature = 1e-3}),
              ElementsAre(1, 0));
}

TEST(Sampling, TheNumberOfTheDrawChoosesTheToken) {
  const SamplingOptions options{.seed = 5};
  const RandomStream stream(random_key(5, "generate"), 0);
  for (uint64_t draw = 0; draw < 200; ++draw) {
    // The bounds between tokens are, in the order of the tokens: 1/8, 5/8, 3/4.
    const float number = stream.uniform(draw);
    for (float bound : {0.125f, 0.625f, 0.75f})
      ASSERT_GT(std::abs(number - bound), 1e-6f) << "number " << draw << " is too near a bound";
    EXPECT_EQ(sample_token(kLogits, options, draw), number < 0.125f   ? 0
                                                    : number < 0.625f ? 1
                                                    : number < 0.75f  ? 2
                                                                      : 3);
  }
}

TEST(Sampling, AnotherSeedDrawsOtherTokensAndTheSameSeedTheSame) {
  const auto text = [](uint64_t seed) {
    std::vector<int32_t> tokens;
    for (uint64_t draw = 0; draw < 50; ++draw)
      tokens.push_back(sample_token(kLogits, {.seed = seed}, draw));
    return tokens;
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(Sampling, OptionsOutOfRangeAreRefused) {
  EXPECT_NO_THROW(check({.temperature = 0, .top_k = 0, .top_p = 1}));
  for (const SamplingOptions& options : {SamplingOptions{.temperature = -1},
                                         {.temperature = NAN},
                                         {.top_k = -1},
                                         {.top_p = 0},
                                         {.top_p = 1.01},
                                         {.top_p = NAN}})
    EXPECT_THROW(check(options), UserError);
}

}  // namespace
}  // namespace tessera
