// The part of CoordinatorPolicy that says how far the job is.

#include <algorithm>
#include <utility>

#include "actors/coordinator_policy.h"

namespace troupe::actors {

/// Ticks of work since the last accepted call, by sample: of finished passes,
/// and of running ones. A running pass is taken to have its worker's oldest
/// tasks, as many as make a pass.
std::map<std::uint64_t, double> CoordinatorPolicy::ticks_by_sample() const {
  std::map<std::uint64_t, double> sums;
  for (const auto& [index, sample] : samples_) {
    sums[index] = sample.ticks;
  }
  for (const Worker& worker : workers_) {
    if (worker.ticks <= worker.settled_ticks) {
      continue;
    }
    std::vector<std::uint64_t> rows;
    for (const auto& [number, granted] : worker.held) {
      if (static_cast<int>(rows.size()) < worker.traits.max_rows) {
        rows.push_back(granted.work.sample_index);
      }
    }
    const auto spent = static_cast<double>(worker.ticks - worker.settled_ticks);
    for (const std::uint64_t sample : rows) {
      const auto found = sums.find(sample);
      if (found != sums.end()) {
        found->second += spent / static_cast<double>(rows.size());
      }
    }
  }
  return sums;
}

JobProgress CoordinatorPolicy::progress() const {
  JobProgress sum = ended_totals_;
  sum.recoveries = recoveries_;
  sum.waits_for_workers = waits_ && !ended_;
  sum.processes = tally_.processes(now_);
  sum.samples_total = options_.samples.size();
  sum.calls_total +=
      static_cast<std::int64_t>(options_.samples.size()) * calls_per_sample_;
  for (const auto& [index, sample] : samples_) {
    const samplers::Progress p = sample.method->progress();
    sum.calls_done += p.accepted;
    sum.nfe += p.nfe;
    sum.reused += p.reused;
    sum.rounds = std::max(sum.rounds, p.rounds);
  }
  if (options_.ticks_per_call > 0) {
    for (const auto& [index, ticks] : ticks_by_sample()) {
      sum.calls_under_way +=
          std::min(1.0, ticks / static_cast<double>(options_.ticks_per_call));
    }
  }
  // The last call of a sample is accepted before its pixels are decoded.
  sum.calls_under_way =
      std::min(sum.calls_under_way,
               static_cast<double>(sum.calls_total - sum.calls_done));
  return sum;
}

/// Workers have come or gone. No other event would report that the job waits
/// for workers, so this change is reported at once.
void CoordinatorPolicy::note_waiting() {
  const bool waits =
      options_.waits_for_processes &&
      std::ranges::all_of(workers_, [](const Worker& w) { return w.gone; });
  if (!ended_ && std::exchange(waits_, waits) != waits) {
    last_report_ = now_;
    commands_.emplace_back(progress());
  }
}

void CoordinatorPolicy::report_progress() {
  if (!ended_ && now_ - last_report_ >= options_.progress_interval) {
    last_report_ = now_;
    commands_.emplace_back(progress());
  }
}

}  // namespace troupe::actors
