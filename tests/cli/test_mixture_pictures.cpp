// The whole path with a network that is known in closed form: schedule, method,
// actors, PNG. What comes out can be told without a network to compare with.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <vector>

#include "actors/artefacts/png.h"
#include "actors/denoiser_evaluator.h"
#include "actors/runtime.h"
#include "tests/actors/job_support.h"
#include "tests/models/gaussian_mixture.h"

namespace troupe::actors {
namespace {

constexpr std::int64_t kSide = 8;
constexpr std::uint64_t kSamples = 4;

/// Class 0 is bright on the left, class 1 at the top, each with a colour.
Tensor picture_of(std::int64_t label) {
  Tensor picture(Shape{3, kSide, kSide}, DType::f32);
  for (std::int64_t i = 0; i < picture.num_elements(); ++i) {
    const std::int64_t channel = i / (kSide * kSide);
    const std::int64_t place = label == 0 ? i % kSide : i / kSide % kSide;
    picture.data<float>()[i] =
        channel == label || place < kSide / 2 ? 0.8F : -0.6F;
  }
  return picture;
}

models::GaussianMixture two_pictures() {
  models::MixtureConfig config = models::random_mixture(
      1, Shape{3, kSide, kSide}, /*num_classes=*/2, 1, /*num_blocks=*/2);
  for (models::MixtureComponent& component : config.components) {
    component.mean = picture_of(component.class_label);
    component.deviation = 0.02;
  }
  return models::GaussianMixture(std::move(config));
}

class PngFiles final : public Observer {
 public:
  void on_sample(const SampleOutcome& outcome) override {
    files[outcome.report.sample_index] = encode_png(to_image(outcome.latents));
  }
  std::map<std::uint64_t, std::vector<std::byte>> files;
};

std::map<std::uint64_t, std::vector<std::byte>> draw(
    samplers::Solver solver, const samplers::MethodOptions& method) {
  const models::GaussianMixture mixture = two_pictures();
  samplers::ScheduleOptions options;
  options.solver = solver;
  options.num_inference_steps = 50;
  const samplers::Schedule schedule(options);
  EvaluatorOptions with =
      class_options(mixture.info(), 1.0, 2, method.num_segments);
  with.job.schedule = schedule.table();
  DenoiserEvaluator evaluator(loaded(mixture), std::move(with));
  samplers::PhiloxNoise noise(11);
  PngFiles seen;
  JobSpec spec;
  spec.parts.schedule = unowned(schedule);
  spec.parts.method = method;
  spec.parts.evaluator = unowned(evaluator);
  spec.parts.noise = unowned(noise);
  spec.end = kSamples;
  spec.workers = cpu_workers(2);
  spec.observers = {&seen};
  EXPECT_FALSE(run_job(spec).failure);
  return seen.files;
}

TEST(MixturePictures, AreThoseOfTheAskedClassWithinTheirDeviation) {
  // Six deviations, on the scale of bytes.
  constexpr int kLevels = static_cast<int>(6 * 0.02 * 127.5) + 1;
  for (const samplers::Solver solver :
       {samplers::Solver::ddim, samplers::Solver::ddpm,
        samplers::Solver::dpmpp}) {
    const auto files =
        draw(solver, {.kind = samplers::MethodKind::batch, .num_segments = 1});
    ASSERT_EQ(files.size(), kSamples);
    for (const auto& [index, bytes] : files) {
      const Image got = decode_png("sample", bytes);
      const Image expected =
          to_image(picture_of(static_cast<std::int64_t>(index % 2)));
      ASSERT_EQ(got.rgb.size(), expected.rgb.size());
      for (std::size_t i = 0; i < got.rgb.size(); ++i) {
        ASSERT_LE(std::abs(int{got.rgb[i]} - int{expected.rgb[i]}), kLevels)
            << "solver " << solver->name << ", sample " << index << ", byte "
            << i;
      }
    }
  }
}

TEST(MixturePictures, AreTheSameFilesByAnyExactMethod) {
  const auto expected =
      draw(samplers::Solver::ddpm,
           {.kind = samplers::MethodKind::sequential, .num_segments = 1});
  EXPECT_EQ(draw(samplers::Solver::ddpm,
                 {.kind = samplers::MethodKind::pipeline, .num_segments = 2}),
            expected);
  EXPECT_EQ(draw(samplers::Solver::ddpm, {.kind = samplers::MethodKind::picard,
                                          .window_size = 4,
                                          .num_segments = 1}),
            expected);
}

}  // namespace
}  // namespace troupe::actors
