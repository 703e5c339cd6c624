#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

/// Facts about the machine, for `doctor` and for checks before work starts.
/// `root` stands for "/" and lets tests show another machine's /proc and /sys.
/// Thread: any.
namespace troupe {

/// Something that bounds the memory of this process.
struct MemoryLimit {
  enum class Kind : std::uint8_t { machine, cgroup, address_space };
  Kind kind = Kind::machine;
  /// For people: "this machine", "the control group /sys/fs/cgroup/job
  /// (memory.max)", "ulimit -v".
  std::string name;
  std::uint64_t allowed_bytes = 0;
  /// Used by all processes under this limit, without what the system can
  /// reclaim.
  std::uint64_t used_bytes = 0;
  /// Kept back for the program itself (code, stacks, the allocator's arenas,
  /// page tables); the same for every job.
  std::uint64_t own_bytes = 0;

  [[nodiscard]] std::uint64_t available_bytes() const noexcept;
};

/// "the control group /job (memory.max) allows 24.0 MiB: 3.10 MiB are used,
/// 8.00 MiB kept for the program itself".
[[nodiscard]] std::string to_string(const MemoryLimit& limit);

struct MemoryInfo {
  std::uint64_t physical_bytes = 0;
  /// Bytes that this process may still allocate for data.
  std::uint64_t available_bytes = 0;
  /// The machine's memory, then every control group (a container, a Slurm job)
  /// and the address space (`ulimit -v`), where they have a limit.
  std::vector<MemoryLimit> limits;

  /// The limit that leaves least.
  [[nodiscard]] const MemoryLimit& binding() const;
};

/// "512 B", "31.4 MiB", "1.98 GiB": three digits, in the unit that fits.
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);

/// Errors: Errc::unsupported where /proc/meminfo cannot be read.
[[nodiscard]] MemoryInfo memory_info(const std::filesystem::path& root = "/");

/// The most memory this process has held so far; 0 where it is not known.
[[nodiscard]] std::uint64_t peak_rss_bytes(
    const std::filesystem::path& root = "/");

/// Gives memory that was freed back to the machine: the allocator keeps it
/// otherwise. Takes milliseconds. Thread: any.
void return_free_memory();
/// From here on memory of 1 MiB and more goes back to the system as soon as it
/// is freed. By default glibc keeps such blocks after the first one was freed,
/// for the next of their size: what loading took would stay beside the weights.
/// Call before the first thread.
void return_freed_tensors();

/// What bounds the cores of this process.
struct CoreInfo {
  int affinity = 1;  ///< cores of its affinity mask
  /// Cores' worth of time that the tightest control group grants; 0: no quota.
  double quota = 0;
  std::string quota_file;  ///< the file that holds this quota
  /// How many threads can run all the time: the cores of the mask, or the quota
  /// rounded up if that is less. At least 1.
  [[nodiscard]] int usable() const noexcept;
};

[[nodiscard]] CoreInfo core_info(const std::filesystem::path& root = "/");

/// core_info().usable().
[[nodiscard]] int num_usable_cores(const std::filesystem::path& root = "/");

/// The processor's name as its vendor writes it, or "unknown".
[[nodiscard]] std::string cpu_model(const std::filesystem::path& root = "/");

/// Whether Troupe runs here: x86-64 with AVX2 and FMA. The function uses
/// neither extension, so a program may call it first.
[[nodiscard]] bool cpu_is_supported() noexcept;

/// The extensions that matter to us, of "avx2 fma avx512f avx512_bf16
/// amx_bf16", those found, separated by spaces.
[[nodiscard]] std::string cpu_features();

}  // namespace troupe
