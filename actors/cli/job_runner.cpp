#include "actors/cli/job_runner.h"

#include <fmt/format.h>

#include <chrono>

#include "actors/cli/execution_class.h"
#include "kernels/core/hash.h"
#include "kernels/core/log.h"
#include "kernels/core/pool.h"
#include "kernels/core/system.h"

namespace troupe::actors {

std::uint64_t read_weights_hash(const ModelSource& source, StopFlag& stop) {
  ExecContext ctx(num_usable_cores());
  const StopAction action(stop, [&ctx] { ctx.request_stop(); });
  try {
    return source.weights_hash(ctx);
  } catch (const Error&) {
    stop.check("model", "stopped while it was read");
    throw;
  }
}

JobRunner::JobRunner(const JobRequest& request, StopFlag& stop)
    : request_(request) {
  const auto start = std::chrono::steady_clock::now();
  ExecContext ctx(num_usable_cores());
  // Packing weights starts as many threads again, of OpenMP, which ends the
  // process where it gets none.
  check_threads(ctx.num_threads());
  const StopAction action(stop, [&ctx] { ctx.request_stop(); });
  try {
    model_ = request.source.load(ctx, request.compute);
  } catch (const Error&) {
    stop.check("model", "stopped while it was loaded");
    throw;
  }
  load_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  execution_class_ = actors::execution_class(execution_conditions(
      model_.weights_hash, request.compute, request.plan.method));
  log_message(
      LogLevel::info,
      fmt::format("model: {} loaded in {:.2f} s, execution class {}",
                  request.source.name(), load_seconds_, execution_class_));
}

config::Recipe JobRunner::recipe_of(std::uint64_t index,
                                    const Tensor& latents) const {
  config::Recipe recipe = request_.recipe_of(index);
  recipe.weights_xxh3 = to_hex(model_.weights_hash);
  recipe.execution_class = execution_class_;
  recipe.latents_xxh3 = to_hex(xxh3_64(latents.bytes()));
  return recipe;
}

void JobRunner::decode(ExecContext& ctx, const Tensor& latents,
                       Tensor& pixels) const {
  if (!model_.autoencoder) {
    pixels = latents.clone();
    return;
  }
  const Shape wanted = request_.source.pixel_shape();
  if (pixels.shape() != wanted) {
    pixels = Tensor(wanted, DType::f32);
  }
  model_.autoencoder->decode(ctx, latents, pixels);
}

JobResult JobRunner::run(const Options& options) const {
  const config::Plan& plan =
      options.plan != nullptr ? *options.plan : request_.plan;
  EvaluatorOptions evaluator_options;
  evaluator_options.guidance_scale = request_.guidance_scale;
  const bool is_cut = plan.method.kind == samplers::MethodKind::pipeline ||
                      plan.method.kind == samplers::MethodKind::stale;
  evaluator_options.num_segments = is_cut ? plan.method.num_segments : 1;
  evaluator_options.condition = [this](std::uint64_t index) {
    return models::Condition{.class_label = request_.class_of(index)};
  };
  evaluator_options.num_conditions = request_.num_conditions();
  const std::span<const double> timesteps = request_.schedule.timesteps();
  evaluator_options.timesteps.assign(timesteps.begin(), timesteps.end());
  if (model_.autoencoder) {
    evaluator_options.decode = [this](ExecContext& ctx, const Tensor& latents,
                                      Tensor& pixels) {
      decode(ctx, latents, pixels);
    };
  }
  DenoiserEvaluator evaluator(*model_.denoiser, evaluator_options);
  const std::unique_ptr<samplers::NoiseSource> noise = make_noise(request_);
  JobSpec spec;
  spec.schedule = &request_.schedule;
  spec.method = plan.method;
  spec.evaluator = &evaluator;
  spec.noise = noise.get();
  spec.begin = request_.samples.begin;
  spec.end = request_.samples.end;
  spec.skip = options.skip;
  spec.workers = cpu_workers(plan.num_workers, plan.num_threads);
  spec.decode = options.decode;
  spec.preview_every = options.preview_every;
  spec.trajectory = options.trajectory;
  spec.trace = options.trace;
  spec.observers = options.observers;
  spec.stop = options.stop;
  return run_job(spec);
}

}  // namespace troupe::actors
