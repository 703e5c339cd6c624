#include "actors/runtime.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "kernels/core/error.h"
#include "tests/actors/company_suite.h"
#include "tests/actors/job_support.h"
#include "tests/actors/toy_evaluator.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;
using samplers::Solver;

/// Keeps what it is told.
class Collector final : public Observer {
 public:
  void on_sample(const SampleOutcome& outcome) override {
    if (outcome.report.status == SampleStatus::done) {
      latents[outcome.report.sample_index] = outcome.latents;
      pixels[outcome.report.sample_index] = outcome.pixels;
    }
    if (after_sample) {
      after_sample();
    }
  }
  void on_preview(const Preview& preview) override {
    previews.push_back(preview);
  }
  void on_point(const TrajectoryPoint& point) override {
    points[point.sample_index].insert_or_assign(point.calls, point.latents);
  }
  void on_span(const TraceSpan& span) override { spans.push_back(span); }
  void on_progress(const JobProgress& progress) override { last = progress; }

  std::map<std::uint64_t, Tensor> latents;
  std::map<std::uint64_t, Tensor> pixels;
  std::vector<Preview> previews;
  std::map<std::uint64_t, std::map<int, Tensor>> points;
  std::vector<TraceSpan> spans;
  JobProgress last;
  std::function<void()> after_sample;
};

/// A job over the toy network, ready to be changed and run.
struct Job {
  explicit Job(MethodOptions method = {}, Solver solver = Solver::ddim)
      : schedule(options_of(solver)),
        evaluator(method.kind == MethodKind::pipeline ||
                          method.kind == MethodKind::stale
                      ? method.num_segments
                      : 1) {
    spec.parts.schedule = unowned(schedule);
    spec.parts.method = method;
    spec.parts.evaluator = unowned(evaluator);
    spec.parts.noise = unowned(noise);
    spec.end = 5;
    spec.observers = {&seen};
    spec.restart.first_delay = std::chrono::milliseconds(1);
  }

  static samplers::ScheduleOptions options_of(Solver solver) {
    samplers::ScheduleOptions options = ddim_steps(8);
    options.solver = solver;
    if (solver == Solver::flow_euler) {
      options.prediction_type = samplers::PredictionType::flow_prediction;
    }
    return options;
  }

  JobResult run() { return run_in_suite(spec); }

  samplers::Schedule schedule;
  ToyEvaluator evaluator;
  samplers::PhiloxNoise noise{11};
  Collector seen;
  JobSpec spec;
};

std::map<std::uint64_t, Tensor> sequential(Solver solver = Solver::ddim) {
  Job job({.kind = MethodKind::sequential}, solver);
  const JobResult result = job.run();
  EXPECT_FALSE(result.failure);
  return job.seen.latents;
}

void expect_same(const std::map<std::uint64_t, Tensor>& a,
                 const std::map<std::uint64_t, Tensor>& b,
                 const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (const auto& [index, latents] : a) {
    ASSERT_TRUE(b.contains(index)) << what;
    EXPECT_TRUE(bytes_equal(latents, b.at(index)))
        << what << ", sample " << index;
  }
}

TEST(RunJob, GivesTheSameBytesByEveryExactMethod) {
  const std::vector<MethodOptions> methods{
      {.kind = MethodKind::batch},
      {.kind = MethodKind::cfg},
      {.kind = MethodKind::pipeline, .num_segments = 2},
      {.kind = MethodKind::pipeline, .num_segments = 4},
      {.kind = MethodKind::picard, .window_size = 3},
      {.kind = MethodKind::picard, .window_size = 8},
      {.kind = MethodKind::stale, .num_segments = 2, .age = 0}};
  for (const Solver solver :
       {Solver::ddim, Solver::ddpm, Solver::dpmpp, Solver::euler,
        Solver::euler_ancestral, Solver::heun, Solver::flow_euler,
        Solver::unipc}) {
    const auto expected = sequential(solver);
    ASSERT_EQ(expected.size(), 5U);
    for (const MethodOptions& method : methods) {
      for (const auto& [workers, threads] :
           {std::pair{1, 2}, std::pair{2, 1}, std::pair{3, 2}}) {
        Job job(method, solver);
        job.spec.workers = cpu_workers(workers, threads);
        const JobResult result = job.run();
        EXPECT_FALSE(result.failure) << result.failure->message;
        expect_same(expected, job.seen.latents,
                    "solver " + std::string(solver->name) + ", method " +
                        std::string(method.kind->name) + ", " +
                        std::to_string(workers) + " workers");
      }
    }
  }
}

std::vector<MethodOptions> every_method() {
  return {{.kind = MethodKind::sequential},
          {.kind = MethodKind::batch},
          {.kind = MethodKind::cfg},
          {.kind = MethodKind::pipeline, .num_segments = 2},
          {.kind = MethodKind::picard, .window_size = 3, .tolerance = 0.05},
          {.kind = MethodKind::stale, .num_segments = 2, .age = 1},
          {.kind = MethodKind::stale, .num_segments = 2, .stride = 2}};
}

TEST(RunJob, GivesTheSameBytesTwice) {
  for (const MethodOptions& method : every_method()) {
    Job first(method);
    Job second(method);
    first.spec.workers = cpu_workers(2);
    second.spec.workers = cpu_workers(3);
    (void)first.run();
    (void)second.run();
    expect_same(first.seen.latents, second.seen.latents, "again");
  }
}

TEST(RunJob, GivesASampleAloneTheBytesItHasAmongOthers) {
  for (const MethodOptions& method : every_method()) {
    Job together(method);
    together.spec.workers = cpu_workers(2);
    (void)together.run();
    ASSERT_EQ(together.seen.latents.size(), 5U);
    for (std::uint64_t index = 0; index < 5; ++index) {
      Job job(method);
      job.spec.begin = index;
      job.spec.end = index + 1;
      (void)job.run();
      expect_same({{index, together.seen.latents.at(index)}}, job.seen.latents,
                  "alone");
    }
  }
}

TEST(RunJob, PacksRowsOfSeveralSamplesWithoutChangingThem) {
  Job job({.kind = MethodKind::batch});
  job.spec.workers = cpu_workers(1, 1, 3);
  (void)job.run();
  expect_same(sequential(), job.seen.latents, "packed");
  EXPECT_EQ(job.evaluator.most_rows, 3);
}

TEST(RunJob, LeavesOutWhatIsToBeSkipped) {
  Job job({.kind = MethodKind::batch});
  job.spec.skip = {1, 3};
  const JobResult result = job.run();
  EXPECT_EQ(result.samples.size(), 3U);
  EXPECT_EQ(job.seen.latents.size(), 3U);
  EXPECT_FALSE(job.seen.latents.contains(3));
}

TEST(RunJob, DecodesAndCounts) {
  Job job({.kind = MethodKind::batch});
  job.spec.workers = cpu_workers(2);
  const JobResult result = job.run();
  EXPECT_EQ(job.seen.pixels.size(), 5U);
  EXPECT_EQ(result.count(SampleStatus::done), 5U);
  EXPECT_EQ(result.nfe, 5 * 8);
  EXPECT_EQ(result.rounds, 8);
  EXPECT_GT(result.compute_seconds, 0.0);
  EXPECT_EQ(job.seen.last.calls_done, 5 * 8);
  EXPECT_EQ(job.seen.last.samples_done, 5U);
}

TEST(RunJob, ShowsPreviewsAndSpansWhenAsked) {
  for (const auto kind : {MethodKind::batch, MethodKind::picard}) {
    Job job({.kind = kind, .window_size = 2});
    job.spec.preview_every = 4;
    job.spec.trace = true;
    (void)job.run();
    EXPECT_EQ(job.seen.previews.size(), 2U * 5U);
    EXPECT_GE(job.seen.spans.size(), 20U);
  }
  Job quiet({.kind = MethodKind::batch});
  (void)quiet.run();
  EXPECT_TRUE(quiet.seen.previews.empty());
  EXPECT_TRUE(quiet.seen.spans.empty());
}

/// Refuses its n-th job, once: a worker that dies.
class FailingExecutor final : public Executor {
 public:
  explicit FailingExecutor(int jobs) : left_(jobs) {}
  void post(Job job) override {
    require(left_-- > 0, Errc::internal, "test", "the worker ends here");
    inner_.post(std::move(job));
  }
  void post_when(Condition condition, Job job) override {
    inner_.post_when(std::move(condition), std::move(job));
  }

 private:
  int left_;
  ThreadExecutor inner_;
};

TEST(RunJob, CompletesWithTheSameBytesWhenWorkersDie) {
  for (const MethodOptions& method : every_method()) {
    Job undisturbed(method);
    undisturbed.spec.workers = cpu_workers(2);
    (void)undisturbed.run();
    Job job(method);
    job.spec.workers = cpu_workers(2);
    std::atomic<int> deaths{0};
    job.spec.make_executor = [&](int worker) -> std::unique_ptr<Executor> {
      if (worker == 1 && deaths < 2) {
        ++deaths;
        return std::make_unique<FailingExecutor>(3);
      }
      return std::make_unique<ThreadExecutor>();
    };
    const JobResult result = job.run();
    ASSERT_FALSE(result.failure) << result.failure->message;
    // All work of sequential is the first worker's.
    if (method.kind != MethodKind::sequential) {
      EXPECT_GE(result.recoveries, 1);
    }
    expect_same(undisturbed.seen.latents, job.seen.latents, "after a death");
  }
}

TEST(RunJob, GoesOnWhileThreadsOfFencedWorkersHang) {
  // As many as there are threads for actors: none of these may wait for them.
  constexpr int kHanging = 2;
  Job job({.kind = MethodKind::batch});
  job.spec.workers = cpu_workers(kHanging + 1);
  job.spec.lease = {.least = std::chrono::milliseconds(300)};
  std::atomic<int> passes{0};
  std::atomic<bool> is_over{false};
  job.evaluator.before_forward = [&](ExecContext& /*ctx*/) {
    if (passes++ < kHanging) {
      while (!is_over) {
        std::this_thread::yield();
      }
    }
  };
  std::size_t ended = 0;
  job.seen.after_sample = [&] {
    is_over = ++ended == job.spec.end - job.spec.begin;
  };
  const JobResult result = job.run();
  ASSERT_FALSE(result.failure) << result.failure->message;
  EXPECT_EQ(result.count(SampleStatus::done), ended);
  EXPECT_GE(result.recoveries, kHanging);
}

TEST(RunJob, FailsWhenNoWorkerStaysAlive) {
  Job job({.kind = MethodKind::batch});
  job.spec.workers = cpu_workers(2);
  job.spec.make_executor = [](int) -> std::unique_ptr<Executor> {
    throw Error(Errc::out_of_memory, "test", "no thread to be had");
  };
  const JobResult result = job.run();
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->code, Errc::out_of_memory);
  EXPECT_EQ(result.count(SampleStatus::unfinished), 5U);
}

TEST(RunJob, ShowsTheLatentsAfterEveryCall) {
  Job plain({.kind = MethodKind::sequential});
  plain.spec.trajectory = true;
  ASSERT_FALSE(plain.run().failure);
  ASSERT_EQ(plain.seen.points.size(), 5U);
  for (const auto& [index, points] : plain.seen.points) {
    ASSERT_EQ(points.size(), 9U) << "sample " << index;
    EXPECT_TRUE(bytes_equal(points.at(8), plain.seen.latents.at(index)));
  }
  for (const MethodOptions& method :
       {MethodOptions{.kind = MethodKind::picard, .window_size = 3},
        MethodOptions{.kind = MethodKind::pipeline, .num_segments = 2}}) {
    Job job(method);
    job.spec.workers = cpu_workers(2);
    job.spec.trajectory = true;
    ASSERT_FALSE(job.run().failure);
    for (const auto& [index, points] : plain.seen.points) {
      expect_same({{0, points.at(0)}, {4, points.at(4)}},
                  {{0, job.seen.points.at(index).at(0)},
                   {4, job.seen.points.at(index).at(4)}},
                  "trajectory");
    }
  }
  Job quiet;
  (void)quiet.run();
  EXPECT_TRUE(quiet.seen.points.empty());
}

TEST(RunJob, StopsBetweenBlocksAndKeepsFinishedSamples) {
  Job job({.kind = MethodKind::batch});
  std::stop_source stop;
  std::atomic<bool> endless{false};
  job.spec.stop = stop.get_token();
  job.spec.end = 50;
  // After the first sample every forward lasts until it is interrupted.
  job.evaluator.before_forward = [&](ExecContext& ctx) {
    while (endless) {
      ctx.tick();
      std::this_thread::yield();
    }
  };
  job.seen.after_sample = [&] {
    endless = true;
    stop.request_stop();
  };
  const JobResult result = job.run();
  EXPECT_TRUE(result.stopped);
  EXPECT_FALSE(result.failure);
  EXPECT_GE(result.count(SampleStatus::done), 1U);
  EXPECT_GE(result.count(SampleStatus::unfinished), 1U);
  EXPECT_EQ(result.samples.size(), 50U);
  const auto expected = sequential();
  EXPECT_TRUE(bytes_equal(job.seen.latents.at(0), expected.at(0)));
}

TEST(RunJob, FailsTheSampleThatTurnsNanAndNamesTheStep) {
  Job job({.kind = MethodKind::batch});
  job.spec.workers = cpu_workers(2);
  job.evaluator.nan_sample = 2;
  const JobResult result = job.run();
  EXPECT_FALSE(result.failure);
  EXPECT_EQ(result.count(SampleStatus::done), 4U);
  const SampleReport& bad = result.samples.at(2);
  ASSERT_EQ(bad.status, SampleStatus::failed);
  EXPECT_EQ(bad.failure->code, Errc::non_finite);
  EXPECT_NE(bad.failure->message.find("step"), std::string::npos)
      << bad.failure->message;
  expect_same({{1, sequential().at(1)}}, {{1, job.seen.latents.at(1)}},
              "beside a failure");
}

TEST(RunJob, FailsAStaleSampleThatTurnsNanAndFinishesTheOthers) {
  // Other workers hold tasks of the sample when it fails.
  Job job({.kind = MethodKind::stale, .num_segments = 3});
  job.spec.workers = cpu_workers(3);
  job.spec.end = 8;
  job.evaluator.nan_sample = 2;
  const JobResult result = job.run();
  EXPECT_FALSE(result.failure);
  EXPECT_EQ(result.count(SampleStatus::done), 7U);
  EXPECT_EQ(result.count(SampleStatus::failed), 1U);
}

TEST(RunJob, FailsWithTheCauseWhenTheNetworkThrows) {
  Job job({.kind = MethodKind::batch});
  job.evaluator.before_forward = [](ExecContext&) {
    throw Error(Errc::unsupported, "toy", "cannot do that");
  };
  const JobResult result = job.run();
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->code, Errc::unsupported);
  EXPECT_EQ(result.failure->message, "cannot do that");
}

TEST(RunJob, EndsWithTheErrorOfAnObserver) {
  Job job({.kind = MethodKind::batch});
  job.spec.end = 1000;
  job.seen.after_sample = [] { throw Error(Errc::io, "disk", "is full"); };
  const JobResult result = job.run();
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->code, Errc::io);
}

TEST(RunJob, RefusesAnEmptyRangeNoWorkersAndBadOptions) {
  Job empty({.kind = MethodKind::batch});
  empty.spec.end = 0;
  EXPECT_THROW((void)empty.run(), Error);
  Job nobody({.kind = MethodKind::batch});
  nobody.spec.workers = cpu_workers(0);
  EXPECT_THROW((void)nobody.run(), Error);
  Job window({.kind = MethodKind::picard, .window_size = 0});
  EXPECT_THROW((void)window.run(), Error);
}

}  // namespace
}  // namespace troupe::actors
