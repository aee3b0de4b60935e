#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "base/text/printable.h"

namespace tessera {
namespace {

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = std::make_shared<spdlog::logger>(
        "tessera", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%^%l%$: %v");
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void log(LogLevel level, std::string_view message) {
  logger().log(to_spdlog(level), "{}", printable(message));
}

void set_log_level(LogLevel level) {
  logger().set_level(to_spdlog(level));
}

}  // namespace tessera
