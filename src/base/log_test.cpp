#include "base/log.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Log, LinesBelowTheLevelAreDropped) {
  testing::internal::CaptureStderr();
  log(LogLevel::kDebug, "not said");
  log_info("step {} of 3");  // braces are letters
  set_log_level(LogLevel::kError);
  log_warning("not said");
  log(LogLevel::kError, "broken");
  set_log_level(LogLevel::kInfo);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "info: step {} of 3\nerror: broken\n");
}

}  // namespace
}  // namespace tessera
