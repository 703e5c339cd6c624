#include "actors/cli/job_request.h"

#include <fmt/format.h>

#include <utility>

#include "actors/cli/execution_class.h"
#include "actors/cli/image_recipe.h"
#include "actors/cli/job_layout.h"
#include "actors/cli/link_options.h"
#include "actors/cli/notes.h"
#include "actors/cli/tensor_file.h"
#include "actors/cli/versions.h"
#include "config/enum_names.h"
#include "config/load_config.h"
#include "config/model_prediction.h"
#include "config/schedule_options.h"
#include "config/scheduler_config.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/text.h"
#include "samplers/parallel/method.h"

namespace troupe::actors {
namespace {

/// What diffusers' DiTPipeline uses when nobody says otherwise.
constexpr double kDefaultGuidance = 4.0;

/// What another solver does not take over, as diffusers' from_config drops the
/// keys that its class does not have.
void drop_what_is_not_of(samplers::Solver solver,
                         samplers::ScheduleOptions& options) {
  if (!solver->has_key("clip_sample")) {
    options.clip_sample.reset();
  }
  if (!solver->has_key("use_karras_sigmas")) {
    options.sigma_spacing = samplers::SigmaSpacing::none;
  }
  options.solver_type.clear();
  options.skip_prk_steps = false;
  options.eta = 0;
}

/// The schedule of a recipe, which the sampler options change.
samplers::ScheduleOptions schedule_of(const config::Recipe& recipe,
                                      const config::Config& config,
                                      std::vector<std::string>& notes) {
  const config::ModelPrediction model =
      config::model_prediction(recipe.schedule);
  samplers::ScheduleOptions options = recipe.schedule;
  if (!config.sampler.name.empty()) {
    const config::SolverChoice solver =
        config::parse_solver(config.sampler.name);
    if (solver.solver != options.solver) {
      drop_what_is_not_of(solver.solver, options);
    }
    config::apply(solver, options);
  }
  config::take_flow_path(config.sampler, model, options);
  config::apply(config.sampler, options);
  if (!config.sampler.name.empty()) {
    config::check_prediction(config.sampler, model, config.from, options);
  }
  note_model(config.sampler, model, options, notes);
  return options;
}

/// The schedule of a model's file.
samplers::ScheduleOptions schedule_of(const ModelSource& source,
                                      const config::Config& config,
                                      std::vector<std::string>& notes) {
  const auto& checkpoint = source.checkpoint();
  if (checkpoint) {
    check_scheduler(*checkpoint, config.sampler);
    note_scheduler(*checkpoint, notes);
  }
  const std::string place =
      checkpoint ? scheduler_path(*checkpoint) : source.name();
  const samplers::ScheduleOptions options =
      config::schedule_options(config.sampler, source.scheduler_config(), place,
                               source.pipeline_class());
  note_model(config.sampler,
             config::model_prediction(source.scheduler_config(), place),
             options, notes);
  return options;
}

/// Errors name the source that set an option that does not fit.
samplers::ScheduleOptions base_schedule(const config::Config& config,
                                        const ModelSource& source,
                                        const config::Recipe* recipe,
                                        std::vector<std::string>& notes) {
  if (source.checkpoint()) {
    note_networks(*source.checkpoint(), source, notes);
  }
  try {
    return recipe == nullptr ? schedule_of(source, config, notes)
                             : schedule_of(*recipe, config, notes);
  } catch (const Error& error) {
    throw config::at_its_source(config, error);
  }
}

/// A network without classes and prompts has one branch.
double guidance_of(const config::Config& config, const ModelSource& source,
                   std::vector<std::string>& notes) {
  if (source.takes_prompts() || source.info(DType::f32).num_classes > 0) {
    return config.guidance_scale.value_or(kDefaultGuidance);
  }
  if (config.guidance_scale.value_or(1.0) > 1) {
    notes.emplace_back("the model has no classes: --guidance does nothing");
  }
  return 1.0;
}

std::vector<std::int64_t> classes_of(const config::Config& config,
                                     const ModelSource& source,
                                     std::vector<std::string>& notes) {
  const std::int64_t num_classes = source.info(DType::f32).num_classes;
  if (num_classes == 0) {
    // Recipes say class 0 then; nobody reads it.
    require(config.classes.empty() ||
                config.classes == std::vector<std::string>{"0"},
            Errc::invalid_argument, config.place_of("class"),
            "the model has no classes",
            source.takes_prompts() ? "say with --prompt what the pictures show"
                                   : "leave it out");
    return {0};
  }
  std::vector<std::int64_t> ids;
  try {
    ids = source.resolve_classes(config.classes);
  } catch (const Error& error) {  // the class may stand in --from's image
    throw config::at_its_source(config, error);
  }
  if (ids.empty()) {
    for (std::int64_t id = 0; id < num_classes; ++id) {
      ids.push_back(id);
    }
    notes.emplace_back("no --class given: classes in turn, from 0");
  }
  return ids;
}

void note_method(const config::Config& config, JobRequest& request) {
  const samplers::MethodOptions& method = request.job.method;
  add_note(request.notes, std::string(samplers::note_of(method)));
  if (!request.choice_note.empty()) {
    add_note(
        request.notes,
        request.choice_note +
            (request.chooses_anew ? "; chosen anew when the job begins" : ""));
  }
  if (config.listen.empty()) {  // else nobody knows yet how many workers come
    note_gain({}, request);
  }
  note_lists(config.sampler, request.schedule, request.notes);
}

/// The figures of `troupe help figures`.
void note_ring(JobRequest& request) {
  if (request.job.ring_blocks) {
    request.notes.emplace_back(
        "ring approximates: relative RMSE from the exact latents, 20 steps of "
        "the demo model in 2 or 4 blocks, median (worst) of 24 samples: 3e-7 "
        "(9e-6) in f32, 0.005 (0.18) in bf16, which itself is 0.012 (0.30) "
        "from f32; other models were not measured; --ring-blocks 1 is exact");
  }
}

void note_tiles(const config::Config& config, JobRequest& request) {
  const auto& decoder = request.source.decoder();
  if (!config.vae_tiling || request.source.vae_tile() > 0) {
    return;
  }
  const std::int64_t side =
      decoder ? decoder->tile_side() * decoder->scale() : 0;
  request.notes.push_back(
      config.place_of("vae-tiling") + " does nothing: " +
      (decoder ? "the pictures are no larger than a tile, " +
                     config::to_string(config::PictureSize{side, side})
               : std::string("the model has no autoencoder")));
}

/// Where the interval leaves out no step, or every step.
void note_interval(const config::Config& config, JobRequest& request) {
  const int guided = request.job.num_guided_calls();
  const int calls = request.schedule.num_model_calls();
  if (!request.job.guidance.interval || (guided > 0 && guided < calls)) {
    return;
  }
  const auto levels =
      request.schedule.sigmas().first(static_cast<std::size_t>(calls));
  request.notes.push_back(fmt::format(
      "{} {}: the noise levels of the steps go from {:.3g} to {:.3g}",
      config.place_of("guidance-interval"),
      guided == 0 ? "leaves no step that is guided" : "leaves out no step",
      levels.front(), levels.back()));
}

/// The hashes of the rows [n, …] of a file: row i is of sample i, or one of
/// all.
std::vector<std::uint64_t> hashes_of(const Tensor& rows,
                                     const std::string& place,
                                     const JobRecord& job) {
  if (rows.dim(0) != 1 && static_cast<std::uint64_t>(rows.dim(0)) < job.end) {
    throw Error(Errc::invalid_argument, place,
                fmt::format("fewer rows than samples: got {}, expected 1 or at "
                            "least {}",
                            rows.dim(0), job.end),
                "row i of the file belongs to sample i");
  }
  std::vector<std::uint64_t> hashes;
  for (std::int64_t row = 0; row < rows.dim(0); ++row) {
    hashes.push_back(xxh3_64(rows.item(row).bytes()));
  }
  return hashes;
}

/// Of the sample, or of all.
std::uint64_t hash_for(const std::vector<std::uint64_t>& hashes,
                       std::uint64_t index) {
  return hashes.size() == 1 ? hashes.front() : hashes.at(index);
}

void take_init_latents(const config::Config& config, JobRequest& request) {
  if (config.init_latents.empty()) {
    return;
  }
  request.init_latents =
      read_latents(config.init_latents, request.source.latent_shape());
  request.job.init_latents =
      hashes_of(request.init_latents, "--init-latents", request.job);
  request.job.draws_latents = false;
}

void take_guesses(const config::Config& config, JobRequest& request) {
  const bool is_given =
      request.job.method.initial_guess == samplers::InitialGuess::trajectory;
  if (config.guess_from.empty()) {
    return require(!is_given, Errc::invalid_argument, config.place_of("guess"),
                   "got trajectory, and no file of one",
                   "give --guess-from FILE");
  }
  const std::string place = config.place_of("guess-from");
  require(is_given, Errc::invalid_argument, place,
          "guesses come from the file: got " + config.place_of("guess") + " " +
              config::name_of(request.job.method.initial_guess),
          "leave one of the two out");
  request.guesses =
      read_trajectories(config.guess_from, request.trajectory_shape());
  request.job.guesses = hashes_of(request.guesses, place, request.job);
}

/// An older recipe of given latents keeps its order of torch's draws.
void keep_stream(const config::Recipe* recipe, JobRequest& request) {
  if (recipe == nullptr || recipe->noise != config::NoiseKind::torch ||
      recipe->init_latents_xxh3.empty() ||
      recipe->init_latents_drawn == false ||
      !request.draws_after_given_latents()) {
    return;
  }
  request.job.draws_latents = true;
  request.notes.emplace_back(
      "this recipe was made by an older Troupe, which skipped one torch draw "
      "that diffusers makes; the run repeats the old order, so that the image "
      "comes back");
}

/// What the options decide of the record.
JobRecord draft_of(const config::Config& config, const ModelSource& source,
                   const samplers::Schedule& schedule,
                   const JobPrompts& prompts, double guidance) {
  JobRecord job;
  job.model = source.record(0);
  job.schedule = schedule.table();
  job.guidance = guidance > 1 ? config.guidance : samplers::Guidance();
  job.guidance.scale = guidance;
  const auto extents = source.latent_shape().extents();
  job.latent_shape.assign(extents.begin(), extents.end());
  job.picture_size = source.picture_size();
  job.vae_tile = source.vae_tile();
  const config::SampleRange samples =
      config.share.of(run_samples(config, prompts));
  job.begin = samples.begin;
  job.end = samples.end;
  job.noise = config.noise;
  job.seed = config.seed;
  job.dtype = asked_dtype(config);
  if (config.num_ring_blocks() > 1) {
    job.ring_blocks = config.num_ring_blocks();
  }
  return job;
}

/// As many conditions as the record will have. Their hashes follow.
void count_conditions(JobRequest& request) {
  const JobPrompts& prompts = request.prompts;
  request.job.conditions.resize(
      std::max(request.classes.size(), prompts.size()));
  request.job.unconditional.resize(
      request.job.guidance.is_on()
          ? std::max({prompts.negatives.size(), prompts.given_negative.size(),
                      std::size_t{1}})
          : 0);
}

/// Each emulated device is a worker with one thread of the CPU. With --shards
/// N, each N emulated devices are one worker.
config::Config with_emulated_workers(config::Config config) {
  if (config.emulation.devices) {
    config.num_workers = *config.emulation.devices / config.num_shards;
    config.num_threads = 1;
    config.devices = {{DeviceKind::cpu, std::nullopt}};
  }
  return config;
}

/// "1 worker on cuda:0", "1 worker × 2 shards on cuda:0,cuda:1".
std::string describe_gpu_company(const JobDevice& gpu) {
  std::string text = counted(gpu.workers, "worker");
  std::string where = to_string(gpu.device);
  if (!gpu.others.empty()) {
    text += " × " + counted(gpu.others.size() + 1, "shard");
    for (const Device& other : gpu.others) {
      where += "," + to_string(other);
    }
  }
  return text + " on " + where;
}

}  // namespace

const JobDevice& JobRequest::device_of(int execution_class) const {
  const auto found =
      std::ranges::find(devices, execution_class, &JobDevice::execution_class);
  require(found != devices.end(), Errc::internal, "devices",
          "a class of execution without a device");
  return *found;
}

int JobRequest::num_workers() const {
  int workers = 0;
  for (const JobDevice& device : devices) {
    workers += device.workers;
  }
  return workers;
}

std::string JobRequest::dtypes() const {
  std::vector<std::string> names;
  for (const JobDevice& device : devices) {
    const std::string name(to_string(device.compute));
    if (device.workers > 0 && std::ranges::find(names, name) == names.end()) {
      names.push_back(name);
    }
  }
  return fmt::format("{}", fmt::join(names, ","));
}

config::Recipe JobRequest::recipe_of(std::uint64_t index) const {
  return recipe_of(index, device_of(0).class_record({}));
}

config::Recipe JobRequest::recipe_of(std::uint64_t index,
                                     const ClassRecord& by) const {
  config::Recipe recipe;
  recipe.version = version();
  recipe.model = source.name();
  recipe.random_weights = source.is_random() ? source.name() : std::string();
  recipe.class_id = class_of(index);
  recipe.class_name = source.class_name(recipe.class_id);
  if (!prompts.texts.empty()) {
    recipe.prompt = config::Verbatim{*prompt_of(index)};
    if (!prompts.second.empty()) {
      recipe.prompt_2 = config::Verbatim{prompts.second};
    }
    const std::vector<std::string> negatives = prompts.negative_texts();
    if (!negatives.empty()) {
      recipe.negative_prompt =
          config::Verbatim{negatives[index % negatives.size()]};
      if (!prompts.negative_second.empty()) {
        recipe.negative_prompt_2 = config::Verbatim{prompts.negative_second};
      }
    }
    if (prompts.max_sequence_length > 0) {
      recipe.max_sequence_length = prompts.max_sequence_length;
    }
    if (prompts.clip_skip > 0) {
      recipe.clip_skip = prompts.clip_skip;
    }
  } else if (!prompts.given.empty()) {
    recipe.prompt_embeds_xxh3 =
        to_hex(prompts.given[index % prompts.given.size()].hash());
  }
  recipe.seed = job.seed;
  recipe.index = index;
  recipe.noise = job.noise;
  if (!job.init_latents.empty()) {
    recipe.init_latents_xxh3 = to_hex(hash_for(job.init_latents, index));
  }
  if (draws_after_given_latents() && !job.draws_latents) {
    recipe.init_latents_drawn = false;
  }
  const auto picture = models::LatentGeometry::of(source.pixel_shape());
  recipe.width = picture.width;
  recipe.height = picture.height;
  if (!job.picture_size.empty()) {
    recipe.resolution_bins = true;
  }
  recipe.told = source.told(false);
  if (job.guidance.is_on() && source.told(true) != source.told(false)) {
    recipe.told_negative = source.told(true);
  }
  if (job.vae_tile > 0) {
    recipe.vae_tile = job.vae_tile;
  }
  recipe.ring_blocks = job.ring_blocks;
  recipe.guidance = job.guidance;
  recipe.schedule = job.schedule.options;
  recipe.method = job.method;
  const bool is_exact = config::logical_method(job.method).kind ==
                        samplers::MethodKind::sequential;
  if (!job.guesses.empty() && !is_exact) {
    recipe.guess_xxh3 = to_hex(hash_for(job.guesses, index));
  }
  recipe.execution_class = by.name;
  recipe.dtype = to_string(by.dtype);
  recipe.isa = by.isa;
  if (by.device == DeviceKind::cuda) {
    recipe.device = by.device;
    if (!by.batch_invariant) {
      recipe.bits = config::BitsMode::free;
    }
    if (by.tf32) {
      recipe.tf32 = true;
    }
  }
  return recipe;
}

config::SampleRange run_samples(const config::Config& config,
                                const JobPrompts& prompts) {
  config::SampleRange samples = config.samples;
  if (config.samples_per_prompt && prompts.size() > 1) {
    const std::uint64_t most = config::kMaxSamples / prompts.size();
    require(samples.end <= most, Errc::invalid_argument,
            config.place_of("samples"),
            fmt::format("got {} of each of {} prompts, expected at most {}",
                        samples.end, prompts.size(), most),
            "split the prompts over several runs");
    samples.end *= prompts.size();
  }
  return samples;
}

void leave_out_prompts(std::span<const std::uint64_t> skipped,
                       JobRequest& request) {
  request.prompts.keep_wanted(request.samples(), skipped);
  const std::uint64_t before =
      TensorStore::bytes_in_memory(request.prompt_bytes);
  request.prompt_bytes = request.prompts.num_bytes();
  const std::uint64_t now = TensorStore::bytes_in_memory(request.prompt_bytes);
  EncodingMemory& encoder = request.encoder.memory;
  for (std::uint64_t* const bytes :
       {&request.required_bytes, &encoder.host, &encoder.prompts}) {
    if (*bytes > 0) {  // it is laid out, and the prompts are encoded here
      *bytes += now;
      *bytes -= before;
    }
  }
}

JobRequest make_request(const config::Config& said,
                        const config::Recipe* recipe, const Gpus& gpus,
                        models::DenoiserTable table) {
  const config::Config config = with_emulated_workers(said);
  check_names_model(config, recipe);
  ModelSource source = ModelSource::open(config, table);
  std::vector<std::string> notes;
  const double guidance = guidance_of(config, source, notes);
  JobPrompts prompts = read_prompts(config, source, guidance > 1, notes);
  if (!(guidance > 1)) {
    note_unguided(config, notes);
  }
  samplers::Schedule schedule(base_schedule(config, source, recipe, notes));
  check_lists(config.sampler, schedule);
  std::vector<JobDevice> devices =
      choose_devices(config, recipe, gpus.found, notes);
  JobRecord draft = draft_of(config, source, schedule, prompts, guidance);
  JobRequest request{.source = std::move(source),
                     .job = std::move(draft),
                     .schedule = std::move(schedule),
                     .devices = std::move(devices),
                     .max_rows = config.batch,
                     .prompts = std::move(prompts),
                     .is_emulated = config.emulation.devices.has_value(),
                     .notes = std::move(notes)};
  if (request.num_samples() == 0) {
    return request;
  }
  leave_out_prompts({}, request);
  request.classes = classes_of(config, request.source, request.notes);
  count_conditions(request);
  request.only_directs = only_directs(config);
  if (recipe != nullptr && recipe->encoder_class) {
    request.encoder_kind = recipe->encoder_device.value_or(DeviceKind::cpu);
  }
  if (config.max_rmse) {
    request.measured = measured_methods(config, request.source);
    request.chooses_anew = !config.listen.empty();
  }
  lay_out(config, gpus, request);
  if (request.uses(DeviceKind::cpu)) {
    note_level(config, request.notes);
  }
  note_batch(config, request.num_samples(), request.notes);
  if (recipe == nullptr) {
    note_heun(request.schedule, request.notes);
  }
  take_init_latents(config, request);
  take_guesses(config, request);
  require(!request.schedule.options().denoising_start ||
              !request.init_latents.empty(),
          Errc::invalid_argument, config.place_of("denoising-start"),
          "there are no latents to go on with",
          "give those that the other run has saved: --init-latents FILE");
  const models::PromptPipeline* pipeline = request.source.pipeline();
  require(pipeline == nullptr || !pipeline->goes_on ||
              request.schedule.options().denoising_start,
          Errc::invalid_argument, request.source.name(),
          "the pipeline begins with a picture, which Troupe does not read, or "
          "with the latents of another run: got neither",
          "give --denoising-start X, and the latents with --init-latents FILE");
  keep_stream(recipe, request);
  note_method(config, request);
  note_bin(request.source, request.notes);
  note_ring(request);
  note_tiles(config, request);
  note_interval(config, request);
  explain(config, request, recipe != nullptr);
  if (!config.dry_run) {
    check_memory(request);
  }
  return request;
}

std::string describe_method(const JobRequest& request) {
  const auto& other = request.method_with_more_workers;
  return to_string(request.job.method.kind) +
         (request.chooses_anew
              ? ", or what --max-rmse takes by the workers that are there when "
                "the job begins"
          : other ? ", or " + std::string((*other)->name) +
                        " if enough workers are there when the job begins"
                  : "");
}

std::string describe_cpu_company(int workers, int threads, int shards) {
  return counted(workers, "worker") + " × " +
         (shards > 1 ? counted(shards, "shard") + " × " : "") +
         counted(threads, "thread");
}

std::string describe_company(const JobRequest& request) {
  if (request.only_directs) {
    return "no worker here";
  }
  std::vector<std::string> parts;
  for (const JobDevice& device : request.devices) {
    if (device.workers > 0) {
      parts.push_back(device.is_gpu() ? describe_gpu_company(device)
                                      : describe_cpu_company(
                                            device.workers, request.num_threads,
                                            request.num_shards));
    }
  }
  return fmt::format("{}", fmt::join(parts, " and "));
}

}  // namespace troupe::actors
