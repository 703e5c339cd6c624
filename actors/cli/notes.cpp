#include "actors/cli/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "actors/cli/execution_class.h"
#include "actors/cli/job_runner.h"
#include "actors/cli/run_outputs.h"
#include "config/enum_names.h"
#include "config/known_keys.h"
#include "config/option_table.h"
#include "config/schedule_options.h"
#include "config/scheduler_config.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/log.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"
#include "kernels/isa.h"

namespace troupe::actors {
namespace {

/// σ of the first and the last training step; none for flow schedules.
std::optional<std::pair<double, double>> trained_sigmas(
    const samplers::Schedule& schedule) {
  const std::span<const float> alphas = schedule.alphas_cumprod();
  if (alphas.empty()) {
    return std::nullopt;
  }
  const auto sigma = [](double a) { return std::sqrt((1 - a) / a); };
  return std::pair(sigma(alphas.front()), sigma(alphas.back()));
}

void note_component(const models::Component& component,
                    std::string_view known_keys,
                    std::vector<std::string>& notes) {
  const std::vector<std::string> keys = component.config.keys();
  add_note(notes,
           config::unknown_keys_note(component.config.place(),
                                     component.class_name, known_keys, keys));
  note_weight_files(component, notes);
  for (const std::string& key : component.ignored_keys) {
    add_note(notes, component.config.place() + ": " + key +
                        " does nothing: the pipeline ignores it, in diffusers "
                        "as here");
  }
}

/// Where the schedule came from, before flags changed it.
std::string schedule_source(const config::Config& config,
                            const JobRequest& request, bool from_image) {
  if (from_image) {
    return "the recipe of the image";
  }
  if (request.source.scheduler_config().empty()) {
    return "defaults, as the model has no scheduler_config.json";
  }
  return request.source.is_random()
             ? "what is bundled with " + request.source.name()
             : "the scheduler_config.json of " + config.model_dir;
}

std::string method_reason(const config::Config& config,
                          const JobRequest& request) {
  if (config.method.kind || !config.method.preset.empty()) {
    return "asked for";
  }
  if (config.max_rmse) {
    return "within --max-rmse";
  }
  return std::string(request.job.method.kind->chosen_because);
}

}  // namespace

std::string scheduler_path(const models::Checkpoint& checkpoint) {
  return (checkpoint.folder / "scheduler" / "scheduler_config.json").string();
}

void check_scheduler(const models::Checkpoint& checkpoint,
                     const config::SamplerConfig& sampler) {
  if (!checkpoint.scheduler_class.empty() && sampler.name.empty()) {
    config::check_scheduler_class(checkpoint.scheduler_class, "scheduler",
                                  checkpoint.index_path().string());
  }
}

void note_scheduler(const models::Checkpoint& checkpoint,
                    std::vector<std::string>& notes) {
  const std::string path = scheduler_path(checkpoint);
  const std::string& named = checkpoint.scheduler_class;
  const std::string stored =
      config::scheduler_class(checkpoint.scheduler_config);
  if (!named.empty() && !stored.empty() && named != stored) {
    add_note(notes, fmt::format("{} names {} as scheduler, {} says {}: Troupe "
                                "takes what the second says, diffusers the "
                                "first",
                                checkpoint.index_path().string(),
                                printable(named), path, printable(stored)));
  }
  add_note(notes, checkpoint.scheduler_config.empty()
                      ? path +
                            " is not there: the noise schedule is DDIM's "
                            "default (1000 linear betas)"
                      : config::unknown_scheduler_keys_note(
                            path, checkpoint.scheduler_config));
}

void note_weight_files(const models::Component& component,
                       std::vector<std::string>& notes) {
  if (!component.variant.empty()) {
    add_note(notes, component.folder.string() + ": only the variant " +
                        component.variant +
                        " of the weights is there, and used");
  }
  if (!component.passed_over.empty()) {
    add_note(notes, component.passed_over.string() +
                        " is not used: the weights are there under another "
                        "name, too, which diffusers takes");
  }
}

void note_networks(const models::Checkpoint& checkpoint,
                   const ModelSource& source, std::vector<std::string>& notes) {
  note_component(checkpoint.denoiser, source.denoiser().config_keys(), notes);
  if (checkpoint.vae) {
    note_component(*checkpoint.vae, source.decoder()->config_keys(), notes);
  }
  if (checkpoint.has_safety_checker) {
    add_note(notes, "the pipeline's safety checker is not run");
  }
}

void note_model(const config::SamplerConfig& sampler,
                const config::ModelPrediction& model,
                const samplers::ScheduleOptions& options,
                std::vector<std::string>& notes) {
  if (!model.is_known && options.solver->levels == samplers::Levels::flow) {
    add_note(notes,
             "no scheduler_config.json says what the model predicts: taken as "
             "flow_prediction, which this sampler needs");
    return;
  }
  for (const std::string& note :
       config::prediction_notes(sampler, model, options)) {
    add_note(notes, note);
  }
}

void check_lists(const config::SamplerConfig& sampler,
                 const samplers::Schedule& schedule) {
  const auto trained = trained_sigmas(schedule);
  const auto lowest =
      std::find_if(sampler.sigmas.rbegin(), sampler.sigmas.rend(),
                   [](double sigma) { return sigma > 0; });
  if (lowest == sampler.sigmas.rend() || !trained) {
    return;
  }
  if (*lowest > trained->second) {
    throw Error(Errc::invalid_argument, "--sigmas",
                fmt::format("no noise level that the model was trained with: "
                            "got {:g} to {:g}, expected some below {:g}",
                            sampler.sigmas.front(), *lowest, trained->second),
                "go on to smaller levels; troupe schedule shows those of a "
                "number of steps");
  }
}

void note_unguided(const config::Config& config,
                   std::vector<std::string>& notes) {
  for (const char* key :
       {"negative-prompt", "negative-prompt-file", "negative-prompt-2",
        "negative-original-size", "negative-crop", "negative-target-size",
        "negative-aesthetic-score", "guidance-rescale", "guidance-interval"}) {
    // The lines of a file are negative prompts as well.
    const bool is_of_file = key == std::string_view("negative-prompt") &&
                            !config.negative_prompt_file.empty();
    const std::string text = config::find_option(key)->get(config);
    if (!text.empty() && text != "0" && !is_of_file) {
      add_note(notes, config.place_of(key) +
                          " does nothing without guidance: that takes a "
                          "--guidance above 1");
    }
  }
}

void note_lists(const config::SamplerConfig& sampler,
                const samplers::Schedule& schedule,
                std::vector<std::string>& notes) {
  const auto lacks_zero = [](const std::vector<double>& list) {
    return !list.empty() && list.back() != 0;
  };
  if (lacks_zero(sampler.sigmas)) {
    add_note(notes, "a final noise level of 0 was added to --sigmas");
  }
  if (const auto trained = trained_sigmas(schedule)) {
    // A list that is printed with six digits ends where the table does.
    constexpr double kRounding = 1e-5;
    for (const double sigma : sampler.sigmas) {
      const bool above = sigma > trained->second * (1 + kRounding);
      if (above || (sigma > 0 && sigma < trained->first * (1 - kRounding))) {
        add_note(notes,
                 fmt::format("--sigmas {:g} is {} the trained levels, {:g} to "
                             "{:g}; the network is told the nearest training "
                             "step",
                             sigma, above ? "above" : "below", trained->first,
                             trained->second));
        break;
      }
    }
  }
  if (lacks_zero(sampler.timesteps) && schedule.sigmas().back() == 0) {
    add_note(notes,
             "a final noise level of 0 was added to --timesteps, without a "
             "call of the network");
  }
}

void note_bin(const ModelSource& source, std::vector<std::string>& notes) {
  if (source.picture_size().empty()) {
    return;
  }
  const Shape decoded = source.decoded_shape();
  const Shape picture = source.pixel_shape();
  add_note(notes,
           fmt::format("the pictures are sampled at {}x{} pixels, the "
                       "pipeline's nearest resolution bin, then scaled and cut "
                       "to {}x{}; --no-resolution-bins samples at the size "
                       "itself",
                       decoded[2], decoded[1], picture[2], picture[1]));
}

void note_level(const config::Config& config, std::vector<std::string>& notes) {
  if (config.isa && config.compute == config::ComputeType::automatic &&
      !kernels::has_native_bf16() &&
      kernels::highest_isa() >= IsaLevel::avx512_bf16) {
    add_note(notes, config.place_of("isa") + " " +
                        config::name_of(*config.isa) +
                        " has no bf16: --dtype auto is f32 here, and bf16 "
                        "without it");
  }
}

void note_batch(const config::Config& config, std::uint64_t images,
                std::vector<std::string>& notes) {
  std::string place = config.place_of("batch");
  std::ranges::replace(place, '_', '-');
  constexpr std::string_view kForeign = "batch-size";
  if (lowered(place).ends_with(kForeign) && config.batch > 0 &&
      images < static_cast<std::uint64_t>(config.batch)) {
    add_note(notes,
             fmt::format("{} {} bounds what is computed at once, and "
                         "{} made: --samples (-n) counts pictures",
                         config.place_of("batch"), config.batch,
                         images == 1 ? "1 picture is"
                                     : fmt::format("{} pictures are", images)));
  }
}

/// The corrector asks the network at the lowest level, where there is hardly
/// any noise to tell, and steps by half of what it says.
void note_heun(const samplers::Schedule& schedule,
               std::vector<std::string>& notes) {
  constexpr double kVisible = 0.1;  // of the demo: a fifth more fine contrast
  constexpr double kFar = 10;
  const std::span<const double> sigmas = schedule.sigmas();
  const auto last = std::find_if(sigmas.rbegin(), sigmas.rend(),
                                 [](double sigma) { return sigma > 0; });
  const auto from = std::find_if(last, sigmas.rend(),
                                 [&](double sigma) { return sigma > *last; });
  if (schedule.options().solver != samplers::Solver::heun ||
      from == sigmas.rend() || *from - *last < kVisible ||
      *from < kFar * *last) {
    return;
  }
  add_note(notes,
           fmt::format("heun falls from noise level {:.2g} to {:.2g} in one "
                       "step, which leaves noise in the picture: try "
                       "--timestep-spacing trailing, --karras or more steps",
                       *from, *last));
}

void add_note(std::vector<std::string>& notes, const std::string& note) {
  if (!note.empty() && std::ranges::find(notes, note) == notes.end()) {
    notes.push_back(note);
  }
}

void say_other_classes(std::span<const EarlierImage> images,
                       const std::vector<std::string>& classes,
                       std::vector<std::string>& notes) {
  std::set<std::string> others;
  std::size_t count = 0;
  for (const EarlierImage& image : images) {
    if (std::ranges::find(classes, image.execution_class) == classes.end()) {
      others.insert(image.execution_class);
      ++count;
    }
  }
  if (count > 0) {
    notes.push_back(
        fmt::format("{} of the images that are there {} of another "
                    "execution class ({}) than this run's ({}): their "
                    "bytes may differ from those of this run",
                    count, count == 1 ? "is" : "are", fmt::join(others, ", "),
                    fmt::join(classes, ", ")));
    print_notes({notes.back()});
  }
}

void warn_of_others(const config::Recipe& recipe, const JobRequest& request,
                    const JobRunner& runner) {
  const std::vector<std::string>& classes = runner.execution_classes();
  if (recipe.weights_xxh3 != to_hex(runner.weights_hash())) {
    log_message(LogLevel::warning,
                "these are not the weights the image was made with (" +
                    recipe.model + "): its pixels will not come back");
  } else if (std::ranges::find(classes, recipe.execution_class) ==
             classes.end()) {
    log_message(LogLevel::warning,
                fmt::format("the image was made by another execution class "
                            "({}) than this run's ({}): its bytes may not "
                            "come back",
                            recipe.execution_class, fmt::join(classes, ", ")));
  }
  if (recipe.index < request.job.begin || recipe.index >= request.job.end) {
    return;
  }
  const config::Recipe here = request.recipe_of(recipe.index);
  if (recipe.vae_tile && here.vae_tile && here.vae_tile != recipe.vae_tile) {
    log_message(LogLevel::warning,
                "the model's tiles are of another size than those that the "
                "image was decoded in: its pixels will not come back");
  }
  const std::string& latents = recipe.init_latents_xxh3;
  if (!latents.empty() && here.init_latents_xxh3 != latents) {
    log_message(LogLevel::warning,
                "--init-latents holds other latents than those the image was "
                "made from: its pixels will not come back");
  }
  if (recipe.guess_xxh3 && here.guess_xxh3 &&
      here.guess_xxh3 != recipe.guess_xxh3) {
    log_message(LogLevel::warning,
                "--guess-from holds another trajectory than the one the image "
                "was made with: its pixels will not come back");
  }
  if (recipe.prompt_embeds_xxh3 && here.prompt_embeds_xxh3 &&
      here.prompt_embeds_xxh3 != recipe.prompt_embeds_xxh3) {
    log_message(LogLevel::warning,
                "--prompt-embeds holds other embeddings than those the image "
                "was made from: its pixels will not come back");
  }
  if (recipe.encoder_class && here.prompt == recipe.prompt &&
      runner.encoded_by().execution_class != *recipe.encoder_class) {
    log_message(LogLevel::warning,
                fmt::format("the image's prompt was encoded by another "
                            "execution class ({}) than this run's ({}): its "
                            "bytes may not come back",
                            *recipe.encoder_class,
                            runner.encoded_by().execution_class));
  }
}

void explain(const config::Config& config, const JobRequest& request,
             bool from_image) {
  if (log_level() < LogLevel::info) {
    return;
  }
  const auto say = [](const std::string& text) {
    log_message(LogLevel::info, text);
  };
  say(fmt::format("sampler: {}, {} steps, {} model calls; from {}",
                  config::solver_label(request.schedule.options()),
                  request.schedule.num_steps(),
                  request.schedule.num_model_calls(),
                  schedule_source(config, request, from_image)));
  say(fmt::format(
      "guidance: {}, from {}", request.job.guidance.scale,
      config.guidance_scale ? config.place_of("guidance") : "the default"));
  const samplers::MethodOptions& method = request.job.method;
  const bool is_for_one =
      request.num_workers() > 1 &&
      method.kind->useful_workers(method, request.num_samples()) == 1;
  say(fmt::format(
      "method: {}{} {} ({} cores usable): {}", describe_method(request),
      is_for_one ? ", each image on one of" : " on", describe_company(request),
      num_usable_cores(), method_reason(config, request)));
  for (const JobDevice& device : request.devices) {
    say(fmt::format(
        "arithmetic: {}{} by {}", to_string(device.compute),
        config.compute == config::ComputeType::automatic ? " (auto)" : "",
        device.is_gpu() ? device.architecture + ", " + bits_mode(device.options)
                        : selected_isa()));
    if (device.is_gpu()) {
      say(fmt::format("{}: up to {} images at once, {} needed, {} free",
                      to_string(device.device), device.rows,
                      human_bytes(device.required_bytes),
                      human_bytes(device.available_bytes)));
    }
  }
  const MemoryInfo memory = memory_info();
  if (request.encodes_elsewhere) {
    say("prompts: a worker of another process encodes what no cache has");
  }
  const EncoderDevice& encoder = request.encoder;
  if (encoder.memory.host > 0) {
    say(
        fmt::format("memory: {} needed while prompts are encoded, which is let "
                    "go before the network is read",
                    human_bytes(encoder.memory.host)));
  }
  if (encoder.memory.gpu > 0) {
    say(fmt::format("{}: {} needed while prompts are encoded, {} free",
                    to_string(encoder.device.device),
                    human_bytes(encoder.memory.gpu),
                    human_bytes(encoder.device.available_bytes)));
  }
  say(fmt::format(
      "memory: {} needed, {} free ({})", human_bytes(request.required_bytes),
      human_bytes(memory.available_bytes), to_string(memory.binding())));
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    log_message(LogLevel::warning, note);
  }
}

}  // namespace troupe::actors
