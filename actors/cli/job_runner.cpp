#include "actors/cli/job_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "actors/cli/job_of_request.h"
#include "actors/cli/memory_plan.h"
#include "config/enum_names.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/log.h"
#include "kernels/core/pool.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

std::uint64_t read_weights_hash(const ModelSource& source, StopFlag& stop) {
  ExecContext ctx(num_usable_cores());
  const std::stop_callback action(stop.token(), [&ctx] { ctx.request_stop(); });
  try {
    return source.weights_hash(ctx);
  } catch (const Error&) {
    stop.check("model", "stopped while it was read");
    throw;
  }
}

JobRunner::JobRunner(const JobRequest& request, StopFlag& stop,
                     const Elsewhere& elsewhere)
    : request_(request) {
  encode_prompts(stop, elsewhere);
  const auto start = std::chrono::steady_clock::now();
  auto left = std::ranges::count_if(request.devices, &JobDevice::is_used);
  for (const JobDevice& device : request.devices) {
    if (!device.is_used()) {
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
  if (!lost_.empty() && workers(request).empty()) {
    throw to_error(lost_.front().cause);  // each group lacks a GPU
  }
  load_seconds_ = seconds_since(start);
  execution_classes_ = actors::execution_classes(request, weights_hash());
  classes_ =
      std::make_unique<JobClasses>(class_records(request, execution_classes_));
  log_message(LogLevel::info,
              fmt::format("model: {} loaded in {:.2f} s, execution class {}",
                          request.source.name(), load_seconds_,
                          fmt::join(execution_classes_, " and ")));
}

void JobRunner::encode_prompts(StopFlag& stop, const Elsewhere& elsewhere) {
  conditions_ = conditions_of(request_, stop, elsewhere);
  const EncodedBy& by = encoded_by();
  if (!by.execution_class.empty()) {
    log_message(LogLevel::info,
                fmt::format("prompts: {} encoded in {:.2f} s in {} on {}, "
                            "execution class {}{}",
                            counted(request_.prompts.num_wanted(), "prompt"),
                            encode_seconds(), to_string(by.dtype),
                            config::name_of(by.device), by.execution_class,
                            request_.encodes_elsewhere
                                ? ""
                                : "; the encoders are not in memory any more"));
  }
}

void JobRunner::load(const JobDevice& device, StopFlag& stop) {
  ExecContext ctx(num_usable_cores(), device.device, device.options);
  const std::stop_callback action(stop.token(), [&ctx] { ctx.request_stop(); });
  try {
    LoadedModel model =
        request_.reads_in_parts
            ? request_.source.load_when_used(
                  ctx, device.compute, request_.job.cuts, device.placement)
            : request_.source.load(ctx, device.compute, device.placement);
    ctx.synchronize();  // others read the weights in queues of their own
    models_.push_back({device.device, std::move(model)});
  } catch (const Error&) {
    stop.check("model", "stopped while it was loaded");
    throw;
  }
}

config::Recipe JobRunner::recipe_of(std::uint64_t index, const Tensor& latents,
                                    int execution_class) const {
  config::Recipe recipe =
      request_.recipe_of(index, classes_->at(execution_class));
  recipe.weights_xxh3 = to_hex(weights_hash());
  recipe.latents_xxh3 = to_hex(xxh3_64(latents.bytes()));
  const EncodedBy& by = encoded_by();
  if (!by.execution_class.empty()) {
    recipe.encoder_class = by.execution_class;
    if (by.device != DeviceKind::cpu) {
      recipe.encoder_device = by.device;
    }
  }
  return recipe;
}

void JobRunner::decode(ExecContext& ctx, const Tensor& latents,
                       Tensor& pixels) const {
  const auto model_on = [&](const ExecContext& on) -> const LoadedModel& {
    const auto found =
        std::ranges::find(models_, on.device(), &DeviceModel::device);
    require(found != models_.end(), Errc::internal, to_string(on.device()),
            "the model was not loaded there");
    return found->model;
  };
  actors::decode(ctx, model_on, latents, request_.source.vae_tile(),
                 request_.source.picture_size(), pixels);
}

std::unique_ptr<ExecContext> JobRunner::make_decode_context() const {
  const Device on = models_.back().device;  // the CPU is the last
  return std::make_unique<ExecContext>(1, on, request_.at(on).options);
}

JobResult JobRunner::run(JobSpec spec) const {
  return run_job(job_of(std::move(spec)));
}

JobRecord JobRunner::record(const JobRequest& request) const {
  return record_of(request, conditions_, weights_hash(),
                   actors::execution_classes(request, weights_hash()));
}

JobSpec JobRunner::job_of(JobSpec spec) const {
  return job_of(std::move(spec), request_);
}

JobSpec JobRunner::job_of(JobSpec spec, const JobRequest& request) const {
  JobRecord job = record(request);
  spec.num_classes = static_cast<int>(job.execution_classes.size());
  spec.parts = make_parts(std::move(job), values_of(request, conditions_),
                          models_, request.source.table());
  spec.outcome_bytes = outcome_bytes(request.source, spec.decode);
  spec.value_sizes = value_sizes(request, spec.decode);
  spec.segments = segment_figures(request);
  spec.value_budget = request.value_budget;
  spec.begin = request.job.begin;
  spec.end = request.job.end;
  spec.means = means_of(request.devices, memory_info());
  if (!spec.waits_for_processes) {
    spec.workers = workers(request);
  } else {
    spec.workers.clear();
    spec.means.devices.clear();
  }
  return spec;
}

std::vector<WorkerTraits> JobRunner::workers(const JobRequest& request) const {
  std::vector<WorkerTraits> workers =
      workers_of(request.devices, request.num_threads, request.num_shards,
                 request.max_rows);
  for (WorkerTraits& worker : workers) {
    worker.plan = request.attention_plan;
    worker.exchange = request.exchange;
  }
  std::erase_if(workers, [this](const WorkerTraits& worker) {
    return std::ranges::any_of(lost_, [&worker](const LostDevice& one) {
      return one.process == kHomeProcess &&
             (one.device == worker.device ||
              std::ranges::find(worker.others, one.device) !=
                  worker.others.end());
    });
  });
  return workers;
}

Offer JobRunner::offer() const {
  Offer offer;
  offer.job =
      record_of(request_, conditions_, weights_hash(), execution_classes_);
  offer.job.model.tensors_xxh3 = models_.front().model.tensor_hashes;
  return offer;
}

JobValues JobRunner::values() const { return values_of(request_, conditions_); }

}  // namespace troupe::actors
