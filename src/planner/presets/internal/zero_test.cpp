#include "planner/presets/internal/zero.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr SizedAxis kFour{"dp", 4};

TEST(DividedFurther, TakesTheDimWhosePartsAreSmallest) {
  // 6 rows in four parts are 2, a third; 8 columns are 2, a quarter.
  EXPECT_THAT(divided_further({6, 8}, {{}, {}}, {1, 1}, kFour),
              ElementsAre(IsEmpty(), ElementsAre("dp")));
}

TEST(DividedFurther, OfEqualOnesTakesTheDimThatNothingDivides) {
  EXPECT_THAT(divided_further({16, 8}, {{"tp"}, {}}, {2, 1}, kFour),
              ElementsAre(ElementsAre("tp"), ElementsAre("dp")));
  EXPECT_THAT(divided_further({8, 8}, {{}, {}}, {1, 1}, kFour),
              ElementsAre(ElementsAre("dp"), IsEmpty()));
}

TEST(DividedFurther, DividesAPartWhenThereIsNoOtherDim) {
  EXPECT_THAT(divided_further({16}, {{"tp"}}, {2}, kFour), ElementsAre(ElementsAre("tp", "dp")));
}

TEST(DividedFurther, LeavesSmallTensorsWhole) {
  EXPECT_THAT(divided_further({3}, {{}}, {1}, kFour), ElementsAre(IsEmpty()));
  EXPECT_THAT(divided_further({8}, {{"tp"}}, {4}, kFour), ElementsAre(ElementsAre("tp")));
  EXPECT_THAT(divided_further({}, {}, {}, kFour), IsEmpty());
}

}  // namespace
}  // namespace tessera
