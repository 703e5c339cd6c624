// Whole jobs over devices of several classes. Workers of the second class stand
// in for a GPU: they have two threads, by which the network knows them, and
// other arithmetic.

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <map>

#include "actors/runtime.h"
#include "kernels/core/error.h"
#include "tests/actors/company_suite.h"
#include "tests/actors/job_support.h"
#include "tests/actors/toy_evaluator.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;

bool is_other(const ExecContext& ctx) { return ctx.num_threads() == 2; }

/// The toy network, whose outputs in the second class are larger by a hair.
class TwoClasses final : public samplers::Evaluator {
 public:
  explicit TwoClasses(int num_segments) : toy_(num_segments) {}

  std::function<void(ExecContext&)> before_forward;

  [[nodiscard]] Shape latent_shape() const override {
    return toy_.latent_shape();
  }
  [[nodiscard]] std::int64_t out_channels() const override {
    return toy_.out_channels();
  }
  [[nodiscard]] int num_segments() const override {
    return toy_.num_segments();
  }
  void evaluate(ExecContext& ctx,
                std::span<samplers::EvaluateRow> rows) override {
    before_forward(ctx);
    toy_.evaluate(ctx, rows);
    for (samplers::EvaluateRow& row : rows) {
      change(ctx, row.output);
    }
  }
  void combine(ExecContext& ctx, double timestep, const Tensor& cond,
               const Tensor& uncond, Tensor& out) override {
    toy_.combine(ctx, timestep, cond, uncond, out);
  }
  void run_segment(ExecContext& ctx, int segment,
                   std::span<samplers::SegmentRow> rows) override {
    before_forward(ctx);
    toy_.run_segment(ctx, segment, rows);
    for (samplers::SegmentRow& row : rows) {
      if (segment + 1 == num_segments()) {
        change(ctx, row.output);
      }
    }
  }
  void decode(ExecContext& ctx, const Tensor& latents,
              Tensor& pixels) override {
    toy_.decode(ctx, latents, pixels);
  }

 private:
  static void change(const ExecContext& ctx, Tensor& output) {
    if (is_other(ctx)) {
      for (float& value : output.span<float>()) {
        value *= 1.001F;
      }
    }
  }

  ToyEvaluator toy_;
};

class DeviceLatents final : public Observer {
 public:
  void on_sample(const SampleOutcome& outcome) override {
    if (outcome.report.status == SampleStatus::done) {
      of[outcome.report.sample_index] = outcome.latents;
    }
  }
  std::map<std::uint64_t, Tensor> of;
};

struct Job {
  explicit Job(const MethodOptions& method)
      : evaluator(method.kind == MethodKind::pipeline ||
                          method.kind == MethodKind::stale
                      ? method.num_segments
                      : 1) {
    evaluator.before_forward = [](ExecContext&) {};
    spec.parts.schedule = unowned(schedule);
    spec.parts.method = method;
    spec.parts.evaluator = unowned(evaluator);
    spec.parts.noise = unowned(noise);
    spec.end = 6;
    spec.observers = {&seen};
    spec.workers.clear();
  }
  void add(int execution_class, int workers = 1) {
    for (int w = 0; w < workers; ++w) {
      spec.workers.push_back({.execution_class = execution_class,
                              .max_rows = 1 + execution_class,
                              .threads = execution_class == 0 ? 1 : 2});
    }
  }

  samplers::Schedule schedule{ddim_steps(8)};
  TwoClasses evaluator;
  samplers::PhiloxNoise noise{11};
  DeviceLatents seen;
  JobSpec spec;
};

/// What one class alone gives. Its number in a job must start at 0.
std::map<std::uint64_t, Tensor> alone(const MethodOptions& method,
                                      int execution_class) {
  Job job(method);
  job.add(execution_class);
  job.spec.workers[0].execution_class = 0;
  EXPECT_FALSE(run_in_suite(job.spec).failure);
  return job.seen.of;
}

void expect_bytes_of_their_class(const MethodOptions& method, const Job& job,
                                 const JobResult& result) {
  const std::map<std::uint64_t, Tensor> expected[] = {alone(method, 0),
                                                      alone(method, 1)};
  ASSERT_FALSE(bytes_equal(expected[0].at(0), expected[1].at(0)));
  ASSERT_EQ(job.seen.of.size(), 6U);
  for (const SampleReport& report : result.samples) {
    const std::uint64_t index = report.sample_index;
    EXPECT_TRUE(bytes_equal(job.seen.of.at(index),
                            expected[report.execution_class].at(index)))
        << "sample " << index << " of class " << report.execution_class;
  }
}

std::vector<MethodOptions> device_methods() {
  return {{.kind = MethodKind::batch},
          {.kind = MethodKind::cfg},
          {.kind = MethodKind::picard, .window_size = 3, .tolerance = 0.05},
          {.kind = MethodKind::pipeline, .num_segments = 2},
          {.kind = MethodKind::stale, .num_segments = 2, .age = 1}};
}

TEST(JobOverTwoClasses, KeepsEachSampleWithinOne) {
  for (const MethodOptions& method : device_methods()) {
    Job job(method);
    job.add(0, 2);
    job.add(1, 2);
    const JobResult result = run_in_suite(job.spec);
    ASSERT_FALSE(result.failure) << result.failure->message;
    expect_bytes_of_their_class(method, job, result);
  }
}

/// Says when its worker has been taken out of the job.
class DepartingExecutor final : public Executor {
 public:
  explicit DepartingExecutor(std::latch& departed) : departed_(&departed) {}
  ~DepartingExecutor() override { departed_->count_down(); }
  DepartingExecutor(const DepartingExecutor&) = delete;
  DepartingExecutor& operator=(const DepartingExecutor&) = delete;
  void post(Executor::Job job) override { thread_.post(std::move(job)); }
  void post_when(Condition condition, Executor::Job job) override {
    thread_.post_when(std::move(condition), std::move(job));
  }

 private:
  std::latch* departed_;
  ThreadExecutor thread_;
};

TEST(JobOverTwoClasses, GoesOnWithoutADeviceThatIsLost) {
  for (const MethodOptions& method : device_methods()) {
    Job job(method);
    job.add(0, 2);
    job.add(1);
    // The rest wait until the loss is known: they would take over what its
    // worker leaves undone, and might have ended the job before.
    std::atomic<int> forwards{0};
    std::latch lost{1};
    job.evaluator.before_forward = [&](ExecContext& ctx) {
      if (!is_other(ctx)) {
        lost.wait();
      } else if (++forwards == 4) {
        throw Error(Errc::device_lost, "toy", "fell off the bus");
      }
    };
    job.spec.make_executor = [&](int worker) -> std::unique_ptr<Executor> {
      if (job.spec.workers[static_cast<std::size_t>(worker)].execution_class ==
          1) {
        return std::make_unique<DepartingExecutor>(lost);
      }
      return std::make_unique<ThreadExecutor>();
    };
    const JobResult result = run_in_suite(job.spec);
    ASSERT_FALSE(result.failure) << result.failure->message;
    EXPECT_EQ(result.count(SampleStatus::done), 6U);
    ASSERT_EQ(result.lost.size(), 1U);
    EXPECT_EQ(result.lost[0].cause.message, "fell off the bus");
    EXPECT_GE(result.recoveries, 1);
    EXPECT_GT(forwards, 3);
    expect_bytes_of_their_class(method, job, result);
  }
}

TEST(JobOverTwoClasses, FailsWithTheCauseWhenEveryDeviceIsLost) {
  Job job({.kind = MethodKind::batch});
  job.add(0);
  job.add(1);
  job.evaluator.before_forward = [](ExecContext&) {
    throw Error(Errc::device_lost, "toy", "fell off the bus", "look for it");
  };
  const JobResult result = run_in_suite(job.spec);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->code, Errc::device_lost);
  EXPECT_EQ(result.failure->message, "fell off the bus");
  EXPECT_EQ(result.failure->hint, "look for it");
  EXPECT_EQ(result.count(SampleStatus::unfinished), 6U);
}

TEST(JobOverTwoClasses, DoesNotStartAWorkerAgainWhoseDeviceIsLost) {
  Job job({.kind = MethodKind::batch});
  job.add(0);
  job.add(1);
  std::atomic<int> starts{0};
  job.spec.restart.first_delay = std::chrono::milliseconds(1);
  job.spec.make_executor = [&starts](int worker) -> std::unique_ptr<Executor> {
    if (worker == 1) {
      ++starts;
      throw Error(Errc::device_lost, "cuda:0", "is not there");
    }
    return std::make_unique<ThreadExecutor>();
  };
  const JobResult result = run_in_suite(job.spec);
  EXPECT_FALSE(result.failure);
  EXPECT_EQ(result.count(SampleStatus::done), 6U);
  EXPECT_EQ(starts, 1);
  EXPECT_EQ(result.lost.size(), 1U);
}

}  // namespace
}  // namespace troupe::actors
