#include "config/setting_checks.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "config/option_rows.h"
#include "config/parse_value.h"
#include "kernels/core/error.h"

namespace troupe::config {

bool says(const std::vector<Setting>& settings, std::string_view key) {
  return std::ranges::any_of(settings, [&](const Setting& setting) {
    const Option* option = find_option(setting.key);
    return option != nullptr && option->key == key &&
           !(option->is_switch() && is_no(setting.text));
  });
}

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

void check_exclusive(const std::vector<Setting>& settings) {
  constexpr std::pair<const char*, const char*> kPairs[] = {
      {"model", "random-weights"},
      {"sigmas", "timesteps"},
      {"size", "width"},
      {"size", "height"},
      {"prompt", "prompt-file"},
      {"prompt", "prompt-embeds"},
      {"class", "prompt"},
      {"prompt-file", "prompt-embeds"},
      {"class", "prompt-file"},
      {"class", "prompt-embeds"},
      {"negative-prompt", "negative-prompt-file"},
      {"negative-prompt", "prompt-embeds"},
      {"negative-prompt-file", "prompt-embeds"},
      {"prompt-2", "prompt-embeds"},
      {"negative-prompt-2", "prompt-embeds"},
      {"clip-skip", "prompt-embeds"},
      {"max-sequence-length", "prompt-embeds"},
      {"steps", "sigmas"},
      {"steps", "timesteps"},
      {"karras", "sigma-spacing"},
      {"quiet", "verbose"}};
  for (const auto& [one, other] : kPairs) {
    if (says(settings, one) && says(settings, other)) {
      throw Error(Errc::invalid_argument, std::string("--") + one,
                  std::string("cannot stand beside --") + other,
                  "give one of the two");
    }
  }
}

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

void check_one_method(const Config& config) {
  if (!config.methods.empty()) {
    throw Error(Errc::invalid_argument, config.place_of("method"),
                "only bench takes several methods: got " +
                    find_option("method")->get(config),
                "choose one of them");
  }
}

void check_printing(const Config& config) {
  if (config.print_config && config.json) {
    throw Error(
        Errc::invalid_argument, config.place_of("print-config"),
        "prints TOML and cannot stand beside " + config.place_of("json"),
        "leave one of the two out");
  }
}

}  // namespace troupe::config
