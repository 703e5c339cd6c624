#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/scheduler_config.h"
#include "samplers/noise_source.h"
#include "samplers/schedule.h"
#include "tests/samplers/trajectory.h"

namespace troupe::samplers {
namespace {

using nlohmann::json;

const json& golden_cases() {
  static const json cases = [] {
    std::ifstream file(std::string(TROUPE_GOLDEN_DIR) + "/schedules.json");
    return json::parse(file);
  }();
  return cases;
}

ScheduleOptions options_of(const json& golden) {
  ScheduleOptions options =
      config::parse_scheduler_config(golden["config"].dump(), "golden");
  options.num_inference_steps = golden["num_inference_steps"];
  options.eta = golden.value("eta", 0.0);
  options.sigmas = golden.value("sigmas", std::vector<double>());
  options.timesteps = golden.value("timesteps", std::vector<double>());
  if (golden.contains("mu")) {
    options.mu = golden["mu"].get<double>();
  }
  return options;
}

void expect_near(std::span<const double> ours, const json& theirs,
                 double tolerance, const std::string& what) {
  ASSERT_EQ(ours.size(), theirs.size()) << what;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double expected = theirs[i];
    EXPECT_NEAR(ours[i], expected,
                tolerance * std::max(1.0, std::fabs(expected)))
        << what << " at " << i;
  }
}

double magnitude(const std::vector<Tensor>& points) {
  double top = 1.0;
  for (const Tensor& point : points) {
    for (const float value : point.span<float>()) {
      top = std::max(top, std::fabs(static_cast<double>(value)));
    }
  }
  return top;
}

void expect_values(const Tensor& point, const json& theirs, double tolerance,
                   const char* what) {
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    EXPECT_NEAR(point.span<float>()[i], theirs[i].get<double>(), tolerance)
        << what << " at " << i;
  }
}

class GoldenLoop : public ::testing::TestWithParam<int> {};

TEST_P(GoldenLoop, MatchesDiffusers) {
  const json& golden = golden_cases().at(GetParam());
  SCOPED_TRACE(golden["config"].dump());
  const Schedule schedule(options_of(golden));
  const json& expected = golden["expected"];
  expect_near(schedule.timesteps(), expected["timesteps"], 2e-7, "timesteps");
  if (!expected["sigmas"].empty()) {
    expect_near(schedule.sigmas(), expected["sigmas"], 2e-7, "sigmas");
  }
  testing::ToyModel model;
  model.learned_variance = golden["model"].value("learned_variance", false);
  TorchNoise noise(golden["seed"], schedule);
  Tensor unit({1, 4, 4}, DType::f32);
  noise.initial(0, unit);
  ExecContext ctx;
  const std::vector<Tensor> points = testing::run(
      schedule, model, initial_state(ctx, schedule, unit).latents, noise);
  const double tolerance = 5e-6 * magnitude(points);
  expect_values(points[points.size() / 2], expected["middle"], tolerance,
                "middle");
  expect_values(points.back(), expected["last"], tolerance, "last");
}

INSTANTIATE_TEST_SUITE_P(
    Diffusers, GoldenLoop,
    ::testing::Range(0, static_cast<int>(golden_cases().size())));

}  // namespace
}  // namespace troupe::samplers
