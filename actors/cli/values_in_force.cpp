#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "actors/cli/job_request.h"
#include "actors/cli/link_options.h"
#include "actors/cli/notes.h"
#include "actors/cli/verbs.h"
#include "config/enum_names.h"
#include "config/method_plan.h"
#include "config/print_config.h"
#include "config/python_json.h"
#include "config/recipe.h"
#include "config/sampling_defaults.h"
#include "config/schedule_options.h"
#include "config/suggest.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

using config::Config;
using config::Decisions;
using config::SamplerConfig;
using config::SamplerField;
using samplers::ScheduleOptions;

/// Where a schedule comes from.
struct Origin {
  std::string scheduler_config;  ///< its text; empty: none
  std::string path;              ///< of it, for messages
  std::string pipeline;          ///< class of the model's; empty: none
  std::string recipe;            ///< image of --from; empty: none
};

samplers::ScheduleOptions options_of(const SamplerConfig& said,
                                     const Origin& origin) {
  return config::schedule_options(said, origin.scheduler_config, origin.path,
                                  origin.pipeline);
}

/// As --sampler takes it, without the spacing, which has its own option.
std::string solver_name(ScheduleOptions options) {
  options.sigma_spacing = samplers::SigmaSpacing::none;
  return config::solver_label(options);
}

/// The options that decide the schedule, beside the keys of its file. The
/// sampler comes last, because its name may imply values of other options.
std::vector<SamplerField> fields() {
  const auto given = config::sampler_fields();
  std::vector<SamplerField> all(given.begin(), given.end());
  using S = SamplerConfig;
  using O = ScheduleOptions;
  all.push_back({"steps", {}, {}, [](const O& o, S& s) {
                   if (o.sigmas.empty() && o.timesteps.empty()) {
                     s.steps = o.num_inference_steps;
                   }
                 }});
  all.push_back(
      {"sigmas", {}, {}, [](const O& o, S& s) { s.sigmas = o.sigmas; }});
  all.push_back({"timesteps", {}, {}, [](const O& o, S& s) {
                   s.timesteps = o.timesteps;
                 }});
  all.push_back({"sampler", {"_class_name"}, {}, [](const O& o, S& s) {
                   s.name = solver_name(o);
                 }});
  return all;
}

/// Whether the solver takes all that `said` sets.
bool takes(const SamplerConfig& said, const ScheduleOptions& in_force) {
  try {
    ScheduleOptions options = in_force;
    config::apply(said, options);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Whether a run that is told `said` has the schedule `in_force`.
bool makes(const SamplerConfig& said, const ScheduleOptions& in_force,
           const Origin& origin) {
  try {
    const samplers::Schedule schedule(options_of(said, origin));
    return schedule.options() == in_force;
  } catch (const Error&) {
    return false;
  }
}

std::string source_of(const SamplerField& field, const Origin& origin,
                      const nlohmann::json& file) {
  if (!origin.recipe.empty()) {
    return "recipe of " + origin.recipe;
  }
  const auto says = [&field](const nlohmann::json& object) {
    return object.is_object() &&
           field.option != "eta" &&  // an argument, which no file sets
           std::ranges::any_of(field.keys, [&object](const std::string& key) {
             return object.contains(key) && !object[key].is_null();
           });
  };
  return says(nlohmann::json::parse(
             config::pipeline_scheduler_keys(origin.pipeline)))
             ? origin.pipeline
         : says(file) ? origin.path
                      : "default";
}

/// Decides the options that the user left open, from the schedule. Options
/// without a meaning for the solver stay unset.
void decide_sampler(const Config& config, const samplers::Schedule& schedule,
                    const Origin& origin, Decisions& decisions) {
  const ScheduleOptions& in_force = schedule.options();
  const auto file = nlohmann::json::parse(
      config::without_bare_words(origin.scheduler_config), nullptr, false);
  SamplerConfig said = config.sampler;
  for (const SamplerField& field : fields()) {
    const config::Option& option = *config::find_option(field.option);
    if (!option.get(config).empty()) {
      continue;
    }
    SamplerConfig more = said;
    field.say(in_force, more);
    Config shown;
    shown.sampler = more;
    const std::string text = option.get(shown);
    if (text.empty() || !takes(more, in_force)) {
      continue;
    }
    // A recipe overrides the file whatever the file says.
    const bool repeats =
        !origin.recipe.empty() || makes(more, in_force, origin);
    decisions[std::string(field.option)] = {
        text, source_of(field, origin, file), repeats};
    if (repeats) {
      said = more;
    }
  }
  if (!in_force.sigmas.empty() || !in_force.timesteps.empty()) {
    decisions["steps"] = {std::to_string(schedule.num_steps()),
                          "as many as the list has", false};
  }
}

void decide_method(const Config& config, const samplers::MethodOptions& method,
                   Decisions& decisions) {
  if (config.max_rmse) {
    return;  // the options are no user's, but of a setting of the table
  }
  for (const auto& [key, text] : config::method_settings(method)) {
    if (config::find_option(key)->get(config).empty()) {
      decisions[std::string(key)] = {text, "default"};
    }
  }
}

/// Remarks what an open option means on this machine.
void remark(const Config& config, const JobRequest& request,
            Decisions& decisions) {
  const auto here = [&](const char* key, bool is_open,
                        const std::string& what) {
    if (is_open) {
      decisions[key].remark = what + " here";
    }
  };
  const bool is_auto = !config.method.kind && config.method.preset.empty();
  if (request.is_method_open()) {
    decisions["method"].remark = describe_method(request);
  } else {
    here("method", is_auto, describe_method(request));
  }
  const auto picture = models::LatentGeometry::of(request.source.pixel_shape());
  here("size", !config.size,
       config::to_string(config::PictureSize{picture.width, picture.height}));
  const std::string workers = std::to_string(request.num_workers());
  here("workers", config.num_workers.value_or(0) == 0 && !only_directs(config),
       workers);
  here("threads", config.num_threads == 0, std::to_string(request.num_threads));
  here("dtype", config.compute == config::ComputeType::automatic,
       request.dtypes());
  std::vector<std::string> devices;
  for (const JobDevice& device : request.devices) {
    if (device.is_used()) {
      devices.push_back(device.label());
    }
  }
  here("device", config.devices.empty(),
       fmt::format("{}", fmt::join(devices, ", ")));
}

Origin origin_of(const ModelSource& source) {
  const auto& checkpoint = source.checkpoint();
  return {source.scheduler_config(),
          checkpoint ? scheduler_path(*checkpoint)
                     : "bundled with " + source.name(),
          std::string(source.pipeline_class()),
          {}};
}

Decisions decide_job(const Config& config, const config::Recipe* recipe) {
  Config unchecked = config;
  unchecked.dry_run = true;  // whether it fits is no matter here
  unchecked.share = {};      // all shares are laid out alike
  read_prompt_files(unchecked);
  std::vector<JobRequest> requests;
  for (const Config& one : config::configs_by_method(unchecked)) {
    requests.push_back(make_request(one, recipe));
  }
  const JobRequest& request = requests.front();
  Origin origin = origin_of(request.source);
  origin.recipe = config.from;
  Decisions decisions;
  decide_sampler(config, request.schedule, origin, decisions);
  if (!config.guidance_scale) {
    decisions["guidance"] = {config::to_text(request.job.guidance.scale),
                             "default"};
  }
  for (const JobRequest& one : requests) {
    decide_method(config, one.job.method, decisions);
  }
  remark(config, request, decisions);
  return decisions;
}

Decisions decide_schedule(const Config& config) {
  if (config.sampler.name.find(',') != std::string::npos) {
    return {};  // several samplers, of which each decides for itself
  }
  Origin origin;
  if (!config.model_dir.empty()) {
    origin = origin_of(ModelSource::open(config));
  }
  const samplers::Schedule schedule(options_of(config.sampler, origin));
  Decisions decisions;
  decide_sampler(config, schedule, origin, decisions);
  return decisions;
}

/// A comment that names the flags to repeat beside the printed file: the recipe
/// of --from overrides what the file says.
std::string only_flags(const Config& config) {
  const std::string_view sampler = config::find_option("sampler")->group;
  const std::string_view method = config::find_option("method")->group;
  const std::vector<std::string> more = config::words(
      "class prompt prompt-2 prompt-file negative-prompt negative-prompt- "
      "file negative-prompt-2 clip-skip max-sequence-length prompt-embeds "
      "samples size no-resolution-bins original-size crop target-size "
      "negative-original-size negative-crop negative-target-size "
      "aesthetic-score negative-aesthetic-score vae-tiling seed noise "
      "dtype isa bits tf32");
  std::string flags;
  for (const config::Option& option : config::option_table()) {
    const auto place = config.places.find(std::string(option.key));
    const bool decides = option.group == sampler || option.group == method ||
                         std::ranges::count(more, option.key) > 0;
    if (decides && place != config.places.end() &&
        place->second.source == config::Source::flag) {
      flags += " " + place->second.text;
    }
  }
  return flags.empty() ? flags
                       : "# The recipe of --from overrides this file. Repeat "
                         "these flags:" +
                             flags + "\n";
}

}  // namespace

std::string values_in_force(config::Verb verb, Invocation& invocation) {
  using config::Verb;
  std::optional<config::Recipe> recipe;
  if (verb == Verb::sample) {
    recipe = take_recipe(invocation);
  }
  const Config& config = invocation.config;
  const bool has_model =
      !config.model_dir.empty() || !config.random_weights.empty();
  Decisions decisions;
  if (verb == Verb::schedule) {
    decisions = decide_schedule(config);
  } else if ((verb == Verb::sample || verb == Verb::bench) && has_model) {
    decisions = decide_job(config, recipe ? &*recipe : nullptr);
  }
  return (recipe ? only_flags(config) : std::string()) +
         config::to_toml(verb, config, decisions);
}

}  // namespace troupe::actors
