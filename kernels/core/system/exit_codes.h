#pragma once

#include <span>
#include <string_view>

#include "kernels/core/error.h"

namespace troupe {

/// Whether the same command may succeed later without a change
/// (`error.retryable` in JSON).
[[nodiscard]] bool is_retryable(Errc code) noexcept;

/// Every value of Errc. (Success has none.)
[[nodiscard]] std::span<const Errc> all_error_codes() noexcept;

/// An exit code of the process and what it means.
struct ExitCode {
  int number;
  std::string_view meaning;  ///< without a full stop
  std::string_view advice;   ///< what to do; a sentence without a full stop
};

/// 0 done, 1 bug, 2 bad input, 3 job failed, 4 unreachable, 5 mismatch,
/// 6 corrupt file, 7 some items failed or were cancelled, 8 another execution
/// class, 9 the job was cancelled, 75 SIGTERM, 130 Ctrl-C.
[[nodiscard]] std::span<const ExitCode> exit_codes() noexcept;

/// The code for `reason`, the errno of a file operation: Errc::no_space for a
/// full disk or quota, else Errc::io.
[[nodiscard]] Errc file_error(int reason) noexcept;

}  // namespace troupe
