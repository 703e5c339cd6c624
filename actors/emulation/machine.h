#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "actors/grant.h"
#include "kernels/core/attention_plan.h"
#include "kernels/core/clock.h"

namespace troupe::actors::emulation {

/// Work and exchanges of one row's pass by devices that compute it together:
/// models::ShardFigures of the slowest device.
struct ShardWork {
  int devices = 1;  ///< of each worker
  AttentionPlan plan = AttentionPlan::gather;
  double share = 1;   ///< of a pass by one device alone
  int exchanges = 0;  ///< each waits for the one before
  std::uint64_t received_bytes = 0;

  bool operator==(const ShardWork&) const = default;
};

/// Modelled workers and the links between them. Every worker has a process of
/// its own unless they share memory; the coordinator runs in the process of
/// worker 0. A worker is one
/// device, or several that compute each pass together.
struct Machine {
  /// A forward pass of one row on a device of speed 1.
  double step_ms = 40;
  /// What each further row of a pass adds, as a part of the first.
  double row_slope = 1;
  /// A pass takes up to so much longer, as a part of itself.
  double jitter = 0;
  std::uint64_t seed = 0;              ///< of jitter and slowness
  std::vector<double> speeds = {1.0};  ///< of each worker's devices
  ShardWork shards;
  // How workers of one process differ from devices. Bounds do not know it.
  /// Values are in one memory, and every message takes the latency.
  bool shares_memory = false;
  /// A pass goes on so many times as fast while no other worker computes: the
  /// cores and the memory of one processor are shared. With all at work it
  /// is 1. At least 1.
  double solo_speed = 1;
  /// Each pass takes one of these times as long, drawn with `seed`; empty: 1.
  std::vector<double> slowness = {};
  /// A worker's first pass takes so much longer: it prepares what later passes
  /// use.
  double first_ms = 0;

  /// Bandwidth and latency of a device's link, for each direction. Values queue
  /// at both ends; messages without values take the latency alone.
  double link_gbps = 1;
  double link_us = 50;

  /// Time that the coordinator needs for an event. It handles one event at a
  /// time.
  Duration coordinator_event = std::chrono::microseconds(5);

  // Of the job.
  /// Both branches of guidance in one task are two rows.
  bool is_guided = false;
  /// Of a row's work, by segment; they add up to 1.
  std::vector<double> segment_shares = {1.0};

  [[nodiscard]] std::size_t num_workers() const noexcept {
    return speeds.size();
  }
  [[nodiscard]] std::size_t process_of(std::size_t worker) const noexcept {
    return shares_memory ? 0 : worker;
  }
  /// Rows of a task: latents times branches. 0: it does not go through the
  /// network. Steps, sweeps, combinations and decodes take no time.
  [[nodiscard]] int rows_of(const samplers::Task& task) const noexcept;
  /// A pass of so many rows on a worker of speed 1, in seconds, without its
  /// exchanges: step · share · (1 + row_slope · (rows − 1)). Without rows: 0.
  [[nodiscard]] double pass_seconds(const samplers::Task& first,
                                    int rows) const;
  /// What the exchanges of a worker's devices add, whatever their speed. A row
  /// goes after the other, and nothing is computed meanwhile.
  [[nodiscard]] double exchange_seconds(const samplers::Task& first,
                                        int rows) const;
  /// How fast a pass goes on while so many workers compute, its own among them:
  /// a worker is no faster than alone, and all together no faster than all at
  /// work.
  [[nodiscard]] double pace(int num_busy) const;
  /// Rows of a pass with these tasks.
  [[nodiscard]] int rows_of(std::span<const SampleTask> tasks) const;

  [[nodiscard]] Duration latency() const noexcept;
  /// What a value takes on an idle link, without the latency.
  [[nodiscard]] Duration transfer(std::uint64_t bytes) const noexcept;
};

[[nodiscard]] inline Duration to_duration(double seconds) {
  return std::chrono::round<Duration>(std::chrono::duration<double>(seconds));
}
[[nodiscard]] inline double to_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

/// The ends of the devices' links. A value leaves when the sender's end and the
/// taker's end are free, and keeps both busy.
class Links {
 public:
  explicit Links(const Machine& machine)
      : machine_(machine),
        out_free_(machine.num_workers()),
        in_free_(machine.num_workers()) {}

  /// When it would arrive, sent at `ready`.
  [[nodiscard]] TimePoint arrival(std::size_t from, std::size_t to,
                                  std::uint64_t bytes, TimePoint ready) const;
  /// Sends it.
  TimePoint send(std::size_t from, std::size_t to, std::uint64_t bytes,
                 TimePoint ready);

 private:
  const Machine& machine_;
  std::vector<TimePoint> out_free_;
  std::vector<TimePoint> in_free_;
};

}  // namespace troupe::actors::emulation
