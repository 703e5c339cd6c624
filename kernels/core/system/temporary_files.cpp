#include "kernels/core/system/temporary_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "kernels/core/hash.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = ".troupe-";
constexpr std::string_view kSuffix = ".tmp";

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string host_name() {
  constexpr std::size_t kMost = 40;
  std::array<char, 256> buffer{};
  if (::gethostname(buffer.data(), buffer.size() - 1) != 0) {
    return "unknown";
  }
  std::string name = buffer.data();
  if (name.size() > kMost) {
    const std::string hash = to_hex(xxh3_64(std::as_bytes(std::span(name))));
    name = name.substr(0, kMost - hash.size()) + hash;
  }
  std::ranges::replace_if(
      name,
      [](char c) {
        const bool is_plain = (c >= 'a' && c <= 'z') ||
                              (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '.' || c == '-';
        return !is_plain;
      },
      '_');
  return name;
}

std::string boot_identifier() {
  std::string text = first_line("/proc/sys/kernel/random/boot_id");
  std::erase(text, '-');
  return text.empty() ? "0" : text;
}

template <typename T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

/// The state of a process, as the system reports it.
struct ProcessState {
  char state = '?';
  std::uint64_t start = 0;  ///< 0: it does not say
};

/// From /proc/PID/stat: the second field is the program's name in brackets and
/// may hold anything; the state is the third, the start time the 22nd.
ProcessState state_of(const std::string& pid) {
  const std::string line = first_line("/proc/" + pid + "/stat");
  const std::size_t bracket = line.rfind(')');
  if (bracket == std::string::npos || bracket + 2 >= line.size()) {
    return {};
  }
  constexpr int kFieldsBetween = 19;
  const std::string_view rest = std::string_view(line).substr(bracket + 2);
  std::size_t at = 0;
  for (int field = 0; field < kFieldsBetween; ++field) {
    at = rest.find(' ', at);
    if (at == std::string_view::npos) {
      return {.state = rest.front()};
    }
    ++at;
  }
  const std::string_view start = rest.substr(at, rest.find(' ', at) - at);
  return {.state = rest.front(),
          .start = number_in<std::uint64_t>(start).value_or(0)};
}

bool is_alive(const ProcessStamp& process) {
  if (::kill(process.pid, 0) != 0 && errno == ESRCH) {
    return false;
  }
  const ProcessState now = state_of(std::to_string(process.pid));
  const bool has_ended = now.state == 'Z' || now.state == 'X';
  const bool is_another =
      now.start != 0 && process.start != 0 && now.start != process.start;
  return !has_ended && !is_another;
}

/// Cuts the last part off, which a '-' divides from the rest.
std::optional<std::string_view> take_last(std::string_view& text) {
  const std::size_t dash = text.rfind('-');
  if (dash == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view last = text.substr(dash + 1);
  text = text.substr(0, dash);
  return last;
}

/// The writer that a name speaks of, read from its end: a host's name may hold
/// a '-' itself.
std::optional<ProcessStamp> writer_in(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) ||
      name.size() <= kPrefix.size() + kSuffix.size()) {
    return std::nullopt;
  }
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  const auto number = take_last(name);
  const auto start = take_last(name);
  const auto pid = take_last(name);
  const auto boot = take_last(name);
  if (!boot || boot->empty() || name.empty()) {
    return std::nullopt;
  }
  const auto pid_number = number_in<pid_t>(*pid);
  const auto start_number = number_in<std::uint64_t>(*start);
  if (!number_in<std::uint64_t>(*number) || !pid_number || *pid_number <= 0 ||
      !start_number) {
    return std::nullopt;
  }
  return ProcessStamp{.host = std::string(name),
                      .boot = std::string(*boot),
                      .pid = *pid_number,
                      .start = *start_number};
}

/// Whether it was an ordinary file nobody holds, and is gone.
bool remove_unlocked(const fs::path& path) {
  const int descriptor =
      ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) {
    return false;
  }
  // A file system without locks refuses otherwise: there the name has to do.
  const bool is_held =
      ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const bool is_gone = !is_held && ::unlink(path.c_str()) == 0;
  ::close(descriptor);
  return is_gone;
}

}  // namespace

ProcessStamp this_process() {
  return {.host = host_name(),
          .boot = boot_identifier(),
          .pid = ::getpid(),
          .start = state_of("self").start};
}

std::string temporary_stem(const ProcessStamp& writer) {
  return std::string(kPrefix) + writer.host + "-" + writer.boot + "-" +
         std::to_string(writer.pid) + "-" + std::to_string(writer.start) + "-";
}

std::size_t sweep_temporaries(const fs::path& folder) {
  const ProcessStamp here = this_process();
  std::size_t count = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::optional<ProcessStamp> writer =
        writer_in(entry->path().filename().native());
    if (writer && writer->host == here.host &&
        (writer->boot != here.boot || !is_alive(*writer)) &&
        remove_unlocked(entry->path())) {
      ++count;
    }
  }
  return count;
}

}  // namespace troupe
