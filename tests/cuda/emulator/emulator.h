#pragma once

#include <cstddef>
#include <cstdint>

// What a test may set and ask of the emulated GPUs. See README.md.

namespace troupe::emulator {

/// The machine that is emulated.
struct Config {
  /// EMULATED_GPUS.
  int devices = 1;
  /// Of each device. EMULATED_MEMORY (bytes).
  std::size_t memory_bytes = std::size_t{4} << 30U;
  /// Whether a device can be given access to another's memory.
  bool peer_access = true;
  /// Whether the driver has cuStreamWriteValue32 and cuStreamWaitValue32.
  bool stream_values = true;
  /// Of every random choice. EMULATED_SEED.
  std::uint64_t seed = 1;
  /// Compute capability.
  int compute_major = 9;
  int compute_minor = 0;
  int multiprocessors = 6;
};

/// The defaults, changed by the environment.
[[nodiscard]] Config default_config();
/// A new machine: no faults, no lost device, counters at 0. A program that
/// calls nothing gets default_config(). Streams, events, graphs or memory that
/// are still held are a bug that ends the program, except on lost devices
/// (pinned memory is on none).
/// Thread: none may be calling CUDA.
void configure(const Config& config);
[[nodiscard]] Config config();

/// What the host asked of a device since `configure`.
struct Counters {
  /// Kernels, library calls, copies and fills queued, each of a graph too.
  std::uint64_t operations = 0;
  /// Calls that could make the host wait for the device.
  std::uint64_t host_waits = 0;
  /// Device memory.
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  /// Pinned memory taken or released.
  std::uint64_t pinned_changes = 0;
  /// Copies to or from memory of the host that is not pinned.
  std::uint64_t pageable_copies = 0;
  std::uint64_t graph_launches = 0;
};
/// Thread: any.
[[nodiscard]] Counters counters(int device);
/// Graphs that are ready to be launched. Thread: any.
[[nodiscard]] std::size_t graphs_held();
/// Device memory that is allocated, in multiples of 256 bytes. Thread: any.
[[nodiscard]] std::size_t bytes_in_use(int device);

}  // namespace troupe::emulator
