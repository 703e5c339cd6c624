#include "config/scheduler_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "config/field_reader.h"
#include "config/known_keys.h"
#include "config/python_json.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "samplers/option_fields.h"

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

using Names = std::vector<std::string>;

/// What a whole number may be. All others are below a million.
struct Bounds {
  std::string_view key;
  int low;
  int high;
};
constexpr Bounds kOthers{"", 0, 1'000'000};
constexpr auto kBounds = std::to_array<Bounds>({
    {"num_train_timesteps", 1, 1'000'000},
    {"solver_order", 1, 3},
    {"base_image_seq_len", 1, 1 << 30},
    {"max_image_seq_len", 1, 1 << 30},
});

/// Reads keys of a file, with their place in messages. Keys that the solver's
/// class does not have are ignored, as diffusers does. It visits a schedule's
/// fields, because most have the names of their keys.
class Reader : public FieldReader<Reader, json> {
 public:
  Reader(const json& object, std::string_view place, Solver solver)
      : object_(object), place_(place), solver_(solver) {}

  /// Whether a switch is there and on.
  [[nodiscard]] bool flag(const char* key) {
    bool is_on = false;
    (*this)(key, is_on);
    return is_on;
  }
  /// The index of a name among those that a key may have, if the key is there.
  [[nodiscard]] std::optional<std::size_t> choice(const char* key,
                                                  const Names& names) {
    const json* value = find(key);
    return value == nullptr ? std::nullopt
                            : std::optional(index_of(key, *value, names));
  }
  /// A key whose every value but one is something Troupe has not.
  void only(const char* key, const json& accepted) const {
    const json* value = find(key);
    if (value != nullptr && *value != accepted) {
      throw Error(Errc::unsupported, place_,
                  std::string(key) + ": got " + shown(*value) +
                      ", Troupe has only " + shown(accepted),
                  "choose another with --sampler");
    }
  }

 private:
  friend FieldReader;
  using FieldReader::read;

  const json* find(std::string_view key) const {
    const auto found = object_.find(key);
    // A file's eta is ignored: it is an argument in diffusers.
    if (!solver_->has_key(key) || key == "eta" || found == object_.end() ||
        found->is_null()) {
      return nullptr;
    }
    return &*found;
  }
  [[noreturn]] void refuse(const char* key, const json& value,
                           std::string_view expected) const {
    throw Error(Errc::corrupt_file, place_,
                std::string(key) + ": got " + shown(value) + ", expected " +
                    std::string(expected),
                "correct this key");
  }
  void read(const char* key, const json& value, int& out) {
    const auto* const row = std::ranges::find(kBounds, key, &Bounds::key);
    const Bounds& bounds = row == kBounds.end() ? kOthers : *row;
    const double number = value.is_number() ? value.get<double>() : 0.5;
    expect(number == std::floor(number) && number >= bounds.low &&
               number <= bounds.high,
           key, value,
           "a whole number from " + std::to_string(bounds.low) + " to " +
               std::to_string(bounds.high));
    out = static_cast<int>(number);
  }
  /// Of the second-order formulas of all solvers.
  void read(const char* key, const json& value, std::string& out) {
    const Names names = words("midpoint heun logrho bh1 bh2");
    out = names[index_of(key, value, names)];
  }
  /// The class says it, not a key.
  void read(const char* /*key*/, const json& /*value*/, Solver& /*out*/) const {
  }

  const json& object_;
  std::string place_;
  Solver solver_;
};

/// Defaults of a class that differ from those of the options.
void take_defaults(Solver solver, ScheduleOptions& o) {
  const bool on_training_steps =
      solver->levels == samplers::Levels::training_steps;
  o.solver = solver;
  o.beta_start = solver->beta_start;
  o.beta_end = solver->beta_end;
  o.set_alpha_to_one = solver->set_alpha_to_one;
  o.clip_sample = on_training_steps && solver->has_key("clip_sample");
  o.timestep_spacing =
      on_training_steps ? TimestepSpacing::leading : TimestepSpacing::linspace;
  if (solver->has_key("prediction_type")) {
    o.prediction_type = PredictionType::epsilon;
  }
}

/// Keys that have other names or values than the options.
void read_renamed(Reader& in, std::string_view place, ScheduleOptions& o) {
  const bool karras = in.flag("use_karras_sigmas");
  const bool exponential = in.flag("use_exponential_sigmas");
  const bool beta = in.flag("use_beta_sigmas");
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
  o.final_sigma_zero =
      in.choice("final_sigmas_type", {"zero", "sigma_min"}).value_or(0) == 0;
  o.time_shift_linear =
      in.choice("time_shift_type", {"exponential", "linear"}).value_or(0) == 1;
  Names algorithms = names_of<DpmAlgorithm>();
  algorithms.emplace_back("deis");  // as diffusers, which runs dpmsolver++
  if (const auto index = in.choice("algorithm_type", algorithms)) {
    o.algorithm = algorithms[*index] == "deis"
                      ? DpmAlgorithm::dpmsolver_pp
                      : static_cast<DpmAlgorithm>(*index);
  }
  in.only("interpolation_type", "linear");
  in.only("timestep_type", "discrete");
  in.only("solver_p", nullptr);
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

SolverChoice known_choice(std::string_view class_name, std::string_view key,
                          std::string_view place) {
  try {
    return parse_solver(class_name);
  } catch (const Error& error) {
    throw Error(Errc::unsupported, place,
                std::string(key) + ": " + error.message(),
                "--sampler takes another over the same noise schedule: " +
                    error.hint());
  }
}

SolverChoice choice_of(const json& object, std::string_view place) {
  const auto name = object.find("_class_name");
  if (name == object.end() || !name->is_string()) {
    throw Error(Errc::corrupt_file, place,
                "_class_name: got none, expected a scheduler's class name",
                "choose one with --sampler");
  }
  return known_choice(name->get_ref<const std::string&>(), "_class_name",
                      place);
}

/// As in diffusers, only the class of DDPM has the beta schedules `sigmoid` and
/// `laplace`. Another solver may run over these schedules, but a file of its
/// own class cannot name them.
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

void check_scheduler_class(std::string_view class_name, std::string_view key,
                           std::string_view place) {
  (void)known_choice(class_name, key, place);
}

ScheduleOptions parse_scheduler_config(
    std::string_view text, std::string_view place,
    const std::optional<SolverChoice>& solver, std::string_view overrides) {
  json object = parse_object(text, place);
  object.update(json::parse(overrides));
  const SolverChoice choice = solver ? *solver : choice_of(object, place);
  ScheduleOptions options;
  take_defaults(choice.solver, options);
  Reader in(object, place, choice.solver);
  samplers::visit_schedule(in, options);
  read_renamed(in, place, options);
  if (!solver) {
    check_beta_schedule(object, place, options);
  }
  apply(choice, options);
  return options;
}

}  // namespace troupe::config
