#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/clock.h"
#include "kernels/core/device.h"

// A process of a job: its memory and devices, its work, its status. No byte of
// a result depends on these.

namespace troupe::actors {

/// A device that workers of a process compute on.
struct DeviceMeans {
  Device device;
  std::string name;  ///< as its vendor calls it; empty: the CPU
  /// All of its own memory. Of the CPU, and where it is not known: 0.
  std::uint64_t memory_bytes = 0;

  friend bool operator==(const DeviceMeans&, const DeviceMeans&) = default;
};

/// Memory and devices, as a process states them when it joins.
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

/// What the workers of one process have done for a job.
struct ProcessWork {
  int workers = 0;          ///< that it brought
  int threads = 0;          ///< of the host, that they compute on
  std::uint64_t tasks = 0;  ///< of theirs, those whose results counted
  std::uint64_t rows = 0;   ///< of these, rows that passed the network; each
                            ///< segment of a pipeline counts as one
  double busy_seconds = 0;  ///< of all of them, in passes
  /// Since the first of them came up, until the process left.
  double present_seconds = 0;
  int losses = 0;  ///< incarnations of workers that were lost

  /// Busy time as a part of the time that the workers were present; 0: not
  /// known yet.
  [[nodiscard]] double busy_share() const {
    const double whole = present_seconds * workers;
    return whole > 0 ? busy_seconds / whole : 0;
  }
  /// The mean while its workers were here; 0: not known yet.
  [[nodiscard]] double rows_per_second() const {
    return busy_seconds > 0 && present_seconds > 0
               ? static_cast<double>(rows) / present_seconds
               : 0;
  }

  friend bool operator==(const ProcessWork&, const ProcessWork&) = default;
};

/// A process of a job, for people and for programs that watch.
struct Process {
  std::string name = {};  ///< host and process
  int process = 0;        ///< its number in the job; 0: the one that directs
  ProcessMeans means = {};
  ProcessWork work = {};
  std::vector<std::string> execution_classes = {};  ///< of its workers, by name
  /// Of tensors, over its links, by its newest report. The report is at most a
  /// second old, and final once the process has left in order.
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  /// The largest error of the times of its results (PeerClock); nothing: not
  /// measured. Known in the coordinator's process alone.
  std::optional<Duration> clock_error = {};
  /// "here", "left"; of a job that is over: "done", "left"; of one that has not
  /// begun: "here", "encodes"
  std::string status = "here";
  std::string cause = {};  ///< why it left

  [[nodiscard]] bool has_left() const { return status == "left"; }
  void leave(std::string why) {
    status = "left";
    cause = std::move(why);
  }

  friend bool operator==(const Process&, const Process&) = default;
};

/// More than any machine has: a peer can say anything.
inline constexpr std::size_t kMostDevices = 64;
inline constexpr int kMostThreads = 1 << 16;

}  // namespace troupe::actors
