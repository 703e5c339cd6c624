#include "config/scheduler_config.h"

#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/enum_names.h"
#include "config/known_keys.h"
#include "config/python_json.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::config {
namespace {

using nlohmann::json;
using samplers::BetaSchedule;
using samplers::DpmAlgorithm;
using samplers::PredictionType;
using samplers::ScheduleOptions;
using samplers::SigmaSpacing;
using samplers::Solver;
using samplers::TimestepSpacing;

constexpr std::size_t kMaxText = 16U << 20U;
constexpr std::size_t kMaxList = 1'000'000;

/// One key after the other, with its place in messages. Keys that the solver's
/// class does not have are ignored, as diffusers does.
class Reader {
 public:
  Reader(const json& object, std::string_view place, Solver solver)
      : object_(object), place_(place), solver_(solver) {}

  void flag(const char* key, bool& out) {
    if (const json* value = find(key)) {
      if (!value->is_boolean()) {
        refuse(key, *value, "true or false");
      }
      out = value->get<bool>();
    }
  }
  void number(const char* key, double& out) {
    if (const json* value = find(key)) {
      out = checked_number(key, *value);
    }
  }
  void number(const char* key, std::optional<double>& out) {
    if (const json* value = find(key)) {
      out = checked_number(key, *value);
    }
  }
  void integer(const char* key, int low, int high, int& out) {
    if (const json* value = find(key)) {
      out = checked_integer(key, *value, low, high);
    }
  }
  template <typename T>
  void choice(const char* key,
              const std::vector<std::pair<std::string, T>>& values, T& out) {
    const json* value = find(key);
    if (value == nullptr) {
      return;
    }
    std::string expected;
    for (const auto& [name, meaning] : values) {
      if (value->is_string() && value->get_ref<const std::string&>() == name) {
        out = meaning;
        return;
      }
      expected += (expected.empty() ? "" : ", ") + name;
    }
    refuse(key, *value, "one of " + expected);
  }
  /// One of the names that the options know too.
  template <typename Enum>
  void choice(const char* key, Enum& out) {
    std::vector<std::pair<std::string, Enum>> values;
    for (const std::string& name : names_of<Enum>()) {
      values.emplace_back(name, static_cast<Enum>(values.size()));
    }
    choice<Enum>(key, values, out);
  }
  void list(const char* key, std::vector<double>& out) {
    if (const json* value = find(key)) {
      check_list(key, *value);
      out.clear();
      for (const json& item : *value) {
        out.push_back(checked_number(key, item));
      }
    }
  }
  void list(const char* key, std::vector<int>& out) {
    if (const json* value = find(key)) {
      check_list(key, *value);
      out.clear();
      for (const json& item : *value) {
        out.push_back(checked_integer(key, item, 0, 1'000'000));
      }
    }
  }
  /// A key whose every value but one is something Troupe has not.
  void only(const char* key, const json& accepted) {
    const json* value = find(key);
    if (value != nullptr && *value != accepted) {
      throw Error(Errc::unsupported, place_,
                  std::string(key) + ": got " + shown(*value) +
                      ", Troupe has only " + shown(accepted),
                  "choose another with --sampler");
    }
  }

 private:
  const json* find(const char* key) {
    require(is_scheduler_key(key), Errc::internal, "scheduler_config",
            "known_keys lacks a key that is read");
    const auto found = object_.find(key);
    if (!solver_->has_key(key) || found == object_.end() || found->is_null()) {
      return nullptr;
    }
    return &*found;
  }
  [[noreturn]] void refuse(const char* key, const json& value,
                           const std::string& expected) const {
    throw Error(
        Errc::corrupt_file, place_,
        std::string(key) + ": got " + shown(value) + ", expected " + expected,
        "correct this key");
  }
  double checked_number(const char* key, const json& value) const {
    if (!value.is_number() || !std::isfinite(value.get<double>())) {
      refuse(key, value, "a finite number");
    }
    return value.get<double>();
  }
  int checked_integer(const char* key, const json& value, int low,
                      int high) const {
    const double number = value.is_number() ? value.get<double>() : 0.5;
    if (number != std::floor(number) || number < low || number > high) {
      refuse(key, value,
             "a whole number from " + std::to_string(low) + " to " +
                 std::to_string(high));
    }
    return static_cast<int>(number);
  }
  void check_list(const char* key, const json& value) const {
    if (!value.is_array() || value.size() > kMaxList) {
      refuse(key, value, "a list of numbers");
    }
  }

  const json& object_;
  std::string place_;
  Solver solver_;
};

void read_noise_schedule(Reader& in, ScheduleOptions& o) {
  in.integer("num_train_timesteps", 1, 1'000'000, o.num_train_timesteps);
  in.number("beta_start", o.beta_start);
  in.number("beta_end", o.beta_end);
  in.choice("beta_schedule", o.beta_schedule);
  in.list("trained_betas", o.trained_betas);
  in.flag("rescale_betas_zero_snr", o.rescale_betas_zero_snr);
  in.flag("set_alpha_to_one", o.set_alpha_to_one);
}

void read_prediction(Reader& in, ScheduleOptions& o) {
  PredictionType prediction = PredictionType::epsilon;
  in.choice("prediction_type", prediction);
  if (o.solver->has_key("prediction_type")) {
    o.prediction_type = prediction;
  }
  bool clip = o.clip_sample.value_or(o.solver->levels ==
                                     samplers::Levels::training_steps);
  in.flag("clip_sample", clip);
  o.clip_sample = clip;
  in.number("clip_sample_range", o.clip_sample_range);
  in.flag("thresholding", o.thresholding);
  in.number("dynamic_thresholding_ratio", o.dynamic_thresholding_ratio);
  in.number("sample_max_value", o.sample_max_value);
  in.choice("variance_type", o.variance_type);
}

void read_spacing(Reader& in, std::string_view place, ScheduleOptions& o) {
  TimestepSpacing spacing = TimestepSpacing::linspace;
  if (o.solver->levels == samplers::Levels::training_steps) {
    spacing = TimestepSpacing::leading;
  }
  in.choice("timestep_spacing", spacing);
  o.timestep_spacing = spacing;
  in.integer("steps_offset", 0, 1'000'000, o.steps_offset);
  bool karras = false;
  bool exponential = false;
  bool beta = false;
  in.flag("use_karras_sigmas", karras);
  in.flag("use_exponential_sigmas", exponential);
  in.flag("use_beta_sigmas", beta);
  if (int{karras} + int{exponential} + int{beta} > 1) {
    throw Error(Errc::corrupt_file, place,
                "use_karras_sigmas, use_exponential_sigmas, use_beta_sigmas: "
                "got more than one, expected at most one",
                "turn the others off");
  }
  o.sigma_spacing = karras        ? SigmaSpacing::karras
                    : exponential ? SigmaSpacing::exponential
                    : beta        ? SigmaSpacing::beta
                                  : SigmaSpacing::none;
  in.choice<bool>("final_sigmas_type", {{"zero", true}, {"sigma_min", false}},
                  o.final_sigma_zero);
  in.number("sigma_min", o.sigma_min);
  in.number("sigma_max", o.sigma_max);
  in.only("interpolation_type", "linear");
  in.only("timestep_type", "discrete");
}

void read_multistep(Reader& in, ScheduleOptions& o) {
  in.integer("solver_order", 1, 3, o.solver_order);
  in.choice<DpmAlgorithm>("algorithm_type",
                          {{"dpmsolver++", DpmAlgorithm::dpmsolver_pp},
                           {"dpmsolver", DpmAlgorithm::dpmsolver},
                           {"sde-dpmsolver++", DpmAlgorithm::sde_dpmsolver_pp},
                           {"sde-dpmsolver", DpmAlgorithm::sde_dpmsolver},
                           {"deis", DpmAlgorithm::dpmsolver_pp}},
                          o.algorithm);
  in.choice<std::string>("solver_type",
                         {{"midpoint", "midpoint"},
                          {"heun", "heun"},
                          {"logrho", "logrho"},
                          {"bh1", "bh1"},
                          {"bh2", "bh2"}},
                         o.solver_type);
  in.flag("lower_order_final", o.lower_order_final);
  in.flag("euler_at_final", o.euler_at_final);
  in.flag("use_lu_lambdas", o.use_lu_lambdas);
  in.number("lambda_min_clipped", o.lambda_min_clipped);
  in.flag("predict_x0", o.predict_x0);
  in.list("disable_corrector", o.disable_corrector);
  in.only("solver_p", nullptr);
}

void read_flow(Reader& in, ScheduleOptions& o) {
  in.flag("use_flow_sigmas", o.use_flow_sigmas);
  in.number("flow_shift", o.flow_shift);
  in.number("shift", o.shift);
  in.flag("use_dynamic_shifting", o.use_dynamic_shifting);
  in.choice<bool>("time_shift_type", {{"exponential", false}, {"linear", true}},
                  o.time_shift_linear);
  in.number("base_shift", o.base_shift);
  in.number("max_shift", o.max_shift);
  in.integer("base_image_seq_len", 1, 1 << 30, o.base_image_seq_len);
  in.integer("max_image_seq_len", 1, 1 << 30, o.max_image_seq_len);
  in.number("shift_terminal", o.shift_terminal);
  in.flag("invert_sigmas", o.invert_sigmas);
  in.flag("stochastic_sampling", o.stochastic_sampling);
}

/// What the library says, without its own numbering.
std::string reason_of(const json::exception& problem) {
  const std::string_view text = problem.what();
  const std::size_t begin = text.find("] ");
  const std::string detail =
      printable(text.substr(begin == std::string_view::npos ? 0 : begin + 2));
  const bool is_range =
      dynamic_cast<const json::out_of_range*>(&problem) != nullptr;
  return (is_range ? "a number is too large: " : "not valid JSON: ") + detail;
}

/// Values of keys that no scheduler has are not read.
json parse_object(std::string_view text, std::string_view place) {
  if (text.size() > kMaxText) {
    throw Error(Errc::corrupt_file, place,
                "got more than 16 MiB, expected a short JSON file",
                "check the file");
  }
  const std::string clean = without_bare_words(text);
  const bool is_whole = check_objects(clean, place, Errc::corrupt_file);
  json object = json::object();
  try {
    if (!is_whole || !clean.starts_with('{')) {
      object = json::parse(clean);  // throws, or says what it is instead
    } else {
      for (const Member& member : members_of(clean)) {
        if (is_scheduler_key(member.key)) {
          object[member.key] = json::parse(member.value);
        }
      }
    }
  } catch (const json::exception& problem) {
    throw Error(Errc::corrupt_file, place, reason_of(problem),
                "correct this file");
  }
  if (!object.is_object()) {
    throw Error(
        Errc::corrupt_file, place,
        std::string("got ") + object.type_name() + ", expected a JSON object",
        "correct this file");
  }
  // Some versions of diffusers write an infinite bound as a string.
  const auto clipped = object.find("lambda_min_clipped");
  if (clipped != object.end() && clipped->is_string()) {
    object.erase(clipped);
  }
  return object;
}

SolverChoice choice_of(const json& object, std::string_view place) {
  const auto name = object.find("_class_name");
  if (name == object.end() || !name->is_string()) {
    throw Error(Errc::corrupt_file, place,
                "_class_name: got none, expected a scheduler's class name",
                "choose one with --sampler");
  }
  try {
    return parse_solver(name->get_ref<const std::string&>());
  } catch (const Error& error) {
    throw Error(Errc::unsupported, place, "_class_name: " + error.message(),
                "--sampler takes another over the same noise schedule: " +
                    error.hint());
  }
}

/// As diffusers: these two are made by DDPM's class only. Another solver may
/// run over them, its own class cannot name them.
void check_beta_schedule(const json& object, std::string_view place,
                         const ScheduleOptions& o) {
  const bool is_of_ddpm = o.beta_schedule == BetaSchedule::sigmoid ||
                          o.beta_schedule == BetaSchedule::laplace;
  if (is_of_ddpm && !o.solver->has_key("variance_type") &&
      o.trained_betas.empty()) {
    throw Error(Errc::corrupt_file, place,
                "beta_schedule: got " + object["beta_schedule"].dump() +
                    ", which of diffusers' classes DDPMScheduler alone has",
                "correct this key, or choose another solver over it with "
                "--sampler");
  }
}

}  // namespace

ScheduleOptions parse_scheduler_config(
    std::string_view text, std::string_view place,
    const std::optional<SolverChoice>& solver) {
  const json object = parse_object(text, place);
  const SolverChoice choice = solver ? *solver : choice_of(object, place);
  ScheduleOptions options;
  options.solver = choice.solver;
  options.beta_start = choice.solver->beta_start;
  options.beta_end = choice.solver->beta_end;
  Reader in(object, place, choice.solver);
  read_noise_schedule(in, options);
  read_prediction(in, options);
  read_spacing(in, place, options);
  read_multistep(in, options);
  read_flow(in, options);
  if (!solver) {
    check_beta_schedule(object, place, options);
  }
  apply(choice, options);
  return options;
}

}  // namespace troupe::config
