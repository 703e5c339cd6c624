#include "config/model_prediction.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/enum_names.h"
#include "config/known_keys.h"
#include "config/python_json.h"
#include "config/schedule_options.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

using nlohmann::json;
using samplers::PredictionType;
using samplers::ScheduleOptions;

/// diffusers' classes for models that none of Troupe's solvers reads.
constexpr auto kForeign =
    std::to_array<std::pair<std::string_view, std::string_view>>({
        {"EDMEulerScheduler", "EDM's preconditioning"},
        {"EDMDPMSolverMultistepScheduler", "EDM's preconditioning"},
        {"CosineDPMSolverMultistepScheduler", "EDM's preconditioning"},
        {"CMStochasticIterativeScheduler", "a consistency model's output"},
        {"SCMScheduler", "a consistency model's output"},
        {"KarrasVeScheduler", "variance-exploding noise"},
        {"ScoreSdeVeScheduler", "variance-exploding noise"},
        {"VQDiffusionScheduler", "discrete tokens"},
    });

bool is_flow_class(std::string_view name) {
  return name.starts_with("FlowMatch") || name.starts_with("FlowMap") ||
         name == "LTXEulerAncestralRFScheduler";
}

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : std::string();
}

double number_at(const json& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>()
                                                     : otherwise;
}

std::string foreign_of(const json& object, const std::string& name) {
  const auto* const found = std::ranges::find(
      kForeign, name, &std::pair<std::string_view, std::string_view>::first);
  if (found != kForeign.end()) {
    return std::string(found->second);
  }
  return text_at(object, "timestep_type") == "continuous"
             ? "continuous timesteps (timestep_type)"
             : std::string();
}

[[noreturn]] void refuse(const SamplerConfig& sampler, std::string_view place,
                         const std::string& message, const std::string& hint) {
  const bool is_named = !sampler.name.empty();
  throw Error(is_named ? Errc::invalid_argument : Errc::unsupported,
              is_named ? std::string_view("--sampler") : place, message, hint);
}

constexpr const char* kSayOtherwise =
    ", or say what the model predicts with --prediction-type";

}  // namespace

ModelPrediction model_prediction(std::string_view scheduler_config,
                                 std::string_view place) {
  ModelPrediction model;
  if (scheduler_config.empty()) {
    return model;
  }
  const std::string clean = without_bare_words(scheduler_config);
  json object = json::object();
  for (const Member& member : members_of(clean)) {
    if (is_scheduler_key(member.key)) {
      object[member.key] = json::parse(member.value, nullptr, false);
    }
  }
  const std::string name = text_at(object, "_class_name");
  model.is_known = true;
  model.said_by = std::string(place) + (name.empty() ? "" : " (" + name + ")");
  model.foreign = foreign_of(object, name);
  if (is_flow_class(name)) {
    model.type = PredictionType::flow_prediction;
    model.on_flow_path = true;
    model.by_class = true;
    model.shift =
        number_at(object, "flow_shift", number_at(object, "shift", 1.0));
    return model;
  }
  const std::vector<std::string>& types = names_of<PredictionType>();
  const auto found =
      std::ranges::find(types, text_at(object, "prediction_type"));
  if (found != types.end()) {
    model.type = static_cast<PredictionType>(found - types.begin());
  }
  const auto flow = object.find("use_flow_sigmas");
  model.on_flow_path = flow != object.end() && *flow == true;
  model.shift = number_at(object, "flow_shift", 1.0);
  return model;
}

ModelPrediction model_prediction(const ScheduleOptions& recipe) {
  ModelPrediction model;
  const bool is_flow = recipe.solver->levels == samplers::Levels::flow;
  model.is_known = true;
  model.type = recipe.prediction_type.value_or(
      is_flow ? PredictionType::flow_prediction : PredictionType::epsilon);
  model.on_flow_path = is_flow || recipe.use_flow_sigmas;
  model.by_class = is_flow;
  model.shift = is_flow ? recipe.shift : recipe.flow_shift;
  model.said_by = "the recipe";
  return model;
}

void take_flow_path(const SamplerConfig& sampler, const ModelPrediction& model,
                    ScheduleOptions& options) {
  const bool chosen = !sampler.name.empty() || sampler.prediction_type;
  const PredictionType type = sampler.prediction_type.value_or(model.type);
  if (!chosen || type != PredictionType::flow_prediction) {
    return;
  }
  options.prediction_type = type;
  if (options.solver->is_multistep && !options.use_flow_sigmas) {
    options.use_flow_sigmas = true;
    options.flow_shift = model.shift;
  }
  if (options.solver->levels == samplers::Levels::flow) {
    options.use_flow_sigmas = false;  // a recipe's: flow has no other sigmas
  }
}

void check_prediction(const SamplerConfig& sampler,
                      const ModelPrediction& model, std::string_view place,
                      const ScheduleOptions& options) {
  if (!model.is_known || sampler.prediction_type) {
    return;
  }
  const std::string solver = solver_label(options);
  const std::string predicts = name_of(model.type);
  if (!model.foreign.empty()) {
    refuse(sampler, place,
           "no solver of Troupe reads this model: got " + model.said_by +
               ", made for " + model.foreign,
           std::string("use another model") + kSayOtherwise);
  }
  const bool is_flow = model.type == PredictionType::flow_prediction;
  if (options.solver->levels == samplers::Levels::flow && !is_flow) {
    refuse(sampler, place,
           "flow integrates a velocity: got a model that predicts " + predicts +
               " by " + model.said_by + ", expected flow_prediction",
           std::string("choose ddim, dpm++, euler or unipc") + kSayOtherwise);
  }
  if (!options.solver->is_multistep &&
      options.solver->levels != samplers::Levels::flow &&
      (is_flow || model.on_flow_path)) {
    refuse(sampler, place,
           solver + " cannot run this model: got " +
               (is_flow ? predicts : "use_flow_sigmas") + " by " +
               model.said_by + ", expected a model without flow",
           std::string(is_flow ? "choose flow, dpm++ or unipc"
                               : "choose dpm++ or unipc") +
               kSayOtherwise);
  }
  if (options.solver->is_multistep && is_flow && !options.use_flow_sigmas) {
    refuse(sampler, place,
           "prediction_type: got flow_prediction without use_flow_sigmas, "
           "expected both",
           "set use_flow_sigmas to true, or name the solver with --sampler");
  }
}

std::vector<std::string> prediction_notes(const SamplerConfig& sampler,
                                          const ModelPrediction& model,
                                          const ScheduleOptions& options) {
  std::vector<std::string> notes;
  const auto asked = sampler.prediction_type;
  if (model.is_known && asked && *asked != model.type) {
    notes.push_back("--prediction-type " + name_of(*asked) +
                    " counts, though the model predicts " +
                    name_of(model.type) + " by " + model.said_by);
  }
  if (options.use_flow_sigmas &&
      options.prediction_type != PredictionType::flow_prediction) {
    notes.emplace_back(
        "flow sigmas, but the model does not predict flow_prediction: right "
        "only for a model that was trained so");
  }
  if (sampler.name.empty() || sampler.shift || !model.on_flow_path) {
    return notes;
  }
  if (model.by_class && options.solver->is_multistep &&
      options.use_flow_sigmas) {
    notes.push_back("a flow model: " + solver_label(options) +
                    " runs over flow sigmas with the model's shift of " +
                    to_text(options.flow_shift));
  }
  if (!model.by_class && options.solver->levels == samplers::Levels::flow &&
      model.shift != options.shift) {
    notes.push_back("the model's flow_shift of " + to_text(model.shift) +
                    " is another key than this solver's shift of " +
                    to_text(options.shift) + ": --shift takes it over");
  }
  return notes;
}

}  // namespace troupe::config
