#include "kernels/core/error.h"

#include <array>

namespace troupe {
namespace {

struct Entry {
  Errc code;
  int exit_code;
  std::string_view name;
  std::string_view sentence;
};

constexpr std::array kEntries = {
    Entry{Errc::internal, 1, "internal", "this is a bug in troupe"},
    Entry{Errc::invalid_argument, 2, "invalid_argument",
          "the request cannot be carried out as written"},
    Entry{Errc::shape_mismatch, 2, "shape_mismatch",
          "tensor shapes do not fit together"},
    Entry{Errc::not_found, 2, "not_found", "something named is not there"},
    Entry{Errc::corrupt_file, 6, "corrupt_file",
          "a file breaks the rules of its format"},
    Entry{Errc::io, 2, "io", "the operating system refused a file operation"},
    Entry{Errc::out_of_memory, 2, "out_of_memory",
          "more memory is needed than there is"},
    Entry{Errc::device_lost, 3, "device_lost",
          "a device failed and can do no more work"},
    Entry{Errc::unsupported, 2, "unsupported",
          "this build or machine cannot do that"},
    Entry{Errc::non_finite, 3, "non_finite",
          "NaN or infinity where numbers were expected"},
    Entry{Errc::job_failed, 3, "job_failed", "the job could not be completed"},
    Entry{Errc::items_failed, 7, "items_failed",
          "some items failed, the rest is complete"},
    Entry{Errc::unreachable, 4, "unreachable", "a peer does not answer"},
    Entry{Errc::mismatch, 5, "mismatch", "verification found other bytes"},
    Entry{Errc::interrupted, 130, "interrupted", "stopped by Ctrl-C"},
    Entry{Errc::terminated, 75, "terminated", "stopped by SIGTERM"},
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
