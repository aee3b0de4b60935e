#include "tools/launch/internal/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;

TEST(Launcher, AProgramBehindEnvIsNoVariable) {
  EXPECT_THAT(start_words("/opt/tessera"), ElementsAre("/opt/tessera"));
  EXPECT_THAT(start_words("/opt/a=b/tessera"),
              ElementsAre("sh", "-c", "exec \"$0\" \"$@\"", "/opt/a=b/tessera"));
}

}  // namespace
}  // namespace tessera
