#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "actors/cli/progress_printer.h"
#include "actors/runtime.h"

namespace troupe::actors {

/// Keeps the latents of a measured run.
struct LatentsObserver final : Observer {
  void on_sample(const SampleOutcome& outcome) override {
    latents[outcome.report.sample_index] = outcome.latents;
  }

  std::map<std::uint64_t, Tensor> latents;
};

/// Shows the progress of `num_runs` runs as one. Every run has the same samples
/// and calls.
class RunsProgress final : public Observer {
 public:
  RunsProgress(ProgressPrinter& printer, std::size_t num_runs)
      : printer_(printer), num_runs_(num_runs) {}
  void on_progress(const JobProgress& progress) override;
  /// The run that was shown is over.
  void next();

 private:
  void print();

  ProgressPrinter& printer_;
  JobProgress run_;  ///< of the run under way
  std::size_t num_runs_;
  std::size_t num_done_ = 0;
};

/// A column of a table, for its reader.
struct Column {
  std::string_view head;
  std::string_view meaning;
};

/// Prints a line for each of `columns`, then for NFE, rounds and rel. RMSE,
/// which every table has.
void explain_columns(std::span<const Column> columns);

/// Errors: what a measured run failed with.
void check_measured(const JobResult& result);

/// ‖a − b‖ / ‖b‖ over all samples.
[[nodiscard]] double relative_rmse(const std::map<std::uint64_t, Tensor>& a,
                                   const std::map<std::uint64_t, Tensor>& b);

/// XXH3-64 of all latents' bytes, by index: what `sample` calls latents_xxh3.
[[nodiscard]] std::string latents_xxh3(
    const std::map<std::uint64_t, Tensor>& latents);

}  // namespace troupe::actors
