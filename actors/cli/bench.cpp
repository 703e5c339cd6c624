#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/cli/bench_measure.h"
#include "actors/cli/earlier_speeds.h"
#include "actors/cli/execution_class.h"
#include "actors/cli/job_layout.h"
#include "actors/cli/job_request.h"
#include "actors/cli/job_runner.h"
#include "actors/cli/notes.h"
#include "actors/cli/progress_printer.h"
#include "actors/cli/verbs.h"
#include "config/enum_names.h"
#include "config/method_plan.h"
#include "config/schedule_options.h"

namespace troupe::actors {
namespace {

struct Measurement {
  std::string name;
  JobRequest request;
  std::vector<double> seconds = {};
  std::int64_t nfe = 0;
  std::int64_t rounds = 0;
  std::int64_t reused = 0;
  std::map<std::uint64_t, Tensor> latents = {};

  [[nodiscard]] double median() const { return median_of(seconds); }
};

void measure(Invocation& invocation, const JobRunner& runner,
             const EarlierSpeeds& speeds, RunsProgress& progress,
             Measurement& measurement) {
  LatentsObserver observer;
  JobSpec job = runner.job_of({.observers = {&progress, &observer},
                               .stop = invocation.stop->token(),
                               .decode = false},
                              measurement.request);
  speeds.begin(job);
  const JobResult result = run_job(job);
  speeds.keep(result);
  invocation.stop->check("bench", "stopped before the figures were complete");
  check_measured(result);
  progress.next();
  measurement.seconds.push_back(result.wall_seconds);
  measurement.nfe = result.nfe;
  measurement.rounds = result.rounds;
  measurement.reused = result.reused;
  measurement.latents = observer.latents;
}

/// The baselines (one worker with one and with two threads, or one on the first
/// GPU) and the methods that were asked for, in this order.
std::vector<Measurement> rows_of(std::span<const JobRequest> requests) {
  std::vector<Measurement> rows;
  const auto add_baseline = [&](const std::string& company, int threads) {
    rows.push_back({.name = "sequential, " + company,
                    .request = baseline_of(requests.front(), threads)});
  };
  const JobDevice& first = requests.front().devices.front();
  if (first.is_gpu()) {
    add_baseline("1 worker on " + to_string(first.device), 1);
  } else {
    add_baseline(describe_cpu_company(1, 1), 1);
    add_baseline(describe_cpu_company(1, 2), 2);
  }
  for (const JobRequest& request : requests) {
    rows.push_back({.name = to_string(request.job.method.kind) + ", " +
                            describe_company(request),
                    .request = request});
  }
  return rows;
}

std::vector<BenchRow> table_of(const std::vector<Measurement>& rows,
                               bool on_gpu) {
  std::vector<BenchRow> table;
  for (const Measurement& row : rows) {
    BenchRow& line = table.emplace_back(
        BenchRow{.name = row.name,
                 .method = to_string(row.request.job.method.kind),
                 .workers = row.request.num_workers(),
                 .threads = row.request.num_threads,
                 .seconds = row.median(),
                 .cut = config::cut_name(row.request.job.method),
                 .nfe = row.nfe,
                 .rounds = row.rounds,
                 .reused = row.reused,
                 .relative_rmse = relative_rmse(row.latents, rows[0].latents),
                 .latents_xxh3 = latents_xxh3(row.latents)});
    if (on_gpu) {
      line.over_1_worker = rows[0].median() / line.seconds;
    } else {
      line.over_1_thread = rows[0].median() / line.seconds;
      line.over_2_threads = rows[1].median() / line.seconds;
    }
  }
  return table;
}

void print_table(const config::Config& config, const JobRequest& request,
                 const std::vector<BenchRow>& table) {
  fmt::print("{}, median of {}\n\n", describe_measured(request),
             config.repeats);
  const bool on_gpu = request.devices.front().is_gpu();
  fmt::print("{:<36} {:>9} {:>9} {:>9} {:>7} {:>7} {:>10}\n", "", "seconds",
             on_gpu ? "× 1 wkr." : "× 1 thr.", on_gpu ? "" : "× 2 thr.", "NFE",
             "rounds", "rel. RMSE");
  const auto speedup = [](const std::optional<double>& times) {
    return times ? fmt::format("{:.2f}", *times) : std::string();
  };
  for (const BenchRow& row : table) {
    fmt::print(
        "{:<36} {:>9.3f} {:>9} {:>9} {:>7} {:>7} {:>10.2e}\n", row.name,
        row.seconds, speedup(on_gpu ? row.over_1_worker : row.over_1_thread),
        speedup(row.over_2_threads), row.nfe, row.rounds, row.relative_rmse);
  }
  std::vector<Column> columns = {{"seconds", "median of the runs"}};
  if (on_gpu) {
    columns.push_back(
        {"× 1 wkr.", "times as fast as the first row, one worker"});
  } else {
    columns.push_back(
        {"× 1 thr.", "times as fast as one worker with one thread"});
    columns.push_back(
        {"× 2 thr.", "times as fast as one worker with two threads"});
  }
  explain_columns(columns);
}

/// A request for each method of --method. All else of the requests is equal.
std::vector<JobRequest> requests_of(const config::Config& config) {
  std::vector<JobRequest> requests;
  for (const config::Config& one : config::configs_by_method(config)) {
    requests.push_back(make_request(one));
  }
  return requests;
}

/// The request that uses the most devices; weights are loaded for its devices.
/// Workers are dealt to devices in turn, so no request uses another device.
const JobRequest& widest(std::span<const JobRequest> requests) {
  return *std::ranges::max_element(requests, {}, [](const JobRequest& request) {
    return std::ranges::count_if(request.devices, [](const JobDevice& device) {
      return device.workers > 0;
    });
  });
}

/// Refuses what only `bench methods` takes.
void check_one_setting(const Invocation& invocation) {
  if (!invocation.files.empty()) {
    throw Error(Errc::invalid_argument, invocation.files.front(),
                "an argument that no option takes",
                "methods is the only one: see troupe bench --help");
  }
  const config::Config& config = invocation.config;
  std::vector<std::string> keys = {"all", "quality", "calibrate", "out"};
  if (!config.sampler.step_counts.empty()) {
    keys.emplace_back("steps");
  }
  for (const std::string& key : keys) {
    require(!config.is_flag(key), Errc::invalid_argument, config.place_of(key),
            "goes with bench methods alone",
            key == "steps" ? "choose one number of steps"
                           : "say troupe bench methods, or leave it out");
  }
}

}  // namespace

int run_bench(Invocation& invocation) {
  const config::Config& config = invocation.config;
  if (invocation.files == std::vector<std::string>{"methods"}) {
    return bench_methods(invocation);
  }
  check_one_setting(invocation);
  read_prompt_files(invocation.config);
  const std::vector<JobRequest> requests = requests_of(config);
  const JobRequest& first = requests.front();
  std::vector<std::string> notes;
  for (const JobRequest& request : requests) {
    for (const std::string& note : request.notes) {
      add_note(notes, note);
    }
  }
  print_notes(notes);
  invocation.stop.emplace(*invocation.signals);
  const JobRunner runner(widest(requests), *invocation.stop);
  if (first.is_emulated) {
    return bench_emulated(invocation, requests, notes, runner);
  }
  std::vector<Measurement> rows = rows_of(requests);
  // A row of one method may hold other branches than a row of another.
  std::vector<EarlierSpeeds> speeds;
  for (const Measurement& row : rows) {
    speeds.emplace_back(config, row.request, row.request.job.method, runner);
  }
  ProgressPrinter printer(progress_kind(config), stderr, SteadyClock().now());
  RunsProgress progress(printer,
                        rows.size() * static_cast<std::size_t>(config.repeats));
  for (int repeat = 0; repeat < config.repeats; ++repeat) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      measure(invocation, runner, speeds[i], progress, rows[i]);
    }
  }
  printer.finish();
  const JobDevice& device = first.devices.front();
  std::vector<BenchRow> table = table_of(rows, device.is_gpu());
  invocation.take_last_word();
  if (config.json) {
    BenchTable all = {.repeats = config.repeats,
                      .rows = std::move(table),
                      .notes = std::move(notes)};
    if (device.is_gpu()) {
      all.bits = bits_mode(device.options);  // every figure of a GPU says it
    }
    print_json(invocation, first, std::move(all));
  } else {
    print_table(config, first, table);
  }
  return 0;
}

}  // namespace troupe::actors
