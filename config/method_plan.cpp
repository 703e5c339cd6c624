#include "config/method_plan.h"

#include <algorithm>

#include "config/option_rows.h"
#include "config/parse_value.h"
#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::config {

using samplers::MethodKind;
using samplers::MethodOptions;

std::vector<std::string> method_names(samplers::MethodTable table) {
  std::vector<std::string> names;
  for (const MethodKind kind : table) {
    names.emplace_back(kind->name);
  }
  return names;
}

namespace {

std::vector<std::string> methods_with(std::string_view modifier,
                                      samplers::MethodTable table) {
  std::vector<std::string> names;
  for (const MethodKind kind : table) {
    if (has_word(kind->modifiers, modifier)) {
      names.emplace_back(kind->name);
    }
  }
  return names;
}

}  // namespace

std::optional<MethodKind> parse_method(std::string_view place,
                                       std::string_view text,
                                       samplers::MethodTable table) {
  const std::string_view whole = trimmed(text);
  const std::size_t plus = std::min(whole.find('+'), whole.size());
  std::vector<std::string> names = method_names(table);
  names.emplace_back("auto");
  const std::size_t index = parse_choice(place, whole.substr(0, plus), names);
  if (plus == whole.size() && index == table.size()) {
    return std::nullopt;
  }
  std::vector<std::string> known;
  for (const samplers::ModifierRow& modifier : samplers::kModifiers) {
    known.emplace_back(modifier.name);
  }
  std::optional<MethodKind> kind;
  if (index < table.size()) {
    kind = table[index];
  }
  for (std::size_t at = plus; at < whole.size();) {
    const std::size_t end = std::min(whole.find('+', at + 1), whole.size());
    const std::size_t m =
        parse_choice(place, whole.substr(at + 1, end - at - 1), known);
    if (!kind || !has_word((*kind)->modifiers, known[m])) {
      throw Error(Errc::invalid_argument, place,
                  "got " + in_quotes(whole) + ", expected " +
                      one_of(methods_with(known[m], table)) + " with +" +
                      known[m],
                  "leave +" + known[m] + " out, or choose one of these");
    }
    kind = kind->with(static_cast<samplers::Modifier>(m));
    at = end;
  }
  return kind;
}

std::optional<MethodKind> find_method(std::string_view name) {
  try {
    const std::optional<MethodKind> kind = parse_method("method", name);
    return kind && to_string(*kind) == name ? kind : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<const Option*> options_of(MethodKind kind) {
  std::vector<const Option*> options;
  for (const Option& option : option_table()) {
    if (kind.takes(option.key)) {
      options.push_back(&option);
    }
  }
  return options;
}

std::vector<std::pair<std::string_view, std::string>> method_settings(
    const samplers::MethodOptions& options) {
  Config said;
  said.method = choices_of(options);
  std::vector<std::pair<std::string_view, std::string>> settings = {
      {"method", to_string(options.kind)}};
  for (const Option* option : options_of(options.kind)) {
    std::string text = option->get(said);
    if (!text.empty()) {
      settings.emplace_back(option->key, std::move(text));
    }
  }
  return settings;
}

std::string cut_name(const samplers::MethodOptions& options) {
  return num_segments(options) > 1 ? name_of(options.cut) : std::string();
}

std::vector<MethodKind> named_methods(const Config& config) {
  if (!config.methods.empty()) {
    return config.methods;
  }
  return config.method.kind ? std::vector{*config.method.kind}
                            : std::vector<MethodKind>();
}

void copy_options(const Config& from, MethodKind kind, Config& to) {
  for (const Option* option : options_of(kind)) {
    const std::string text = option->get(from);
    if (!text.empty() && option->get(to).empty()) {
      option->set(to, to.place_of(std::string(option->key)), text);
    }
  }
}

void check_method_options(const Config& config,
                          std::span<const MethodKind> kinds) {
  std::string names;
  for (const MethodKind kind : kinds) {
    names.append(names.empty() ? "" : ",").append(to_string(kind));
  }
  for (const Option& option : option_table()) {
    const auto takes = [&option](MethodKind kind) {
      return kind.takes(option.key);
    };
    if (option.group != rows::kMethodGroup ||
        std::ranges::any_of(kinds, takes) || option.get(config).empty()) {
      continue;
    }
    std::vector<std::string> owners;
    for (const MethodKind owner : samplers::method_table()) {
      if (owner.takes(option.key)) {
        owners.emplace_back(owner->name);
      }
    }
    for (const samplers::ModifierRow& modifier : samplers::kModifiers) {
      if (has_word(modifier.options, option.key)) {
        owners.emplace_back(std::string("NAME+").append(modifier.name));
      }
    }
    if (owners.empty()) {
      continue;  // it is about the choice of a method
    }
    throw Error(Errc::invalid_argument,
                config.place_of(std::string(option.key)),
                "this is an option of --method " + one_of(owners) +
                    ": got method " + names,
                "leave it out, or choose that method");
  }
}

std::vector<Config> configs_by_method(const Config& config) {
  if (config.methods.empty()) {
    return {config};
  }
  std::vector<Config> configs;
  for (const MethodKind kind : config.methods) {
    Config& one = configs.emplace_back(config);
    one.methods.clear();
    one.method = {};
    one.method.kind = kind;
    copy_options(config, kind, one);
  }
  return configs;
}

namespace {

/// What the user said; 0 leaves the choice.
int chosen(int said, int otherwise) { return said > 0 ? said : otherwise; }

bool is_gpu(DeviceKind kind) { return kind == DeviceKind::cuda; }

bool uses_gpus(const PlanInputs& inputs) {
  return std::ranges::any_of(inputs.devices, is_gpu);
}

/// So many workers, one device after the other.
std::vector<int> deal(int workers, std::size_t devices) {
  std::vector<int> counts(devices);
  for (int w = 0; w < workers; ++w) {
    ++counts[static_cast<std::size_t>(w) % devices];
  }
  return counts;
}

int num_gpu_workers(const PlanInputs& inputs, const std::vector<int>& counts) {
  int sum = 0;
  for (std::size_t d = 0; d < counts.size(); ++d) {
    sum += is_gpu(inputs.devices[d]) ? counts[d] : 0;
  }
  return sum;
}

/// Devices or cores, each of which has room for a worker.
int num_places(const PlanInputs& inputs) {
  return uses_gpus(inputs) ? static_cast<int>(inputs.devices.size())
                           : inputs.num_cores;
}

/// Places for workers of as many threads as the user wants.
int num_free_places(const Config& config, const PlanInputs& inputs) {
  const int places = num_places(inputs);
  return uses_gpus(inputs)
             ? places
             : std::max(
                   places / (chosen(config.num_threads, 1) * config.num_shards),
                   1);
}

/// Workers that can share a sample: a sample stays on devices of one kind.
std::uint64_t num_sharers(const Config& config, const PlanInputs& inputs) {
  WorkerCount all =
      inputs.only_others ? WorkerCount{} : own_workers(config, inputs);
  all += inputs.others.value_or(WorkerCount{});
  return static_cast<std::uint64_t>(all.gpu > 0 ? all.gpu : all.cpu);
}

MethodKind choose_kind(const Config& config, const PlanInputs& inputs) {
  if (config.method.kind) {
    return *config.method.kind;
  }
  if (!config.method.preset.empty()) {
    const auto table = samplers::method_table();
    return *std::ranges::find_if(
        table, [](MethodKind kind) { return kind.takes("preset"); });
  }
  const std::uint64_t sharers = num_sharers(config, inputs);
  if (inputs.is_guided && sharers > inputs.num_samples) {
    return MethodKind::cfg;
  }
  const bool has_use_for_batch =
      uses_gpus(inputs) || sharers > 1 || inputs.others.has_value();
  return has_use_for_batch && inputs.num_samples > 1 ? MethodKind::batch
                                                     : MethodKind::sequential;
}

int default_segments(const Config& config, const PlanInputs& inputs) {
  constexpr int kFewest = 2;
  if (!config.method.segment_speeds.empty()) {
    return static_cast<int>(config.method.segment_speeds.size());
  }
  if (config.method.ages.size() > 1) {
    return static_cast<int>(config.method.ages.size()) + 1;
  }
  const int workers =
      chosen(config.num_workers.value_or(0), num_places(inputs));
  const bool is_onion = config.method.cut == samplers::CutShape::onion;
  const int most = is_onion ? inputs.most_onion_parts : inputs.num_blocks;
  return std::min(std::max(workers, kFewest), std::max(most, 1));
}

/// A preset is a chain.
void choose_cut(const Config& config, const PlanInputs& inputs,
                MethodOptions& options) {
  if (!options.kind.takes("cut")) {
    return;
  }
  if (!config.method.cut && config.method.preset.empty() &&
      inputs.cheaper_cut) {
    options.cut = inputs.cheaper_cut(options);
  }
  if (options.cut == samplers::CutShape::chain) {
    return;
  }
  require(inputs.most_onion_parts > 0, Errc::invalid_argument,
          config.place_of("cut"),
          "the network has no skips that an onion could keep at home: got "
          "onion, expected chain",
          "leave --cut out");
  require(options.stride == 1, Errc::invalid_argument, config.place_of("cut"),
          "an onion has one executor for each part: got stride 2, expected 1",
          "leave --cut out");
  if (options.num_segments > inputs.most_onion_parts) {
    throw Error(Errc::invalid_argument, config.place_of("segments"),
                "more parts than an onion of this network has: got " +
                    std::to_string(options.num_segments) +
                    ", expected at most " +
                    std::to_string(inputs.most_onion_parts),
                "use fewer segments, or --cut chain");
  }
}

MethodOptions method_options(const Config& config, const PlanInputs& inputs) {
  const MethodKind kind = choose_kind(config, inputs);
  check_method_options(config, {&kind, 1});
  // It would compute the one branch twice.
  require(!kind->splits_guidance || inputs.is_guided, Errc::invalid_argument,
          config.place_of("method"),
          std::string(kind->name) +
              " shares out the two branches of guidance, and this job has one: "
              "got no --guidance above 1",
          "guide by more than 1, or leave --method out");
  samplers::MethodChoices said = config.method;
  if (!config.guess_from.empty() && !said.initial_guess) {
    said.initial_guess = samplers::InitialGuess::trajectory;
  }
  if (kind.takes("segments") && !said.num_segments) {
    said.num_segments = default_segments(config, inputs);
  }
  MethodOptions options;
  if (kind->defaults != nullptr) {
    constexpr std::uint64_t kMany = 1 << 20;
    options = kind->defaults(
        said, inputs.num_calls,
        static_cast<int>(std::min(num_sharers(config, inputs), kMany)));
  }
  options.kind = kind;
  options.has_early_results = !config.preview.empty();
  if (!options.ages.empty() && !config.method.num_segments &&
      config.method.segment_speeds.empty()) {
    // Two segments never work at once if the cut between them does not lag:
    // they become one segment.
    said.num_segments = 1 + static_cast<int>(std::ranges::count_if(
                                options.ages, [](int age) { return age > 0; }));
    options.ages.clear();
  }
  apply_choices(said, options);
  const std::size_t speeds = options.segment_speeds.size();
  const int parts = num_network_parts(options);
  if (speeds > 0 && speeds != static_cast<std::size_t>(parts)) {
    throw Error(Errc::invalid_argument, config.place_of("segment-speeds"),
                "one speed is needed for each segment: got " +
                    std::to_string(speeds) + " for " + std::to_string(parts) +
                    " segments",
                "leave --segments out to cut the network into as many");
  }
  choose_cut(config, inputs, options);
  if (options.num_segments > inputs.num_blocks &&
      options.kind.takes("segments")) {
    throw Error(Errc::invalid_argument, config.place_of("segments"),
                "more segments than the network has blocks: got " +
                    std::to_string(options.num_segments) +
                    ", expected at most " + std::to_string(inputs.num_blocks));
  }
  return options;
}

/// Whether this process can serve +cache. Errors: Errc::invalid_argument.
void check_cache(const Config& config, const PlanInputs& inputs) {
  require(inputs.can_leave_out_blocks, Errc::invalid_argument,
          config.place_of("method"),
          "+cache needs a network that is a chain of blocks, as DiT and PixArt "
          "are: got one with skips, or of one block",
          "leave +cache out");
  require(config.num_shards == 1, Errc::invalid_argument,
          config.place_of("shards"),
          "shards do not serve +cache: got " +
              std::to_string(config.num_shards) + ", expected 1",
          "leave --shards or +cache out");
  require(!uses_gpus(inputs), Errc::invalid_argument, config.place_of("device"),
          "+cache computes on CPUs alone: got a GPU",
          "give --device cpu, or leave +cache out");
}

}  // namespace

WorkerCount own_workers(const Config& config, const PlanInputs& inputs) {
  const int workers =
      chosen(config.num_workers.value_or(0), num_free_places(config, inputs));
  const int on_gpus =
      num_gpu_workers(inputs, deal(workers, inputs.devices.size()));
  return {workers - on_gpus, on_gpus};
}

std::optional<MethodKind> method_with_more_workers(const Config& config,
                                                   const PlanInputs& inputs) {
  if (!inputs.others) {
    return std::nullopt;
  }
  constexpr int kMany = 1 << 30;
  PlanInputs more = inputs;
  more.others = WorkerCount{kMany, kMany};
  more.only_others = true;
  const MethodKind kind = choose_kind(config, more);
  return kind == choose_kind(config, inputs) ? std::nullopt
                                             : std::optional(kind);
}

Plan make_plan(const Config& config, const PlanInputs& inputs) {
  Plan plan;
  plan.method = inputs.method ? *inputs.method : method_options(config, inputs);
  if (plan.method.kind.has(samplers::Modifier::cache)) {
    check_cache(config, inputs);
  }
  const std::uint64_t useful = std::max<std::uint64_t>(
      plan.method.kind->useful_workers(plan.method, inputs.num_samples), 1);
  const int places = num_free_places(config, inputs);
  plan.num_workers =
      chosen(config.num_workers.value_or(0),
             static_cast<int>(std::min<std::uint64_t>(useful, places)));
  plan.device_workers = deal(plan.num_workers, inputs.devices.size());
  const int gpu_workers = num_gpu_workers(inputs, plan.device_workers);
  const int cpu_workers = plan.num_workers - gpu_workers;
  if (cpu_workers > 0) {
    // Each worker of a GPU keeps a core busy with telling it what to do.
    const int cores = std::max(inputs.num_cores - gpu_workers, 1);
    plan.num_threads =
        chosen(config.num_threads,
               std::max(cores / (cpu_workers * config.num_shards), 1));
  }
  return plan;
}

}  // namespace troupe::config
