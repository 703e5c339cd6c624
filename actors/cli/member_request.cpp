#include "actors/cli/member_request.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "actors/cli/isa_in_force.h"
#include "actors/cli/job_layout.h"
#include "actors/cli/job_of_request.h"
#include "config/method_plan.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"
#include "kernels/linear.h"

namespace troupe::actors {
namespace {

const ClassRecord* class_on(const JobRecord& job, DeviceKind kind) {
  const auto found =
      std::ranges::find(job.execution_classes, kind, &ClassRecord::device);
  return found == job.execution_classes.end() ? nullptr : &*found;
}

bool is_plain(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

/// Devices compute as the job's class for their kind of device does. If the job
/// has no class for them, they compute in the dtype that the job's user asked
/// for.
void follow_classes(const JobRecord& job, std::vector<JobDevice>& devices) {
  for (JobDevice& device : devices) {
    const ClassRecord* const one = class_on(job, device.device.kind);
    const std::optional<DType> dtype =
        one != nullptr ? std::optional(one->dtype) : job.dtype;
    if (!dtype) {
      continue;
    }
    require(device.is_gpu() || kernels::supports(*dtype), Errc::unsupported,
            "cpu",
            "this processor cannot compute the job's " +
                std::string(to_string(*dtype)) + " products",
            "hold the job to what all machines have: --dtype f32 or --isa");
    device.compute = *dtype;
    if (one != nullptr) {
      device.options.batch_invariant = one->batch_invariant;
      device.options.tf32 = one->tf32;
    }
  }
}

bool has_configs(const ModelSource& source, const JobRecord& job) {
  const ModelRecord own = source.record(0);
  return own.denoiser_config == job.model.denoiser_config &&
         own.decoder_config == job.model.decoder_config;
}

}  // namespace

/// The name comes from another machine: it chooses no path.
std::string folder_of(const config::Config& config, const std::string& name) {
  if (!config.model_dir.empty()) {
    return config.model_dir;
  }
  require(!config.model_root.empty(), Errc::invalid_argument, "--model-root",
          "the job needs the model " + in_quotes(name) +
              ", and no folder was named",
          "give --model DIR, --model-root with the folder that holds it, or "
          "--cache DIR to fetch it");
  require(is_plain(name), Errc::invalid_argument, "--model-root",
          "the job's model has no name of a folder: got " + in_quotes(name),
          "give --model DIR");
  return (std::filesystem::path(config.model_root) / name).string();
}

ModelSource open_model(const config::Config& own, const std::string& name,
                       bool is_bundled) {
  return is_bundled ? ModelSource::open(name, "")
                    : ModelSource::open("", folder_of(own, name));
}

bool lacks_model(const config::Config& own, const JobRecord& job) {
  return !job.model.random_weights && own.model_dir.empty() &&
         (own.model_root.empty() || !is_plain(job.model.name) ||
          !std::filesystem::exists(std::filesystem::path(own.model_root) /
                                   job.model.name));
}

bool has_model(const config::Config& config, const JobRecord& job,
               StopFlag& stop) {
  try {
    const ModelSource source = ModelSource::open(config);
    return has_configs(source, job) &&
           read_weights_hash(source, stop) == job.model.weights_xxh3;
  } catch (const Error&) {
    stop.check("worker", "stopped while it read the model");
    return false;
  }
}

config::WorkerCount workers_of_member(const config::Config& own) {
  std::vector<std::string> notes;
  const Gpus gpus;
  return config::own_workers(
      own,
      {.num_cores = num_usable_cores(),
       .devices = kinds_of(choose_devices(own, nullptr, gpus.found, notes))});
}

JobRequest member_request(const config::Config& own, const JobRecord& job,
                          Reading reading) {
  check(job);
  config::Config config = own;
  if (const ClassRecord* const on_cpu = class_on(job, DeviceKind::cpu)) {
    config.isa = on_cpu->isa;
    std::optional<IsaLevel> held;
    (void)try_hold_as_recipe(config, held);  // its class's name says the rest
  }
  ModelSource source =
      open_model(own, job.model.name, job.model.random_weights);
  require(has_configs(source, job), Errc::invalid_argument,
          job.model.random_weights ? job.model.name
                                   : folder_of(own, job.model.name),
          "another model than the job's " + in_quotes(job.model.name) +
              ": their configurations differ",
          "give the folder that the job was started with");
  source.fit_to(job);
  if (reading == Reading::what_is_used) {
    source.hold_to(job.model);
  }
  std::vector<std::string> notes;
  const Gpus gpus;
  JobRequest request{
      .source = std::move(source),
      .job = job,
      .is_joined = true,
      .schedule = samplers::Schedule::from_table(job.schedule),
      .devices = choose_devices(config, nullptr, gpus.found, notes),
      .max_rows = config.batch,
      .notes = std::move(notes)};
  follow_classes(job, request.devices);
  lay_out(config, gpus, request);
  check_memory(request);
  return request;
}

MemberJob member_job(const Offer& offer, const JobValues& values,
                     const JobRequest& request, const JobRunner& runner) {
  require(runner.weights_hash() == offer.job.model.weights_xxh3,
          Errc::invalid_argument, request.source.name(),
          "other weights than the job's: got " + to_hex(runner.weights_hash()) +
              ", expected " + to_hex(offer.job.model.weights_xxh3),
          "give the folder that the job was started with");
  MemberJob job;
  job.parts =
      make_parts(offer.job, values, runner.models(), request.source.table());
  job.workers = runner.workers();
  job.value_budget = request.value_budget;
  job.means = means_of(request.devices, memory_info());
  job.classes = class_records(request, runner.execution_classes());
  return job;
}

}  // namespace troupe::actors
