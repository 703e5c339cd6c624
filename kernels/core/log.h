#pragma once

#include <cstdint>
#include <string_view>

namespace troupe {

/// Most important first.
enum class LogLevel : std::uint8_t { error, warning, info, debug };

/// Writes one line to stderr, "HH:MM:SS level text", if `level` is at least as
/// important as the level set. Thread: any.
void log_message(LogLevel level, std::string_view text);

/// Shows messages from `error` to `level`. The default is `warning`.
/// Thread: any.
void set_log_level(LogLevel level) noexcept;
[[nodiscard]] LogLevel log_level() noexcept;

}  // namespace troupe
