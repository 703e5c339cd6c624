#include "kernels/core/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>

#include "kernels/core/text.h"

namespace troupe {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::debug:
      return spdlog::level::debug;
  }
  return spdlog::level::err;
}

// The one logger. It is never in spdlog's registry, so nothing else can find
// or change it.
spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger made("troupe",
                        std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made.set_pattern("%H:%M:%S %l %v");
    made.set_level(spdlog::level::warn);
    made.flush_on(spdlog::level::debug);
    return made;
  }();
  return instance;
}

}  // namespace

void log_message(LogLevel level, std::string_view text) {
  constexpr std::size_t kLongestNote = 1900;
  const std::string line = printable(text, kLongestNote);
  logger().log(to_spdlog(level),
               spdlog::string_view_t(line.data(), line.size()));
}

void set_log_level(LogLevel level) noexcept {
  logger().set_level(to_spdlog(level));
}

LogLevel log_level() noexcept {
  switch (logger().level()) {
    case spdlog::level::debug:
      return LogLevel::debug;
    case spdlog::level::info:
      return LogLevel::info;
    case spdlog::level::warn:
      return LogLevel::warning;
    default:
      return LogLevel::error;
  }
}

}  // namespace troupe
