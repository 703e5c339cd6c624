#include "config/sampling_defaults.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "config/option_table.h"
#include "config/python_json.h"
#include "config/scheduler_config.h"
#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/text.h"

namespace troupe::config {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxSamplingBytes = std::size_t{64} << 10U;

struct PipelineDefaults {
  std::string_view class_name;
  /// What its __call__ takes by default, as sampling.json would say it.
  std::string_view settings;
  /// What its __init__ puts over the scheduler's file, for classes that have
  /// the key.
  std::string_view scheduler_keys = "{}";
};
/// Source: diffusers pipelines/*/pipeline_*.py.
constexpr std::array<PipelineDefaults, 4> kPipelines = {{
    {"PixArtSigmaPipeline", R"({"steps": 20, "guidance": 4.5})"},
    {"StableDiffusionPipeline", R"({"steps": 50, "guidance": 7.5})",
     R"({"steps_offset": 1, "clip_sample": false})"},
    {"StableDiffusionXLPipeline", R"({"steps": 50, "guidance": 5})"},
    {"StableDiffusionXLImg2ImgPipeline", R"({"steps": 50, "guidance": 5})"},
}};

/// Of an unknown class: one that says nothing.
const PipelineDefaults& defaults_of(std::string_view class_name) {
  static constexpr PipelineDefaults kNone{{}, "{}"};
  const auto* const found =
      std::ranges::find(kPipelines, class_name, &PipelineDefaults::class_name);
  return found == kPipelines.end() ? kNone : *found;
}

constexpr std::string_view kKnownKeys =
    "sampler steps guidance eta order timestep_spacing sigma_spacing shift";

[[noreturn]] void refuse(const std::string& place, const std::string& what,
                         const std::string& hint = "correct this file") {
  throw Error(Errc::corrupt_file, place, what, hint);
}

json parse_object(std::string_view text, const std::string& place) {
  check_objects(text, place, Errc::corrupt_file);
  json object = json::parse(text, nullptr, false);
  if (object.is_discarded()) {
    refuse(place, "not valid JSON");
  }
  if (!object.is_object()) {
    refuse(place, std::string("got ") + object.type_name() +
                      ", expected a JSON object");
  }
  return object;
}

/// The row of a key that such a file may have. Errors: any other key.
const Option& option_of(const std::string& key, const std::string& place) {
  const Option* option = find_option(key);
  const std::vector<std::string> known = words(kKnownKeys);
  if (option == nullptr ||
      std::ranges::find(known, option, find_option) == known.end()) {
    refuse(place, "unknown key " + in_quotes(key),
           suggested_name(key, known, "expected some of " + join_names(known)));
  }
  return *option;
}

std::string text_of(const Option& option, const json& value,
                    const std::string& place) {
  const auto expect = [&](bool good, const char* what) {
    if (!good) {
      const std::string got =
          value.dump(-1, ' ', true, json::error_handler_t::replace);
      refuse(place, "got " + in_quotes(got) + ", expected " + what,
             "correct this key");
    }
  };
  switch (option.kind()) {
    case ValueKind::whole:
      expect(value.is_number_integer(), "a whole number");
      return value.dump();
    case ValueKind::real:
      expect(value.is_number(), "a number");
      return to_text(value.get<double>());
    default:
      expect(value.is_string(), "a name in quotes");
      return value.get<std::string>();
  }
}

/// A name that no solver has is found here, not when it is used.
void check_sampler(const Setting& setting) {
  try {
    (void)parse_solver(setting.text);
  } catch (const Error& error) {
    refuse(setting.place, error.message(), error.hint());
  }
}

std::vector<Setting> parse(std::string_view text, const std::string& place) {
  std::vector<Setting> settings;
  std::set<const Option*> seen;
  const json object = parse_object(text, place);
  for (const auto& [key, value] : object.items()) {
    if (key.starts_with('_')) {
      continue;
    }
    const Option& option = option_of(key, place);
    const std::string at = place + ": " + key;
    if (!seen.insert(&option).second) {
      refuse(at, "sets what another key sets too", "leave one of the two out");
    }
    if (value.is_null()) {
      continue;
    }
    settings.push_back({at, key, text_of(option, value, at)});
    if (option.key == "sampler") {
      check_sampler(settings.back());
    }
  }
  return settings;
}

/// The class in model_index.json. What is wrong with that file is said where
/// the model is opened.
std::string pipeline_of(const std::filesystem::path& index) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(index, error)) {
    return {};
  }
  try {
    const json found =
        json::parse(read_file(index, kMaxSamplingBytes), nullptr, false);
    return found.value("_class_name", "");
  } catch (const std::exception&) {
    return {};
  }
}

std::vector<Setting> read_file_of(const std::filesystem::path& path) {
  std::error_code error;
  // A folder that cannot be looked into is refused where the model is opened.
  if (!std::filesystem::exists(path, error)) {
    if (error == std::errc::too_many_symbolic_link_levels) {
      refuse(path.string(), "a symbolic link that leads back to itself");
    }
    // Whoever reads a link to nothing says where the link leads.
    if (!std::filesystem::is_symlink(path, error)) {
      return {};
    }
  }
  if (std::filesystem::file_size(path, error) > kMaxSamplingBytes && !error) {
    refuse(path.string(), "got more than 64 KiB, expected a short JSON file");
  }
  return parse(read_file(path, kMaxSamplingBytes), path.string());
}

}  // namespace

std::vector<Setting> pipeline_defaults(std::string_view class_name,
                                       const std::string& place) {
  return parse(defaults_of(class_name).settings, place);
}

std::string_view pipeline_scheduler_keys(std::string_view class_name) {
  return defaults_of(class_name).scheduler_keys;
}

std::vector<Setting> read_sampling_defaults(
    const std::filesystem::path& folder) {
  const std::filesystem::path index = folder / "model_index.json";
  std::vector<Setting> settings =
      pipeline_defaults(pipeline_of(index), index.string());
  std::vector<Setting> own = read_file_of(folder / kSamplingDefaults);
  settings.insert(settings.end(), own.begin(), own.end());
  return settings;
}

}  // namespace troupe::config
