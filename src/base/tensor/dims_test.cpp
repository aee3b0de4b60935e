#include "base/tensor/dims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

TEST(Dims, HoldExtentsInOrder) {
  Dims dims{4, 0, 7};
  dims.push_back(2);
  EXPECT_EQ(dims.size(), 4);
  EXPECT_THAT(std::vector<int64_t>(dims.begin(), dims.end()), ElementsAre(4, 0, 7, 2));
  dims[1] = 5;
  EXPECT_EQ(dims[1], 5);
  EXPECT_TRUE(Dims().empty());
  EXPECT_FALSE(dims.empty());
}

TEST(Dims, AreFilledWithOneValue) {
  EXPECT_EQ(Dims::filled(3, 9), (Dims{9, 9, 9}));
  EXPECT_EQ(Dims::filled(0, 9), Dims());
}

TEST(Dims, AreEqualWhenTheirExtentsAre) {
  EXPECT_EQ((Dims{1, 2}), (Dims{1, 2}));
  EXPECT_NE((Dims{1, 2}), (Dims{2, 1}));
  EXPECT_NE((Dims{1, 2}), (Dims{1, 2, 0}));
  EXPECT_NE((Dims{1}), (Dims{1, 1}));
}

TEST(Dims, AtMostEightFit) {
  Dims dims = Dims::filled(8, 1);
  EXPECT_THAT([&] { dims.push_back(1); },
              ThrowsMessage<InternalError>("internal error: a tensor has at most 8 dims"));
  EXPECT_THROW(Dims::filled(9, 1), InternalError);
}

TEST(Dims, CountElements) {
  EXPECT_EQ(element_count({2, 3, 4}), 24);
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({5, 0, 7}), 0);
  EXPECT_EQ(element_count({1 << 20, 1 << 20}), int64_t{1} << 40);
}

TEST(Dims, StridesAreRowMajor) {
  EXPECT_EQ(row_major_strides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(row_major_strides({7}), (Dims{1}));
  EXPECT_EQ(row_major_strides({}), Dims());
}

TEST(Dims, HaveAText) {
  EXPECT_EQ(to_text(Dims{8, 16}), "8,16");
  EXPECT_EQ(to_text(Dims{8}), "8");
  EXPECT_EQ(to_text(Dims()), "");
}

}  // namespace
}  // namespace tessera
