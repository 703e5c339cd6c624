#pragma once

#include <cstdint>

#include "actors/emulation/machine.h"
#include "actors/emulation/task_graph.h"
#include "actors/runtime.h"

namespace troupe::actors::emulation {

struct EmulatedJob {
  /// Times are the machine's: wall_seconds from the first message to the end,
  /// compute_seconds of all devices.
  JobResult result;
  std::uint64_t bytes_sent = 0;  ///< of values, between devices
  std::int64_t num_events = 0;   ///< that the coordinator took
  Bounds bounds;
};

/// Runs a job on a modelled machine: the production policies, stores and
/// arithmetic over a queue of events in virtual time. Every number is computed,
/// on this thread and `threads` cores; only time is modelled. So a sample has
/// the bytes of a real run, and a run depends on nothing but its arguments.
///
/// spec: worker i is device i; `process`, previews, trajectory, lease,
/// outcome_bytes, value_budget and make_executor are not used. Spans of a trace
/// have the machine's times. All workers are CPUs of one execution class. No
/// fault is modelled. Errors: as run_job; Errc::internal if a company waits for
/// nothing. Thread: one; observers are called from it.
[[nodiscard]] EmulatedJob emulate(JobSpec spec, const Machine& machine,
                                  int threads);

}  // namespace troupe::actors::emulation
