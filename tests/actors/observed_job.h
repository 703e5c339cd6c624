#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "actors/runtime.h"
#include "tests/actors/company_suite.h"
#include "tests/actors/job_support.h"
#include "tests/actors/toy_evaluator.h"

namespace troupe::actors {

/// Keeps what the job reports.
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
  void on_pass(const TracePass& pass) override { passes.push_back(pass); }
  void on_progress(const JobProgress& progress) override { last = progress; }

  std::map<std::uint64_t, Tensor> latents;
  std::map<std::uint64_t, Tensor> pixels;
  std::vector<Preview> previews;
  std::map<std::uint64_t, std::map<int, Tensor>> points;
  std::vector<TracePass> passes;
  JobProgress last;
  std::function<void()> after_sample;
};

/// Five samples over the toy network, ready to be changed and run.
struct ObservedJob {
  explicit ObservedJob(samplers::MethodOptions method = {},
                       samplers::Solver solver = samplers::Solver::ddim)
      : schedule(options_of(method, solver)),
        evaluator(samplers::num_segments(method)) {
    spec.parts.schedule = unowned(schedule);
    spec.parts.method = method;
    spec.parts.evaluator = unowned(evaluator);
    spec.parts.noise = unowned(noise);
    spec.end = 5;
    spec.observers = {&seen};
    spec.restart.first_delay = std::chrono::milliseconds(1);
  }

  static samplers::ScheduleOptions options_of(
      const samplers::MethodOptions& method, samplers::Solver solver) {
    samplers::ScheduleOptions options = ddim_steps(8);
    options.eta = method.kind == samplers::MethodKind::speculative ? 1.0 : 0.0;
    options.solver = solver;
    if (solver == samplers::Solver::flow_euler) {
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

/// What each sample of an ObservedJob must give by an exact method.
inline std::map<std::uint64_t, Tensor> sequential(
    samplers::Solver solver = samplers::Solver::ddim) {
  ObservedJob job({.kind = samplers::MethodKind::sequential}, solver);
  const JobResult result = job.run();
  EXPECT_FALSE(result.failure);
  return job.seen.latents;
}

inline void expect_same(const std::map<std::uint64_t, Tensor>& a,
                        const std::map<std::uint64_t, Tensor>& b,
                        const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (const auto& [index, latents] : a) {
    ASSERT_TRUE(b.contains(index)) << what;
    EXPECT_TRUE(bytes_equal(latents, b.at(index)))
        << what << ", sample " << index;
  }
}

/// Options for every method, approximate methods included.
inline std::vector<samplers::MethodOptions> every_method() {
  return {
      {.kind = samplers::MethodKind::sequential},
      {.kind = samplers::MethodKind::batch},
      {.kind = samplers::MethodKind::batch.with(samplers::Modifier::cache),
       .cache_threshold = 0.3},
      {.kind = samplers::MethodKind::cfg},
      {.kind = samplers::MethodKind::pipeline, .num_segments = 2},
      {.kind = samplers::MethodKind::picard,
       .window_size = 3,
       .tolerance = 0.05},
      {.kind = samplers::MethodKind::picard.with(samplers::Modifier::cache),
       .window_size = 3,
       .tolerance = 0.05,
       .cache_threshold = 0.3},
      {.kind = samplers::MethodKind::taa, .window_size = 3, .tolerance = 0.05},
      {.kind = samplers::MethodKind::stale, .num_segments = 2, .age = 1},
      {.kind = samplers::MethodKind::stale, .cut = samplers::CutShape::onion},
      {.kind = samplers::MethodKind::stale,
       .num_segments = 2,
       .stale_at = samplers::StaleAt::latents},
      {.kind = samplers::MethodKind::stale, .num_segments = 2, .stride = 2},
      {.kind = samplers::MethodKind::draft, .window_size = 3},
      {.kind = samplers::MethodKind::draft.with(samplers::Modifier::cache),
       .window_size = 3,
       .cache_threshold = 0.3},
      {.kind = samplers::MethodKind::chords, .window_size = 2},
      {.kind = samplers::MethodKind::parareal, .window_size = 2},
      {.kind = samplers::MethodKind::speculative, .window_size = 3}};
}

}  // namespace troupe::actors
