#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/cli/encoder_device.h"
#include "actors/cli/job_devices.h"
#include "actors/cli/job_prompts.h"
#include "actors/cli/method_choice.h"
#include "actors/cli/model_source.h"
#include "actors/job_record.h"
#include "config/recipe.h"
#include "samplers/schedule.h"

namespace troupe::actors {

/// Everything about a job that can be known before weights are read. Made
/// once from the options; whatever is wrong with them is found here.
struct JobRequest {
  ModelSource source;
  /// The job as a draft: what the options decide of it. Hashes of weights and
  /// conditions, and the execution classes, are added by `record_of` once they
  /// are known; until then a condition's hash is 0. Of a job that is joined:
  /// its record as it came.
  JobRecord job;
  bool is_joined = false;          ///< then nothing of `job` is chosen here
  samplers::Schedule schedule;     ///< that `job.schedule` is the table of
  std::vector<JobDevice> devices;  ///< GPUs first
  int num_threads = 1;             ///< of each shard of a CPU worker
  AttentionPlan attention_plan = AttentionPlan::gather;  ///< of the shards
  GpuExchange exchange = GpuExchange::peer;              ///< of GPUs
  int num_shards = 1;  ///< groups of threads, or GPUs, of a worker
  int max_rows = 0;    ///< of --batch
  std::vector<std::int64_t> classes;  ///< cycles over global indices
  JobPrompts prompts;                 ///< the same, where the model takes them
  Tensor init_latents;        ///< [n, C, H, W] or empty; row i for sample i
  Tensor guesses;             ///< [n, calls + 1, C, H, W] or empty; the same
  bool only_directs = false;  ///< other processes compute, and this one nothing
  /// What "auto" takes in the place of `job.method` if enough workers of other
  /// processes are there when the job begins; unset: the method is settled.
  std::optional<samplers::MethodKind> method_with_more_workers;
  /// What --max-rmse chooses by; unset: it was not given.
  std::optional<MeasuredMethods> measured;
  std::string choice_note;  ///< what --max-rmse chose, and why
  /// --max-rmse chooses again when the job begins, by who is there then.
  bool chooses_anew = false;
  /// Each part of the network is read when it is first used; else all at once,
  /// before the job.
  bool reads_in_parts = false;
  bool is_emulated = false;  ///< workers are modelled: one computes at a time
  std::uint64_t required_bytes = 0;  ///< of the host's memory
  /// Bytes of encoded prompts, wherever a TensorStore has them.
  std::uint64_t prompt_bytes = 0;
  /// What would encode prompts here, and what memory it takes, before the rest
  /// is needed.
  EncoderDevice encoder;
  /// The kind of device that is to encode them, as a recipe has it; unset: a
  /// GPU, if one has room.
  std::optional<DeviceKind> encoder_kind;
  /// A worker of another process encodes the prompts.
  bool encodes_elsewhere = false;
  /// Of required_bytes or beside it, for values of samples in flight; 0: no
  /// limit.
  std::uint64_t value_budget = 0;
  std::vector<std::string> notes;  ///< what the user should know

  /// One of `devices`.
  [[nodiscard]] const JobDevice& at(const Device& device) const {
    return *std::ranges::find(devices, device, &JobDevice::device);
  }
  /// Whether "auto" may take another method when the job begins.
  [[nodiscard]] bool is_method_open() const {
    return method_with_more_workers || chooses_anew;
  }
  /// Whether GPUs compute passes together.
  [[nodiscard]] bool has_groups() const {
    return std::ranges::any_of(
        devices, [](const JobDevice& one) { return !one.others.empty(); });
  }
  [[nodiscard]] std::int64_t class_of(std::uint64_t index) const {
    return classes[index % classes.size()];
  }
  /// As it was written; unset where there are no words.
  [[nodiscard]] std::optional<std::string> prompt_of(
      std::uint64_t index) const {
    return prompts.texts.empty()
               ? std::nullopt
               : std::optional(prompts.texts[index % prompts.texts.size()]);
  }
  /// What a generator would be given to draw image `index` alone: seed + index
  /// under torch noise; under ours the seed, the index being told apart.
  [[nodiscard]] std::uint64_t seed_of(std::uint64_t index) const {
    return job.noise == config::NoiseKind::torch ? job.seed + index : job.seed;
  }
  [[nodiscard]] config::SampleRange samples() const {
    return {job.begin, job.end};
  }
  [[nodiscard]] std::uint64_t num_samples() const {
    return job.end - job.begin;
  }
  [[nodiscard]] int num_workers() const;  ///< of all its devices
  /// Whether workers are on such a device.
  [[nodiscard]] bool uses(DeviceKind kind) const {
    return std::ranges::any_of(devices, [kind](const JobDevice& device) {
      return device.device.kind == kind && device.workers > 0;
    });
  }
  /// Whether the steps draw from a torch generator after given latents.
  [[nodiscard]] bool draws_after_given_latents() const {
    return job.noise == config::NoiseKind::torch && !init_latents.empty() &&
           schedule.is_stochastic();
  }
  /// The device that stands for a class of execution.
  [[nodiscard]] const JobDevice& device_of(int execution_class) const;
  /// "bf16", or "bf16,f32" where classes differ.
  [[nodiscard]] std::string dtypes() const;
  /// Of one sample: its latents before the first and after every model call.
  [[nodiscard]] Shape trajectory_shape() const {
    return with_rows(schedule.num_model_calls() + 1, source.latent_shape());
  }
  /// A recipe with everything but hashes, as the job's first class makes it.
  [[nodiscard]] config::Recipe recipe_of(std::uint64_t index) const;
  /// The recipe, as workers of class `by` make the image.
  [[nodiscard]] config::Recipe recipe_of(std::uint64_t index,
                                         const ClassRecord& by) const;
};

/// The samples of the whole run, of which --share is a part. A count is of each
/// prompt.
[[nodiscard]] config::SampleRange run_samples(const config::Config& config,
                                              const JobPrompts& prompts);

/// Leaves out the prompts that only images with the indices `skipped` show.
void leave_out_prompts(std::span<const std::uint64_t> skipped,
                       JobRequest& request);

/// `recipe`, if given, is what --from found: its schedule is the base that the
/// sampler options change. If --share has none of the images, `samples` is
/// empty and nothing is laid out. Errors: Errc::invalid_argument,
/// Errc::out_of_memory, Errc::device_full (said before loading),
/// Errc::unsupported, those of ModelSource::open and Schedule.
[[nodiscard]] JobRequest make_request(
    const config::Config& config, const config::Recipe* recipe = nullptr,
    const Gpus& gpus = {},
    models::DenoiserTable table = models::denoiser_table());

/// "batch, or cfg if enough workers are there when the job begins".
[[nodiscard]] std::string describe_method(const JobRequest& request);

/// "1 worker × 4 threads", "1 worker × 2 shards × 4 threads".
[[nodiscard]] std::string describe_cpu_company(int workers, int threads,
                                               int shards = 1);

/// "2 workers × 4 threads", "1 worker on cuda:0 and 1 worker × 7 threads".
[[nodiscard]] std::string describe_company(const JobRequest& request);

}  // namespace troupe::actors
