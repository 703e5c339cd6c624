#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

/// The control groups (containers, Slurm jobs, systemd's units) that bind this
/// process. `root` stands for "/", as in `system.h`. Thread: any.
namespace troupe {

enum class CgroupVersion : std::uint8_t { one, two };

struct Cgroup {
  std::filesystem::path folder;  ///< of its files, within `root`
  CgroupVersion version = CgroupVersion::two;
};

/// The groups of this process under `controller` ("memory", "cpu") in version
/// 1, and in version 2: innermost first, as far up as they can be seen. Mount
/// points are read from /proc/self/mountinfo; where that names none, the usual
/// folders of /sys/fs/cgroup are tried. Folders that do not exist are left out.
/// Source: cgroups(7), proc(5).
[[nodiscard]] std::vector<Cgroup> cgroups_of(const std::filesystem::path& root,
                                             std::string_view controller);

}  // namespace troupe
