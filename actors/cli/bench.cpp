#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "actors/cli/bench_emulated.h"
#include "actors/cli/bench_measure.h"
#include "actors/cli/earlier_speeds.h"
#include "actors/cli/execution_class.h"
#include "actors/cli/job_request.h"
#include "actors/cli/job_runner.h"
#include "actors/cli/notes.h"
#include "actors/cli/verbs.h"
#include "config/enum_names.h"
#include "config/schedule_options.h"

namespace troupe::actors {
namespace {

using Json = nlohmann::ordered_json;

struct Measurement {
  std::string name;
  config::Plan plan;
  std::vector<double> seconds = {};
  std::int64_t nfe = 0;
  std::int64_t rounds = 0;
  std::map<std::uint64_t, Tensor> latents = {};

  [[nodiscard]] double median() const {
    std::vector<double> sorted = seconds;
    std::ranges::sort(sorted);
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half]
                                  : (sorted[half - 1] + sorted[half]) / 2;
  }
};

void measure(Invocation& invocation, const JobRunner& runner,
             const EarlierSpeeds& speeds, Measurement& measurement) {
  LatentsObserver observer;
  JobSpec job = runner.job_of({.observers = {&observer},
                               .stop = invocation.stop->token(),
                               .decode = false},
                              &measurement.plan);
  speeds.begin(job);
  const JobResult result = run_job(job);
  speeds.keep(result);
  invocation.stop->check("bench", "stopped before the figures were complete");
  check_measured(result);
  measurement.seconds.push_back(result.wall_seconds);
  measurement.nfe = result.nfe;
  measurement.rounds = result.rounds;
  measurement.latents = observer.latents;
}

/// The baselines (one worker with one and with two threads, or one on the first
/// GPU) and the method that was asked for, in this order.
std::vector<Measurement> rows_of(const JobRequest& request) {
  std::vector<Measurement> rows;
  const auto add_baseline = [&rows](const std::string& company, int threads) {
    Measurement& row = rows.emplace_back();
    row.name = "sequential, " + company;
    row.plan.num_threads = threads;
  };
  const JobDevice& first = request.devices.front();
  if (first.is_gpu()) {
    add_baseline("1 worker on " + to_string(first.device), 1);
  } else {
    add_baseline(describe_cpu_company(1, 1), 1);
    add_baseline(describe_cpu_company(1, 2), 2);
  }
  rows.push_back({.name = std::string(request.plan.method.kind->name) + ", " +
                          describe_company(request),
                  .plan = request.plan});
  return rows;
}

Json table_of(const std::vector<Measurement>& rows) {
  Json table = Json::array();
  for (const Measurement& row : rows) {
    Json line = {{"name", row.name},
                 {"method", row.plan.method.kind->name},
                 {"workers", row.plan.num_workers},
                 {"threads", row.plan.num_threads},
                 {"seconds", row.median()}};
    if (rows.size() == 2) {
      line["speedup_over_1_worker"] = rows[0].median() / row.median();
    } else {
      line["speedup_over_1_thread"] = rows[0].median() / row.median();
      line["speedup_over_2_threads"] = rows[1].median() / row.median();
    }
    if (std::string cut = config::cut_name(row.plan.method); !cut.empty()) {
      line["cut"] = std::move(cut);
    }
    line["nfe"] = row.nfe;
    line["rounds"] = row.rounds;
    line["relative_rmse"] = relative_rmse(row.latents, rows[0].latents);
    line["latents_xxh3"] = latents_xxh3(row.latents);
    table.push_back(std::move(line));
  }
  return table;
}

void print_json(const Invocation& invocation, const JobRequest& request,
                Json table) {
  const JobDevice& first = request.devices.front();
  Json json = envelope(invocation.summary);
  json.update(
      {{"model", request.source.name()},
       {"samples", request.samples.size()},
       {"sampler", config::solver_label(request.schedule.options())},
       {"steps", request.schedule.num_steps()},
       {"guidance", request.guidance_scale},
       {"dtype", request.dtypes()},
       {"repeats", invocation.config.repeats},
       // Every figure of a GPU says its mode.
       {"bits", first.is_gpu() ? Json(bits_mode(first.options)) : Json()},
       {"rows", std::move(table)},
       {"notes", request.notes}});
  fmt::print("{}\n", dump(json));
}

void print_table(const config::Config& config, const JobRequest& request,
                 const Json& table) {
  fmt::print("{}: {} samples, {} {} steps, guidance {}, {}, median of {}\n\n",
             request.source.name(), request.samples.size(),
             config::solver_label(request.schedule.options()),
             request.schedule.num_steps(), request.guidance_scale,
             request.dtypes(), config.repeats);
  const bool on_gpu = request.devices.front().is_gpu();
  fmt::print("{:<36} {:>9} {:>9} {:>9} {:>7} {:>7} {:>10}\n", "", "seconds",
             on_gpu ? "× 1 wkr." : "× 1 thr.", on_gpu ? "" : "× 2 thr.", "NFE",
             "rounds", "rel. RMSE");
  for (const Json& row : table) {
    const auto speedup = [&row](const char* key) {
      return row.contains(key) ? fmt::format("{:.2f}", row[key].get<double>())
                               : std::string();
    };
    fmt::print(
        "{:<36} {:>9.3f} {:>9} {:>9} {:>7} {:>7} {:>10.2e}\n",
        row["name"].get<std::string>(), row["seconds"].get<double>(),
        speedup(on_gpu ? "speedup_over_1_worker" : "speedup_over_1_thread"),
        speedup("speedup_over_2_threads"), row["nfe"].get<std::int64_t>(),
        row["rounds"].get<std::int64_t>(), row["relative_rmse"].get<double>());
  }
}

}  // namespace

int run_bench(Invocation& invocation) {
  const config::Config& config = invocation.config;
  const JobRequest request = make_request(config);
  print_notes(request.notes);
  invocation.stop.emplace(*invocation.signals);
  const JobRunner runner(request, *invocation.stop);
  if (request.is_emulated) {
    return bench_emulated(invocation, request, runner);
  }
  std::vector<Measurement> rows = rows_of(request);
  // A row of one method may hold other branches than a row of another.
  std::vector<EarlierSpeeds> speeds;
  for (const Measurement& row : rows) {
    speeds.emplace_back(config, request, row.plan.method, runner);
  }
  for (int repeat = 0; repeat < config.repeats; ++repeat) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      measure(invocation, runner, speeds[i], rows[i]);
    }
  }
  Json table = table_of(rows);
  invocation.take_last_word();
  if (config.json) {
    print_json(invocation, request, std::move(table));
  } else {
    print_table(config, request, table);
  }
  return 0;
}

}  // namespace troupe::actors
