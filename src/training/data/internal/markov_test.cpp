#include "training/data/internal/markov.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/testing/error.h"

namespace tessera {
namespace {

/// A few roundings of f64, and the remaining error after the stationary distribution has converged
/// to 1e-15.
constexpr double kRounding = 1e-13;

Batch all_of(const Dataset& data) {
  const Sampler sampler({.samples = data.samples(),
                         .batch = data.samples(),
                         .parts = 1,
                         .shuffle = Shuffle::kNone,
                         .tail = Tail::kDrop,
                         .seed = 0});
  return data.batch(sampler, 0, {0, data.samples()});
}

double entropy(double p) {
  return -p * std::log(p) - (1 - p) * std::log(1 - p);
}

// The chain goes from 0 to 1 with probability 0.2, and from 1 to 0 with 0.4: pi (0.8 0.2; 0.4 0.6)
// = pi gives pi = (2/3, 1/3).
TEST(MarkovChain, StationaryDistributionAndEntropyRateWorkedOutByHand) {
  const MarkovChain chain({{0.8, 0.2}, {0.4, 0.6}});
  EXPECT_NEAR(chain.stationary()[0], 2.0 / 3, kRounding);
  EXPECT_NEAR(chain.stationary()[1], 1.0 / 3, kRounding);
  EXPECT_NEAR(chain.entropy_rate(), 2.0 / 3 * entropy(0.2) + 1.0 / 3 * entropy(0.4), kRounding);
}

// By the definition, the 8 triples (a, b, c) have the probability pi_a P_ab P_bc, and H = -sum
// p(a,b,c) log p(b | a, c).
TEST(MarkovChain, MaskedEntropyIsThatOfTheMiddleOfThree) {
  const MarkovChain chain(5, 3);
  const auto& p = chain.transitions();
  double sum = 0;
  for (size_t a = 0; a < 5; ++a)
    for (size_t c = 0; c < 5; ++c) {
      double both = 0;
      for (size_t b = 0; b < 5; ++b) both += p[a][b] * p[b][c];
      for (size_t b = 0; b < 5; ++b)
        sum -= chain.stationary()[a] * p[a][b] * p[b][c] * std::log(p[a][b] * p[b][c] / both);
    }
  EXPECT_NEAR(chain.masked_entropy(), sum, kRounding);
  EXPECT_LT(chain.masked_entropy(), chain.entropy_rate());
}

TEST(MarkovChain, ACoinHasTheEntropyOfACoin) {
  const MarkovChain coin({{0.5, 0.5}, {0.5, 0.5}});
  EXPECT_NEAR(coin.entropy_rate(), std::log(2.0), kRounding);
  EXPECT_NEAR(coin.masked_entropy(), std::log(2.0), kRounding);
}

TEST(MarkovChain, RefusesOneState) {
  EXPECT_EQ(error_testing::message_of(ExitCode::kBadConfig, [] { MarkovChain(1, 0); }),
            "a Markov chain of 1 states is no text\n"
            "  why: it goes from token to token, of which there are two at least\n"
            "  fix: set data.states to 2 or more");
}

// There are 4000 samples of 8 pairs. A frequency of n samples has a deviation of sqrt(p (1 - p) /
// n), and exceeds five deviations in one case of a million.
TEST(MarkovDataset, GoesFromTokenToTokenAsOftenAsTheChainSays) {
  const MarkovChain chain({{0.8, 0.2}, {0.4, 0.6}});
  const Batch batch = all_of(MarkovDataset(chain, 8, 4000, 5));
  const auto tokens = batch.at("tokens").values<int32_t>(),
             labels = batch.at("labels").values<int32_t>();
  double from[2] = {0, 0}, to_one[2] = {0, 0};
  for (size_t i = 0; i < tokens.size(); ++i) {
    ++from[tokens[i]];
    to_one[tokens[i]] += labels[i];
    if (i % 8 < 7) {
      EXPECT_EQ(labels[i], tokens[i + 1]);
    }
  }
  EXPECT_NEAR(to_one[0] / from[0], 0.2, 5 * std::sqrt(0.2 * 0.8 / from[0]));
  EXPECT_NEAR(to_one[1] / from[1], 0.6, 5 * std::sqrt(0.4 * 0.6 / from[1]));
  double ones = 0;  // of the first tokens
  for (size_t i = 0; i < tokens.size(); i += 8) ones += tokens[i];
  EXPECT_NEAR(ones / 4000, 1.0 / 3, 5 * std::sqrt(2.0 / 9 / 4000));
}

TEST(MarkovDataset, ASampleDependsOnItsNumberAlone) {
  const MarkovDataset few(MarkovChain(4, 1), 6, 10, 9), many(MarkovChain(4, 1), 6, 1000, 9);
  Batch a, b;
  a.resize(few.fields(), 1);
  b.resize(many.fields(), 3);
  few.write(7, 0, a);
  many.write(7, 2, b);
  EXPECT_THAT(a.row<int32_t>("tokens", 0), testing::ElementsAreArray(b.row<int32_t>("tokens", 2)));
  EXPECT_NE(few.fingerprint(), many.fingerprint());
}

TEST(MaskedTokens, OfEachBlockOneInsideIsHiddenAndAskedFor) {
  const auto plain = std::make_shared<const MarkovDataset>(MarkovChain(4, 1), 11, 200, 2);
  const MaskedTokens masked(plain, 5, 4, 3);
  const Batch batch = all_of(masked), whole = all_of(*plain);
  int at_place[11] = {};
  for (int64_t row = 0; row < 200; ++row) {
    const auto tokens = batch.row<int32_t>("tokens", row),
               labels = batch.row<int32_t>(kLabels, row);
    const auto before = whole.row<int32_t>("tokens", row);
    int hidden[2] = {0, 0};
    for (size_t place = 0; place < 11; ++place) {
      const bool is_hidden = tokens[place] == 4;
      EXPECT_EQ(labels[place], is_hidden ? before[place] : -1);
      if (!is_hidden) {
        EXPECT_EQ(tokens[place], before[place]);
      }
      if (is_hidden) ++hidden[place / 5], ++at_place[place];
    }
    EXPECT_EQ(hidden[0], 1);
    EXPECT_EQ(hidden[1], 1);
  }
  // Each of the positions 1, 2, 3 of a block is masked in a third of 200 samples; an end is never
  // masked, so that no two masks are adjacent.
  for (int place : {0, 4, 5, 9, 10}) EXPECT_EQ(at_place[place], 0) << place;
  for (int place : {1, 2, 3, 6, 7, 8})
    EXPECT_NEAR(at_place[place], 200 / 3.0, 5 * std::sqrt(200 * 2.0 / 9)) << place;
}

TEST(MaskedTokens, RefusesAContextWithoutABlock) {
  const auto plain = std::make_shared<const MarkovDataset>(MarkovChain(4, 1), 4, 2, 2);
  EXPECT_EQ(error_testing::message_of(ExitCode::kBadConfig, [&] { MaskedTokens(plain, 5, 4, 3); }),
            "nothing can be masked in a context of 4 tokens by blocks of 5\n"
            "  why: one token of each whole block is masked\n"
            "  fix: make model.context longer, or data.mask_block smaller");
}

}  // namespace
}  // namespace tessera
