#include "kernels/core/system.h"

#include <sched.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "kernels/core/error.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> parse_number(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) {
    return std::nullopt;
  }
  text.remove_prefix(begin);
  std::uint64_t value = 0;
  const auto [end, status] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc{} ? std::optional(value) : std::nullopt;
}

// What follows `key` on the first line that starts with it.
std::optional<std::string> line_after(const fs::path& file,
                                      std::string_view key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(key)) {
      return line.substr(key.size());
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_after(const fs::path& file,
                                          std::string_view key) {
  const auto text = line_after(file, key);
  return text ? parse_number(*text) : std::nullopt;
}

// One level of the control group tree; names differ between versions 1 and 2.
struct CgroupNames {
  std::string_view mount, limit, usage, inactive;
};
constexpr CgroupNames kVersion2 = {"sys/fs/cgroup", "memory.max",
                                   "memory.current", "inactive_file "};
constexpr CgroupNames kVersion1 = {
    "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
    "total_inactive_file "};

std::optional<std::uint64_t> room_in(const fs::path& group,
                                     const CgroupNames& names) {
  const auto limit = number_after(group / names.limit, "");
  if (!limit) {  // not there, or the word "max"
    return std::nullopt;
  }
  const auto usage = number_after(group / names.usage, "").value_or(0);
  // Cached file pages that have not been touched lately are given back first.
  const auto cached =
      number_after(group / "memory.stat", names.inactive).value_or(0);
  const std::uint64_t held = usage - std::min(usage, cached);
  return *limit - std::min(*limit, held);
}

// The least room in this process's group and the groups above it. A container
// often sees its own group as the root of the mount.
std::optional<std::uint64_t> cgroup_room(const fs::path& root,
                                         const CgroupNames& names,
                                         std::string group) {
  const fs::path mount = root / names.mount;
  std::optional<std::uint64_t> least;
  for (;;) {
    const fs::path relative = fs::path(group).relative_path();
    if (const auto room = room_in(mount / relative, names)) {
      least = std::min(least.value_or(*room), *room);
    }
    if (relative.empty()) {
      return least;
    }
    group = fs::path(group).parent_path().string();
  }
}

std::optional<std::uint64_t> cgroup_room(const fs::path& root) {
  std::ifstream stream(root / "proc/self/cgroup");
  std::optional<std::uint64_t> least;
  for (std::string line; std::getline(stream, line);) {
    // "0::/path" in version 2, "7:memory:/path" in version 1.
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    std::string controllers = ",";
    controllers.append(line, first + 1, second - first - 1).append(",");
    const bool is_version1 = controllers.find(",memory,") != std::string::npos;
    if (!is_version1 && controllers != ",,") {
      continue;
    }
    const auto room = cgroup_room(root, is_version1 ? kVersion1 : kVersion2,
                                  line.substr(second + 1));
    if (room) {
      least = std::min(least.value_or(*room), *room);
    }
  }
  return least;
}

// Stacks of threads and heaps of malloc reserve address space that they hardly
// use.
constexpr std::uint64_t kReservedAddresses = std::uint64_t{1} << 30U;

std::optional<std::uint64_t> address_room(const fs::path& root) {
  // "unlimited" is no number.
  const auto limit =
      number_after(root / "proc/self/limits", "Max address space");
  if (!limit) {
    return std::nullopt;
  }
  const std::uint64_t used =
      number_after(root / "proc/self/status", "VmSize:").value_or(0) * 1024 +
      kReservedAddresses;
  return *limit - std::min(*limit, used);
}

#if defined(__x86_64__)
// Not every compiler's feature test knows AMX. The system must also save the
// tile registers.
bool has_amx_bf16() {
  constexpr unsigned kTileState = 3U << 17U;
  constexpr unsigned kAmxBf16 = 1U << 22U;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) {
    return false;
  }
  unsigned low = 0;
  unsigned high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kTileState) == kTileState &&
         __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAmxBf16) != 0;
}
#endif

}  // namespace

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 999.5 would need a fourth digit.
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  const int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f %s", decimals, value,
                kUnits[unit]);
  return text.data();
}

MemoryInfo memory_info(const fs::path& root) {
  const fs::path file = root / "proc/meminfo";
  const auto total = number_after(file, "MemTotal:");
  const auto available = number_after(file, "MemAvailable:");
  if (!total || !available) {
    throw Error(Errc::unsupported, "memory",
                "cannot read MemTotal and MemAvailable of " + file.string(),
                "mount /proc");
  }
  MemoryInfo info{*total * 1024, *available * 1024, false};
  const auto room = cgroup_room(root);
  if (room && *room < info.available_bytes) {
    info.available_bytes = *room;
    info.is_limited_by_cgroup = true;
  }
  if (const auto addresses = address_room(root)) {
    info.available_bytes = std::min(info.available_bytes, *addresses);
  }
  return info;
}

std::uint64_t peak_rss_bytes(const fs::path& root) {
  return number_after(root / "proc/self/status", "VmHWM:").value_or(0) * 1024;
}

int num_usable_cores() {
  // The kernel refuses a mask smaller than its own.
  for (std::size_t cores = 1024; cores <= (std::size_t{1} << 20U); cores *= 2) {
    std::vector<cpu_set_t> mask((cores + CPU_SETSIZE - 1) / CPU_SETSIZE);
    const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, mask.data()) == 0) {
      return std::max(1, CPU_COUNT_S(bytes, mask.data()));
    }
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::string cpu_model(const fs::path& root) {
  const auto text = line_after(root / "proc/cpuinfo", "model name");
  const auto colon = text ? text->find(": ") : std::string::npos;
  return colon == std::string::npos ? "unknown" : text->substr(colon + 2);
}

bool cpu_is_supported() noexcept {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") != 0 &&
         __builtin_cpu_supports("fma") != 0;
#else
  return false;
#endif
}

std::string cpu_features() {
  std::string text;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const auto add = [&](bool is_there, std::string_view name) {
    if (is_there) {
      text.append(text.empty() ? "" : " ").append(name);
    }
  };
  add(__builtin_cpu_supports("avx2") != 0, "avx2");
  add(__builtin_cpu_supports("fma") != 0, "fma");
  add(__builtin_cpu_supports("avx512f") != 0, "avx512f");
  add(__builtin_cpu_supports("avx512bf16") != 0, "avx512_bf16");
  add(has_amx_bf16(), "amx_bf16");
#endif
  return text;
}

}  // namespace troupe
