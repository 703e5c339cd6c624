#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/device.h"

// Memory and devices of a process, as it states them when it joins a job.
// People see them in `nodes`; no byte of a result depends on them.

namespace troupe::actors {

/// A device that workers of a process compute on.
struct DeviceMeans {
  Device device;
  std::string name;  ///< as its vendor calls it; empty: the CPU
  /// All of its own memory. Of the CPU, and where it is not known: 0.
  std::uint64_t memory_bytes = 0;

  friend bool operator==(const DeviceMeans&, const DeviceMeans&) = default;
};

struct ProcessMeans {
  /// Of the host, what the process and those under the same limit may use (the
  /// machine, a control group, `ulimit -v`: the least); 0: not said.
  std::uint64_t memory_bytes = 0;
  /// Of these, what was left when it joined.
  std::uint64_t available_memory_bytes = 0;
  std::vector<DeviceMeans> devices;
  /// Processes with the same number run on one machine, by its boot identifier
  /// or else its name; 0: not said.
  std::uint64_t machine = 0;

  friend bool operator==(const ProcessMeans&, const ProcessMeans&) = default;
};

/// "cpu", "cuda:0 (NVIDIA H200)".
[[nodiscard]] inline std::string label_of(const DeviceMeans& one) {
  return one.name.empty() ? to_string(one.device)
                          : to_string(one.device) + " (" + one.name + ")";
}

/// As its vendor calls it; empty: the CPU, or not said.
[[nodiscard]] inline std::string device_name(const ProcessMeans& means,
                                             const Device& device) {
  for (const DeviceMeans& one : means.devices) {
    if (one.device == device) {
      return one.name;
    }
  }
  return {};
}

/// More than any machine has: a peer can say anything.
inline constexpr std::size_t kMostDevices = 64;
inline constexpr int kMostThreads = 1 << 16;

}  // namespace troupe::actors
