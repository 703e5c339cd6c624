#include "config/load_config.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <utility>

#include "config/bundled_models.h"
#include "config/enum_names.h"
#include "config/method_plan.h"
#include "config/not_yet.h"
#include "config/option_rows.h"
#include "config/parse_value.h"
#include "config/sampling_defaults.h"
#include "config/suggest.h"
#include "kernels/core/text.h"

namespace troupe::config {
namespace {

// ---- what does not go together, of one source or of all. Errors:
// Errc::invalid_argument with the place of one of the options.

/// Whether one of the settings sets `key`. A switch that is turned off is not
/// said.
bool says(const std::vector<Setting>& settings, std::string_view key) {
  return std::ranges::any_of(settings, [&](const Setting& setting) {
    const Option* option = find_option(setting.key);
    return option != nullptr && option->key == key &&
           !(option->is_switch() && is_no(setting.text));
  });
}

/// Refuses one option under two names in one source, because neither has
/// precedence.
void check_repeated(const std::vector<Setting>& settings) {
  std::map<const Option*, const Setting*> seen;
  for (const Setting& setting : settings) {
    const Option* option = find_option(setting.key);
    if (option == nullptr) {
      continue;  // `apply` says so
    }
    const auto [at, is_new] = seen.emplace(option, &setting);
    if (!is_new && at->second->key != setting.key) {
      throw Error(Errc::invalid_argument, setting.place,
                  "sets what '" + at->second->key + "' sets too",
                  "leave one of the two out");
    }
  }
}

/// Refuses contradictory options of one source.
void check_exclusive(const std::vector<Setting>& settings) {
  struct Row {
    const char* each;  ///< words
    const char* other;
  };
  constexpr Row kRows[] = {
      {"model", "random-weights"},
      {"steps", "sigmas"},
      {"sigmas steps", "timesteps"},
      {"size", "width"},
      {"size", "height"},
      {"class", "prompt"},
      {"prompt class", "prompt-file"},
      {"negative-prompt", "negative-prompt-file"},
      {"prompt class prompt-file prompt-2 negative-prompt negative-prompt-file "
       "negative-prompt-2 clip-skip max-sequence-length",
       "prompt-embeds"},
      {"karras", "sigma-spacing"},
      {"quiet", "verbose"}};
  for (const Row& row : kRows) {
    for (const std::string& one : words(row.each)) {
      require(!says(settings, one) || !says(settings, row.other),
              Errc::invalid_argument, "--" + one,
              std::string("cannot stand beside --") + row.other,
              "give one of the two");
    }
  }
}

/// Refuses what an emulated machine does not have: it is whole, and computes on
/// the CPU.
void check_emulation(const Config& config) {
  const EmulationConfig& emulation = config.emulation;
  const auto refuse = [&config](const char* key, const std::string& message,
                                const char* hint) {
    throw Error(Errc::invalid_argument, config.place_of(key), message, hint);
  };
  if (!emulation.devices) {
    for (const Option& option : option_table()) {
      if (option.group == rows::kEmulation && !option.get(config).empty()) {
        refuse(option.key.data(),
               "says how an emulated machine is, and there is none",
               "add --emulate N, or leave it out");
      }
    }
    return;
  }
  const auto speeds = static_cast<int>(emulation.speeds.size());
  if (speeds > 0 && speeds != *emulation.devices) {
    refuse("speeds",
           "one per device: got " + std::to_string(speeds) + ", expected " +
               std::to_string(*emulation.devices),
           "give as many as --emulate says");
  }
  if (*emulation.devices % config.num_shards != 0) {
    refuse("shards",
           "got " + std::to_string(config.num_shards) +
               ", expected a divisor of the " +
               std::to_string(*emulation.devices) + " emulated devices",
           "give another number of one of the two");
  }
  for (const char* key : {"workers", "threads"}) {
    if (config.places.contains(key) && find_option(key)->get(config) != "0") {
      refuse("emulate",
             "cannot stand beside " + config.place_of(key) +
                 ": each emulated device is one worker with one thread",
             "give one of the two");
    }
  }
  // The default may come from --print-config.
  if (config.repeats != Config().repeats) {
    refuse("repeats",
           "an emulated run gives the same figures every time: got " +
               std::to_string(config.repeats) + " beside --emulate",
           "leave it out");
  }
  for (const DeviceChoice& device : config.devices) {
    if (device.kind != DeviceKind::cpu) {
      refuse("device",
             "emulated devices compute on the CPU: got " +
                 to_string(config.devices),
             "leave it out");
    }
  }
}

/// Refuses --shard-plan ring where it says nothing.
void check_ring(Verb verb, const Config& config) {
  if (config.shard_plan != ShardPlan::ring ||
      !find_option("shard-plan")->serves(verb)) {
    return;
  }
  const std::string place = config.place_of("shard-plan");
  require(verb != Verb::worker, Errc::invalid_argument, place,
          "got ring, expected auto, gather or ulysses: the job says whether "
          "attention merges blocks of keys, and into how many they are cut",
          "leave it out");
  require(
      config.num_ring_blocks() > 1, Errc::invalid_argument, place,
      "got ring without blocks: there is " +
          std::string(config.ring_blocks ? config.place_of("ring-blocks") + " 1"
                                         : "one shard"),
      "give --shards N, or --ring-blocks N of 2 and more");
}

/// Refuses several methods where one is run.
void check_one_method(const Config& config) {
  if (!config.methods.empty()) {
    throw Error(Errc::invalid_argument, config.place_of("method"),
                "only bench takes several methods: got " +
                    find_option("method")->get(config),
                "choose one of them");
  }
}

/// Refuses several numbers of steps where one is run.
void check_one_step_count(const Config& config) {
  if (!config.sampler.step_counts.empty()) {
    throw Error(Errc::invalid_argument, config.place_of("steps"),
                "only bench methods takes several: got " +
                    find_option("steps")->get(config),
                "choose one of them");
  }
}

/// Refuses a bound of what --method auto may take where it does not choose, and
/// where runs that belong together could choose otherwise.
void check_max_rmse(const Config& config) {
  if (!config.max_rmse) {
    return;
  }
  const auto refuse = [&config](const std::string& message, const char* hint) {
    throw Error(Errc::invalid_argument, config.place_of("max-rmse"), message,
                hint);
  };
  if (config.method.kind || !config.method.preset.empty()) {
    refuse("bounds what --method auto takes, and " +
               config.place_of(config.method.kind ? "method" : "preset") +
               " names a method",
           "give one of the two");
  }
  const std::string part = !config.samples_per_prompt
                               ? config.place_of("samples") + " A:B"
                           : config.share.count > 1 ? config.place_of("share")
                           : config.exists == ExistsPolicy::skip
                               ? config.place_of("exists") + " skip"
                               : "";
  if (part.empty()) {
    return;
  }
  if (!config.listen.empty()) {
    refuse(part + " draws a part of the images, and with " +
               config.place_of("listen") +
               " the method follows from who is there",
           "name the method");
  }
  if (config.method_table.empty() || config.num_workers.value_or(0) == 0) {
    refuse(part +
               " draws a part of the images, and the other parts may be given "
               "another method",
           "give all of them the same --method-table and --workers, or name "
           "the method");
  }
}

/// Refuses two things to print at once.
void check_printing(const Config& config) {
  if (config.print_config && config.json) {
    throw Error(
        Errc::invalid_argument, config.place_of("print-config"),
        "prints TOML and cannot stand beside " + config.place_of("json"),
        "leave one of the two out");
  }
}

// ---- the sources, merged

/// A choice takes back what weaker sources said that does not go with it.
void take_back(const std::vector<Setting>& settings, Config& config) {
  SamplerConfig& sampler = config.sampler;
  if (says(settings, "model")) {
    config.random_weights.clear();
  }
  if (says(settings, "random-weights")) {
    config.model_dir.clear();
  }
  // What the pictures show.
  for (const char* key : {"prompt", "prompt-file", "prompt-embeds"}) {
    if (says(settings, key)) {
      config.prompts.clear();
      config.prompt_2.clear();
      config.prompt_file.clear();
      config.prompt_embeds.clear();
    }
  }
  for (const char* key :
       {"negative-prompt", "negative-prompt-file", "prompt-embeds"}) {
    if (says(settings, key)) {
      config.negative_prompts.clear();
      config.negative_prompt_file.clear();
      config.negative_prompt_2.clear();
    }
  }
  if (says(settings, "prompt-embeds")) {
    config.clip_skip = 0;
    config.max_sequence_length = 0;
  }
  const bool lists = says(settings, "sigmas") || says(settings, "timesteps");
  if (lists) {
    sampler.steps.reset();
    sampler.step_counts.clear();
  }
  if (lists || says(settings, "steps")) {
    sampler.sigmas.clear();
    sampler.timesteps.clear();
  }
}

/// Of what weaker sources said about the method, the options of the method that
/// is chosen now; a preset and "auto" choose again.
void keep_options(const Config& weaker, Config& config) {
  if (config.method.preset.empty() && !config.method.kind) {
    config.max_rmse = config.max_rmse ? config.max_rmse : weaker.max_rmse;
    return;
  }
  if (!config.method.preset.empty()) {
    return;
  }
  for (const samplers::MethodKind kind : named_methods(config)) {
    copy_options(weaker, kind, config);
  }
}

void apply(Config& config, Source source,
           const std::vector<Setting>& settings) {
  take_back(settings, config);
  const bool chooses = says(settings, "method") || says(settings, "preset");
  const Config weaker = config;
  if (chooses) {
    config.method = {};
    config.methods.clear();
    config.max_rmse.reset();
  }
  for (const Setting& setting : settings) {
    const Option* option = find_option(setting.key);
    if (option == nullptr) {
      check_missing_option(setting.key, setting.place);
      const std::vector<std::string> names = option_names();
      throw Error(
          Errc::invalid_argument, setting.place,
          "unknown option " + in_quotes(setting.key),
          suggested_name(setting.key, names, "see troupe sample --help"));
    }
    option->set(config, setting.place, setting.text);
    config.places[std::string(option->key)] = {source, setting.place};
    // Rows that are other spellings of parts of another row.
    const bool is_side = option->key == "width" || option->key == "height";
    if (is_side || (option->key == "karras" && !is_no(setting.text))) {
      config.places[is_side ? "size" : "sigma-spacing"] = {source,
                                                           setting.place};
    }
  }
  if (chooses) {
    keep_options(weaker, config);
  }
}

/// A recipe is whole: what it leaves out is the default, whatever a weaker
/// source says. Its values were not typed by the user.
void apply_recipe(Config& config, const Sources& sources) {
  if (sources.recipe.empty()) {
    return;
  }
  config.sampler = {};
  config.method = {};
  config.methods.clear();
  config.max_rmse.reset();
  config.size.reset();
  config.no_resolution_bins = false;
  config.told = {};
  config.told_negative = {};
  config.prompts.clear();
  config.prompt_2.clear();
  config.prompt_file.clear();
  config.negative_prompts.clear();
  config.negative_prompt_file.clear();
  config.negative_prompt_2.clear();
  config.clip_skip = 0;
  config.max_sequence_length = 0;
  config.ring_blocks.reset();
  if (config.shard_plan == ShardPlan::ring) {
    config.shard_plan = ShardPlan::automatic;
  }
  if (!sources.recipe_needs_latents) {
    config.init_latents.clear();
  }
  if (!sources.recipe_needs_embeds) {
    config.prompt_embeds.clear();
  }
  if (!sources.recipe_needs_guess) {
    config.guess_from.clear();
  }
  try {
    apply(config, Source::recipe, sources.recipe);
  } catch (const Error& error) {
    throw Error(Errc::corrupt_file, error.place(), error.message(),
                "was the recipe changed?");
  }
}

/// Applies the defaults of the model's folder, the weakest source of all. Where
/// the user names a sampler, only the folder's guidance and steps count: the
/// rest is about the folder's own sampler.
void apply_model_defaults(const std::vector<Setting>& defaults,
                          bool names_sampler, Config& config) {
  std::vector<Setting> kept;
  std::ranges::copy_if(
      defaults, std::back_inserter(kept), [&](const Setting& setting) {
        const std::string_view key = find_option(setting.key)->key;
        return !names_sampler || key == "guidance" || key == "steps";
      });
  try {
    apply(config, Source::model, std::as_const(kept));
  } catch (const Error& error) {
    throw Error(Errc::corrupt_file, error.place(), error.message(),
                error.hint().empty() ? "correct this key" : error.hint());
  }
}

Config merge(const Sources& sources, const std::vector<Setting>& file,
             const std::vector<Setting>& model_defaults) {
  Config config;
  if (sources.recipe.empty()) {
    const bool names_sampler = says(file, "sampler") ||
                               says(sources.environment, "sampler") ||
                               says(sources.flags, "sampler");
    apply_model_defaults(model_defaults, names_sampler, config);
  }
  apply(config, Source::file, file);
  apply(config, Source::environment, sources.environment);
  apply_recipe(config, sources);
  apply(config, Source::flag, sources.flags);
  // Options that were taken back count as unset.
  std::erase_if(config.places, [&config](const auto& place) {
    const Option* option = find_option(place.first);
    const auto texts = option->field.texts;
    return option->has_text() && option->get(config).empty() &&
           (texts == nullptr || (config.*texts).empty());
  });
  return config;
}

/// What the model says of how it is sampled.
std::vector<Setting> defaults_of(const Config& config) {
  if (!config.model_dir.empty()) {
    return read_sampling_defaults(config.model_dir);
  }
  // A name that is not bundled is refused where the model is opened.
  const auto models = bundled_models();
  const auto found =
      std::ranges::find(models, config.random_weights, &BundledModel::name);
  return found == models.end()
             ? std::vector<Setting>()
             : pipeline_defaults(found->pipeline,
                                 "bundled " + config.random_weights);
}

}  // namespace

Sources read_environment() {
  constexpr std::string_view kPrefix = "TROUPE_";
  Sources sources;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (!text.starts_with(kPrefix) || equals == std::string_view::npos) {
      continue;
    }
    const std::string name(text.substr(0, equals));
    std::string key = name.substr(kPrefix.size());
    std::ranges::transform(key, key.begin(), [](unsigned char c) {
      return c == '_' ? '-' : static_cast<char>(std::tolower(c));
    });
    const std::string value(text.substr(equals + 1));
    if (key == "config") {
      sources.file = value;
    } else {
      sources.environment.push_back({name, key, value});
    }
  }
  return sources;
}

Config load_config(Verb verb, const Sources& sources) {
  for (const Setting& flag : sources.flags) {
    const Option* option = find_option(flag.key);
    if (option == nullptr || !option->serves(verb)) {
      fail_unknown_option(verb, flag.place);
    }
  }
  std::vector<Setting> file;
  if (!sources.file.empty()) {
    file = read_toml(sources.file);
  }
  for (const auto* settings :
       {&std::as_const(file), &sources.environment, &sources.flags}) {
    check_repeated(*settings);
    check_exclusive(*settings);
  }
  Config config = merge(sources, file, {});
  const bool samples = find_option("sampler")->serves(verb);
  if (samples && sources.recipe.empty()) {
    const auto defaults = defaults_of(config);
    if (!defaults.empty()) {
      config = merge(sources, file, defaults);
    }
  }
  const std::vector<samplers::MethodKind> methods = named_methods(config);
  if (methods.size() > 1 ||
      (!config.method.preset.empty() && !methods.empty())) {
    check_method_options(config, methods);
  }
  check_printing(config);
  check_ring(verb, config);
  if (verb == Verb::sample) {
    check_max_rmse(config);
  } else {
    config.max_rmse.reset();  // of the environment or a file
    config.method_table.clear();
  }
  if (verb == Verb::bench) {
    check_emulation(config);
  } else {
    if (samples) {
      check_one_step_count(config);
    }
    config.emulation = {};  // of the environment or a file
    if (find_option("method")->serves(verb)) {
      check_one_method(config);
    } else {
      config.methods.clear();
    }
  }
  return config;
}

bool asks_for_json(const Sources& sources) {
  std::vector<Setting> said;
  if (!sources.file.empty()) {
    try {
      said = read_toml(sources.file);
    } catch (const Error&) {
      said.clear();  // the file cannot be read: it asks for nothing
    }
  }
  for (const auto* stronger : {&sources.environment, &sources.flags}) {
    said.insert(said.end(), stronger->begin(), stronger->end());
  }
  const auto last = std::find_if(
      said.rbegin(), said.rend(),
      [](const Setting& setting) { return setting.key == "json"; });
  return last != said.rend() && !is_no(last->text);
}

Error at_its_source(const Config& config, const Error& error) {
  std::string_view key = error.place();
  key.remove_prefix(key.starts_with("--") ? 2 : 0);
  const Option* option = find_option(key);
  if (option == nullptr) {
    return error;
  }
  const std::string place = config.place_of(std::string(option->key));
  return {place.find(kSamplingDefaults) == std::string::npos
              ? error.code()
              : Errc::corrupt_file,
          place, error.message(), error.hint()};
}

void fail_unknown_option(Verb verb, const std::string& written) {
  const std::size_t begin =
      std::min(written.find_first_not_of('-'), written.size());
  std::string name = written.substr(begin, written.find('=') - begin);
  std::ranges::replace(name, '_', '-');
  const bool elsewhere =
      find_option(name) != nullptr ||
      std::ranges::any_of(option_table(), [&](const Option& option) {
        return option.letter != 0 &&
               written == std::string("-") + option.letter;
      });
  const std::string help = "see troupe " + name_of(verb) + " --help";
  if (elsewhere) {
    throw Error(Errc::invalid_argument, written, "this verb has no such option",
                help + " for those it has");
  }
  check_missing_option(name, written.substr(0, written.find('=')));
  std::vector<std::string> names = option_names(verb);
  names.insert(names.end(), {"config", "help", "version"});
  const std::string best = nearest_name(name, names);
  throw Error(Errc::invalid_argument, written, "unknown option",
              best.empty() ? help : "did you mean '--" + best + "'?");
}

}  // namespace troupe::config
