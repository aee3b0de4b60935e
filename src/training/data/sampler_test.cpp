#include "training/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/testing/error.h"

namespace tessera {
namespace {

using error_testing::throws_user_error;

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int64_t> batch_of(const Sampler& sampler, int64_t step) {
  std::vector<int64_t> samples;
  for (int64_t row = 0; row < sampler.options().batch; ++row)
    samples.push_back(sampler.sample(step, row));
  return samples;
}

/// The number of uses of each sample in an epoch, in either the padded rows or the others.
std::map<int64_t, int> uses(const Sampler& sampler, int64_t epoch, bool padded) {
  std::map<int64_t, int> count;
  for (int64_t step = 0; step < sampler.steps_per_epoch(); ++step)
    for (int64_t row = 0; row < sampler.options().batch; ++row) {
      const int64_t at = epoch * sampler.steps_per_epoch() + step;
      if (sampler.padded(at, row) == padded) ++count[sampler.sample(at, row)];
    }
  return count;
}

std::vector<int> second_of(const std::map<int64_t, int>& map) {
  std::vector<int> values;
  for (const auto& [key, value] : map) values.push_back(value);
  return values;
}

std::vector<int64_t> order(int64_t count, uint64_t key, int64_t epoch, int64_t piece = 0) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(permuted(i, count, key, epoch, piece));
  return result;
}

TEST(Permutation, IsABijectionForEverySize) {
  // All small sizes, and the neighbours of powers of two and four, where the network is largest and
  // smallest relative to its domain.
  std::vector<int64_t> sizes = {255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097, 10000, 65537};
  for (int64_t size = 1; size <= 130; ++size) sizes.push_back(size);
  for (int64_t size : sizes) {
    const std::vector<int64_t> places = order(size, 42, 3);
    const std::set<int64_t> distinct(places.begin(), places.end());
    EXPECT_EQ(static_cast<int64_t>(distinct.size()), size);
    EXPECT_EQ(*distinct.begin(), 0);
    EXPECT_EQ(*distinct.rbegin(), size - 1);
  }
}

TEST(Permutation, AnswersForVeryManySamplesWithoutATable) {
  const int64_t count = int64_t{1} << 61;
  std::set<int64_t> places;
  for (int64_t i = 0; i < 1000; ++i) places.insert(permuted(count - 1 - i, count, 1, 0, 0));
  EXPECT_EQ(places.size(), 1000u);
  EXPECT_LT(*places.rbegin(), count);
  EXPECT_GE(*places.begin(), 0);
}

TEST(Permutation, IsAnotherForEveryKeyEpochAndPiece) {
  // Two random permutations of 1000 agree in one position on average. More than ten agreements have
  // a probability of about 1 / 11!, 3e-8.
  const auto agreements = [](const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    int count = 0;
    for (size_t i = 0; i < a.size(); ++i) count += a[i] == b[i];
    return count;
  };
  const std::vector<int64_t> one = order(1000, 7, 0);
  EXPECT_EQ(order(1000, 7, 0), one);
  EXPECT_LE(agreements(one, order(1000, 8, 0)), 10);
  EXPECT_LE(agreements(one, order(1000, 7, 1)), 10);
  EXPECT_LE(agreements(one, order(1000, 7, int64_t{1} << 32)), 10);
  EXPECT_LE(agreements(one, order(1000, 7, 0, 1)), 10);
  EXPECT_LE(agreements(one, order(1000, uint64_t{7} + (uint64_t{1} << 32), 0)), 10);
}

TEST(Permutation, EveryPlaceIsTakenByEverySampleEquallyOften) {
  // Over 4000 epochs each of 5 positions should have each of 5 samples 800 times, with deviation
  // sqrt(4000 * 1/5 * 4/5) = 25.3. Six deviations are 152.
  std::map<std::pair<int64_t, int64_t>, int> count;
  for (int64_t epoch = 0; epoch < 4000; ++epoch)
    for (int64_t i = 0; i < 5; ++i) ++count[{i, permuted(i, 5, 99, epoch, 0)}];
  ASSERT_EQ(count.size(), 25u);
  for (const auto& [pair, times] : count)
    EXPECT_NEAR(times, 800, 152) << pair.first << " to " << pair.second;
}

TEST(Permutation, NeighboursDoNotStayTogether) {
  // In a random order of n the mean distance of former neighbours is (n + 1) / 3. With n = 3000
  // that is 1000.3; its deviation over 2999 nearly independent pairs is below (n / sqrt(18)) /
  // sqrt(2999) = 12.9. Six deviations are 78.
  const std::vector<int64_t> places = order(3000, 5, 0);
  double sum = 0;
  for (size_t i = 0; i + 1 < places.size(); ++i)
    sum += static_cast<double>(std::abs(places[i] - places[i + 1]));
  EXPECT_NEAR(sum / 2999, 3001.0 / 3.0, 78);
}

TEST(Sampler, WithoutShuffleTheBatchIsTheNextSamples) {
  const Sampler sampler({.samples = 10, .batch = 4, .shuffle = Shuffle::kNone});
  EXPECT_EQ(sampler.steps_per_epoch(), 2);
  EXPECT_THAT(batch_of(sampler, 0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(batch_of(sampler, 1), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(batch_of(sampler, 2),
              ElementsAre(0, 1, 2, 3));  // the second epoch; 8 and 9 were dropped
}

TEST(Sampler, TheTailIsFilledWithTheFirstSamplesOfTheEpoch) {
  const Sampler sampler({.samples = 10, .batch = 4, .shuffle = Shuffle::kNone, .tail = Tail::kPad});
  EXPECT_EQ(sampler.steps_per_epoch(), 3);
  EXPECT_THAT(batch_of(sampler, 2), ElementsAre(8, 9, 0, 1));
  EXPECT_FALSE(sampler.padded(2, 1));
  EXPECT_TRUE(sampler.padded(2, 2));
  EXPECT_TRUE(sampler.padded(2, 3));
  EXPECT_FALSE(sampler.padded(3, 2));  // the second epoch
}

TEST(Sampler, ABatchThatIsLargerThanTheDataIsFilledBySeveralTurns) {
  const Sampler sampler({.samples = 3, .batch = 8, .shuffle = Shuffle::kNone, .tail = Tail::kPad});
  EXPECT_EQ(sampler.steps_per_epoch(), 1);
  EXPECT_THAT(batch_of(sampler, 0), ElementsAre(0, 1, 2, 0, 1, 2, 0, 1));
}

TEST(Sampler, ShuffledBeforeTheSplitTheBatchIsTheSameForAnyNumberOfParts) {
  for (Tail tail : {Tail::kDrop, Tail::kPad}) {
    const Sampler serial({.samples = 103, .batch = 10, .parts = 1, .tail = tail, .seed = 5});
    for (int64_t parts : {2, 3, 4, 10, 16}) {
      const Sampler parallel(
          {.samples = 103, .batch = 10, .parts = parts, .tail = tail, .seed = 5});
      ASSERT_EQ(parallel.steps_per_epoch(), serial.steps_per_epoch());
      for (int64_t step = 0; step < 3 * serial.steps_per_epoch(); ++step)
        EXPECT_EQ(batch_of(parallel, step), batch_of(serial, step));
    }
  }
}

TEST(Sampler, WithDropEverySampleButTheTailStandsOnceInAnEpoch) {
  // 10 steps of 10; 3 are left out.
  const Sampler sampler({.samples = 103, .batch = 10, .seed = 5});
  for (int64_t epoch : {0, 1, 7}) {
    const auto count = uses(sampler, epoch, false);
    EXPECT_EQ(count.size(), 100u);
    EXPECT_THAT(second_of(count), Each(1));
    EXPECT_THAT(uses(sampler, epoch, true), IsEmpty());
  }
}

TEST(Sampler, TheTailThatIsDroppedIsAnotherInEveryEpoch) {
  const Sampler sampler({.samples = 103, .batch = 10, .seed = 5});
  std::set<int64_t> seen;
  for (int64_t epoch : {0, 1, 2})
    for (const auto& [sample, times] : uses(sampler, epoch, false)) seen.insert(sample);
  EXPECT_EQ(seen.size(), 103u);
}

TEST(Sampler, WithPadEverySampleStandsOnceInAnEpochAndThePaddedRowsRepeatItsFirst) {
  const Sampler sampler({.samples = 103,
                         .batch = 10,
                         .tail = Tail::kPad,
                         .seed = 5});  // 11 steps of 10: 7 rows too many
  const auto count = uses(sampler, 2, false);
  EXPECT_EQ(count.size(), 103u);
  EXPECT_THAT(second_of(count), Each(1));
  const int64_t first_step = 2 * 11, last_step = first_step + 10;
  for (int64_t row = 0; row < 10; ++row) EXPECT_EQ(sampler.padded(last_step, row), row >= 3);
  for (int64_t row = 3; row < 10; ++row)
    EXPECT_EQ(sampler.sample(last_step, row), sampler.sample(first_step, row - 3));
}

TEST(Sampler, ShuffledAfterTheSplitAPartsRowsComeFromItsPiece) {
  // 103 samples in pieces of 35, 34, 34; 10 rows in parts of 4, 3, 3.
  const Sampler sampler({.samples = 103,
                         .batch = 10,
                         .parts = 3,
                         .shuffle = Shuffle::kAfterSplit,
                         .tail = Tail::kPad,
                         .seed = 5});
  for (int64_t step = 0; step < 2 * sampler.steps_per_epoch(); ++step)
    for (int64_t part = 0; part < 3; ++part) {
      const Range rows = balanced_part(10, 3, part), piece = balanced_part(103, 3, part);
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        EXPECT_GE(sampler.sample(step, row), piece.begin);
        EXPECT_LT(sampler.sample(step, row), piece.end);
      }
    }
}

TEST(Sampler, ShuffledAfterTheSplitPartsAndPiecesFollowTheWeights) {
  // 90 samples in pieces of 60 and 30; 9 rows in parts of 6 and 3.
  const Sampler sampler({.samples = 90,
                         .batch = 9,
                         .parts = 2,
                         .weights = {2, 1},
                         .shuffle = Shuffle::kAfterSplit,
                         .seed = 5});
  EXPECT_EQ(sampler.steps_per_epoch(), 10);
  for (int64_t step = 0; step < 20; ++step)
    for (int64_t row = 0; row < 9; ++row)
      EXPECT_EQ(sampler.sample(step, row) < 60, row < 6) << step << " " << row;
  const auto count = uses(sampler, 1, false);
  EXPECT_EQ(count.size(), 90u);
  EXPECT_THAT(second_of(count), Each(1));
  EXPECT_THAT(sampler.description(), testing::HasSubstr("into parts of weights 2:1"));
}

TEST(Sampler, ShuffledBeforeTheSplitWeightsDoNotMatter) {
  const Sampler plain({.samples = 50, .batch = 7, .seed = 2});
  const Sampler weighted({.samples = 50, .batch = 7, .parts = 2, .weights = {1, 50}, .seed = 2});
  for (int64_t step = 0; step < 20; ++step)
    EXPECT_EQ(batch_of(weighted, step), batch_of(plain, step));
}

TEST(Sampler, RefusesAPartWithoutRowsWhoseSamplesWouldNeverBeUsed) {
  EXPECT_THAT(
      [] {
        Sampler({.samples = 50,
                 .batch = 2,
                 .parts = 2,
                 .weights = {9, 1},
                 .shuffle = Shuffle::kAfterSplit});
      },
      throws_user_error("a batch of 2 rows has none for part 1 of 2\n"
                        "  why: shuffled after the split, the samples of that part would never be "
                        "used\n"
                        "  fix: make the batch larger, or shuffle = \"before_split\"",
                        ExitCode::kBadConfig));
}

TEST(Sampler, ShuffledAfterTheSplitEveryPartHasTheSameSteps) {
  // Pieces of 35, 34, 34 for 4, 3, 3 rows have 8, 11, 11 whole batches, or 9, 12, 12 with a filled
  // tail.
  SamplerOptions options{.samples = 103, .batch = 10, .parts = 3, .shuffle = Shuffle::kAfterSplit};
  EXPECT_EQ(Sampler(options).steps_per_epoch(), 8);
  options.tail = Tail::kPad;
  const Sampler padding(options);
  EXPECT_EQ(padding.steps_per_epoch(), 12);
  const auto count = uses(padding, 1, false);
  EXPECT_EQ(count.size(), 103u);
  EXPECT_THAT(second_of(count), Each(1));
}

TEST(Sampler, ShuffledAfterTheSplitWithDropNoSampleStandsTwiceInAnEpoch) {
  const Sampler sampler(
      {.samples = 103, .batch = 10, .parts = 3, .shuffle = Shuffle::kAfterSplit, .seed = 1});
  const auto count = uses(sampler, 4, false);
  EXPECT_EQ(count.size(), 80u);  // 8 steps of 10
  EXPECT_THAT(second_of(count), Each(1));
}

TEST(Sampler, ShuffledAfterTheSplitABatchWithFewerRowsThanPartsStillReadsEverySample) {
  const Sampler sampler({.samples = 20, .batch = 2, .parts = 4, .shuffle = Shuffle::kAfterSplit});
  const auto count = uses(sampler, 0, false);
  EXPECT_EQ(count.size(), 20u);
  EXPECT_THAT(second_of(count), Each(1));
}

TEST(Sampler, ShuffledAfterTheSplitOnePartReadsWhatTheSerialRunReads) {
  const Sampler before({.samples = 50, .batch = 7, .seed = 2});
  const Sampler after({.samples = 50, .batch = 7, .shuffle = Shuffle::kAfterSplit, .seed = 2});
  for (int64_t step = 0; step < 20; ++step)
    EXPECT_EQ(batch_of(after, step), batch_of(before, step));
}

TEST(Sampler, EpochsAndSeedsShuffleDifferently) {
  const Sampler one({.samples = 1000, .batch = 100, .seed = 1}),
      two({.samples = 1000, .batch = 100, .seed = 2});
  EXPECT_NE(batch_of(one, 0), batch_of(one, 10));  // step 10 begins the second epoch
  EXPECT_NE(batch_of(one, 0), batch_of(two, 0));
}

TEST(Sampler, DescribesItself) {
  EXPECT_EQ(
      Sampler({.samples = 103, .batch = 10, .seed = 5}).description(),
      "103 samples in 10 steps of 10 rows an epoch; shuffle before_split with seed 5; tail drop");
  EXPECT_EQ(Sampler({.samples = 103, .batch = 10, .shuffle = Shuffle::kNone, .tail = Tail::kPad})
                .description(),
            "103 samples in 11 steps of 10 rows an epoch; shuffle none; tail pad");
  EXPECT_EQ(Sampler({.samples = 103, .batch = 10, .parts = 2, .shuffle = Shuffle::kAfterSplit})
                .description(),
            "103 samples in 10 steps of 10 rows an epoch; shuffle after_split with seed 0 into 2 "
            "parts (with another number of parts the "
            "batches are others); tail drop");
}

TEST(Sampler, RefusesNoSample) {
  EXPECT_THAT([] { Sampler({.samples = 0, .batch = 4}); },
              throws_user_error("there is no sample to make batches of\n"
                                "  why: the data has 0 samples\n"
                                "  fix: give it more data",
                                ExitCode::kBadData));
}

TEST(Sampler, RefusesABatchWithoutRows) {
  EXPECT_THAT([] { Sampler({.samples = 5, .batch = 0}); },
              throws_user_error("a batch of 0 rows cannot be filled\n"
                                "  why: a batch has at least one row\n"
                                "  fix: set the batch to 1 or more",
                                ExitCode::kBadConfig));
}

TEST(Sampler, RefusesWithDropFewerSamplesThanABatch) {
  EXPECT_NO_THROW(Sampler({.samples = 4, .batch = 4}));
  EXPECT_THAT(
      [] { Sampler({.samples = 3, .batch = 4}); },
      throws_user_error(
          "3 samples do not fill one batch of 4 rows\n"
          "  why: the tail of an epoch that does not fill a batch is dropped, and nothing would be "
          "left\n"
          "  fix: give it more data, make the batch smaller, or fill the tail (tail = \"pad\")",
          ExitCode::kBadData));
}

TEST(Sampler, RefusesWithDropAPieceThatIsSmallerThanItsShareOfTheBatch) {
  EXPECT_THAT(
      [] { Sampler({.samples = 3, .batch = 4, .parts = 2, .shuffle = Shuffle::kAfterSplit}); },
      throws_user_error(
          "3 samples do not fill one batch of 4 rows\n"
          "  why: the tail of an epoch that does not fill a batch is dropped, and nothing would be "
          "left; shuffled after "
          "the split, part 1 of 2 has 1 samples for 2 rows\n"
          "  fix: give it more data, make the batch smaller, or fill the tail (tail = \"pad\")",
          ExitCode::kBadData));
}

TEST(Sampler, RefusesAPieceWithoutASample) {
  EXPECT_THAT(
      [] {
        Sampler({.samples = 2,
                 .batch = 4,
                 .parts = 3,
                 .shuffle = Shuffle::kAfterSplit,
                 .tail = Tail::kPad});
      },
      throws_user_error("2 samples do not fill one batch of 4 rows\n"
                        "  why: every part needs a sample; shuffled after the split, part 2 of 3 "
                        "has 0 samples for 1 rows\n"
                        "  fix: give it more data, or use fewer parts",
                        ExitCode::kBadData));
}

TEST(Sampler, RefusesStepsAndRowsThatAreNotThere) {
  const Sampler sampler({.samples = 10, .batch = 4});
  EXPECT_THROW(sampler.sample(-1, 0), InternalError);
  EXPECT_THROW(sampler.sample(0, 4), InternalError);
  EXPECT_THROW(sampler.padded(0, -1), InternalError);
}

TEST(SamplerOptions, WaysToShuffleAndToEndHaveNames) {
  EXPECT_EQ(to_text(Shuffle::kNone), "none");
  EXPECT_EQ(to_text(Shuffle::kBeforeSplit), "before_split");
  EXPECT_EQ(to_text(Shuffle::kAfterSplit), "after_split");
  EXPECT_EQ(to_text(Tail::kDrop), "drop");
  EXPECT_EQ(to_text(Tail::kPad), "pad");
}

}  // namespace
}  // namespace tessera
