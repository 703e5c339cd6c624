#include "actors/cli/job_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "actors/cli/execution_class.h"
#include "actors/device_evaluators.h"
#include "kernels/copy.h"
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

std::vector<std::string> execution_classes(const JobRequest& request,
                                           std::uint64_t weights_hash) {
  std::vector<std::string> classes;
  for (const JobDevice& device : request.devices) {
    if (device.execution_class == static_cast<int>(classes.size())) {
      classes.push_back(execution_class(
          execution_conditions(weights_hash, device, request.plan.method)));
    }
  }
  return classes;
}

JobRunner::JobRunner(const JobRequest& request, StopFlag& stop)
    : request_(request) {
  const auto start = std::chrono::steady_clock::now();
  const auto in_use = [](const JobDevice& device) {
    return device.workers > 0;
  };
  auto left = std::ranges::count_if(request.devices, in_use);
  for (const JobDevice& device : request.devices) {
    if (!in_use(device)) {
      continue;
    }
    --left;
    try {
      load(device, stop);
    } catch (const Error& error) {
      const bool is_gone = error.code() == Errc::device_lost ||
                           error.code() == Errc::device_full;
      if (!device.is_gpu() || !is_gone || (left == 0 && models_.empty())) {
        throw;
      }
      lost_.push_back({device.device, current_failure()});
    }
  }
  load_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  execution_classes_ = actors::execution_classes(request, weights_hash());
  log_message(LogLevel::info,
              fmt::format("model: {} loaded in {:.2f} s, execution class {}",
                          request.source.name(), load_seconds_,
                          fmt::join(execution_classes_, " and ")));
}

void JobRunner::load(const JobDevice& device, StopFlag& stop) {
  ExecContext ctx(num_usable_cores(), device.device, device.options);
  // Packing weights starts as many threads again, of OpenMP, which ends the
  // process where it gets none.
  check_threads(ctx.num_threads());
  const StopAction action(stop, [&ctx] { ctx.request_stop(); });
  try {
    LoadedModel model =
        request_.source.load(ctx, device.compute, device.placement);
    ctx.synchronize();  // others read the weights in queues of their own
    models_.push_back({&device, std::move(model)});
  } catch (const Error&) {
    stop.check("model", "stopped while it was loaded");
    throw;
  }
}

const LoadedModel& JobRunner::model_on(Device device) const {
  const auto found = std::ranges::find_if(
      models_,
      [device](const Loaded& loaded) { return loaded.on->device == device; });
  if (found == models_.end()) {
    throw Error(Errc::internal, to_string(device),
                "the model was not loaded there");
  }
  return found->model;
}

config::Recipe JobRunner::recipe_of(std::uint64_t index, const Tensor& latents,
                                    int execution_class) const {
  config::Recipe recipe = request_.recipe_of(index, execution_class);
  recipe.weights_xxh3 = to_hex(weights_hash());
  recipe.execution_class = this->execution_class(execution_class);
  recipe.latents_xxh3 = to_hex(xxh3_64(latents.bytes()));
  return recipe;
}

void JobRunner::decode(ExecContext& ctx, const Tensor& latents,
                       Tensor& pixels) const {
  const LoadedModel& model = model_on(ctx.device());
  if (!model.autoencoder) {
    pixels = kernels::on_host(ctx, latents).clone();
    return;
  }
  const Shape wanted = request_.source.pixel_shape();
  if (ctx.device().kind != DeviceKind::cpu) {
    pixels = ctx.empty(wanted, DType::f32);
  } else if (pixels.shape() != wanted) {
    pixels = Tensor(wanted, DType::f32);
  }
  model.autoencoder->decode(ctx, latents, pixels);
}

std::unique_ptr<ExecContext> JobRunner::make_decode_context() const {
  const JobDevice& on = *models_.back().on;  // the CPU is the last
  return std::make_unique<ExecContext>(1, on.device, on.options);
}

std::vector<WorkerPlace> JobRunner::places_of(const config::Plan& plan) const {
  std::vector<WorkerPlace> places =
      worker_places(request_.devices, plan, request_.max_rows);
  std::erase_if(places, [this](const WorkerPlace& place) {
    return std::ranges::any_of(lost_, [&place](const LostDevice& lost) {
      return lost.device == place.device;
    });
  });
  return places;
}

JobResult JobRunner::run(const Options& options) const {
  const config::Plan& plan =
      options.plan != nullptr ? *options.plan : request_.plan;
  EvaluatorOptions evaluator_options;
  evaluator_options.guidance_scale = request_.guidance_scale;
  evaluator_options.latent_shape = request_.source.latent_shape();
  evaluator_options.num_segments = samplers::num_segments(plan.method);
  evaluator_options.condition = [this](std::uint64_t index) {
    return models::Condition(request_.class_of(index));
  };
  evaluator_options.num_conditions = request_.num_conditions();
  const std::span<const double> timesteps = request_.schedule.timesteps();
  evaluator_options.timesteps.assign(timesteps.begin(), timesteps.end());
  DeviceEvaluators evaluators;
  for (const Loaded& loaded : models_) {
    if (loaded.model.autoencoder) {
      evaluator_options.decode = [this](ExecContext& ctx, const Tensor& latents,
                                        Tensor& pixels) {
        decode(ctx, latents, pixels);
      };
    }
    evaluators.add(loaded.on->device,
                   std::make_unique<DenoiserEvaluator>(*loaded.model.denoiser,
                                                       evaluator_options));
  }
  const std::unique_ptr<samplers::NoiseSource> noise = make_noise(request_);
  JobSpec spec;
  spec.schedule = &request_.schedule;
  spec.method = plan.method;
  spec.evaluator = &evaluators;
  spec.noise = noise.get();
  spec.begin = request_.samples.begin;
  spec.end = request_.samples.end;
  spec.skip = options.skip;
  spec.workers = places_of(plan);
  spec.decode = options.decode;
  spec.preview_every = options.preview_every;
  spec.trajectory = options.trajectory;
  spec.trace = options.trace;
  spec.observers = options.observers;
  spec.stop = options.stop;
  return run_job(spec);
}

}  // namespace troupe::actors
