#include "base/tensor/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tessera {
namespace {

/// Every coordinate of a mesh, the last axis fastest.
std::vector<Coordinate> coordinates_of(const Dims& mesh) {
  std::vector<Coordinate> all;
  for (int64_t index = 0; index < element_count(mesh); ++index) {
    Coordinate coordinate;
    const Dims strides = row_major_strides(mesh);
    for (int axis = 0; axis < mesh.size(); ++axis)
      coordinate.push_back(index / strides[axis] % mesh[axis]);
    all.push_back(coordinate);
  }
  return all;
}

TEST(BalancedPart, TheFirstPartsAreOneLarger) {
  // 10 = 3 + 3 + 2 + 2
  EXPECT_EQ(balanced_part(10, 4, 0), (Range{0, 3}));
  EXPECT_EQ(balanced_part(10, 4, 1), (Range{3, 6}));
  EXPECT_EQ(balanced_part(10, 4, 2), (Range{6, 8}));
  EXPECT_EQ(balanced_part(10, 4, 3), (Range{8, 10}));
}

TEST(BalancedPart, PartsMayBeEmpty) {
  EXPECT_EQ(balanced_part(2, 4, 1), (Range{1, 2}));
  EXPECT_EQ(balanced_part(2, 4, 2), (Range{2, 2}));
  EXPECT_EQ(balanced_part(2, 4, 3), (Range{2, 2}));
  EXPECT_EQ(balanced_part(0, 3, 1), (Range{0, 0}));
}

TEST(BalancedPart, PartsTileTheExtentAndDifferByAtMostOne) {
  for (int64_t extent = 0; extent <= 50; ++extent)
    for (int64_t parts = 1; parts <= 17; ++parts) {
      int64_t end = 0;
      for (int64_t index = 0; index < parts; ++index) {
        const Range part = balanced_part(extent, parts, index);
        ASSERT_EQ(part.begin, end);
        ASSERT_EQ(part.size(),
                  (extent + parts - 1 - index) / parts);  // ceil((extent - index) / parts)
        end = part.end;
      }
      ASSERT_EQ(end, extent);
    }
}

TEST(BalancedPart, ServesExtentsNearTheLargest) {
  const int64_t extent = (int64_t{1} << 62) + 5;
  EXPECT_EQ(balanced_part(extent, 8, 7).end, extent);
  EXPECT_EQ(balanced_part(extent, 8, 0).size(), (int64_t{1} << 59) + 1);
}

TEST(BalancedPart, RefusesAPartThatIsNotThere) {
  EXPECT_THROW(balanced_part(10, 0, 0), InternalError);
  EXPECT_THROW(balanced_part(10, 4, 4), InternalError);
  EXPECT_THROW(balanced_part(10, 4, -1), InternalError);
}

/// One element after the other goes to the part that is then the fastest: for which (size + 1) /
/// weight is the least, the first of equal ones.
std::vector<int64_t> sizes_one_by_one(int64_t extent, const std::vector<int64_t>& weights) {
  std::vector<int64_t> sizes(weights.size(), 0);
  for (int64_t element = 0; element < extent; ++element) {
    size_t best = 0;
    for (size_t i = 1; i < weights.size(); ++i)
      if ((sizes[i] + 1) * weights[best] < (sizes[best] + 1) * weights[i]) best = i;
    ++sizes[best];
  }
  return sizes;
}

std::vector<int64_t> sizes_of(int64_t extent, const std::vector<int64_t>& weights) {
  std::vector<int64_t> sizes;
  int64_t end = 0;
  for (int64_t index = 0; index < std::ssize(weights); ++index) {
    const Range part = weighted_part(extent, weights, index);
    EXPECT_EQ(part.begin, end);
    end = part.end;
    sizes.push_back(part.size());
  }
  EXPECT_EQ(end, extent);
  return sizes;
}

TEST(WeightedPart, PartsAreInProportionToTheirWeights) {
  using Sizes = std::vector<int64_t>;
  struct Case {
    int64_t extent;
    Sizes weights, sizes;
  };
  const std::vector<Case> cases{
      {12, {2, 1}, {8, 4}},              // exactly 2:1
      {8, {2, 1}, {6, 2}},               // 6/2 = 3 as long as 5:3, whose second part takes 3/1
      {10, {2, 1}, {7, 3}},              // the seventh element: (6+1)/2 < (3+1)/1
      {10, {1, 2}, {3, 7}},              // the heaviest part need not be the first
      {1, {1, 3}, {0, 1}},               // parts may be empty
      {0, {2, 1}, {0, 0}},               //
      {4, {21, 20}, {2, 2}},             // nearly equal weights divide a short extent evenly
      {7, {3, 1, 1}, {5, 1, 1}},         //
      {10, {1, 1, 1, 1}, {3, 3, 2, 2}},  // balanced_part
  };
  for (const Case& c : cases) {
    EXPECT_EQ(sizes_of(c.extent, c.weights), c.sizes) << c.extent;
    EXPECT_EQ(sizes_one_by_one(c.extent, c.weights), c.sizes) << c.extent;
  }
}

TEST(WeightedPart, IsTheDivisionThatGoesElementByElement) {
  std::mt19937_64 random(4);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<int64_t> weights;
    for (uint64_t parts = 1 + random() % 6; parts > 0; --parts)
      weights.push_back(1 + static_cast<int64_t>(random() % (trial % 2 ? 4 : 90)));
    for (int64_t extent = 0; extent < 120; extent += 1 + static_cast<int64_t>(random() % 3))
      ASSERT_EQ(sizes_of(extent, weights), sizes_one_by_one(extent, weights));
  }
}

TEST(WeightedPart, OfEqualWeightsIsBalanced) {
  for (int64_t extent = 0; extent <= 40; ++extent)
    for (int64_t parts = 1; parts <= 7; ++parts)
      for (int64_t index = 0; index < parts; ++index)
        for (int64_t weight : {1, 5})
          ASSERT_EQ(weighted_part(extent, std::vector(static_cast<size_t>(parts), weight), index),
                    balanced_part(extent, parts, index));
}

TEST(WeightedPart, NoPartShrinksWhenTheExtentGrows) {
  const std::vector<int64_t> weights{5, 2, 9, 1};
  for (int64_t extent = 0; extent < 100; ++extent) {
    const auto sizes = sizes_of(extent, weights), longer = sizes_of(extent + 1, weights);
    for (size_t i = 0; i < sizes.size(); ++i) ASSERT_LE(sizes[i], longer[i]);
  }
}

TEST(WeightedPart, ServesExtentsNearTheLargest) {
  const int64_t extent = (int64_t{1} << 62) + 5;
  const std::vector<int64_t> weights{kMaxPartWeight, 1, kMaxPartWeight};
  EXPECT_EQ(weighted_part(extent, weights, 2).end, extent);
  EXPECT_LE(weighted_part(extent, weights, 1).size(), extent / (2 * kMaxPartWeight));
}

TEST(WeightedPart, RefusesAWeightThatIsNoSpeed) {
  EXPECT_THROW(weighted_part(10, std::vector<int64_t>{1, 0}, 0), InternalError);
  EXPECT_THROW(weighted_part(10, std::vector<int64_t>{1, kMaxPartWeight + 1}, 0), InternalError);
  EXPECT_THROW(weighted_part(10, std::vector<int64_t>{2, 1}, 2), InternalError);
}

TEST(Split, WithoutAxesEveryRankHoldsAll) {
  const Split split{.extent = 6, .unit = 4, .axes = {}};
  EXPECT_EQ(split.range_at({}), (Range{0, 24}));
  EXPECT_EQ(split.range_at({3, 1}), (Range{0, 24}));
  EXPECT_EQ(split.largest(), 24);
}

TEST(Split, ALaterAxisDividesThePartOfAnEarlierOne) {
  // 10 over axis 1 in four parts: 3 3 2 2. Each of these over axis 0 in two parts: 2 1, 2 1, 1 1, 1
  // 1.
  const Split split{.extent = 10, .unit = 1, .axes = {{1, 4}, {0, 2}}};
  EXPECT_EQ(split.range_at({0, 0}), (Range{0, 2}));
  EXPECT_EQ(split.range_at({1, 0}), (Range{2, 3}));
  EXPECT_EQ(split.range_at({0, 1}), (Range{3, 5}));
  EXPECT_EQ(split.range_at({1, 1}), (Range{5, 6}));
  EXPECT_EQ(split.range_at({0, 2}), (Range{6, 7}));
  EXPECT_EQ(split.range_at({1, 3}), (Range{9, 10}));
  EXPECT_EQ(split.largest(), 2);
}

TEST(Split, AUnitIsNeverCut) {
  // Three heads of 64 elements over two ranks: two heads and one.
  const Split split{.extent = 3, .unit = 64, .axes = {{0, 2}}};
  EXPECT_EQ(split.range_at({0}), (Range{0, 128}));
  EXPECT_EQ(split.range_at({1}), (Range{128, 192}));
  EXPECT_EQ(split.largest(), 128);
}

TEST(Split, ThePartsTileTheExtentAndTheOriginHoldsTheLargest) {
  std::mt19937_64 random(1);
  const auto draw = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random() % static_cast<uint64_t>(to - from + 1));
  };
  for (int trial = 0; trial < 500; ++trial) {
    const Dims mesh{draw(1, 4), draw(1, 3), draw(1, 5)};
    const Split split{.extent = draw(0, 60),
                      .unit = draw(1, 4),
                      .axes = {{0, mesh[0]}, {1, mesh[1]}, {2, mesh[2]}}};
    int64_t end = 0, largest = 0;
    for (const Coordinate& coordinate :
         coordinates_of(mesh)) {  // in the order of the axes, so in the order of the parts
      const Range range = split.range_at(coordinate);
      ASSERT_EQ(range.begin, end);
      ASSERT_EQ(range.size() % split.unit, 0);
      end = range.end;
      largest = std::max(largest, range.size());
    }
    ASSERT_EQ(end, split.extent * split.unit);
    ASSERT_EQ(split.largest(), largest);
    ASSERT_EQ(split.range_at({0, 0, 0}).size(), largest);
  }
}

TEST(Split, PartsWithWeightsAreNestedAndKeepUnits) {
  // Six units of 4 over axis 0 of weights 1:2: 2 and 4 units. Each of these over axis 1 of weights
  // 3:1: 2 + 0 units, and 3 + 1.
  const Split split{.extent = 6, .unit = 4, .axes = {{0, 2, {1, 2}}, {1, 2, {3, 1}}}};
  EXPECT_EQ(split.range_at({0, 0}), (Range{0, 8}));
  EXPECT_EQ(split.range_at({0, 1}), (Range{8, 8}));
  EXPECT_EQ(split.range_at({1, 0}), (Range{8, 20}));
  EXPECT_EQ(split.range_at({1, 1}), (Range{20, 24}));
  EXPECT_EQ(split.largest(), 12);
}

TEST(Split, ChunksAreEachDividedByTheWeights) {
  // q, k and v of six rows: each 4 and 2.
  const Split split{.extent = 6, .unit = 1, .axes = {{0, 2, {2, 1}}}, .windows = {}, .chunks = 3};
  EXPECT_THAT(split.ranges_at({0}), testing::ElementsAre(Range{0, 4}, Range{6, 10}, Range{12, 16}));
  EXPECT_THAT(split.ranges_at({1}),
              testing::ElementsAre(Range{4, 6}, Range{10, 12}, Range{16, 18}));
  EXPECT_EQ(split.largest(), 12);
}

TEST(Split, TheHeaviestPartsAreTheLargest) {
  std::mt19937_64 random(5);
  const auto draw = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random() % static_cast<uint64_t>(to - from + 1));
  };
  for (int trial = 0; trial < 500; ++trial) {
    const Dims mesh{draw(1, 4), draw(1, 3), draw(1, 3)};
    Split split{.extent = draw(0, 80), .unit = draw(1, 3), .axes = {}};
    Coordinate heaviest;
    for (int axis = 0; axis < mesh.size(); ++axis) {
      split.axes.push_back({axis, mesh[axis]});
      std::vector<int64_t>& weights = split.axes.back().weights;
      for (int64_t i = 0; i < mesh[axis] && trial % 3 != axis; ++i) weights.push_back(draw(1, 7));
      heaviest.push_back(std::max_element(weights.begin(), weights.end()) - weights.begin());
    }
    int64_t end = 0, largest = 0;
    for (const Coordinate& coordinate : coordinates_of(mesh)) {
      const Range range = split.range_at(coordinate);
      ASSERT_EQ(range.begin, end);
      end = range.end;
      largest = std::max(largest, range.size());
    }
    ASSERT_EQ(end, split.extent * split.unit);
    ASSERT_EQ(split.largest(), largest);
    ASSERT_EQ(split.range_at(heaviest).size(), largest);
  }
}

TEST(Split, RefusesACoordinateOfAnotherMesh) {
  const Split split{.extent = 10, .unit = 1, .axes = {{1, 2}}};
  EXPECT_THROW(split.range_at({0}), InternalError);
  EXPECT_THROW(split.range_at({0, 2}), InternalError);
}

TEST(LocalInt, IsANumberOrTheBeginOrTheSizeOfASplit) {
  const Split split{.extent = 5, .unit = 2, .axes = {{0, 2}}};  // 6 elements and 4
  EXPECT_EQ(LocalInt(7).at({1}), 7);
  EXPECT_EQ(LocalInt().at({}), 0);
  EXPECT_EQ(LocalInt::begin_of(split).at({0}), 0);
  EXPECT_EQ(LocalInt::begin_of(split).at({1}), 6);
  EXPECT_EQ(LocalInt::size_of(split).at({0}), 6);
  EXPECT_EQ(LocalInt::size_of(split).at({1}), 4);
}

TEST(LocalInt, OfASplitWithoutAxesIsANumber) {
  const Split split{.extent = 5, .unit = 2, .axes = {}};
  EXPECT_EQ(LocalInt::begin_of(split), LocalInt(0));
  EXPECT_EQ(LocalInt::size_of(split), LocalInt(10));
}

TEST(LocalInt, AreEqualWhenTheyAreTheSameFunction) {
  const Split split{.extent = 5, .unit = 1, .axes = {{0, 2}}},
      other{.extent = 5, .unit = 1, .axes = {{1, 2}}};
  EXPECT_EQ(LocalInt::size_of(split), LocalInt::size_of(split));
  EXPECT_NE(LocalInt::size_of(split), LocalInt::size_of(other));
  EXPECT_NE(LocalInt::size_of(split), LocalInt::begin_of(split));
}

Box box(std::vector<Range> ranges) {
  return {std::move(ranges)};
}

TEST(Box, OfAWholeTensorStartsAtZero) {
  EXPECT_EQ(whole_box({4, 6}), box({{0, 4}, {0, 6}}));
  EXPECT_EQ(whole_box({4, 6}).shape(), (Shape{4, 6}));
  EXPECT_EQ(whole_box({}), box({}));
}

TEST(Box, IntersectionIsTheCommonPart) {
  EXPECT_EQ(intersect(box({{0, 4}, {6, 12}}), box({{2, 8}, {0, 9}})), box({{2, 4}, {6, 9}}));
  EXPECT_EQ(intersect(box({{0, 4}}), box({{0, 4}})), box({{0, 4}}));
  EXPECT_EQ(intersect(box({}), box({})), box({}));  // two scalars
}

TEST(Box, IsEmptyWhenAnyRangeIs) {
  EXPECT_FALSE(box({{0, 4}, {6, 12}}).empty());
  EXPECT_TRUE(box({{0, 4}, {6, 6}}).empty());
  EXPECT_FALSE(box({}).empty());  // a scalar
}

TEST(Box, BoxesThatAreApartHaveAnEmptyIntersection) {
  for (const Box& other : {box({{4, 8}}), box({{7, 9}})}) {
    const Box common = intersect(box({{0, 4}}), other);
    EXPECT_TRUE(common.empty());
    EXPECT_EQ(common.shape(), (Shape{0}));
    EXPECT_TRUE(intersect(other, box({{0, 4}})).empty());
  }
}

TEST(Box, IntersectionHoldsTheIndicesOfBoth) {
  std::mt19937_64 random(2);
  const auto draw = [&] { return static_cast<int64_t>(random() % 9); };
  for (int trial = 0; trial < 500; ++trial) {
    const Range a{draw(), draw()}, b{draw(), draw()};
    const Range common = intersect(box({a}), box({b})).ranges[0];
    for (int64_t i = 0; i < 9; ++i) {
      const auto holds = [i](const Range& range) { return range.begin <= i && i < range.end; };
      ASSERT_EQ(holds(common), holds(a) && holds(b));
    }
  }
}

TEST(Box, RefusesBoxesOfDifferentTensors) {
  EXPECT_THROW(intersect(box({{0, 4}}), box({{0, 4}, {0, 4}})), InternalError);
}

TEST(Box, HasAText) {
  EXPECT_EQ(to_text(box({{0, 4}, {6, 12}})), "[0:4, 6:12]");
  EXPECT_EQ(to_text(box({})), "[]");
}

}  // namespace
}  // namespace tessera
