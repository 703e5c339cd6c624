#include "config/recipe.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <type_traits>
#include <utility>

#include "config/enum_names.h"
#include "config/field_reader.h"
#include "config/method_plan.h"
#include "config/python_json.h"
#include "config/recipe_fields.h"
#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/log.h"
#include "kernels/core/text.h"

namespace troupe::config {
namespace {

using nlohmann::json;

/// Text as a reader takes it: names of classes and folders may be anything.
std::string readable(const std::string& text) {
  // A character takes up to four bytes, and so does the mark of what is cut.
  return printable(text, kLongestText / 4 - 1);
}

/// JSON has no infinity: the one infinite default is left out.
class JsonWriter {
 public:
  explicit JsonWriter(json& out) : out_(out) {}

  template <typename T>
  void operator()(const FieldKey& key, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      out_[key.name] = name_of(value);
    } else if constexpr (std::is_same_v<T, samplers::Solver>) {
      out_[key.name] = value->name;
    } else if constexpr (std::is_same_v<T, samplers::MethodKind>) {
      out_[key.name] = to_string(value);
    } else if constexpr (std::is_same_v<T, double>) {
      if (std::isfinite(value) && !(key.is_absent && value == 0)) {
        out_[key.name] = value;
      }
    } else if constexpr (std::is_same_v<T, std::string>) {
      out_[key.name] = readable(value);
    } else if constexpr (std::is_same_v<T, Verbatim>) {
      out_[key.name] = value.text;
    } else if constexpr (std::is_same_v<T, PictureSize> ||
                         std::is_same_v<T, PictureCorner> ||
                         std::is_same_v<T, samplers::SigmaRange>) {
      out_[key.name] = to_string(value);
    } else {
      out_[key.name] = value;
    }
  }
  template <typename T>
  void operator()(const FieldKey& key, const std::optional<T>& value) {
    if (value) {
      (*this)(key, *value);
    }
  }

 private:
  json& out_;
};

constexpr std::size_t kMostRecipeBytes = std::size_t{1} << 20U;
constexpr const char* kHint =
    "the recipe is not as troupe wrote it: use the image as it was made";

/// Reads one object of a recipe.
class JsonReader : public ObjectReader<JsonReader, json> {
 public:
  /// `name`: what the object's keys are shown with, "schedule.".
  JsonReader(const std::string& place, const json& in, std::string name = {})
      : ObjectReader(place, in, kHint), name_(std::move(name)) {}

  /// The object under a key.
  JsonReader section(const char* key) {
    const json* found = find(key);
    if (found == nullptr || !found->is_object()) {
      throw Error(Errc::corrupt_file, place_,
                  std::string("the recipe has no section '") + key + "'",
                  "was the image made by troupe?");
    }
    return {place_, *found, std::string(key) + "."};
  }

  /// A key that nobody asked for would be dropped, and another image come out:
  /// a mistake, unless a newer version wrote it.
  void check_keys(bool by_newer) const {
    std::vector<std::string> unknown;
    for (const std::string& key : unknown_keys()) {
      unknown.push_back(shown(json(name_ + key)));
      if (!by_newer) {
        throw Error(Errc::corrupt_file, place_,
                    "the recipe has the unknown key " + unknown.back(),
                    suggestion(key, known_, kHint));
      }
    }
    if (!unknown.empty()) {
      constexpr std::size_t kShown = 4;
      log_message(LogLevel::warning,
                  place_ +
                      ": a newer troupe wrote the recipe; ignored, because "
                      "unknown here: " +
                      join_names(unknown, kShown));
    }
  }

 private:
  friend FieldReader;
  using FieldReader::read;

  void read(const char* key, const json& in, Verbatim& value) {
    expect(in.is_string(), key, in, "a text");
    value.text = in.get<std::string>();
    expect(value.text.size() <= kLongestPrompt, key, in,
           "a text of at most 64 KiB");
  }

  /// Of a type that `parse` reads from text.
  template <typename T, typename Parse>
  void read_text(const char* key, const json& in, T& value, Parse parse) {
    expect(in.is_string(), key, in, "a text");
    try {
      value = parse(place_, in.get<std::string>());
    } catch (const Error&) {
      refuse(key, in, "what the option of this name takes");
    }
  }
  void read(const char* key, const json& in, PictureSize& value) {
    read_text(key, in, value, parse_size);
  }
  void read(const char* key, const json& in, samplers::SigmaRange& value) {
    read_text(key, in, value,
              [](std::string_view place, std::string_view text) {
                return parse_sigma_range(place, text).value();
              });
  }
  void read(const char* key, const json& in, PictureCorner& value) {
    read_text(key, in, value, parse_corner);
  }

  std::string name_;
};

/// The numbers of "0.10.2"; empty for other texts.
std::vector<int> numbers_of(const std::string& version) {
  std::istringstream in(version);
  std::vector<int> numbers;
  char dot = 0;
  for (int number = 0; in >> number; in >> dot) {
    numbers.push_back(number);
  }
  return numbers;
}

json parse_bounded(const std::string& place, std::string_view text) {
  require(text.size() <= kMostRecipeBytes, Errc::corrupt_file, place,
          "the recipe is longer than 1 MiB", kHint);
  check_objects(text, place, Errc::corrupt_file);
  json document = json::parse(text, nullptr, false);
  require(!document.is_discarded(), Errc::corrupt_file, place,
          "the recipe is not JSON", kHint);
  require(document.is_object(), Errc::corrupt_file, place,
          "the recipe is not a JSON object", kHint);
  return document;
}

}  // namespace

samplers::MethodOptions logical_method(const samplers::MethodOptions& options) {
  if (!samplers::approximates(options)) {
    return {};
  }
  samplers::MethodOptions logical = options;
  const auto of_kind = options.kind->approximates;
  if (of_kind == nullptr || !of_kind(options)) {
    // Its modifiers alone decide bytes.
    logical = {};
    logical.kind = options.kind.on(samplers::MethodKind::sequential);
    logical.cache_threshold = options.cache_threshold;
  }
  return logical;
}

std::vector<Setting> to_settings(const Recipe& recipe,
                                 const std::string& place) {
  std::vector<Setting> settings;
  const auto say = [&](const char* key, const std::string& text) {
    if (!text.empty()) {
      settings.push_back({place + ": " + key, key, text});
    }
  };
  Config told;
  told.told = recipe.told;
  told.told_negative = recipe.told_negative;
  say("random-weights", recipe.random_weights);
  if (recipe.prompt) {  // an empty one is a text, too
    settings.push_back({place + ": prompt", "prompt", recipe.prompt->text});
  } else if (!recipe.prompt_embeds_xxh3) {
    say("class", std::to_string(recipe.class_id));
  }
  if (recipe.prompt_2) {
    say("prompt-2", recipe.prompt_2->text);
  }
  if (recipe.negative_prompt) {  // as the prompt
    settings.push_back({place + ": negative-prompt", "negative-prompt",
                        recipe.negative_prompt->text});
  }
  if (recipe.negative_prompt_2) {
    say("negative-prompt-2", recipe.negative_prompt_2->text);
  }
  if (recipe.clip_skip) {
    say("clip-skip", std::to_string(*recipe.clip_skip));
  }
  if (recipe.max_sequence_length) {
    say("max-sequence-length", std::to_string(*recipe.max_sequence_length));
  }
  say("samples", to_string(SampleRange{recipe.index, recipe.index + 1}));
  if (recipe.width || recipe.height) {  // one alone is 0 by the other: refused
    say("size", to_string(PictureSize{recipe.width.value_or(0),
                                      recipe.height.value_or(0)}));
    say("no-resolution-bins",
        recipe.resolution_bins.value_or(false) ? "false" : "true");
  }
  for (const char* key :
       {"original-size", "crop", "target-size", "aesthetic-score",
        "negative-original-size", "negative-crop", "negative-target-size",
        "negative-aesthetic-score"}) {
    say(key, find_option(key)->get(told));
  }
  say("vae-tiling", recipe.vae_tile ? "true" : "false");
  if (recipe.ring_blocks) {
    say("ring-blocks", std::to_string(*recipe.ring_blocks));
  }
  say("seed", std::to_string(recipe.seed));
  say("noise", name_of(recipe.noise));
  say("guidance", to_text(recipe.guidance.scale));
  say("guidance-rescale", to_text(recipe.guidance.rescale));
  say("guidance-interval", to_string(recipe.guidance.interval));
  say("dtype", recipe.dtype);
  if (recipe.isa) {
    say("isa", name_of(*recipe.isa));
  }
  say("bits", name_of(recipe.bits.value_or(BitsMode::invariant)));
  say("tf32", recipe.tf32.value_or(false) ? "true" : "false");
  const samplers::MethodOptions method = logical_method(recipe.method);
  if (method.kind != samplers::MethodKind::sequential) {
    for (const auto& [key, text] : method_settings(method)) {
      say(std::string(key).c_str(), text);
    }
  }
  return settings;
}

std::string to_json(const Recipe& recipe) {
  json document;
  document["schema"] = kRecipeSchema;
  JsonWriter top(document);
  visit_recipe(top, recipe);
  JsonWriter schedule(document["schedule"]);
  samplers::visit_schedule(schedule, recipe.schedule);
  const samplers::MethodOptions options = logical_method(recipe.method);
  JsonWriter method(document["method"]);
  if (options.kind == samplers::MethodKind::sequential) {
    method("kind", options.kind);
  } else {
    samplers::visit_method(method, options);
  }
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

Recipe parse_recipe(const std::string& place, std::string_view text) {
  const json document = parse_bounded(place, text);
  Recipe recipe;
  JsonReader top(place, document);
  int schema = 0;
  top("schema", schema);
  if (schema != kRecipeSchema) {
    throw Error(Errc::corrupt_file, place + ": schema",
                "a recipe of another kind: got " + std::to_string(schema) +
                    ", expected " + std::to_string(kRecipeSchema),
                "was it made by a newer troupe?");
  }
  JsonReader schedule = top.section("schedule");
  JsonReader method = top.section("method");
  visit_recipe(top, recipe);
  samplers::visit_schedule(schedule, recipe.schedule);
  samplers::visit_method(method, recipe.method);
  const bool by_newer = numbers_of(recipe.version) > numbers_of(TROUPE_VERSION);
  for (const JsonReader* reader : {&top, &schedule, &method}) {
    reader->check_keys(by_newer);
  }
  return recipe;
}

}  // namespace troupe::config
