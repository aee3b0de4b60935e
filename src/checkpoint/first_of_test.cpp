#include "checkpoint/first_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(FirstOf, CountsWhatItLeavesOut) {
  EXPECT_THAT(first_of({"a", "b", "c", "d"}, 2), ElementsAre("a", "b", "and 2 more"));
  EXPECT_THAT(first_of({"a", "b", "c"}, 2), ElementsAre("a", "b", "c"));
  EXPECT_THAT(first_of({"a"}, 2), ElementsAre("a"));
  EXPECT_THAT(first_of({}, 2), IsEmpty());
}

}  // namespace
}  // namespace tessera
