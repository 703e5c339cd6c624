#include <array>
#include <cerrno>

#include "kernels/core/system/exit_codes.h"

namespace troupe {
namespace {

struct Entry {
  Errc code;
  int exit_code;
  bool is_retryable;
  std::string_view name;
  std::string_view sentence;
};

constexpr std::array kEntries = {
    Entry{Errc::internal, 1, false, "internal", "this is a bug in troupe"},
    Entry{Errc::invalid_argument, 2, false, "invalid_argument",
          "the request cannot be carried out as written"},
    Entry{Errc::shape_mismatch, 2, false, "shape_mismatch",
          "tensor shapes do not fit together"},
    Entry{Errc::not_found, 2, false, "not_found",
          "something named is not there"},
    Entry{Errc::corrupt_file, 6, false, "corrupt_file",
          "a file breaks the rules of its format"},
    Entry{Errc::io, 2, false, "io",
          "the operating system refused a file operation"},
    // Room can be made while the command waits for its next try. A file-size
    // limit (EFBIG) stays where it is: that is io.
    Entry{Errc::no_space, 3, true, "no_space", "the disk or the quota is full"},
    Entry{Errc::out_of_memory, 2, true, "out_of_memory",
          "more memory is needed than there is"},
    // A job goes on with fewer rows at once, or on another device. Where the
    // host has too little memory it ends.
    Entry{Errc::device_full, 2, true, "device_full",
          "more memory of a device is needed than there is"},
    Entry{Errc::device_lost, 3, true, "device_lost",
          "a device failed and can do no more work"},
    Entry{Errc::unsupported, 2, false, "unsupported",
          "this build or machine cannot do that"},
    Entry{Errc::non_finite, 3, false, "non_finite",
          "NaN or infinity where numbers were expected"},
    Entry{Errc::job_failed, 3, false, "job_failed",
          "the job could not be completed"},
    Entry{Errc::items_failed, 7, false, "items_failed",
          "some items failed, the rest is complete"},
    Entry{Errc::unreachable, 4, true, "unreachable", "a peer does not answer"},
    Entry{Errc::mismatch, 5, false, "mismatch",
          "verification found other bytes"},
    // The next try on this machine would find the same.
    Entry{Errc::another_class, 8, false, "another_class",
          "another execution class: bytes cannot be compared"},
    // Who cancels a job does not want the next try.
    Entry{Errc::cancelled, 9, false, "cancelled",
          "troupe cancel ended the job"},
    Entry{Errc::interrupted, 130, true, "interrupted", "stopped by Ctrl-C"},
    Entry{Errc::terminated, 75, true, "terminated",
          "stopped by SIGTERM, SIGUSR1 or the terminal's end"},
};

constexpr auto kCodes = [] {
  std::array<Errc, kEntries.size()> codes{};
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = kEntries[i].code;
  }
  return codes;
}();

constexpr std::array kExitCodes = {
    ExitCode{0, "done", "nothing is left to do"},
    ExitCode{1, "a bug in troupe", "report it with the command"},
    ExitCode{2, "the command, its input or this machine does not allow it",
             "change what the message names; what was finished is kept"},
    ExitCode{3, "the job failed",
             "read the message; finished images are kept, and the same "
             "command with --exists skip goes on"},
    ExitCode{4, "the cluster or a peer does not answer",
             "try again when it is reachable"},
    ExitCode{5, "verify found other bytes", "make the file again"},
    ExitCode{6, "a file is corrupt: it breaks the rules of its format",
             "get or make the file again"},
    ExitCode{7, "some images failed or were cancelled, the rest is complete",
             "read the messages of those that failed"},
    ExitCode{8, "another execution class: bytes cannot be compared",
             "run it where the image was made: same processor family, build "
             "and dtype"},
    ExitCode{9, "the job was cancelled by troupe cancel",
             "finished images are kept; the same command with --exists skip "
             "makes the rest"},
    ExitCode{75, "stopped by SIGTERM, SIGUSR1 or the terminal's end",
             "the same command with --exists skip goes on"},
    ExitCode{130, "stopped by Ctrl-C (SIGINT)",
             "the same command with --exists skip goes on"},
};

const Entry& entry_of(Errc code) noexcept {
  for (const Entry& entry : kEntries) {
    if (entry.code == code) {
      return entry;
    }
  }
  return kEntries.front();
}

std::string compose(std::string_view place, std::string_view message) {
  std::string text;
  text.reserve(place.size() + message.size() + 3);
  return text.append("[").append(place).append("] ").append(message);
}

}  // namespace

std::string_view describe(Errc code) noexcept {
  return entry_of(code).sentence;
}

std::string_view to_string(Errc code) noexcept { return entry_of(code).name; }

int exit_code(Errc code) noexcept { return entry_of(code).exit_code; }

bool is_retryable(Errc code) noexcept { return entry_of(code).is_retryable; }

std::span<const Errc> all_error_codes() noexcept { return kCodes; }

std::span<const ExitCode> exit_codes() noexcept { return kExitCodes; }

Errc file_error(int reason) noexcept {
  return reason == ENOSPC || reason == EDQUOT ? Errc::no_space : Errc::io;
}

Error::Error(Errc code, std::string_view place, std::string_view message,
             std::string_view hint)
    : std::runtime_error(compose(place, message)),
      code_(code),
      place_(place),
      hint_(hint) {}

std::string Error::message() const {
  // what() begins with "[place] ".
  return std::string(what()).substr(place_.size() + 3);
}

}  // namespace troupe
