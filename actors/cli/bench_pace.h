#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "actors/cli/bench_log.h"
#include "actors/cli/job_request.h"
#include "actors/emulation/machine.h"

namespace troupe::actors {

/// What passes take with the workers of a bench, from runs that were traced: by
/// these figures emulation predicts other runs. Thread: one.
class PaceSamples {
 public:
  [[nodiscard]] bool empty() const { return alone_.empty(); }
  /// Passes of a sequential run, and its seconds.
  void add_alone(std::span<const PassBar> passes, double wall_seconds);
  /// Passes of a run that kept all workers at work. Probe 0 has passes of all
  /// rows of a call, the last one passes of one row.
  void add_busy(std::size_t probe, std::span<const PassBar> passes);

  /// Medians over the runs. Both kinds of runs were added.
  [[nodiscard]] MeasuredPace pace() const;
  /// The workers of a job that were measured so. `seed`: of what differs from
  /// pass to pass.
  [[nodiscard]] emulation::Machine machine_of(const JobRequest& request,
                                              std::uint64_t seed) const;

 private:
  static std::vector<double> add(std::span<const PassBar> passes,
                                 std::vector<double>& first);

  // In seconds: the mean of each run, without the first pass of each worker.
  std::vector<double> alone_;
  std::vector<std::vector<double>> busy_;  ///< by probe
  std::vector<double> slowness_;  ///< passes beside others, by their mean
  // More that a first pass took.
  std::vector<double> first_alone_;
  std::vector<double> first_busy_;
  std::vector<double> start_;  ///< of sequential runs, beside passes
};

}  // namespace troupe::actors
