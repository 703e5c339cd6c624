// The residuals that `bench methods` reports, beside those of a plain loop
// without a company.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "actors/cli/bench_log.h"
#include "actors/cli/job_runner.h"
#include "actors/cli/run_troupe.h"
#include "kernels/core/system/atomic_file.h"
#include "tests/core/temporary_folder.h"
#include "tests/parallel/run_local.h"

namespace troupe::actors {
namespace {

/// Of the first picture.
Residuals plain_residuals(const JobParts& parts) {
  ExecContext ctx;
  samplers::TaskRunner runner(*parts.schedule, *parts.evaluator, *parts.noise,
                              parts.method);
  Tensor unit(parts.evaluator->latent_shape(), DType::f32);
  parts.noise->initial(0, unit);
  samplers::SlotTable slots;
  slots.put(samplers::kInitialSlot, initial_state(ctx, *parts.schedule, unit));
  const auto method = samplers::make_method(parts.method, *parts.schedule);
  Residuals residuals(
      static_cast<std::size_t>(parts.schedule->num_model_calls()));
  std::vector<samplers::BoundTask> waiting;
  while (!method->done()) {
    for (samplers::Task& task : method->ready(samplers::kNothingAhead)) {
      waiting.push_back({0, std::move(task), &slots});
    }
    const auto tasks = samplers::take_next(waiting);
    const auto results = samplers::run_tasks(runner, ctx, tasks);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (tasks[i].task.op == samplers::Op::sweep) {
        residuals.at(static_cast<std::size_t>(tasks[i].task.from))
            .push_back(results[i].scalars.at(0));
      }
      if (const auto dead = method->apply(results[i])) {
        slots.erase(*dead);
      }
    }
  }
  return residuals;
}

/// By workers, or emulated.
nlohmann::json rows_of(const std::vector<std::string>& company) {
  const TemporaryFolder folder;
  const std::string out = folder.path();
  std::vector<std::string> bench = {
      "bench",    "methods",    "--random-weights",
      "dit-tiny", "--class",    "1",
      "-n",       "1",          "--steps",
      "7",        "--dtype",    "f32",
      "--method", "picard,taa", "--out",
      out};
  bench.insert(bench.end(), company.begin(), company.end());
  EXPECT_EQ(run_troupe(bench), 0);
  return nlohmann::json::parse(
      read_file(out + "/results.json", 1U << 20U))["rows"];
}

TEST(BenchResiduals, AreThoseOfAPlainLoop) {
  config::Config config;
  config.random_weights = "dit-tiny";
  config.classes = {"1"};
  config.compute = config::ComputeType::f32;
  config.sampler.steps = 7;
  config.num_workers = 1;
  std::map<std::string, Residuals> expected;
  for (const auto& [kind, window] : {std::pair(samplers::MethodKind::picard, 2),
                                     {samplers::MethodKind::picard, 4},
                                     {samplers::MethodKind::taa, 4}}) {
    config.method.kind = kind;
    config.method.window_size = window;
    const JobRequest request = make_request(config);
    SignalWatch signals;
    StopFlag stop{signals};
    const JobRunner runner(request, stop);
    expected[to_string(kind) + " --window " + std::to_string(window)] =
        plain_residuals(runner.job_of({}).parts);
  }
  for (const std::vector<std::string>& company :
       {std::vector<std::string>{"--emulate", "4"},
        {"--workers", "2", "--threads", "1", "--repeats", "1"}}) {
    std::map<std::string, Residuals> found;
    for (const nlohmann::json& row : rows_of(company)) {
      if (row.contains("residuals")) {
        found[row["name"]] = row["residuals"].get<Residuals>();
      }
    }
    EXPECT_EQ(found, expected) << company.front();
  }
}

}  // namespace
}  // namespace troupe::actors
