#include "config/recipe.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "config/enum_names.h"
#include "config/method_plan.h"
#include "config/recipe_fields.h"
#include "kernels/core/text.h"

namespace troupe::config {
namespace {

using nlohmann::json;

/// Text as a reader takes it: names of classes and folders may be anything.
std::string readable(const std::string& text) {
  // A character takes up to four bytes, and so does the mark of what is cut.
  return printable(text, kLongestRecipeText / 4 - 1);
}

/// JSON has no infinity: the one infinite default is left out.
class JsonWriter {
 public:
  explicit JsonWriter(json& out) : out_(out) {}

  template <typename T>
  void operator()(const FieldKey& key, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      out_[key.name] = name_of(value);
    } else if constexpr (std::is_same_v<T, samplers::Solver> ||
                         std::is_same_v<T, samplers::MethodKind>) {
      out_[key.name] = value->name;
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

}  // namespace

samplers::MethodOptions logical_method(const samplers::MethodOptions& options) {
  const auto approximates = options.kind->approximates;
  return approximates != nullptr && approximates(options)
             ? options
             : samplers::MethodOptions{};
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

}  // namespace troupe::config
