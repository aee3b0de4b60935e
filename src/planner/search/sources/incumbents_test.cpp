#include "planner/search/sources/incumbents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/error.h"
#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/search/find_plan.h"

namespace tessera {
namespace {

using error_testing::message_of;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Constraints, StagesMayHaveUnlikeNumbersOfRanksAndTheirDegreesNot) {
  EXPECT_EQ(constraints_of(6, false, "pp=5").degrees.at("pp"), 5);
  EXPECT_EQ(constraints_of(6, false, "pp=2,tp=2").degrees.at("tp"), 2);
  EXPECT_THAT(message_of([] { constraints_of(6, false, "tp=4"); }),
              HasSubstr("does not divide it"));
  EXPECT_THAT(message_of([] { constraints_of(6, false, "pp=4,tp=2"); }),
              HasSubstr("the fixed degrees make 8, which is more"));
}

TEST(RankCounts, AreAllUpToEightAndDivisorsAbove) {
  EXPECT_THAT(rank_counts(constraints_of(6, true)), ElementsAre(6, 5, 4, 3, 2));
  EXPECT_THAT(rank_counts(constraints_of(12, true)), ElementsAre(12, 6, 4, 3, 2));
  EXPECT_THAT(rank_counts(constraints_of(12, false)), ElementsAre(12));
  EXPECT_TRUE(rank_counts(constraints_of(1, true)).empty());
}

}  // namespace
}  // namespace tessera
