#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

/// Names of files that are being written, and their removal after the writer
/// was killed. Thread: any.
namespace troupe {

/// Identifies a process, also among those that had the same number (pid).
struct ProcessStamp {
  std::string host;  ///< fit for a file name, at most 40 characters
  std::string boot;  ///< the system's boot identifier, 32 hex digits; or "0"
  pid_t pid = 0;
  std::uint64_t start = 0;  ///< clock ticks after the boot; 0: not known
};

[[nodiscard]] ProcessStamp this_process();

/// ".troupe-HOST-BOOT-PID-START-", what the names of temporary files of this
/// process begin with; a number and ".tmp" end them.
[[nodiscard]] std::string temporary_stem(const ProcessStamp& writer);

/// Removes temporary files in `folder` whose writer ran on this host and is
/// dead: it ran before the last boot, or no process has its number and start
/// time. Files of other hosts stay, and so do files that a living process has
/// locked (a writer in a container has another number there). Returns how many
/// were removed. Files that may not be removed are passed over.
std::size_t sweep_temporaries(const std::filesystem::path& folder);

}  // namespace troupe
