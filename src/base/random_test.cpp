#include "base/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

// The published results of Random123 for philox4x32-10 (its file kat_vectors).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_THAT(philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(
      philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
      ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(
      philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

// The published results of FNV-1a with 64 bits (Fowler, Noll, Vo).
TEST(StableHash, GivesTheKnownAnswers) {
  EXPECT_EQ(stable_hash(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(stable_hash("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(stable_hash("foobar"), 0x85944171f73967e8ULL);
}

TEST(StableHash, CanBeContinued) {
  EXPECT_EQ(stable_hash("bar", stable_hash("foo")), stable_hash("foobar"));
}

TEST(RandomKey, IsAnotherForEverySeedAndName) {
  std::set<uint64_t> keys;
  for (uint64_t seed = 0; seed < 100; ++seed)
    for (const char* name : {"", "a", "b", "blocks.0.dropout", "blocks.1.dropout"})
      keys.insert(random_key(seed, name));
  EXPECT_EQ(keys.size(), 500u);
}

/// A float from the 24 high bits of a word.
float unit(uint32_t word) {
  return std::ldexp(static_cast<float>(word >> 8), -24);
}

TEST(RandomStream, UniformIsAWordOfTheBlockOfItsIndexAndStep) {
  const uint64_t key = 0x299f31d0a4093822ULL, step = (uint64_t{9} << 32) + 5;
  const RandomStream stream(key, step);
  for (uint64_t block : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 33}) {
    const auto words =
        philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 5, 9},
                   {0xa4093822, 0x299f31d0});
    for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(stream.uniform(block * 4 + i), unit(words[i]));
  }
}

TEST(RandomStream, OfKeyAndStepZeroGivesTheKnownAnswer) {
  const RandomStream stream(0, 0);
  EXPECT_EQ(stream.uniform(0), static_cast<float>(0x6627e8) / 16777216.0f);
  EXPECT_EQ(stream.uniform(3), static_cast<float>(0x9b00db) / 16777216.0f);
}

TEST(RandomStream, ARunIsTheSameNumbersFromAnyPlaceAndOfAnyLength) {
  const RandomStream stream(77, 3);
  for (uint64_t first = 0; first < 9; ++first)
    for (int64_t count = 0; count < 12; ++count) {
      std::vector<float> expected, run(static_cast<size_t>(count) + 1, -1.0f);
      for (int64_t i = 0; i < count; ++i)
        expected.push_back(stream.uniform(first + static_cast<uint64_t>(i)));
      expected.push_back(-1.0f);  // nothing is written after the run
      stream.uniform_run(first, count, run.data());
      EXPECT_THAT(run, ElementsAreArray(expected));
    }
}

TEST(RandomStream, KeysAndStepsGiveOtherNumbers) {
  std::set<float> first;
  for (uint64_t key : {0, 1, 2})
    for (uint64_t step : {0, 1, 2}) {
      first.insert(RandomStream(key, step).uniform(0));
      first.insert(RandomStream(key, step).normal(0));
    }
  EXPECT_EQ(first.size(), 18u);
}

constexpr int kCount = 100000;

/// The means of x, x squared and x times the next number, over kCount numbers.
struct Moments {
  double mean = 0, square = 0, neighbours = 0;
};

template <typename Draw>
Moments moments_of(Draw draw) {
  Moments moments;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double x = draw(i), next = draw(i + 1);
    moments.mean += x / kCount;
    moments.square += x * x / kCount;
    moments.neighbours += x * next / kCount;
  }
  return moments;
}

// The mean of n independent numbers of variance v has deviation sqrt(v / n). The bounds are six
// deviations, which are exceeded with probability 2e-9.
TEST(RandomStream, NormalNumbersHaveMeanZeroDeviationOneAndNothingToDoWithTheirNeighbours) {
  const RandomStream stream(5, 1);
  const Moments moments = moments_of([&](uint64_t i) { return stream.normal(i); });
  EXPECT_NEAR(moments.mean, 0.0, 6 * std::sqrt(1.0 / kCount));        // variance of x is 1
  EXPECT_NEAR(moments.square, 1.0, 6 * std::sqrt(2.0 / kCount));      // variance of x^2 is 3 - 1
  EXPECT_NEAR(moments.neighbours, 0.0, 6 * std::sqrt(1.0 / kCount));  // variance of a product is 1
}

TEST(RandomStream, NormalNumbersFallWhereTheNormalDistributionSays) {
  // P(x < c) = erfc(-c / sqrt 2) / 2; a count of hits has variance n p (1 - p).
  const RandomStream stream(6, 1);
  for (double bound : {-2.0, -1.0, 0.0, 0.5, 1.5, 2.5}) {
    int hits = 0;
    for (uint64_t i = 0; i < kCount; ++i) hits += stream.normal(i) < bound;
    const double p = 0.5 * std::erfc(-bound / std::sqrt(2.0));
    EXPECT_NEAR(hits, kCount * p, 6 * std::sqrt(kCount * p * (1 - p))) << bound;
  }
}

TEST(RandomStream, UniformNumbersHaveTheirMomentsAndLieInTheUnitInterval) {
  const RandomStream stream(5, 1);
  const Moments moments = moments_of([&](uint64_t i) { return stream.uniform(i); });
  EXPECT_NEAR(moments.mean, 1.0 / 2, 6 * std::sqrt(1.0 / 12 / kCount));    // variance 1/3 - 1/4
  EXPECT_NEAR(moments.square, 1.0 / 3, 6 * std::sqrt(4.0 / 45 / kCount));  // variance 1/5 - 1/9
  // x y has variance 1/9 - 1/16 = 7/144. Neighbours in the sum share a factor, which adds twice the
  // covariance 1/3 1/4 - 1/16 = 1/48.
  EXPECT_NEAR(moments.neighbours, 1.0 / 4, 6 * std::sqrt((7.0 / 144 + 2.0 / 48) / kCount));
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_GE(stream.uniform(i), 0.0f);
    ASSERT_LT(stream.uniform(i), 1.0f);
  }
}

}  // namespace
}  // namespace tessera
