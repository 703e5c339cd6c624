#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace troupe {

/// What kind of thing went wrong. Each code has a sentence (`describe`) and
/// the exit code of the command line (`exit_code`).
enum class Errc : std::uint8_t {
  internal = 1,      ///< our bug
  invalid_argument,  ///< the user asked for something impossible
  shape_mismatch,    ///< tensors that do not fit together
  not_found,         ///< a file or name does not exist
  corrupt_file,      ///< a file that breaks its own format
  io,                ///< the operating system refused to read or write
  out_of_memory,     ///< the host has too little memory
  device_lost,       ///< a device that can do no more work
  unsupported,       ///< valid, but this build or machine cannot do it
  non_finite,        ///< NaN or infinity where numbers were expected
  job_failed,        ///< a job could not be completed
  items_failed,      ///< some items of a job failed, the others are done
  unreachable,       ///< a peer does not answer
  mismatch,          ///< verification found different bytes
  interrupted,       ///< Ctrl-C
  terminated,        ///< SIGTERM: the same command can go on later
  no_space,          ///< a disk or a quota is full
  another_class,     ///< another execution class: bytes cannot be compared
  device_full,       ///< a GPU has too little memory
  cancelled,         ///< `troupe cancel` ended the job
};

/// One sentence, without a full stop.
[[nodiscard]] std::string_view describe(Errc code) noexcept;

/// Stable snake_case name, as it stands in JSON (`error.code`).
[[nodiscard]] std::string_view to_string(Errc code) noexcept;

/// Exit code of the process: 1 bug, 2 bad input, 3 job failed, 4 unreachable,
/// 5 mismatch, 6 corrupt file, 7 some items failed, 8 another execution class,
/// 9 cancelled, 75 SIGTERM, 130 Ctrl-C.
[[nodiscard]] int exit_code(Errc code) noexcept;

/// The one exception type. what() is "[place] what is wrong: got X, expected
/// Y"; `hint` says what to do and may be empty. Every folder throws it; an
/// actor converts it once.
class Error : public std::runtime_error {
 public:
  Error(Errc code, std::string_view place, std::string_view message,
        std::string_view hint = {});

  [[nodiscard]] Errc code() const noexcept { return code_; }
  [[nodiscard]] const std::string& place() const noexcept { return place_; }
  [[nodiscard]] const std::string& hint() const noexcept { return hint_; }
  /// what() without the place.
  [[nodiscard]] std::string message() const;

 private:
  Errc code_;
  std::string place_;
  std::string hint_;
};

/// Throws Error{code, place, message, hint} unless `condition`. The message is
/// built in any case: where that costs time, use `if` and throw.
inline void require(bool condition, Errc code, std::string_view place,
                    std::string_view message, std::string_view hint = {}) {
  if (!condition) {
    throw Error(code, place, message, hint);
  }
}

}  // namespace troupe
