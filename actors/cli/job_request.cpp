#include "actors/cli/job_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include "actors/cli/execution_class.h"
#include "actors/cli/explain.h"
#include "actors/cli/latents_file.h"
#include "actors/cli/notes.h"
#include "actors/cli/versions.h"
#include "actors/denoiser_evaluator.h"
#include "config/schedule_options.h"
#include "config/scheduler_config.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/system.h"
#include "kernels/linear.h"
#include "models/dit_info.h"
#include "samplers/parallel/method.h"

namespace troupe::actors {
namespace {

/// What diffusers' DiTPipeline uses when nobody says otherwise.
constexpr double kDefaultGuidance = 4.0;

DType compute_dtype(config::ComputeType wanted) {
  switch (wanted) {
    case config::ComputeType::automatic:
      return automatic_dtype();
    case config::ComputeType::f32:
      return DType::f32;
    case config::ComputeType::bf16:
      require(kernels::supports(DType::bf16), Errc::unsupported, "--dtype",
              "this processor cannot multiply bf16 matrices",
              "use --dtype f32 or auto");
      return DType::bf16;
  }
  return DType::f32;
}

/// What another solver does not take over, as diffusers' from_config drops the
/// keys that its class does not have.
void drop_what_is_not_of(samplers::Solver solver,
                         samplers::ScheduleOptions& options) {
  using samplers::Solver;
  const bool over_steps = solver == Solver::ddim || solver == Solver::ddpm;
  if (!over_steps && solver != Solver::heun) {
    options.clip_sample.reset();
  }
  if (over_steps || solver == Solver::euler_ancestral) {
    options.sigma_spacing = samplers::SigmaSpacing::none;
  }
  options.solver_type.clear();
  options.eta = 0;
}

config::SolverChoice solver_named(const config::Config& config) {
  try {
    return config::parse_solver(config.sampler.name);
  } catch (const Error& error) {
    throw Error(error.code(), config.place_of("sampler"), error.message(),
                error.hint());
  }
}

samplers::ScheduleOptions base_schedule(const config::Config& config,
                                        const ModelSource& source,
                                        const config::Recipe* recipe,
                                        std::vector<std::string>& notes) {
  const auto& checkpoint = source.checkpoint();
  if (checkpoint) {
    notes = network_notes(*checkpoint);
  }
  if (recipe == nullptr) {
    if (checkpoint) {
      std::ranges::move(scheduler_notes(*checkpoint),
                        std::back_inserter(notes));
    }
    return config::schedule_options(
        config.sampler, source.scheduler_config(),
        checkpoint ? scheduler_path(*checkpoint) : source.name());
  }
  samplers::ScheduleOptions options = recipe->schedule;
  if (!config.sampler.name.empty()) {
    const config::SolverChoice solver = solver_named(config);
    if (solver.solver != options.solver) {
      drop_what_is_not_of(solver.solver, options);
    }
    config::apply(solver, options);
  }
  config::apply(config.sampler, options);
  return options;
}

/// Window, segments and warm-up against the schedule, found before any weight
/// is read. Errors: those of make_method, named as the user set the option.
void check_method(const config::Config& config,
                  const samplers::MethodOptions& options,
                  const samplers::Schedule& schedule) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kKeys{
      {{"window_size", "window"},
       {"tolerance", "tolerance"},
       {"num_segments", "segments"},
       {"ages", "ages"},
       {"stride", "stride"},
       {"warmup_steps", "warmup"},
       {"final_fresh_steps", "final-fresh"}}};
  try {
    (void)samplers::make_method(options, schedule);
  } catch (const Error& error) {
    for (const auto& [name, key] : kKeys) {
      if (error.place() == name) {
        throw Error(error.code(), config.place_of(std::string(key)),
                    error.message(), error.hint());
      }
    }
    throw;
  }
}

std::vector<std::int64_t> classes_of(const config::Config& config,
                                     const ModelSource& source,
                                     std::vector<std::string>& notes) {
  std::vector<std::int64_t> ids;
  try {
    ids = source.resolve_classes(config.classes);
  } catch (const Error& error) {  // the class may stand in --from's image
    throw Error(error.code(), config.place_of("class"), error.message(),
                error.hint());
  }
  if (ids.empty()) {
    for (std::int64_t id = 0; id < source.dit().num_classes; ++id) {
      ids.push_back(id);
    }
    notes.emplace_back("no --class given: classes in turn, from 0");
  }
  return ids;
}

/// Rows of one forward pass of one worker, both guidance branches counted.
std::int64_t rows_per_forward(const config::Plan& plan, bool guided) {
  const std::int64_t rows = plan.method.kind == samplers::MethodKind::picard
                                ? plan.method.window_size
                                : plan.num_threads;
  return rows * (guided ? 2 : 1);
}

void check_memory(const JobRequest& request) {
  const MemoryInfo memory = memory_info();
  if (request.required_bytes > memory.available_bytes) {
    throw Error(
        Errc::out_of_memory, "memory",
        "the job does not fit: got " + human_bytes(memory.available_bytes) +
            " free, expected " + human_bytes(request.required_bytes),
        request.compute == DType::f32 && kernels::supports(DType::bf16)
            ? "use --dtype bf16 or fewer --workers"
            : "use fewer --workers, a smaller --window or a smaller model");
  }
}

void check_cores(JobRequest& request, int cores) {
  const int wanted = request.plan.num_workers * request.plan.num_threads;
  if (wanted > cores) {
    request.notes.push_back(fmt::format(
        "{} workers × {} threads on {} cores will be slower than fewer",
        request.plan.num_workers, request.plan.num_threads, cores));
  }
}

void note_method(const config::Config& config, JobRequest& request) {
  const samplers::MethodOptions& method = request.plan.method;
  if (method.kind == samplers::MethodKind::picard && method.tolerance == 0) {
    request.notes.emplace_back(
        "picard at tolerance 0 is exact and takes as many rounds as steps; "
        "--tolerance 0.01 takes about half of them");
  }
  std::ranges::move(list_notes(config.sampler, request.schedule),
                    std::back_inserter(request.notes));
}

/// The job's noise with given latents in place of the first draw.
class GivenLatents final : public samplers::NoiseSource {
 public:
  GivenLatents(const JobRequest& request,
               std::unique_ptr<samplers::NoiseSource> steps)
      : request_(request), steps_(std::move(steps)) {}

  void initial(std::uint64_t sample_index, Tensor& out) override {
    const Tensor given = request_.init_latents_of(sample_index);
    std::memcpy(out.bytes().data(), given.bytes().data(), given.num_bytes());
  }
  void step(std::uint64_t sample_index, int call, Tensor& out) override {
    steps_->step(sample_index, call, out);
  }

 private:
  const JobRequest& request_;
  std::unique_ptr<samplers::NoiseSource> steps_;
};

}  // namespace

Tensor JobRequest::init_latents_of(std::uint64_t index) const {
  const auto count = static_cast<std::uint64_t>(init_latents.dim(0));
  return init_latents.item(static_cast<std::int64_t>(count == 1 ? 0 : index));
}

config::Recipe JobRequest::recipe_of(std::uint64_t index) const {
  config::Recipe recipe;
  recipe.version = version();
  recipe.model = source.name();
  recipe.random_weights = source.is_random() ? source.name() : std::string();
  recipe.class_id = class_of(index);
  recipe.class_name = source.class_name(recipe.class_id);
  recipe.seed = seed;
  recipe.index = index;
  recipe.noise = noise;
  if (!init_latents.empty()) {
    recipe.init_latents_xxh3 = to_hex(xxh3_64(init_latents_of(index).bytes()));
  }
  recipe.guidance_scale = guidance_scale;
  recipe.schedule = schedule.options();
  recipe.method = plan.method;
  recipe.dtype = to_string(compute);
  return recipe;
}

JobRequest make_request(const config::Config& config,
                        const config::Recipe* recipe) {
  ModelSource source = ModelSource::open(config);
  const double guidance = config.guidance_scale.value_or(
      source.dit().num_classes > 0 ? kDefaultGuidance : 1.0);
  const bool guided = guidance > 1.0;
  const int cores = num_usable_cores();
  std::vector<std::string> notes;
  samplers::Schedule schedule(base_schedule(config, source, recipe, notes));
  const config::Plan plan = config::make_plan(
      config, {.num_samples = config.samples.size(),
               .is_guided = guided,
               .num_blocks = static_cast<int>(source.dit().num_layers),
               .num_calls = schedule.num_model_calls(),
               .num_cores = cores});
  check_method(config, plan.method, schedule);
  JobRequest request{.source = std::move(source),
                     .plan = plan,
                     .schedule = std::move(schedule),
                     .compute = compute_dtype(config.compute),
                     .guidance_scale = guidance,
                     .classes = {},
                     .samples = config.samples,
                     .seed = config.seed,
                     .noise = config.noise,
                     .init_latents = {},
                     .notes = std::move(notes)};
  request.classes = classes_of(config, request.source, request.notes);
  if (!config.init_latents.empty()) {
    request.init_latents =
        read_latents(config.init_latents, request.source.latent_shape());
    const std::int64_t rows = request.init_latents.dim(0);
    if (rows != 1 && static_cast<std::uint64_t>(rows) < config.samples.end) {
      throw Error(Errc::invalid_argument, "--init-latents",
                  fmt::format("fewer latents than samples: got {}, expected at "
                              "least {}",
                              rows, config.samples.end),
                  "row i of the file belongs to sample i");
    }
  }
  request.required_bytes = request.source.required_bytes(
      request.compute, plan.num_workers, rows_per_forward(plan, guided));
  request.required_bytes +=
      plan_preparation(models::dit_info(request.source.dit(), request.compute),
                       request.schedule.timesteps().size(),
                       request.num_conditions(), guided)
          .bytes;
  check_cores(request, cores);
  note_method(config, request);
  explain(config, request, recipe != nullptr);
  if (!config.dry_run) {
    check_memory(request);
  }
  return request;
}

std::unique_ptr<samplers::NoiseSource> make_noise(const JobRequest& request) {
  std::unique_ptr<samplers::NoiseSource> noise;
  if (request.noise == config::NoiseKind::torch) {
    noise =
        std::make_unique<samplers::TorchNoise>(request.seed, request.schedule);
  } else {
    noise = std::make_unique<samplers::PhiloxNoise>(request.seed);
  }
  if (!request.init_latents.empty()) {
    noise = std::make_unique<GivenLatents>(request, std::move(noise));
  }
  return noise;
}

}  // namespace troupe::actors
