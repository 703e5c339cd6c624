#include "actors/cli/job_of_request.h"

#include <utility>

#include "actors/cli/execution_class.h"
#include "actors/network_cuts.h"
#include "kernels/core/hash.h"

namespace troupe::actors {
namespace {

/// A network without classes reads no label.
JobConditions class_conditions(const JobRequest& request) {
  JobConditions conditions;
  for (const std::int64_t id : request.classes) {
    conditions.each.emplace_back(id);
  }
  const std::int64_t num_classes = request.source.info(DType::f32).num_classes;
  if (request.guidance_scale > 1 && num_classes > 0) {
    conditions.unconditional.emplace_back(num_classes);
  }
  return conditions;
}

void add_init_latents(const JobRequest& request, JobRecord& job) {
  if (request.init_latents.empty()) {
    return;
  }
  for (std::int64_t row = 0; row < request.init_latents.dim(0); ++row) {
    job.init_latents.push_back(xxh3_64(request.init_latents.item(row).bytes()));
  }
  job.draws_latents = request.torch_latents == samplers::InitialLatents::drawn;
}

}  // namespace

std::vector<ClassRecord> class_records(const JobRequest& request,
                                       const std::vector<std::string>& names) {
  std::vector<ClassRecord> records;
  for (std::size_t number = 0; number < names.size(); ++number) {
    const JobDevice& by = request.device_of(static_cast<int>(number));
    records.push_back(by.class_record(names[number]));
  }
  return records;
}

std::vector<std::string> execution_classes(const JobRequest& request,
                                           const config::Plan& plan,
                                           std::uint64_t weights_hash) {
  std::vector<std::string> classes;
  for (const JobDevice& device : request.devices) {
    if (device.execution_class == static_cast<int>(classes.size())) {
      classes.push_back(execution_class(
          execution_conditions(weights_hash, device, plan.method)));
    }
  }
  return classes;
}

JobConditions conditions_of(const JobRequest& request, StopFlag& stop,
                            const Elsewhere& elsewhere) {
  if (request.prompts.empty()) {
    return class_conditions(request);
  }
  return encode(request.prompts, request.encoder.device, stop,
                request.source.side_adder(), request.encoder_kind, elsewhere);
}

JobRecord record_of(const JobRequest& request, const JobConditions& conditions,
                    const config::Plan& plan, std::uint64_t weights_hash,
                    const std::vector<std::string>& classes) {
  JobRecord job;
  job.model = request.source.record(weights_hash);
  job.schedule = request.schedule.table();
  job.method = plan.method;
  if (const auto graph = plan.method.kind->graph) {
    job.method.graph = graph(plan.method);
  }
  job.cuts = balanced_cuts(request.source.info(DType::f32), plan.method);
  job.guidance_scale = request.guidance_scale;
  job.guidance_rescale = request.guidance_rescale;
  const auto extents = request.source.latent_shape().extents();
  job.latent_shape.assign(extents.begin(), extents.end());
  job.picture_size = request.source.picture_size();
  job.begin = request.samples.begin;
  job.end = request.samples.end;
  for (const StoredCondition& condition : conditions.each) {
    job.conditions.push_back(condition.hash());
  }
  for (const StoredCondition& condition : conditions.unconditional) {
    job.unconditional.push_back(condition.hash());
  }
  job.noise = request.noise;
  job.seed = request.seed;
  add_init_latents(request, job);
  job.execution_classes = class_records(request, classes);
  job.vae_tile = request.source.vae_tile();
  job.dtype = request.dtype;
  return job;
}

JobValues values_of(const JobRequest& request,
                    const JobConditions& conditions) {
  JobValues values;
  for (const auto* branch : {&conditions.each, &conditions.unconditional}) {
    for (const StoredCondition& condition : *branch) {
      if (condition.hash() != 0) {
        values.conditions.emplace(condition.hash(), condition);
      }
    }
  }
  values.init_latents = request.init_latents;
  return values;
}

}  // namespace troupe::actors
