#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

/// Names of files that are being written, and what becomes of them when their
/// writer was killed. Thread: any.
namespace troupe {

/// A process, told apart from every other that had its number.
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
/// dead: before the last boot, or without a process of its number and start
/// time. A file of another host stays, and so does one that a living process
/// has locked (it may run in a container and have another number there).
/// Returns how many were removed; never throws for what it may not remove.
std::size_t sweep_temporaries(const std::filesystem::path& folder);

}  // namespace troupe
