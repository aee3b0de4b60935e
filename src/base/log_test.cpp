#include "base/log.h"

#include <gtest/gtest.h>

#include "base/testing/log_level.h"

namespace tessera {
namespace {

TEST(Log, LinesBelowTheLevelAreDropped) {
  testing::internal::CaptureStderr();
  log(LogLevel::kDebug, "not said");
  log_info("step {} of 3");  // braces are letters
  const LogLevelScope errors(LogLevel::kError);
  log_warning("not said");
  log(LogLevel::kError, "broken");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "info: step {} of 3\nerror: broken\n");
}

}  // namespace
}  // namespace tessera
