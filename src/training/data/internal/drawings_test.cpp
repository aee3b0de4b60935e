#include "training/data/internal/drawings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tessera {
namespace {

Batch one(const Dataset& data, int64_t sample) {
  Batch batch;
  batch.resize(data.fields(), 1);
  data.write(sample, 0, batch);
  return batch;
}

TEST(DrawnDigits, AreWholeDigitsOnBlack) {
  const DrawnDigits digits({.samples = 200, .size = 20, .noise = 0, .seed = 1});
  std::set<int32_t> seen;
  for (int64_t i = 0; i < 200; ++i) {
    const Batch batch = one(digits, i);
    const auto pixels = batch.at("images").values<float>();
    const auto [smallest, largest] = std::minmax_element(pixels.begin(), pixels.end());
    EXPECT_EQ(*smallest, 0);
    EXPECT_GT(*largest, 0.3);
    EXPECT_LE(*largest, 1);
    seen.insert(batch.at("labels").values<int32_t>()[0]);
  }
  EXPECT_EQ(seen.size(), 10);
  EXPECT_EQ(digits.fields()[0].type, (TensorType{DType::kF32, {1, 20, 20}}));
}

TEST(DrawnDigits, ASampleDependsOnSeedAndNumberAlone) {
  const DrawnDigits few({.samples = 9, .seed = 4}), many({.samples = 100, .seed = 4}),
      other({.samples = 9, .seed = 5});
  const auto pixels = [](const Dataset& data) { return one(data, 8).at("images").clone(); };
  const Tensor a = pixels(few), b = pixels(many), c = pixels(other);
  EXPECT_TRUE(std::ranges::equal(a.values<float>(), b.values<float>()));
  EXPECT_FALSE(std::ranges::equal(a.values<float>(), c.values<float>()));
  EXPECT_NE(few.fingerprint(), other.fingerprint());
}

TEST(DrawnShapes, LabelsAreWhereThereIsPaint) {
  const DrawnShapes shapes({.samples = 100, .size = 24, .noise = 0, .seed = 2});
  std::set<int32_t> seen;
  for (int64_t i = 0; i < 100; ++i) {
    const Batch batch = one(shapes, i);
    const auto pixels = batch.at("images").values<float>();
    const auto labels = batch.at("labels").values<int32_t>();
    for (size_t at = 0; at < pixels.size(); ++at) {
      EXPECT_EQ(pixels[at] > 0, labels[at] > 0);
      seen.insert(labels[at]);
    }
  }
  EXPECT_THAT(seen, testing::ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(shapes.fields()[1].type, (TensorType{DType::kI32, {24, 24}}));
}

TEST(Drawings, NoiseMovesEveryPixelAndNoLabel) {
  const DrawingOptions clean{.samples = 2, .noise = 0, .seed = 3};
  DrawingOptions noisy = clean;
  noisy.noise = 0.1;
  const Batch a = one(DrawnShapes(clean), 1), b = one(DrawnShapes(noisy), 1);
  const auto before = a.at("images").values<float>(), after = b.at("images").values<float>();
  double square = 0;
  for (size_t i = 0; i < before.size(); ++i)
    square += (after[i] - before[i]) * (after[i] - before[i]);
  // The mean square of 256 normal numbers of deviation 0.1 is 0.01, with a deviation of 0.01 sqrt(2
  // / 256).
  EXPECT_NEAR(square / 256, 0.01, 5 * 0.01 * 0.0884);
  EXPECT_TRUE(
      std::ranges::equal(a.at("labels").values<int32_t>(), b.at("labels").values<int32_t>()));
}

}  // namespace
}  // namespace tessera
