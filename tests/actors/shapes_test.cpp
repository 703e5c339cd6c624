// Latents of any shape: rectangles, and frames as a fourth extent.

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "actors/denoiser_evaluator.h"
#include "actors/runtime.h"
#include "tests/actors/company_suite.h"
#include "tests/actors/job_support.h"
#include "tests/models/gaussian_mixture.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::Solver;

class ShapeCollector final : public Observer {
 public:
  void on_sample(const SampleOutcome& outcome) override {
    latents[outcome.report.sample_index] = outcome.latents;
  }
  std::map<std::uint64_t, Tensor> latents;
};

std::map<std::uint64_t, Tensor> run_mixture(
    const models::GaussianMixture& mixture, Solver solver,
    const samplers::MethodOptions& method) {
  samplers::ScheduleOptions options;
  options.solver = solver;
  options.num_inference_steps = 8;
  options.clip_sample = false;
  const samplers::Schedule schedule(options);
  DenoiserEvaluator evaluator(
      loaded(mixture),
      class_options(mixture.info(), 1.5, 2, num_segments(method)));
  samplers::PhiloxNoise noise(5);
  ShapeCollector seen;
  JobSpec spec;
  spec.parts.schedule = unowned(schedule);
  spec.parts.method = method;
  spec.parts.evaluator = unowned(evaluator);
  spec.parts.noise = unowned(noise);
  spec.end = 3;
  spec.workers = cpu_workers(2);
  spec.observers = {&seen};
  EXPECT_FALSE(run_in_suite(spec).failure);
  return seen.latents;
}

TEST(Shapes, OfAnyRankAreSampledByEveryMethodWithTheSameBytes) {
  const std::vector<samplers::MethodOptions> methods = {
      {.kind = MethodKind::batch},
      {.kind = MethodKind::cfg},
      {.kind = MethodKind::picard, .window_size = 4},
      {.kind = MethodKind::pipeline, .num_segments = 2},
      {.kind = MethodKind::stale, .num_segments = 2, .age = 0}};
  for (const Shape& shape :
       {Shape{3, 4, 7}, Shape{2, 3, 4, 5}, Shape{6}, Shape{1, 1, 1, 1}}) {
    const models::GaussianMixture mixture(
        models::random_mixture(9, shape, 2, 2, 4));
    for (const Solver solver :
         {Solver::ddim, Solver::ddpm, Solver::dpmpp, Solver::heun,
          Solver::euler_ancestral, Solver::unipc, Solver::pndm}) {
      const auto expected =
          run_mixture(mixture, solver, {.kind = MethodKind::sequential});
      ASSERT_EQ(expected.size(), 3U);
      EXPECT_EQ(expected.at(0).shape(), shape);
      for (const samplers::MethodOptions& method : methods) {
        const auto latents = run_mixture(mixture, solver, method);
        for (const auto& [index, tensor] : expected) {
          const auto bytes = tensor.bytes();
          EXPECT_TRUE(std::ranges::equal(latents.at(index).bytes(), bytes))
              << to_string(shape) << " " << solver->name << " "
              << method.kind->name << " " << index;
        }
      }
    }
  }
}

}  // namespace
}  // namespace troupe::actors
