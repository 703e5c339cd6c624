// One sample alone by Picard on two workers, of which one is slower: how much
// of their summed speed is used. The workers sleep instead of computing.
//   bench_unequal [milliseconds of a row on the fast worker] [runs]
// Prints work ÷ (wall × summed speed): 1 if no worker ever waits. The work is
// the rows that the method asks for, so it says nothing of what Picard gains.
// TROUPE_TEST_COMPANY=wire sends every message through the codec
// (company_suite.h).

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "actors/runtime.h"
#include "samplers/noise_source.h"
#include "samplers/parallel/method_row.h"
#include "tests/actors/company_suite.h"
#include "tests/actors/job_support.h"
#include "tests/actors/toy_evaluator.h"

namespace {

using namespace troupe;
using Seconds = std::chrono::duration<double>;

/// How long a row takes on each thread.
class Speeds {
 public:
  void set(Seconds row) {
    const std::lock_guard lock(mutex_);
    rows_[std::this_thread::get_id()] = row;
  }
  [[nodiscard]] Seconds here() {
    const std::lock_guard lock(mutex_);
    return rows_.at(std::this_thread::get_id());
  }

 private:
  std::mutex mutex_;
  std::map<std::thread::id, Seconds> rows_;
};

/// Sleeps as long as its thread takes for a row.
class Sleeper final : public samplers::Evaluator {
 public:
  explicit Sleeper(Speeds& speeds) : speeds_(speeds) {}

  [[nodiscard]] Shape latent_shape() const override {
    return network_.latent_shape();
  }
  [[nodiscard]] std::int64_t out_channels() const override {
    return network_.out_channels();
  }
  [[nodiscard]] int num_segments() const override { return 1; }
  void evaluate(ExecContext& ctx,
                std::span<samplers::EvaluateRow> rows) override {
    const auto start = std::chrono::steady_clock::now();
    network_.evaluate(ctx, rows);
    std::this_thread::sleep_until(
        start + std::chrono::duration_cast<Duration>(
                    speeds_.here() * static_cast<double>(rows.size())));
  }
  void combine(ExecContext& ctx, const Tensor& cond, const Tensor& uncond,
               Tensor& out) override {
    network_.combine(ctx, cond, uncond, out);
  }
  void run_segment(ExecContext& ctx, int segment,
                   std::span<samplers::SegmentRow> rows) override {
    network_.run_segment(ctx, segment, rows);
  }
  void decode(ExecContext& ctx, const Tensor& latents,
              Tensor& pixels) override {
    network_.decode(ctx, latents, pixels);
  }

 private:
  actors::ToyEvaluator network_;
  Speeds& speeds_;
};

struct Outcome {
  double share = 0;
  std::int64_t nfe = 0;
  std::int64_t rounds = 0;
};

/// Of the summed speed of workers that take so long for a row.
Outcome run(const std::vector<Seconds>& rows, int calls,
            const samplers::MethodOptions& method) {
  const samplers::Schedule schedule(actors::ddim_steps(calls));
  Speeds speeds;
  Sleeper network(speeds);
  samplers::PhiloxNoise noise(1);
  actors::JobSpec spec;
  spec.parts.schedule = actors::unowned(schedule);
  spec.parts.method = method;
  spec.parts.evaluator = actors::unowned(network);
  spec.parts.noise = actors::unowned(noise);
  spec.decode = false;
  spec.workers = actors::cpu_workers(static_cast<int>(rows.size()));
  spec.make_executor = [&](int worker) {
    auto executor = std::make_unique<ThreadExecutor>();
    executor->post([&speeds, row = rows[static_cast<std::size_t>(worker)]] {
      speeds.set(row);
    });
    return executor;
  };
  const actors::JobResult result = actors::run_in_suite(spec);
  if (result.failure) {
    std::fprintf(stderr, "%s\n", result.failure->message.c_str());
    std::exit(1);
  }
  double summed = 0;
  for (const Seconds row : rows) {
    summed += 1 / row.count();
  }
  return {static_cast<double>(result.nfe) / (result.wall_seconds * summed),
          result.nfe, result.rounds};
}

void print_median(const char* name, const std::vector<Seconds>& rows, int calls,
                  const samplers::MethodOptions& method, int runs) {
  std::vector<Outcome> outcomes;
  for (int i = 0; i < runs; ++i) {
    outcomes.push_back(run(rows, calls, method));
  }
  std::ranges::sort(outcomes, {}, &Outcome::share);
  const Outcome& median = outcomes[outcomes.size() / 2];
  std::printf("%-12s %3d steps  workers", name, calls);
  for (const Seconds row : rows) {
    std::printf(" %.3g", rows.front() / row);
  }
  std::printf(
      "  %lld rows in %lld rounds  work / (wall x summed speed) %.3f (%.3f to "
      "%.3f, %d runs)\n",
      static_cast<long long>(median.nfe), static_cast<long long>(median.rounds),
      median.share, outcomes.front().share, outcomes.back().share, runs);
}

}  // namespace

int main(int argc, char** argv) {
  const Seconds row(1e-3 * (argc > 1 ? std::atof(argv[1]) : 10.0));
  const int runs = argc > 2 ? std::atoi(argv[2]) : 5;
  for (const int calls : {50, 100}) {
    const auto picard = samplers::MethodKind::picard;
    samplers::MethodOptions method = picard->defaults({}, calls);
    method.kind = picard;
    samplers::MethodOptions exact{.kind = picard};
    for (const auto& rows :
         {std::vector{2 * row, row}, {row, 2 * row}, {row, row}}) {
      print_median("picard", rows, calls, method, runs);
      print_median("tolerance 0", rows, calls, exact, runs);
    }
  }
}
