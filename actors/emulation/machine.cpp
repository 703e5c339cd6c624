#include "actors/emulation/machine.h"

#include <algorithm>

namespace troupe::actors::emulation {

using samplers::Task;

int Machine::rows_of(const Task& task) const noexcept {
  if (!task.op->joins()) {
    return 0;
  }
  return is_guided && task.branch == samplers::Branch::guided ? 2 : 1;
}

namespace {

/// Of a whole pass.
double work_share(const Machine& machine, const Task& first) {
  return first.op->work == samplers::Work::segment
             ? machine.segment_shares.at(
                   static_cast<std::size_t>(first.segment))
             : 1.0;
}

}  // namespace

double Machine::pass_seconds(const Task& first, int rows) const {
  return rows == 0 ? 0
                   : step_ms * 1e-3 * work_share(*this, first) * shards.share *
                         (1 + row_slope * (rows - 1));
}

double Machine::exchange_seconds(const Task& first, int rows) const {
  return rows == 0 ? 0
                   : rows * work_share(*this, first) *
                         (shards.exchanges * to_seconds(latency()) +
                          to_seconds(transfer(shards.received_bytes)));
}

double Machine::pace(int num_busy) const {
  return std::min(solo_speed, static_cast<double>(num_workers()) / num_busy);
}

int Machine::rows_of(std::span<const SampleTask> tasks) const {
  int rows = 0;
  for (const SampleTask& work : tasks) {
    rows += rows_of(work.task);
  }
  return rows;
}

Duration Machine::latency() const noexcept {
  return to_duration(link_us * 1e-6);
}

Duration Machine::transfer(std::uint64_t bytes) const noexcept {
  return to_duration(static_cast<double>(bytes) * 8 / (link_gbps * 1e9));
}

TimePoint Links::arrival(std::size_t from, std::size_t to, std::uint64_t bytes,
                         TimePoint ready) const {
  const TimePoint leaves = std::max({ready, out_free_[from], in_free_[to]});
  return leaves + machine_.transfer(bytes) + machine_.latency();
}

TimePoint Links::send(std::size_t from, std::size_t to, std::uint64_t bytes,
                      TimePoint ready) {
  const TimePoint arrives = arrival(from, to, bytes, ready);
  out_free_[from] = in_free_[to] = arrives - machine_.latency();
  return arrives;
}

}  // namespace troupe::actors::emulation
