#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

/// Facts about the machine, for `doctor` and for checks before work starts.
/// `root` stands for "/" and lets tests show another machine's /proc and /sys.
/// Thread: any.
namespace troupe {

struct MemoryInfo {
  std::uint64_t physical_bytes = 0;
  /// What this process may still take: what the system has free or can free,
  /// or less where a control group (a container, a Slurm job) or the address
  /// space (`ulimit -v`, less room for stacks and arenas) sets a limit.
  std::uint64_t available_bytes = 0;
  bool is_limited_by_cgroup = false;
};

/// "512 B", "31.4 MiB", "1.98 GiB": three digits, in the unit that fits.
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);

/// Errors: Errc::unsupported where /proc/meminfo cannot be read.
[[nodiscard]] MemoryInfo memory_info(const std::filesystem::path& root = "/");

/// The most memory this process has held so far; 0 where it is not known.
[[nodiscard]] std::uint64_t peak_rss_bytes(
    const std::filesystem::path& root = "/");

/// Cores that this process may run on (affinity mask), at least 1.
[[nodiscard]] int num_usable_cores();

/// As the vendor prints it; "unknown" where it is not known.
[[nodiscard]] std::string cpu_model(const std::filesystem::path& root = "/");

/// Whether Troupe runs here: x86-64 with AVX2 and FMA. Uses neither, so it may
/// be asked before anything else.
[[nodiscard]] bool cpu_is_supported() noexcept;

/// The extensions that matter to us, of "avx2 fma avx512f avx512_bf16
/// amx_bf16", those found, separated by spaces.
[[nodiscard]] std::string cpu_features();

}  // namespace troupe
