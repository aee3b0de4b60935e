// The level of the log during a test.
#pragma once

#include "base/log.h"

namespace tessera {

/// Lines below `level` are dropped while it exists. Then the level is the usual one, also when the
/// test has failed.
class LogLevelScope {
 public:
  explicit LogLevelScope(LogLevel level) { set_log_level(level); }
  ~LogLevelScope() { set_log_level(LogLevel::kInfo); }
  LogLevelScope(const LogLevelScope&) = delete;
  LogLevelScope& operator=(const LogLevelScope&) = delete;
};

}  // namespace tessera
