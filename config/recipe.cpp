#include "config/recipe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "config/enum_names.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxBytes = std::size_t{1} << 20U;
constexpr int kMaxDepth = 16;
constexpr std::size_t kLongestText = 4096;
constexpr int kSchema = 1;

/// Visits the fields of an options struct with their key, in the direction of
/// the visitor: one list serves writing and reading.
template <typename Visitor, typename Options>
void visit_schedule(Visitor& visit, Options& o) {
  visit("solver", o.solver);
  visit("num_inference_steps", o.num_inference_steps);
  visit("num_train_timesteps", o.num_train_timesteps);
  visit("beta_start", o.beta_start);
  visit("beta_end", o.beta_end);
  visit("beta_schedule", o.beta_schedule);
  visit("trained_betas", o.trained_betas);
  visit("rescale_betas_zero_snr", o.rescale_betas_zero_snr);
  visit("prediction_type", o.prediction_type);
  visit("timestep_spacing", o.timestep_spacing);
  visit("steps_offset", o.steps_offset);
  visit("sigma_spacing", o.sigma_spacing);
  visit("set_alpha_to_one", o.set_alpha_to_one);
  visit("final_sigma_zero", o.final_sigma_zero);
  visit("sigma_min", o.sigma_min);
  visit("sigma_max", o.sigma_max);
  visit("clip_sample", o.clip_sample);
  visit("clip_sample_range", o.clip_sample_range);
  visit("thresholding", o.thresholding);
  visit("dynamic_thresholding_ratio", o.dynamic_thresholding_ratio);
  visit("sample_max_value", o.sample_max_value);
  visit("eta", o.eta);
  visit("variance_type", o.variance_type);
  visit("solver_order", o.solver_order);
  visit("algorithm", o.algorithm);
  visit("solver_type", o.solver_type);
  visit("lower_order_final", o.lower_order_final);
  visit("euler_at_final", o.euler_at_final);
  visit("predict_x0", o.predict_x0);
  visit("disable_corrector", o.disable_corrector);
  visit("lambda_min_clipped", o.lambda_min_clipped);
  visit("use_lu_lambdas", o.use_lu_lambdas);
  visit("use_flow_sigmas", o.use_flow_sigmas);
  visit("flow_shift", o.flow_shift);
  visit("shift", o.shift);
  visit("use_dynamic_shifting", o.use_dynamic_shifting);
  visit("time_shift_linear", o.time_shift_linear);
  visit("base_shift", o.base_shift);
  visit("max_shift", o.max_shift);
  visit("base_image_seq_len", o.base_image_seq_len);
  visit("max_image_seq_len", o.max_image_seq_len);
  visit("mu", o.mu);
  visit("shift_terminal", o.shift_terminal);
  visit("invert_sigmas", o.invert_sigmas);
  visit("stochastic_sampling", o.stochastic_sampling);
  visit("sigmas", o.sigmas);
  visit("timesteps", o.timesteps);
}

template <typename Visitor, typename Options>
void visit_method(Visitor& visit, Options& o) {
  visit("kind", o.kind);
  visit("window_size", o.window_size);
  visit("tolerance", o.tolerance);
  visit("carry", o.carry);
  visit("initial_guess", o.initial_guess);
  visit("num_segments", o.num_segments);
  visit("age", o.age);
  visit("ages", o.ages);
  visit("stride", o.stride);
  visit("warmup_steps", o.warmup_steps);
  visit("final_fresh_steps", o.final_fresh_steps);
}

template <typename Visitor, typename AnyRecipe>
void visit_recipe(Visitor& visit, AnyRecipe& r) {
  visit("version", r.version);
  visit("model", r.model);
  visit("random_weights", r.random_weights);
  visit("weights_xxh3", r.weights_xxh3);
  visit("class_id", r.class_id);
  visit("class_name", r.class_name);
  visit("seed", r.seed);
  visit("index", r.index);
  visit("noise", r.noise);
  visit("init_latents_xxh3", r.init_latents_xxh3);
  visit("guidance_scale", r.guidance_scale);
  visit("dtype", r.dtype);
  visit("execution_class", r.execution_class);
  visit("latents_xxh3", r.latents_xxh3);
}

template <typename T>
concept NamedEnum = std::is_enum_v<T>;

/// Text as a reader takes it: UTF-8 without control characters, not too long.
/// Names of classes and folders may be anything.
std::string printable(const std::string& text) {
  std::string clean = json::parse(
      json(text).dump(-1, ' ', false, json::error_handler_t::replace));
  std::ranges::replace_if(
      clean, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  if (clean.size() > kLongestText) {
    std::size_t end = kLongestText;
    while ((static_cast<unsigned char>(clean[end]) & 0xC0U) == 0x80U) {
      --end;  // not within a character
    }
    clean.resize(end);
  }
  return clean;
}

/// JSON has no infinity: the one infinite default is left out.
class JsonWriter {
 public:
  explicit JsonWriter(json& out) : out_(out) {}

  template <typename T>
  void operator()(const char* key, const T& value) {
    if constexpr (NamedEnum<T>) {
      out_[key] = name_of(value);
    } else if constexpr (std::is_same_v<T, double>) {
      if (std::isfinite(value)) {
        out_[key] = value;
      }
    } else if constexpr (std::is_same_v<T, std::string>) {
      out_[key] = printable(value);
    } else {
      out_[key] = value;
    }
  }
  template <typename T>
  void operator()(const char* key, const std::optional<T>& value) {
    if (value) {
      (*this)(key, *value);
    }
  }

 private:
  json& out_;
};

class JsonReader {
 public:
  JsonReader(const std::string& place, const json& in)
      : place_(place), in_(in) {}

  template <typename T>
  void operator()(const char* key, T& value) const {
    const auto found = in_.find(key);
    if (found == in_.end()) {
      return;
    }
    const std::string at = place_ + ": " + key;
    try {
      read(at, *found, value);
    } catch (const json::exception&) {
      fail(at, "a value of the wrong type");
    } catch (const Error& error) {
      if (error.code() == Errc::corrupt_file) {
        throw;
      }
      throw Error(Errc::corrupt_file, at, "not a value of this key",
                  error.hint());
    }
  }
  template <typename T>
  void operator()(const char* key, std::optional<T>& value) const {
    T inner{};
    if (in_.contains(key)) {
      (*this)(key, inner);
      value = inner;
    }
  }

 private:
  [[noreturn]] static void fail(const std::string& at, const char* what) {
    throw Error(Errc::corrupt_file, at, what);
  }

  template <NamedEnum T>
  static void read(const std::string& at, const json& in, T& value) {
    value = parse_enum<T>(at, in.get_ref<const std::string&>());
  }
  static void read(const std::string& at, const json& in, int& value) {
    constexpr std::int64_t kLimit = 1'000'000;
    std::int64_t wide = 0;
    read(at, in, wide);
    if (wide < -kLimit || wide > kLimit) {
      fail(at, "not a whole number in range");
    }
    value = static_cast<int>(wide);
  }
  static void read(const std::string& at, const json& in, std::int64_t& value) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (!in.is_number_integer()) {
      fail(at, "not a whole number");
    }
    // JSON's numbers from 2⁶³ on would come out negative.
    if (in.is_number_unsigned() && in.get<std::uint64_t>() > kMost) {
      fail(at, "not a whole number in range");
    }
    value = in.get<std::int64_t>();
  }
  static void read(const std::string& at, const json& in,
                   std::uint64_t& value) {
    if (!in.is_number_unsigned()) {
      fail(at, "not a whole number of at least 0");
    }
    value = in.get<std::uint64_t>();
  }
  static void read(const std::string& at, const json& in, double& value) {
    if (!in.is_number() || !std::isfinite(in.get<double>())) {
      fail(at, "not a finite number");
    }
    value = in.get<double>();
  }
  static void read(const std::string& /*at*/, const json& in, bool& value) {
    value = in.get<bool>();
  }
  static void read(const std::string& at, const json& in, std::string& value) {
    value = in.get<std::string>();
    if (value.size() > kLongestText) {
      fail(at, "a text that is too long");
    }
    // It will be printed on a terminal.
    for (const char c : value) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
        fail(at, "a text with control characters");
      }
    }
  }
  template <typename T>
  static void read(const std::string& at, const json& in,
                   std::vector<T>& values) {
    if (!in.is_array()) {
      fail(at, "not a list");
    }
    values.clear();
    for (const json& item : in) {
      T value{};
      read(at, item, value);
      values.push_back(value);
    }
  }

  const std::string& place_;
  const json& in_;
};

json parse_bounded(const std::string& place, std::string_view text) {
  const auto limit_depth = [](int depth, json::parse_event_t /*event*/,
                              json& /*parsed*/) {
    require(depth <= kMaxDepth, Errc::corrupt_file, "recipe",
            "nested too deeply");
    return true;
  };
  require(text.size() <= kMaxBytes, Errc::corrupt_file, place,
          "the recipe is longer than 1 MiB");
  try {
    json document = json::parse(text, limit_depth);
    require(document.is_object(), Errc::corrupt_file, place,
            "the recipe is not a JSON object");
    return document;
  } catch (const json::exception&) {
    throw Error(Errc::corrupt_file, place, "the recipe is not JSON");
  }
}

const json& section(const std::string& place, const json& document,
                    const char* key) {
  const auto found = document.find(key);
  if (found == document.end() || !found->is_object()) {
    throw Error(Errc::corrupt_file, place,
                std::string("the recipe has no section '") + key + "'",
                "was the image made by troupe?");
  }
  return *found;
}

}  // namespace

samplers::MethodOptions logical_method(const samplers::MethodOptions& options) {
  using samplers::MethodKind;
  const bool is_fresh =
      options.ages.empty()
          ? options.age == 0
          : std::ranges::all_of(options.ages, [](int age) { return age == 0; });
  const bool approximates =
      (options.kind == MethodKind::picard && options.tolerance > 0) ||
      (options.kind == MethodKind::stale && !(is_fresh && options.stride == 1));
  return approximates ? options : samplers::MethodOptions{};
}

std::vector<Setting> to_settings(const Recipe& recipe,
                                 const std::string& place) {
  using samplers::MethodKind;
  std::vector<Setting> settings;
  const auto say = [&](const char* key, const std::string& text) {
    if (!text.empty()) {
      settings.push_back({place + ": " + key, key, text});
    }
  };
  say("random-weights", recipe.random_weights);
  say("class", std::to_string(recipe.class_id));
  say("samples", to_string(SampleRange{recipe.index, recipe.index + 1}));
  say("seed", std::to_string(recipe.seed));
  say("noise", name_of(recipe.noise));
  say("guidance", to_text(recipe.guidance_scale));
  say("dtype", recipe.dtype);
  const samplers::MethodOptions m = logical_method(recipe.method);
  if (m.kind == MethodKind::picard) {
    say("method", name_of(m.kind));
    say("window", std::to_string(m.window_size));
    say("tolerance", to_text(m.tolerance));
    say("carry", name_of(m.carry));
    say("guess", name_of(m.initial_guess));
  } else if (m.kind == MethodKind::stale) {
    say("method", name_of(m.kind));
    say("segments", std::to_string(m.num_segments));
    std::string ages = std::to_string(m.age);
    for (std::size_t i = 0; i < m.ages.size(); ++i) {
      ages = (i == 0 ? std::string() : ages + ",") + std::to_string(m.ages[i]);
    }
    say("ages", ages);
    say("stride", std::to_string(m.stride));
    say("warmup", std::to_string(m.warmup_steps));
    say("final-fresh", std::to_string(m.final_fresh_steps));
  }
  return settings;
}

std::string to_json(const Recipe& recipe) {
  json document;
  document["schema"] = kSchema;
  JsonWriter top(document);
  visit_recipe(top, recipe);
  json& schedule = document["schedule"];
  JsonWriter schedule_writer(schedule);
  visit_schedule(schedule_writer, recipe.schedule);
  const samplers::MethodOptions method = logical_method(recipe.method);
  json& method_json = document["method"];
  JsonWriter method_writer(method_json);
  if (method.kind == samplers::MethodKind::sequential) {
    method_writer("kind", method.kind);
  } else {
    visit_method(method_writer, method);
  }
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

Recipe parse_recipe(const std::string& place, std::string_view text) {
  const json document = parse_bounded(place, text);
  Recipe recipe;
  const JsonReader top(place, document);
  int schema = 0;
  top("schema", schema);
  if (schema != kSchema) {
    throw Error(Errc::corrupt_file, place + ": schema",
                "a recipe of another kind: got " + std::to_string(schema) +
                    ", expected " + std::to_string(kSchema),
                "was it made by a newer troupe?");
  }
  visit_recipe(top, recipe);
  const JsonReader schedule(place, section(place, document, "schedule"));
  visit_schedule(schedule, recipe.schedule);
  const JsonReader method(place, section(place, document, "method"));
  visit_method(method, recipe.method);
  return recipe;
}

}  // namespace troupe::config
