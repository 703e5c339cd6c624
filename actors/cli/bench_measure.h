#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/cli/job_runner.h"
#include "actors/cli/progress_printer.h"
#include "actors/cli/verbs.h"
#include "actors/emulation/emulate.h"
#include "actors/runtime.h"
#include "config/enum_names.h"
#include "kernels/core/fields.h"

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

/// The coordinator's time for an event, in microseconds.
[[nodiscard]] inline double coordinator_us(const emulation::Machine& machine) {
  return 1e6 * emulation::to_seconds(machine.coordinator_event);
}

void visit_fields(auto& visit, AnyConst<emulation::Machine> auto& r) {
  visit({"devices", "modelled devices"},
        r.num_workers() * static_cast<std::size_t>(r.shards.devices));
  visit({"speeds", "of each worker's devices"}, r.speeds);
  visit({"shards", "devices of each worker"}, r.shards.devices);
  visit({"shard_plan", "gather or ulysses (--shard-plan)"},
        config::name_of(r.shards.plan));
  visit({"shard_share", "of a pass that the slowest of them computes"},
        r.shards.share);
  visit({"shard_exchanges", "of a pass"}, r.shards.exchanges);
  visit({"shard_received_bytes", "by one of them in a pass of a row"},
        r.shards.received_bytes);
  visit({"step_ms", "a row on a device of speed 1"}, r.step_ms);
  visit({"row_slope", "each further row, as a part of that"}, r.row_slope);
  visit({"jitter", "most that a pass takes longer, as a part"}, r.jitter);
  visit({"link_gbps", "of each device's link, each way"}, r.link_gbps);
  visit({"link_us", "latency of a link"}, r.link_us);
  visit({"coordinator_event_us", "what the coordinator takes for an event"},
        coordinator_us(r));
}

/// What the emulation of a row adds to its figures.
struct EmulatedFigures {
  double utilisation = 0;
  emulation::Bounds bounds = {};
  double over_lower_bound = 0;
  double over_list_schedule = 0;
  std::uint64_t bytes_sent = 0;
  std::int64_t num_events = 0;
};

/// A method on a company, measured or emulated.
struct BenchRow {
  std::string name = {};
  std::string method = {};
  int workers = 0;
  std::optional<int> threads = {};
  double seconds = 0;
  std::optional<double> over_1_thread = {};
  std::optional<double> over_2_threads = {};
  std::optional<double> over_1_worker = {};
  std::optional<EmulatedFigures> emulated = {};
  std::string cut = {};
  std::int64_t nfe = 0;
  std::int64_t rounds = 0;
  std::int64_t reused = 0;
  double relative_rmse = 0;
  std::string latents_xxh3 = {};
};

/// What bench prints.
struct BenchTable {
  std::string model = {};
  std::size_t samples = 0;
  std::string sampler = {};
  int steps = 0;
  double guidance = 1;
  std::string dtype = {};
  std::optional<int> repeats = {};
  std::optional<std::string> bits = {};
  std::optional<emulation::Machine> emulated = {};
  std::vector<BenchRow> rows = {};
  std::vector<std::string> notes = {};
};

/// Prints the table of one command as JSON. `table` has rows; what all requests
/// have in common is put in.
void print_json(const Invocation& invocation, const JobRequest& request,
                BenchTable table);

/// "dit-tiny: 4 samples, ddim 50 steps, guidance 1, bf16".
[[nodiscard]] std::string describe_measured(const JobRequest& request);

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

/// The middle value, or the mean of the two middle ones. `values` is not empty.
[[nodiscard]] double median_of(std::vector<double> values);

/// ‖a − b‖ / ‖b‖ over all samples.
[[nodiscard]] double relative_rmse(const std::map<std::uint64_t, Tensor>& a,
                                   const std::map<std::uint64_t, Tensor>& b);

/// XXH3-64 of all latents' bytes, by index: what `sample` calls latents_xxh3.
[[nodiscard]] std::string latents_xxh3(
    const std::map<std::uint64_t, Tensor>& latents);

/// The machine of --emulate for a job that is laid out by `config`.
[[nodiscard]] emulation::Machine emulated_machine(const config::Config& config,
                                                  const JobRequest& request);
/// One of its devices, of speed 1.
[[nodiscard]] emulation::Machine one_emulated_device(
    emulation::Machine machine);

/// `bench methods`: runs a grid of settings of all methods against the
/// sequential run, writes a folder with report and figures, and prints a ranked
/// table. Returns the exit code. Errors: Errc::invalid_argument for options and
/// a folder that do not fit; those of make_request for the sequential run; what
/// a run failed with; those of StopFlag::check.
[[nodiscard]] int bench_methods(Invocation& invocation);

/// `bench --emulate`: runs a sequential baseline and the requests, of one job
/// but for the method, on modelled devices, and prints all, marked as emulated.
/// Returns the exit code.
/// Errors: what the run failed with; those of StopFlag::check.
[[nodiscard]] int bench_emulated(Invocation& invocation,
                                 std::span<const JobRequest> requests,
                                 const std::vector<std::string>& notes,
                                 const JobRunner& runner);

}  // namespace troupe::actors
