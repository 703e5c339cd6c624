// Prints a line for every solver and method: "name hash nfe rounds" of jobs
// that no command line can ask for. scripts/bytes.sh compares the lines of two
// builds.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/denoiser_evaluator.h"
#include "actors/runtime.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "samplers/parallel/task_runner.h"
#include "tests/actors/job_support.h"
#include "tests/models/gaussian_mixture.h"
#include "tests/parallel/support.h"

namespace troupe {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;
using samplers::Schedule;
using samplers::ScheduleOptions;
namespace cases = samplers::testing;

constexpr int kSteps = 7;
constexpr std::uint64_t kSamples = 3;
constexpr int kSegments = 3;  // of the methods in method_cases()

/// Of the methods in method_cases(), in their order.
constexpr const char* kMethods[] = {"sequential",
                                    "batch",
                                    "sequential_cache",
                                    "cfg",
                                    "pipeline",
                                    "pipeline_onion",
                                    "picard",
                                    "picard_guessed",
                                    "picard_given",
                                    "picard_settled",
                                    "picard_cache",
                                    "picard_settled_cache",
                                    "taa",
                                    "taa_settled",
                                    "taa_given",
                                    "speculative",
                                    "stale",
                                    "stale_onion",
                                    "stale_drafts",
                                    "stale_onion_drafts",
                                    "stale_stride_2",
                                    "draft",
                                    "draft_fresh",
                                    "draft_cache",
                                    "draft_fresh_cache",
                                    "chords",
                                    "chords_second",
                                    "chords_early",
                                    "parareal",
                                    "parareal_twice",
                                    "parareal_exact",
                                    "parareal_early"};

void print(const std::string& name, const Xxh3Stream& hash, std::int64_t nfe,
           std::int64_t rounds) {
  std::printf("%s latents_xxh3 %s nfe %lld rounds %lld\n", name.c_str(),
              to_hex(hash.digest()).c_str(), static_cast<long long>(nfe),
              static_cast<long long>(rounds));
}

/// A network of +, ·, / and |x| alone, one sample after the other, no actors.
void run_toy(const std::string& name, const ScheduleOptions& options,
             const MethodOptions& method) {
  Xxh3Stream hash;
  std::int64_t nfe = 0;
  std::int64_t rounds = 0;
  for (std::uint64_t index = 0; index < kSamples; ++index) {
    cases::Bench bench(options);
    const auto run = make_method(method, bench.schedule);
    hash.update(bench.run(*run, method, index).latents.bytes());
    nfe += run->progress().nfe;
    rounds = std::max<std::int64_t>(rounds, run->progress().rounds);
  }
  print("toy/" + name, hash, nfe, rounds);
}

class Collector final : public actors::Observer {
 public:
  void on_sample(const actors::SampleOutcome& outcome) override {
    latents[outcome.report.sample_index] = outcome.latents;
  }
  std::map<std::uint64_t, Tensor> latents;
};

/// The mixture, guided, by a company of two workers.
void run_mixture(const models::Denoiser& denoiser, const std::string& name,
                 const ScheduleOptions& options, const MethodOptions& method) {
  const Schedule schedule(options);
  const bool has_segments =
      method.kind == MethodKind::pipeline || method.kind == MethodKind::stale;
  actors::EvaluatorOptions evaluator_options =
      actors::class_options(denoiser.info(), 2.5, denoiser.info().num_classes,
                            has_segments ? kSegments : 1);
  evaluator_options.job.schedule = schedule.table();
  actors::DenoiserEvaluator evaluator(actors::loaded(denoiser),
                                      std::move(evaluator_options));
  samplers::PhiloxNoise noise(11);
  Collector seen;
  actors::JobSpec spec;
  spec.parts.schedule = actors::unowned(schedule);
  spec.parts.method = method;
  spec.parts.evaluator = actors::unowned(evaluator);
  spec.parts.noise = actors::unowned(noise);
  spec.end = kSamples;
  spec.workers = actors::cpu_workers(2, 1, 3);
  spec.decode = false;
  spec.observers = {&seen};
  const actors::JobResult result = run_job(spec);
  require(!result.failure && seen.latents.size() == kSamples, Errc::job_failed,
          "mixture/" + name,
          result.failure ? result.failure->message : "a sample failed");
  Xxh3Stream hash;
  for (const auto& [index, latents] : seen.latents) {
    hash.update(latents.bytes());
  }
  print("mixture/" + name, hash, result.nfe, result.rounds);
}

void run_all() {
  models::MixtureConfig config =
      models::random_mixture(5, Shape{2, 4, 4}, 3, 2, kSegments);
  const models::GaussianMixture noised(config);
  config.path = models::MixturePath::flow;
  const models::GaussianMixture flowing(config);
  const std::vector<MethodOptions> methods = cases::method_cases();
  require(methods.size() == std::size(kMethods), Errc::internal, "bytes_probe",
          "method_cases() and its names here differ");
  for (const cases::SolverCase& solver : cases::solver_cases(kSteps)) {
    const bool flows = solver.options.prediction_type ==
                       samplers::PredictionType::flow_prediction;
    for (std::size_t i = 0; i < methods.size(); ++i) {
      if (!cases::can_carry(methods[i], Schedule(solver.options))) {
        continue;
      }
      const std::string name = solver.name + "/" + kMethods[i];
      run_toy(name, solver.options, methods[i]);
      const bool has_trajectory =
          methods[i].initial_guess == samplers::InitialGuess::trajectory;
      // Its blocks do not add to a hidden state.
      const bool has_blocks = !methods[i].kind.has(samplers::Modifier::cache);
      if (has_blocks && !samplers::learns_variance(solver.options) &&
          !has_trajectory) {
        run_mixture(flows ? flowing : noised, name, solver.options, methods[i]);
      }
    }
  }
}

}  // namespace
}  // namespace troupe

int main() {
  try {
    troupe::run_all();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bytes_probe: %s\n", error.what());
    return 1;
  }
}
