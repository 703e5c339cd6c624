#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <numeric>
#include <utility>

#include "actors/cli/bench_measure.h"
#include "actors/cli/job_layout.h"
#include "actors/emulation/emulate.h"
#include "actors/network_cuts.h"
#include "config/schedule_options.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

using emulation::EmulatedJob;
using emulation::Machine;

struct Row {
  std::string name;
  JobRequest request;
  Machine machine = {};
  EmulatedJob job = {};
  std::map<std::uint64_t, Tensor> latents = {};

  [[nodiscard]] double seconds() const { return job.result.wall_seconds; }
};

emulation::ShardWork shard_work(const JobRequest& request, AttentionPlan plan,
                                int devices) {
  const DType compute = request.devices.front().compute;
  const models::ShardFigures figures = request.source.denoiser().shard_figures(
      request.source.latent_shape(), compute, DeviceKind::cpu, plan, devices);
  return {.devices = devices,
          .plan = plan,
          .share = figures.slowest_share(request.source.info(compute).flops()),
          .exchanges = figures.exchanges,
          .received_bytes = figures.most_received_bytes()};
}

/// Of workers of so many devices each; `auto` takes the plan whose exchanges
/// take less time.
emulation::ShardWork best_shard_work(const config::Config& config,
                                     const JobRequest& request,
                                     const Machine& machine) {
  if (config.num_shards == 1) {
    return {};
  }
  const auto of = [&](AttentionPlan plan) {
    return shard_work(request, plan, config.num_shards);
  };
  if (config.shard_plan != config::ShardPlan::automatic) {
    return of(request.attention_plan);
  }
  const auto seconds = [&](const emulation::ShardWork& work) {
    return work.exchanges * emulation::to_seconds(machine.latency()) +
           emulation::to_seconds(machine.transfer(work.received_bytes));
  };
  const emulation::ShardWork gather = of(AttentionPlan::gather);
  const emulation::ShardWork ulysses = of(AttentionPlan::ulysses);
  return seconds(ulysses) < seconds(gather) ? ulysses : gather;
}

/// The mean of each worker's devices: faster ones get more of the tokens.
std::vector<double> worker_speeds(const config::EmulationConfig& said,
                                  int devices_each) {
  std::vector<double> of_devices = said.speeds;
  of_devices.resize(static_cast<std::size_t>(said.devices.value()), 1.0);
  std::vector<double> speeds;
  for (auto at = of_devices.begin(); at != of_devices.end();
       at += devices_each) {
    speeds.push_back(std::accumulate(at, at + devices_each, 0.0) /
                     devices_each);
  }
  return speeds;
}

}  // namespace

Machine emulated_machine(const config::Config& config,
                         const JobRequest& request) {
  const config::EmulationConfig& said = config.emulation;
  Machine machine;
  machine.step_ms = said.step_ms.value_or(machine.step_ms);
  machine.row_slope = said.row_slope.value_or(machine.row_slope);
  machine.link_gbps = said.link_gbps.value_or(machine.link_gbps);
  machine.link_us = said.link_us.value_or(machine.link_us);
  machine.jitter = said.jitter.value_or(machine.jitter);
  machine.seed = request.job.seed;
  machine.speeds = worker_speeds(said, config.num_shards);
  machine.shards = best_shard_work(config, request, machine);
  machine.is_guided = request.job.guidance.is_on();
  const models::DenoiserInfo info = request.source.info(DType::f32);
  machine.segment_shares = segment_shares(info, request.job.cuts);
  return machine;
}

Machine one_emulated_device(Machine machine) {
  machine.speeds = {1.0};
  machine.shards = {};
  machine.segment_shares = {1.0};
  return machine;
}

namespace {

/// One device of speed 1, and the methods that were asked for.
std::vector<Row> rows_of(const config::Config& config,
                         std::span<const JobRequest> requests) {
  std::vector<Row> rows;
  rows.push_back({.name = "sequential, 1 emulated device",
                  .request = baseline_of(requests.front(), 1)});
  rows.front().machine =
      one_emulated_device(emulated_machine(config, requests.front()));
  for (const JobRequest& request : requests) {
    Machine machine = emulated_machine(config, request);
    const int shards = machine.shards.devices;
    rows.push_back(
        {.name = fmt::format(
             "{}{}, {}", to_string(request.job.method.kind),
             shards == 1 ? "" : fmt::format(", {} shards", shards),
             counted(machine.num_workers() * static_cast<std::size_t>(shards),
                     "emulated device")),
         .request = request,
         .machine = std::move(machine)});
  }
  return rows;
}

void run(Invocation& invocation, const JobRunner& runner,
         RunsProgress& progress, Row& row) {
  LatentsObserver observer;
  row.job =
      emulation::emulate(runner.job_of({.observers = {&progress, &observer},
                                        .stop = invocation.stop->token(),
                                        .decode = false},
                                       row.request),
                         row.machine, num_usable_cores());
  invocation.stop->check("bench", "stopped before the figures were complete");
  check_measured(row.job.result);
  progress.next();
  row.latents = std::move(observer.latents);
}

double utilisation(const Row& row) {
  return row.job.result.compute_seconds /
         (row.seconds() * static_cast<double>(row.machine.num_workers()));
}

std::vector<BenchRow> table_of(const std::vector<Row>& rows) {
  std::vector<BenchRow> table;
  for (const Row& row : rows) {
    const emulation::Bounds& bounds = row.job.bounds;
    const double seconds = row.seconds();
    table.push_back(
        {.name = row.name,
         .method = to_string(row.request.job.method.kind),
         .workers = static_cast<int>(row.machine.num_workers()),
         .seconds = seconds,
         .over_1_worker = rows[0].seconds() / seconds,
         .emulated =
             EmulatedFigures{utilisation(row), bounds, seconds / bounds.lower(),
                             seconds / bounds.list_schedule, row.job.bytes_sent,
                             row.job.num_events},
         .cut = config::cut_name(row.request.job.method),
         .nfe = row.job.result.nfe,
         .rounds = row.job.result.rounds,
         .reused = row.job.result.reused,
         .relative_rmse = relative_rmse(row.latents, rows[0].latents),
         .latents_xxh3 = latents_xxh3(row.latents)});
  }
  return table;
}

void print_table(const JobRequest& request, const Machine& machine,
                 const std::vector<BenchRow>& table) {
  const auto [slowest, fastest] = std::ranges::minmax(machine.speeds);
  fmt::print(
      "{}\nemulated: {}, speed {}, {} ms for a row and {} ms for each further "
      "one, jitter {}, links of {} Gbit/s and {} µs, {} µs for each event of "
      "the coordinator\n\n",
      describe_measured(request),
      counted(machine.num_workers() *
                  static_cast<std::size_t>(machine.shards.devices),
              "device"),
      slowest == fastest ? fmt::format("{}", slowest)
                         : fmt::format("{} to {}", slowest, fastest),
      machine.step_ms, machine.step_ms * machine.row_slope, machine.jitter,
      machine.link_gbps, machine.link_us, coordinator_us(machine));
  fmt::print("{:<36} {:>10} {:>9} {:>6} {:>8} {:>8} {:>7} {:>7} {:>10}\n", "",
             "emul. sec.", "× 1 dev.", "busy", "÷ bound", "÷ list", "NFE",
             "rounds", "rel. RMSE");
  for (const BenchRow& row : table) {
    const EmulatedFigures& figures = *row.emulated;
    fmt::print(
        "{:<36} {:>10.3f} {:>9.2f} {:>5.1f}% {:>8.3f} {:>8.3f} {:>7} {:>7} "
        "{:>10.2e}\n",
        row.name, row.seconds, *row.over_1_worker, 100 * figures.utilisation,
        figures.over_lower_bound, figures.over_list_schedule, row.nfe,
        row.rounds, row.relative_rmse);
  }
  constexpr auto kColumns = std::to_array<Column>(
      {{"emul. sec.", "modelled seconds"},
       {"× 1 dev.", "times as fast as one device of speed 1"},
       {"busy", "share of the time that the devices compute or exchange"},
       {"÷ bound", "seconds by the least that any order of the work takes"},
       {"÷ list", "seconds by those of a list schedule of the same passes"}});
  explain_columns(kColumns);
}

}  // namespace

int bench_emulated(Invocation& invocation, std::span<const JobRequest> requests,
                   const std::vector<std::string>& notes,
                   const JobRunner& runner) {
  const config::Config& config = invocation.config;
  const JobRequest& first = requests.front();
  std::vector<Row> rows = rows_of(config, requests);
  ProgressPrinter printer(progress_kind(config), stderr, SteadyClock().now());
  RunsProgress progress(printer, rows.size());
  for (Row& row : rows) {
    run(invocation, runner, progress, row);
  }
  printer.finish();
  std::vector<BenchRow> table = table_of(rows);
  invocation.take_last_word();
  if (config.json) {
    print_json(invocation, first,
               {.emulated = rows.back().machine,
                .rows = std::move(table),
                .notes = notes});
  } else {
    print_table(first, rows.back().machine, table);
  }
  return 0;
}

}  // namespace troupe::actors
