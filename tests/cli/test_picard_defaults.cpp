// What --method picard gives to somebody who names no more, on a network whose
// answer is known in closed form. (The demo model: scripts/bench_picard.sh.)

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "actors/denoiser_evaluator.h"
#include "config/method_plan.h"
#include "tests/actors/job_support.h"
#include "tests/models/gaussian_mixture.h"
#include "tests/parallel/run_local.h"

namespace troupe::actors {
namespace {

using samplers::MethodOptions;
using samplers::Schedule;
using samplers::Solver;

/// Three classes of four pictures each: the trajectory has to choose.
models::GaussianMixture pictures() {
  return models::GaussianMixture(models::random_mixture(
      3, Shape{2, 4, 4}, /*num_classes=*/3, /*components_per_class=*/4, 1));
}

struct Drawn {
  Tensor latents;
  std::int64_t rounds = 0;
};

Drawn draw(const models::Denoiser& denoiser, const Schedule& schedule,
           const MethodOptions& options, std::uint64_t sample_index) {
  DenoiserEvaluator evaluator(loaded(denoiser),
                              class_options(denoiser.info(), 1.5, 3));
  ExecContext ctx;
  samplers::PhiloxNoise noise(11);
  Tensor unit(evaluator.latent_shape(), DType::f32);
  noise.initial(sample_index, unit);
  samplers::TaskRunner runner(schedule, evaluator, noise, options);
  const auto method = samplers::make_method(options, schedule);
  Drawn run;
  run.latents = samplers::run_local(*method, runner, ctx, sample_index,
                                    initial_state(ctx, schedule, unit))
                    .latents;
  run.rounds = method->progress().rounds;
  return run;
}

double relative_rmse(const Tensor& found, const Tensor& exact) {
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < exact.span<float>().size(); ++i) {
    const double truth = exact.span<float>()[i];
    error += std::pow(found.span<float>()[i] - truth, 2);
    norm += truth * truth;
  }
  return std::sqrt(error / norm);
}

TEST(PicardDefaults, TakeHalfTheRoundsOfACallByCallRunAndKeepItsAnswer) {
  config::Config config;
  config.method.kind = samplers::MethodKind::picard;
  const models::GaussianMixture mixture = pictures();
  for (const Solver solver : {Solver::ddim, Solver::euler, Solver::dpmpp}) {
    for (const int steps : {20, 50, 100}) {
      samplers::ScheduleOptions options;
      options.solver = solver;
      options.num_inference_steps = steps;
      options.clip_sample = false;  // the means go beyond −1…1
      const Schedule schedule(options);
      const int calls = schedule.num_model_calls();
      const MethodOptions method =
          config::make_plan(config, {.num_calls = calls}).method;
      for (std::uint64_t sample = 0; sample < 6; ++sample) {
        const Drawn run = draw(mixture, schedule, method, sample);
        const Drawn exact = draw(mixture, schedule, {}, sample);
        ASSERT_EQ(exact.rounds, calls);
        const std::string place = "solver " + std::string(solver->name) + ", " +
                                  std::to_string(steps) + " steps, sample " +
                                  std::to_string(sample);
        EXPECT_LE(2 * run.rounds, calls) << place;
        EXPECT_LE(relative_rmse(run.latents, exact.latents), 0.05) << place;
      }
    }
  }
}

}  // namespace
}  // namespace troupe::actors
