// Coordination alone: a network that costs nothing, many workers, many tasks.
// Prints microseconds per task, the memory before and after, and the time from
// call to call of a sample that is alone.
//   bench_coordination [workers] [tasks]
// TROUPE_TEST_COMPANY=wire sends every message through the codec
// (company_suite.h).

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "actors/runtime.h"
#include "tests/actors/company_suite.h"
#include "tests/actors/job_support.h"

namespace {

using namespace troupe;

class NoNetwork final : public samplers::Evaluator {
 public:
  [[nodiscard]] Shape latent_shape() const override { return {1, 1, 1}; }
  [[nodiscard]] std::int64_t out_channels() const override { return 1; }
  [[nodiscard]] int num_segments() const override { return 1; }
  void evaluate(ExecContext& /*ctx*/,
                std::span<samplers::EvaluateRow> rows) override {
    for (samplers::EvaluateRow& row : rows) {
      row.output.data<float>()[0] = 0.5F;
    }
  }
  void combine(ExecContext& /*ctx*/, double /*timestep*/, const Tensor& cond,
               const Tensor& /*uncond*/, Tensor& out) override {
    out.data<float>()[0] = cond.data<float>()[0];
  }
  void run_segment(ExecContext& /*ctx*/, int /*segment*/,
                   std::span<samplers::SegmentRow> /*rows*/) override {}
  void decode(ExecContext& /*ctx*/, const Tensor& latents,
              Tensor& pixels) override {
    pixels = latents;
  }
};

double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  long total = 0;
  long resident = 0;
  statm >> total >> resident;
  return static_cast<double>(resident) * 4096 / (1 << 20);
}

/// Seconds that a job of `samples` samples takes, with `calls` calls each. A
/// call is an evaluation and a step.
double seconds_of(int workers, std::uint64_t samples, int calls) {
  samplers::ScheduleOptions options;
  options.num_inference_steps = calls;
  const samplers::Schedule schedule(options);
  NoNetwork network;
  samplers::PhiloxNoise noise(1);
  actors::JobSpec spec;
  spec.parts.schedule = actors::unowned(schedule);
  spec.parts.method.kind = samplers::MethodKind::batch;
  spec.parts.evaluator = actors::unowned(network);
  spec.parts.noise = actors::unowned(noise);
  spec.end = samples;
  spec.decode = false;
  spec.workers = actors::cpu_workers(workers);
  const actors::JobResult result = actors::run_in_suite(spec);
  if (result.failure) {
    std::fprintf(stderr, "%s\n", result.failure->message.c_str());
    std::exit(1);
  }
  return result.wall_seconds;
}

/// Microseconds per task of a job of about `tasks`.
double run(int workers, std::uint64_t tasks) {
  const std::uint64_t samples = tasks / 50;
  return seconds_of(workers, samples, 50) * 1e6 /
         static_cast<double>(samples * 50);
}

/// Microseconds between the calls of one sample, when nothing else is there to
/// hide them: result, decision, grant.
double alone() {
  return (seconds_of(1, 1, 1000) - seconds_of(1, 1, 10)) * 1e6 / 990;
}

}  // namespace

int main(int argc, char** argv) {
  const int workers = argc > 1 ? std::atoi(argv[1]) : 64;
  const auto tasks =
      static_cast<std::uint64_t>(argc > 2 ? std::atoll(argv[2]) : 100000);
  (void)run(workers, tasks / 10);
  const double before = resident_mib();
  const double each = run(workers, tasks);
  const double middle = resident_mib();
  (void)run(workers, tasks);
  const double after = resident_mib();
  std::vector<double> one;
  for (int i = 0; i < 9; ++i) {
    one.push_back(alone());
  }
  std::nth_element(one.begin(), one.begin() + 4, one.end());
  std::printf(
      "workers %d  tasks %llu  %.2f us per task  resident %.1f MiB before, "
      "%.1f after one job, %.1f after two\n"
      "one sample alone: %.1f us from call to call (median of 9)\n",
      workers, static_cast<unsigned long long>(tasks), each, before, middle,
      after, one[4]);
}
