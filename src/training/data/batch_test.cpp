#include "training/data/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/error.h"

namespace tessera {
namespace {

using error_testing::message_of;
using testing::ElementsAre;

/// Sample i is {10 i, 10 i + 1}, with the label i.
class Counting : public Dataset {
 public:
  explicit Counting(int64_t samples)
      : Dataset({{"pairs", {DType::kF32, {2}}}, {std::string(kLabels), {DType::kI32, {}}}}),
        samples_(samples) {}
  int64_t samples() const override { return samples_; }
  uint64_t fingerprint() const override { return 7; }
  void write(int64_t sample, int64_t row, Batch& batch) const override {
    const auto pair = batch.row<float>("pairs", row);
    pair[0] = static_cast<float>(10 * sample);
    pair[1] = pair[0] + 1;
    batch.row<int32_t>(kLabels, row)[0] = static_cast<int32_t>(sample);
  }

 private:
  int64_t samples_;
};

Sampler in_order(int64_t samples, int64_t batch) {
  return Sampler({.samples = samples,
                  .batch = batch,
                  .parts = 1,
                  .shuffle = Shuffle::kNone,
                  .tail = Tail::kDrop,
                  .seed = 0});
}

TEST(Batch, HasATensorAFieldWithTheRowsInFront) {
  // Rows 1 and 2 of the samples 4 to 7
  const Batch batch = Counting(8).batch(in_order(8, 4), 1, {1, 3});
  EXPECT_THAT(batch.names(), ElementsAre("pairs", "labels"));
  EXPECT_EQ(batch.at("pairs").type(), (TensorType{DType::kF32, {2, 2}}));
  EXPECT_EQ(batch.at("labels").type(), (TensorType{DType::kI32, {2}}));
  EXPECT_THAT(batch.at("pairs").values<float>(), ElementsAre(50, 51, 60, 61));
  EXPECT_THAT(batch.row<int32_t>(kLabels, 1), ElementsAre(6));
  EXPECT_EQ(batch.find("tokens"), nullptr);
}

// Rows 0 and 3 of the samples 4 to 7; the others keep those of the batch before.
TEST(Batch, MayBeFilledInSomeRows) {
  const Counting data(8);
  Batch batch = data.batch(in_order(8, 4), 0, {0, 4});
  const std::vector<Range> rows{{0, 1}, {3, 4}};
  data.fill_rows(in_order(8, 4), 1, rows, batch);
  EXPECT_THAT(batch.at("labels").values<int32_t>(), ElementsAre(4, 1, 2, 7));
  EXPECT_THAT(batch.at("pairs").values<float>(), ElementsAre(40, 41, 10, 11, 20, 21, 70, 71));
}

TEST(Batch, OfNoRowsHasTheTypesOfTheWholeBatch) {
  Batch batch;
  Counting(8).fill_rows(in_order(8, 4), 1, {}, batch);
  EXPECT_EQ(batch.at("pairs").type(), (TensorType{DType::kF32, {4, 2}}));
}

TEST(Batch, IsFilledAgainInPlace) {
  const Counting data(8);
  Batch batch = data.batch(in_order(8, 4), 0, {0, 4});
  const auto* before = batch.at("pairs").data();
  data.fill(in_order(8, 4), 1, {0, 4}, batch);
  EXPECT_EQ(batch.at("pairs").data(), before);
  EXPECT_THAT(batch.at("labels").values<int32_t>(), ElementsAre(4, 5, 6, 7));
}

TEST(HoldOut, TheLastSamplesAreHeldOut) {
  const DataSplit split = hold_out(std::make_shared<const Counting>(10), 0.2);
  EXPECT_EQ(split.train->samples(), 8);
  EXPECT_EQ(split.held_out->samples(), 2);
  EXPECT_THAT(split.held_out->batch(in_order(2, 2), 0, {0, 2}).at("labels").values<int32_t>(),
              ElementsAre(8, 9));
  EXPECT_EQ(hold_out(std::make_shared<const Counting>(10), 0).held_out->samples(),
            1);  // at least one
  EXPECT_NE(split.train->fingerprint(), split.held_out->fingerprint());
}

TEST(HoldOut, RefusesOneSampleAndAFractionOfAll) {
  EXPECT_EQ(
      message_of(ExitCode::kBadData, [] { hold_out(std::make_shared<const Counting>(1), 0.1); }),
      "there are too few samples to hold out a part: 1\n"
      "  why: the part to train on and the part held out each need one\n"
      "  fix: give it more data");
  EXPECT_EQ(
      message_of(ExitCode::kBadConfig, [] { hold_out(std::make_shared<const Counting>(9), 1.0); }),
      "a fraction of 1.0 of the samples cannot be held out\n"
      "  why: the fraction is at least 0 and below 1\n"
      "  fix: hold out a tenth, 0.1, or leave the default");
}

}  // namespace
}  // namespace tessera
