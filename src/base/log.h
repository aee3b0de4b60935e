// Log lines on standard error. spdlog stays in log.cpp, since its header is slow to compile.
#pragma once

#include <string_view>

namespace tessera {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

void log(LogLevel level, std::string_view message);
inline void log_info(std::string_view message) {
  log(LogLevel::kInfo, message);
}
inline void log_warning(std::string_view message) {
  log(LogLevel::kWarning, message);
}

/// Lines below `level` are dropped. The default is info.
void set_log_level(LogLevel level);

}  // namespace tessera
