#pragma once

#include <cstdint>
#include <vector>

#include "actors/random.h"
#include "kernels/core/clock.h"

namespace troupe::actors::simulator {

enum class FaultKind : std::uint8_t {
  kill,         ///< the worker ends at once; what it sent before still arrives
  freeze,       ///< its executor stands still; it answers, but shows no life
  slow,         ///< every pass takes `factor` times as long
  end_process,  ///< the worker's process ends, with its values, for good; the
                ///< coordinator's does not
  drain,        ///< the worker's process wants to leave
  join,         ///< the process whose first worker this is joins the job
  cancel        ///< a sample is not wanted any more
};
inline constexpr int kNumFaultKinds = 7;

struct Fault {
  FaultKind kind = FaultKind::kill;
  TimePoint when;
  int worker = 0;     ///< of all but cancel
  Duration length{};  ///< of freeze and slow
  double factor = 1.0;
  std::uint64_t sample_index = 0;  ///< of cancel
  /// Of end_process: from then on it waits until the process is asked for a
  /// value of a cut, and strikes while that is under way.
  bool in_cut = false;
};

/// How often a worker, or a sample, meets a fault in an undisturbed job's time;
/// 0: never. `joins`: how many processes join.
struct FaultRates {
  double kills = 0.5;
  double freezes = 0.25;
  double slows = 0.5;
  double process_ends = 0.2;
  double drains = 0.1;
  double joins = 0.5;
  double cancels = 0.03;  ///< of each sample
};

/// Faults of these workers, and of the first `num_samples` samples, in a job
/// that takes `span` undisturbed, in the order of their times.
[[nodiscard]] std::vector<Fault> plan_faults(const FaultRates& rates,
                                             int first_worker, int num_workers,
                                             int num_samples, Duration span,
                                             Random& random);
/// When processes join, one after the other.
[[nodiscard]] std::vector<TimePoint> plan_joins(const FaultRates& rates,
                                                Duration span, Random& random);

}  // namespace troupe::actors::simulator
