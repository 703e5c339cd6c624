#include "kernels/core/system/machine.h"

#include <malloc.h>
#include <sched.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/core/system/cgroups.h"

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

// The limits of one control group; names differ between versions 1 and 2.
struct CgroupNames {
  std::string_view limit, usage, inactive;
};
constexpr CgroupNames kMemoryMax = {"memory.max", "memory.current",
                                    "inactive_file "};
// Beyond it the kernel holds the process up until it hardly moves.
constexpr CgroupNames kMemoryHigh = {"memory.high", "memory.current",
                                     "inactive_file "};
constexpr CgroupNames kVersion1 = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};

// A limit of version 1 that nobody set: the largest number of whole pages.
constexpr std::uint64_t kUnset = std::uint64_t{1} << 62U;

// Memory that runs were charged beyond their forecast: 2.5 to 7.3 MiB with one
// to sixteen workers (stacks, the allocator's arenas, generated code, page
// tables). Measured as memory.max_usage_in_bytes less the forecast and less the
// charge at the time of the forecast. Pages of the program and its libraries do
// not count: the system drops and reads them again.
constexpr std::uint64_t kOwnCharge = std::uint64_t{15} << 19U;

void add_limit(const fs::path& group, const CgroupNames& names,
               std::vector<MemoryLimit>& limits) {
  const auto limit = number_after(group / names.limit, "");
  if (!limit || *limit >= kUnset) {  // not there, or the word "max"
    return;
  }
  const auto usage = number_after(group / names.usage, "").value_or(0);
  // Cached file pages that have not been touched lately are given back first.
  const auto cached =
      number_after(group / "memory.stat", names.inactive).value_or(0);
  limits.push_back({.kind = MemoryLimit::Kind::cgroup,
                    .name = "the control group " + group.string() + " (" +
                            std::string(names.limit) + ")",
                    .allowed_bytes = *limit,
                    .used_bytes = usage - std::min(usage, cached),
                    .own_bytes = kOwnCharge});
}

void add_cgroups(const fs::path& root, std::vector<MemoryLimit>& limits) {
  for (const Cgroup& group : cgroups_of(root, "memory")) {
    if (group.version == CgroupVersion::one) {
      add_limit(group.folder, kVersion1, limits);
    } else {
      add_limit(group.folder, kMemoryMax, limits);
      add_limit(group.folder, kMemoryHigh, limits);
    }
  }
}

// Stacks of threads and heaps of malloc reserve address space that they hardly
// use.
constexpr std::uint64_t kReservedAddresses = std::uint64_t{1} << 30U;

void add_address_space(const fs::path& root, std::vector<MemoryLimit>& limits) {
  // "unlimited" is no number.
  if (const auto limit =
          number_after(root / "proc/self/limits", "Max address space")) {
    limits.push_back(
        {.kind = MemoryLimit::Kind::address_space,
         .name = "ulimit -v",
         .allowed_bytes = *limit,
         .used_bytes =
             number_after(root / "proc/self/status", "VmSize:").value_or(0) *
             1024,
         .own_bytes = kReservedAddresses});
  }
}

// Cores whose time a group grants per period; empty: as many as there are.
std::optional<double> quota_of(const Cgroup& group, const fs::path& file) {
  std::ifstream stream(file);
  std::string quota;
  std::string period;
  stream >> quota;
  if (group.version == CgroupVersion::one) {
    std::ifstream(group.folder / "cpu.cfs_period_us") >> period;
  } else {
    stream >> period;
  }
  // "max" of version 2 and "-1" of version 1 are no numbers here.
  const auto time = parse_number(quota);
  const auto every = parse_number(period);
  if (!time || !every || *every == 0) {
    return std::nullopt;
  }
  return static_cast<double>(*time) / static_cast<double>(*every);
}

int affinity_cores() {
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
  MemoryInfo info{.physical_bytes = *total * 1024};
  info.limits.push_back(
      {.kind = MemoryLimit::Kind::machine,
       .name = "this machine",
       .allowed_bytes = *total * 1024,
       .used_bytes = (*total - std::min(*total, *available)) * 1024});
  add_cgroups(root, info.limits);
  add_address_space(root, info.limits);
  info.available_bytes = info.binding().available_bytes();
  return info;
}

const MemoryLimit& MemoryInfo::binding() const {
  return *std::ranges::min_element(limits, {}, [](const MemoryLimit& limit) {
    return limit.available_bytes();
  });
}

std::uint64_t MemoryLimit::available_bytes() const noexcept {
  const std::uint64_t taken = used_bytes + own_bytes;
  return allowed_bytes - std::min(allowed_bytes, taken);
}

std::string to_string(const MemoryLimit& limit) {
  std::string text = limit.name + " allows " +
                     human_bytes(limit.allowed_bytes) + ": " +
                     human_bytes(limit.used_bytes) + " are used";
  if (limit.own_bytes > 0) {
    text +=
        ", " + human_bytes(limit.own_bytes) + " kept for the program itself";
  }
  return text;
}

std::uint64_t peak_rss_bytes(const fs::path& root) {
  return number_after(root / "proc/self/status", "VmHWM:").value_or(0) * 1024;
}

void return_free_memory() { ::malloc_trim(0); }

void return_freed_tensors() {
  constexpr int kTensor = 1 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kTensor);
  // The first call ends the allocator's own adaptation of this one, too.
  ::mallopt(M_TRIM_THRESHOLD, 4 * kTensor);
}

int CoreInfo::usable() const noexcept {
  if (quota <= 0 || quota >= affinity) {
    return affinity;
  }
  return std::max(1, static_cast<int>(std::ceil(quota)));
}

CoreInfo core_info(const fs::path& root) {
  CoreInfo info{.affinity = affinity_cores()};
  for (const Cgroup& group : cgroups_of(root, "cpu")) {
    const fs::path file =
        group.folder /
        (group.version == CgroupVersion::one ? "cpu.cfs_quota_us" : "cpu.max");
    const auto quota = quota_of(group, file);
    if (quota && (info.quota == 0 || *quota < info.quota)) {
      info.quota = *quota;
      info.quota_file = file.string();
    }
  }
  return info;
}

int num_usable_cores(const fs::path& root) { return core_info(root).usable(); }

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
