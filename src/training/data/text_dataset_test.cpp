#include "training/data/text_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/testing/error.h"

namespace tessera {
namespace {

using error_testing::throws_user_error;
using testing::ElementsAre;
using testing::ElementsAreArray;

/// 0, 1, 2, ...: each token is its own position.
std::vector<int32_t> counting(int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

std::vector<int32_t> values_of(const Tensor& tensor) {
  const auto values = tensor.values<int32_t>();
  return {values.begin(), values.end()};
}

TEST(BigramEntropy, OfASequenceWorkedOutByHand) {
  // 0 1 0 1 0 2 has the pairs 01 10 01 10 02. After 0 come two 1 and one 2, after 1 always 0: (2
  // log(3/2) + 1 log(3/1) + 2 log(1)) / 5. There are two terms that are not zero, each rounded a
  // few times: 8 ulps of the result are sufficient.
  const double expected = (2.0 * std::log(1.5) + std::log(3.0)) / 5.0;
  EXPECT_NEAR(bigram_entropy({0, 1, 0, 1, 0, 2}, 3), expected, 8 * DBL_EPSILON * expected);
}

TEST(BigramEntropy, IsZeroWhenEveryTokenSaysTheNext) {
  EXPECT_EQ(bigram_entropy({0, 1, 2, 0, 1, 2, 0}, 3), 0.0);
}

TEST(BigramEntropy, IsTheLogarithmOfTheSuccessorsWhenAllAreAlikeOften) {
  // 0 0 1 1 0 has each of the pairs 00 01 11 10 once: each token has two successors, so the entropy
  // is log 2.
  EXPECT_NEAR(bigram_entropy({0, 0, 1, 1, 0}, 2), std::log(2.0), 8 * DBL_EPSILON * std::log(2.0));
}

TEST(BigramEntropy, DoesNotDependOnTokensThatDoNotOccur) {
  EXPECT_EQ(bigram_entropy({0, 1, 0, 1, 0, 2}, 3), bigram_entropy({0, 1, 0, 1, 0, 2}, 5000));
}

TEST(BigramEntropy, OfLessThanAPairIsZero) {
  EXPECT_EQ(bigram_entropy(std::vector<int32_t>{}, 4), 0.0);
  EXPECT_EQ(bigram_entropy({3}, 4), 0.0);
}

TEST(BigramEntropy, RefusesATokenOutsideTheVocabulary) {
  EXPECT_THROW(bigram_entropy({0, 4}, 4), InternalError);
  EXPECT_THROW(bigram_entropy({0, -1}, 4), InternalError);
}

TEST(HoldOut, TakesTheLastFraction) {
  // A tenth of 20 is 2.
  const TextSplit split = hold_out(counting(20), 0.1, 1);
  EXPECT_THAT(split.train, ElementsAreArray(counting(18)));
  EXPECT_THAT(split.held_out, ElementsAre(18, 19));
}

TEST(HoldOut, RoundsToTheNearestToken) {
  EXPECT_EQ(hold_out(counting(100), 0.29, 1).held_out.size(),
            29u);  // 0.29 * 100 is 28.999999999999996 in binary
  EXPECT_EQ(hold_out(counting(14), 0.1, 1).held_out.size(), 1u);  // 1.4
  EXPECT_EQ(hold_out(counting(16), 0.1, 1).held_out.size(), 2u);  // 1.6
}

TEST(HoldOut, BothPartsHaveAtLeastTheMinimum) {
  EXPECT_EQ(hold_out(counting(20), 0.1, 5).held_out.size(), 5u);  // more than the tenth
  EXPECT_EQ(hold_out(counting(20), 0.9, 5).train.size(), 5u);  // more than what nine tenths leave
  EXPECT_EQ(hold_out(counting(10), 0.0, 5).held_out.size(), 5u);
  EXPECT_EQ(hold_out(counting(10), 0.0, 0).held_out.size(), 0u);
}

TEST(HoldOut, RefusesATextThatIsTooShortForBothParts) {
  EXPECT_THAT(
      [] { hold_out(counting(9), 0.1, 5); },
      throws_user_error(
          "the text is too short to hold out a part: it has 9 tokens\n"
          "  why: the part to train on and the part held out each need 5 tokens, 10 together\n"
          "  fix: give it more text, or make the context shorter",
          ExitCode::kBadData));
}

TEST(HoldOut, RefusesAFractionThatIsNone) {
  for (const auto& [fraction, text] : std::vector<std::pair<double, std::string>>{
           {1.0, "1.0"}, {-0.5, "-0.5"}, {std::numeric_limits<double>::quiet_NaN(), "nan"}}) {
    EXPECT_THAT([value = fraction] { hold_out(counting(9), value, 1); },
                throws_user_error("a fraction of " + text +
                                      " of the text cannot be held out\n"
                                      "  why: the fraction is at least 0 and below 1\n"
                                      "  fix: hold out a tenth, 0.1, or leave the default",
                                  ExitCode::kBadConfig));
  }
}

TEST(TextDataset, CountsTheSamplesThatFit) {
  // Samples of 4 + 1 tokens. Stride 4 over 13 tokens: they begin at 0, 4, 8; the last ends with
  // token 12.
  EXPECT_EQ(TextDataset(counting(13), 4, 4).samples(), 3);
  EXPECT_EQ(TextDataset(counting(12), 4, 4).samples(), 2);
  EXPECT_EQ(TextDataset(counting(12), 4, 1).samples(), 8);  // they begin at 0 to 7
  EXPECT_EQ(TextDataset(counting(5), 4, 100).samples(), 1);
}

TEST(TextDataset, LabelsAreTheInputsShiftedByOne) {
  const TextDataset data(counting(13), 4, 4);
  const Sampler in_order({.samples = 3, .batch = 3, .shuffle = Shuffle::kNone});
  const Batch batch = data.batch(in_order, 0, {0, 3});
  EXPECT_EQ(batch.at("tokens").type(), (TensorType{DType::kI32, {3, 4}}));
  EXPECT_EQ(batch.at("labels").type(), (TensorType{DType::kI32, {3, 4}}));
  EXPECT_THAT(values_of(batch.at("tokens")), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(values_of(batch.at("labels")), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
}

TEST(TextDataset, RowsAreTheSamplesThatTheSamplerNames) {
  const TextDataset data(counting(103), 3, 2);  // (103 - 1 - 3) / 2 + 1 = 50 samples
  const Sampler sampler({.samples = 50, .batch = 7, .seed = 3});
  const Batch batch = data.batch(sampler, 9, {2, 5});  // step 9: the third of the second epoch
  for (int64_t row = 2; row < 5; ++row) {
    const auto first = static_cast<int32_t>(sampler.sample(9, row) * 2);
    const auto inputs =
        batch.at("tokens").values<int32_t>().subspan(static_cast<size_t>(row - 2) * 3, 3);
    EXPECT_THAT(inputs, ElementsAre(first, first + 1, first + 2));
  }
}

TEST(TextDataset, TheRowsOfThePartsAreTheRowsOfTheBatch) {
  const TextDataset data(counting(200), 5, 3);
  const Sampler sampler({.samples = data.samples(), .batch = 10, .parts = 4, .seed = 1});
  std::vector<int32_t> inputs, labels;
  for (int64_t part = 0; part < 4; ++part) {  // 3, 3, 2, 2 rows
    const Batch batch = data.batch(sampler, 2, balanced_part(10, 4, part));
    for (int32_t token : values_of(batch.at("tokens"))) inputs.push_back(token);
    for (int32_t token : values_of(batch.at("labels"))) labels.push_back(token);
  }
  const Batch whole = data.batch(sampler, 2, {0, 10});
  EXPECT_EQ(inputs, values_of(whole.at("tokens")));
  EXPECT_EQ(labels, values_of(whole.at("labels")));
}

TEST(TextDataset, APartWithoutRowsHasAnEmptyBatch) {
  const TextDataset data(counting(20), 4, 4);
  const Sampler sampler({.samples = data.samples(), .batch = 2, .parts = 3});
  EXPECT_EQ(data.batch(sampler, 0, balanced_part(2, 3, 2)).at("tokens").type(),
            (TensorType{DType::kI32, {0, 4}}));
}

TEST(TextDataset, RefusesASamplerOfAnotherDatasetAndRowsOutsideTheBatch) {
  const TextDataset data(counting(20), 4, 4);
  const Sampler other({.samples = 5, .batch = 1}), own({.samples = data.samples(), .batch = 1});
  EXPECT_THROW(data.batch(other, 0, {0, 1}), InternalError);
  EXPECT_THROW(data.batch(own, 0, {0, 2}), InternalError);
  EXPECT_THROW(data.batch(own, 0, {1, 0}), InternalError);
}

TEST(TextDataset, TheFingerprintTellsTokensContextAndStrideApart) {
  const uint64_t one = TextDataset(counting(64), 8, 4).fingerprint();
  EXPECT_EQ(TextDataset(counting(64), 8, 4).fingerprint(), one);
  EXPECT_NE(TextDataset(counting(65), 8, 4).fingerprint(), one);
  EXPECT_NE(TextDataset(counting(64), 4, 8).fingerprint(), one);
  std::vector<int32_t> other = counting(64);
  other.back() += 1;
  EXPECT_NE(TextDataset(other, 8, 4).fingerprint(), one);
}

TEST(TextDataset, RefusesATextThatIsTooShortForOneSample) {
  EXPECT_THAT([] { TextDataset(counting(64), 64, 1); },
              throws_user_error("the text is too short for one sample: it has 64 tokens\n"
                                "  why: a sample with a context of 64 takes 65 tokens: its labels "
                                "are its inputs shifted by one\n"
                                "  fix: give it more text, or make the context shorter",
                                ExitCode::kBadData));
}

TEST(TextDataset, RefusesAContextOrAStrideOfNothing) {
  EXPECT_THAT([] { TextDataset(counting(64), 8, 0); },
              throws_user_error(
                  "samples with a context of 8 tokens and a stride of 0 cannot be made\n"
                  "  why: a sample has at least one token, and the next begins at least one later\n"
                  "  fix: set both to 1 or more",
                  ExitCode::kBadConfig));
  EXPECT_THROW(TextDataset(counting(64), 0, 8), UserError);
}

TEST(TextDataset, LabelsAreTheTargetsOfTheNextTokens) {
  const TokenSourcePtr tokens = tokens_in_memory({1, 2, 3, 4, 5});
  const TextDataset data(tokens, 2, 2, tokens_in_memory({1, -1, 9, -1, 5}));
  Batch batch;
  batch.resize(data.fields(), 2);
  for (int64_t sample = 0; sample < 2; ++sample) data.write(sample, sample, batch);
  EXPECT_THAT(batch.at("tokens").values<int32_t>(), testing::ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(batch.at("labels").values<int32_t>(), testing::ElementsAre(-1, 9, -1, 5));
  EXPECT_NE(data.fingerprint(), TextDataset(tokens, 2, 2).fingerprint());
}

}  // namespace
}  // namespace tessera
