#pragma once

#include <string>
#include <vector>

#include "actors/cli/bench_report.h"
#include "actors/cli/job_request.h"

namespace troupe::actors {

/// A row of the bench of all methods, ready to be run.
struct GridRow {
  std::string name;
  RowRole role = RowRole::method;
  JobRequest request;               ///< laid out for one picture
  emulation::Machine machine = {};  ///< of --emulate
};

/// The rows of one number of steps.
struct Grid {
  int steps = 0;
  /// The sequential run of all pictures, laid out for all workers: its
  /// conditions are those of every row.
  JobRequest all;
  /// The same with the pictures of probes: for what is loaded.
  JobRequest loaded;
  std::vector<GridRow> rows = {};  ///< the first is the sequential run
  /// All workers at work, with passes of all rows of a call, and where guidance
  /// has two of them, with passes of one. Their times predict those of `rows`.
  /// Empty: modelled devices, a single worker, and GPUs.
  std::vector<GridRow> probes = {};
  std::vector<LeftOut> left_out = {};
};

/// The rows for what `config` says: its methods alone, where it names any. A
/// setting that the model, the sampler or the number of steps refuses is left
/// out. `config` names its classes, and one number of steps or none.
/// Errors: Errc::invalid_argument for a method without a setting; those of
/// make_request for the sequential run.
[[nodiscard]] Grid make_grid(const config::Config& config);

}  // namespace troupe::actors
