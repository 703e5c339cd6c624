#include "kernels/core/system/cgroups.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace troupe {
namespace {

namespace fs = std::filesystem;

/// A hierarchy of groups, as it is mounted.
struct Mount {
  fs::path point;
  std::string top = "/";  ///< the group that the mount shows as its root
};

bool contains(std::string_view list, std::string_view word) {
  const auto within = [](std::string_view text) {
    return std::string(",").append(text).append(",");
  };
  return within(list).find(within(word)) != std::string::npos;
}

/// Blanks and the like are written as \040.
std::string unescape(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string octal = text.substr(i, 4);
    const bool is_escape =
        octal.size() == 4 && octal[0] == '\\' &&
        octal.find_first_not_of("01234567", 1) == std::string::npos;
    plain += is_escape
                 ? static_cast<char>(std::stoi(octal.substr(1), nullptr, 8))
                 : text[i];
    i += is_escape ? 3 : 0;
  }
  return plain;
}

/// "31 23 0:28 /top /point rw … - cgroup cgroup rw,memory": mounts of this
/// version, of version 1 with this controller.
std::vector<Mount> mounts_of(const fs::path& root, CgroupVersion version,
                             std::string_view controller) {
  std::ifstream stream(root / "proc/self/mountinfo");
  std::vector<Mount> mounts;
  for (std::string line; std::getline(stream, line);) {
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) {
      continue;
    }
    std::string skipped;
    std::string top;
    std::string point;
    std::string type;
    std::string options;
    std::istringstream(line) >> skipped >> skipped >> skipped >> top >> point;
    std::istringstream(line.substr(dash + 3)) >> type >> skipped >> options;
    const bool is_wanted =
        version == CgroupVersion::two
            ? type == "cgroup2"
            : type == "cgroup" && contains(options, controller);
    if (is_wanted) {
      mounts.push_back(
          {root / fs::path(unescape(point)).relative_path(), unescape(top)});
    }
  }
  return mounts;
}

std::vector<Mount> usual_mounts(const fs::path& root, CgroupVersion version,
                                std::string_view controllers,
                                std::string_view controller) {
  const fs::path base = root / "sys/fs/cgroup";
  if (version == CgroupVersion::two) {
    return {{base}};
  }
  std::error_code error;
  const fs::path joint = base / controllers;  // "cpu,cpuacct"
  return {{fs::is_directory(joint, error) ? joint : base / controller}};
}

/// `group` as seen from the mount's root: a container's process may be told
/// the group's name on the host, or that it lies outside ("/../name").
fs::path relative_group(const std::string& group, const std::string& top) {
  if (group.starts_with("/..")) {
    return {};
  }
  const bool is_below =
      top != "/" && group.starts_with(top) &&
      (group.size() == top.size() || group[top.size()] == '/');
  return fs::path(is_below ? group.substr(top.size()) : group).relative_path();
}

void add_groups(const Mount& mount, const std::string& group,
                CgroupVersion version, std::vector<Cgroup>& groups) {
  fs::path relative = relative_group(group, mount.top);
  for (;;) {
    std::error_code error;
    const fs::path folder =
        relative.empty() ? mount.point : mount.point / relative;
    if (fs::is_directory(folder, error)) {
      groups.push_back({folder, version});
    }
    if (relative.empty()) {
      return;
    }
    relative = relative.parent_path();
  }
}

}  // namespace

std::vector<Cgroup> cgroups_of(const fs::path& root,
                               std::string_view controller) {
  std::ifstream stream(root / "proc/self/cgroup");
  std::vector<Cgroup> groups;
  for (std::string line; std::getline(stream, line);) {
    // "0::/path" in version 2, "7:memory:/path" in version 1.
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string names = line.substr(first + 1, second - first - 1);
    if (!names.empty() && !contains(names, controller)) {
      continue;
    }
    const auto version =
        names.empty() ? CgroupVersion::two : CgroupVersion::one;
    std::vector<Mount> mounts = mounts_of(root, version, controller);
    if (mounts.empty()) {
      mounts = usual_mounts(root, version, names, controller);
    }
    for (const Mount& mount : mounts) {
      add_groups(mount, line.substr(second + 1), version, groups);
    }
  }
  return groups;
}

}  // namespace troupe
