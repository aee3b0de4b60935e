#include "training/checkpoint/truncate_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(FirstOf, CountsWhatItLeavesOut) {
  EXPECT_THAT(truncate_list({"a", "b", "c", "d"}, 2), ElementsAre("a", "b", "and 2 more"));
  EXPECT_THAT(truncate_list({"a", "b", "c"}, 2), ElementsAre("a", "b", "c"));
  EXPECT_THAT(truncate_list({"a"}, 2), ElementsAre("a"));
  EXPECT_THAT(truncate_list({}, 2), IsEmpty());
}

}  // namespace
}  // namespace tessera
