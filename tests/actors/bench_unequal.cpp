// Two workers, of which one is slower, or becomes so in mid-run: how much of
// their summed speed one sample alone by Picard uses, or by a stale pipeline
// that is cut by their speeds, one and several by cfg, and several by batch.
// The workers sleep instead of computing.
//   bench_unequal [milliseconds of a row on the fast worker] [runs] [work]
// Prints work ÷ (wall × summed speed): 1 if no worker ever waits. The work is
// the rows that the method asks for, so it says nothing of what Picard gains.
// TROUPE_TEST_COMPANY=wire sends every message through the codec, =sockets
// makes a process's links for each worker (company_suite.h).

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "actors/plan.h"
#include "actors/runtime.h"
#include "samplers/noise_source.h"
#include "samplers/parallel/method_row.h"
#include "tests/actors/company_suite.h"
#include "tests/actors/job_support.h"
#include "tests/actors/toy_evaluator.h"

namespace {

using namespace troupe;
using Seconds = std::chrono::duration<double>;

using SteadyTime = std::chrono::steady_clock::time_point;

/// How long a row takes on a worker: from the change on, `later`.
struct Pace {
  Seconds row;
  Seconds later = row;
};

/// The pace of each thread. The change comes so long after the first row.
class Speeds {
 public:
  explicit Speeds(Seconds change) : change_(change) {}

  void set(Pace pace) {
    const std::lock_guard lock(mutex_);
    paces_[std::this_thread::get_id()] = pace;
  }
  [[nodiscard]] Seconds here(SteadyTime now) {
    const std::lock_guard lock(mutex_);
    begin_ = std::min(begin_, now);
    const Pace& pace = paces_.at(std::this_thread::get_id());
    return now - begin_ < change_ ? pace.row : pace.later;
  }

 private:
  Seconds change_;
  std::mutex mutex_;
  SteadyTime begin_ = SteadyTime::max();
  std::map<std::thread::id, Pace> paces_;
};

/// Sleeps as long as its thread takes for a row.
class Sleeper final : public samplers::Evaluator {
 public:
  /// shares: of the network, by segment.
  Sleeper(Speeds& speeds, std::vector<double> shares)
      : network_(static_cast<int>(shares.size())),
        speeds_(speeds),
        shares_(std::move(shares)) {}

  [[nodiscard]] Shape latent_shape() const override {
    return network_.latent_shape();
  }
  [[nodiscard]] std::int64_t out_channels() const override {
    return network_.out_channels();
  }
  [[nodiscard]] int num_segments() const override {
    return network_.num_segments();
  }
  void evaluate(ExecContext& ctx,
                std::span<samplers::EvaluateRow> rows) override {
    const auto start = std::chrono::steady_clock::now();
    network_.evaluate(ctx, rows);
    sleep_for_rows(start, static_cast<double>(rows.size()));
  }
  void combine(ExecContext& ctx, double timestep, const Tensor& cond,
               const Tensor& uncond, Tensor& out) override {
    network_.combine(ctx, timestep, cond, uncond, out);
  }
  void run_segment(ExecContext& ctx, int segment,
                   std::span<samplers::SegmentRow> rows) override {
    const auto start = std::chrono::steady_clock::now();
    network_.run_segment(ctx, segment, rows);
    sleep_for_rows(start, static_cast<double>(rows.size()) *
                              shares_[static_cast<std::size_t>(segment)]);
  }
  void decode(ExecContext& ctx, const Tensor& latents,
              Tensor& pixels) override {
    network_.decode(ctx, latents, pixels);
  }

 private:
  void sleep_for_rows(SteadyTime start, double rows) {
    std::this_thread::sleep_until(start + std::chrono::duration_cast<Duration>(
                                              speeds_.here(start) * rows));
  }

  actors::ToyEvaluator network_;
  Speeds& speeds_;
  std::vector<double> shares_;
};

struct Outcome {
  double share = 0;
  std::int64_t rows = 0;
  std::int64_t rounds = 0;
};

struct Work {
  const char* name;
  samplers::MethodOptions method;
  int rows_before_change = 0;  ///< of one worker
  int calls = 50;
  std::uint64_t samples = 1;
  int rows_per_call = 1;  ///< tasks of one network call
};

/// Rows that the workers can do in that time, if none waits.
double rows_in(Seconds wall, const std::vector<Pace>& paces, Seconds change) {
  const Seconds before = std::min(wall, change);
  double rows = 0;
  for (const Pace& pace : paces) {
    rows += before / pace.row + (wall - before) / pace.later;
  }
  return rows;
}

/// Of a network of 28 equal blocks, cut as a job's is.
std::vector<double> shares_of(const samplers::MethodOptions& method) {
  constexpr int kBlocks = 28;
  const std::vector<int> cuts =
      actors::cut_blocks(std::vector<double>(kBlocks, 1.0),
                         samplers::num_segments(method), method.segment_speeds);
  std::vector<double> shares;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
    shares.push_back((cuts[s + 1] - cuts[s]) / static_cast<double>(kBlocks));
  }
  return shares;
}

Outcome run(const std::vector<Pace>& paces, Seconds change, Work work) {
  if (work.method.kind == samplers::MethodKind::stale) {
    for (const Pace& pace : paces) {
      work.method.segment_speeds.push_back(paces.front().row / pace.row);
    }
  }
  const samplers::Schedule schedule(actors::ddim_steps(work.calls));
  Speeds speeds(change);
  Sleeper network(speeds, shares_of(work.method));
  samplers::PhiloxNoise noise(1);
  actors::JobSpec spec;
  spec.parts.schedule = actors::unowned(schedule);
  spec.parts.method = work.method;
  spec.parts.evaluator = actors::unowned(network);
  spec.parts.noise = actors::unowned(noise);
  spec.end = work.samples;
  spec.decode = false;
  spec.workers = actors::cpu_workers(static_cast<int>(paces.size()));
  spec.make_executor = [&](int worker) {
    auto executor = std::make_unique<ThreadExecutor>();
    executor->post([&speeds, pace = paces[static_cast<std::size_t>(worker)]] {
      speeds.set(pace);
    });
    return executor;
  };
  const actors::JobResult result = actors::run_in_suite(spec);
  if (result.failure) {
    std::fprintf(stderr, "%s\n", result.failure->message.c_str());
    std::exit(1);
  }
  const std::int64_t rows = result.nfe * work.rows_per_call;
  return {static_cast<double>(rows) /
              rows_in(Seconds(result.wall_seconds), paces, change),
          rows, result.rounds};
}

void print_median(const std::vector<Pace>& paces, Seconds change,
                  const Work& work, int runs) {
  std::vector<Outcome> outcomes;
  for (int i = 0; i < runs; ++i) {
    outcomes.push_back(run(paces, change, work));
  }
  std::ranges::sort(outcomes, {}, &Outcome::share);
  const Outcome& median = outcomes[outcomes.size() / 2];
  std::printf("%-12s %3d steps  workers", work.name, work.calls);
  for (const Pace& pace : paces) {
    std::printf(" %.3g", paces.front().row / pace.row);
    if (pace.later != pace.row) {
      std::printf(", later %.3g", paces.front().row / pace.later);
    }
  }
  std::printf(
      "  %lld rows in %lld rounds  work / (wall x summed speed) %.3f (%.3f to "
      "%.3f, %d runs)\n",
      static_cast<long long>(median.rows),
      static_cast<long long>(median.rounds), median.share,
      outcomes.front().share, outcomes.back().share, runs);
}

/// The change comes in the first third of the run.
std::vector<Work> works() {
  const auto picard = samplers::MethodKind::picard;
  std::vector<Work> works;
  for (const int calls : {50, 100}) {
    samplers::MethodOptions usual = picard->defaults({}, calls, 8);
    usual.kind = picard;
    samplers::MethodOptions exact;
    exact.kind = picard;
    works.push_back({"picard", usual, calls, calls});
    works.push_back({"tolerance 0", exact, calls, calls});
  }
  samplers::MethodOptions batch;
  batch.kind = samplers::MethodKind::batch;
  works.push_back({"batch of 16", batch, 100, 50, 16});
  samplers::MethodOptions cfg;
  cfg.kind = samplers::MethodKind::cfg;
  works.push_back({"cfg", cfg, 16, 50, 1, 2});
  works.push_back({"cfg of 8", cfg, 50, 50, 8, 2});
  samplers::MethodOptions stale;
  stale.kind = samplers::MethodKind::stale;
  works.push_back({"stale", stale, 16, 100});
  return works;
}

}  // namespace

int main(int argc, char** argv) {
  const Seconds row(1e-3 * (argc > 1 ? std::atof(argv[1]) : 10.0));
  const int runs = argc > 2 ? std::atoi(argv[2]) : 5;
  const std::string_view only = argc > 3 ? argv[3] : "";
  const std::vector<std::vector<Pace>> companies = {
      {{2 * row}, {row}}, {{row}, {2 * row}}, {{4 * row}, {row}},
      {{row}, {4 * row}}, {{row}, {row}},     {{row}, {row, 4 * row}},
  };
  for (const Work& work : works()) {
    if (!only.empty() && only != work.name) {
      continue;
    }
    for (const std::vector<Pace>& paces : companies) {
      print_median(paces, work.rows_before_change * row, work, runs);
    }
  }
}
