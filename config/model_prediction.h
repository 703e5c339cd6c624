#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "samplers/options.h"

namespace troupe::config {

/// What a network was trained to predict, and over which noise levels, as far
/// as its scheduler_config.json or an image's recipe tells. Beside it a solver
/// gives noise for pictures.
struct ModelPrediction {
  bool is_known = false;  ///< false: there is no such file
  samplers::PredictionType type = samplers::PredictionType::epsilon;
  /// Latents are (1 − σ)·clean + σ·noise, not √ᾱ·clean + √(1 − ᾱ)·noise.
  bool on_flow_path = false;
  bool by_class = false;  ///< the flow path is that of a FlowMatch… class
  double shift = 1.0;     ///< of the flow path
  /// Why none of Troupe's solvers reads its output: "EDM's preconditioning".
  std::string foreign;
  std::string said_by;  ///< "scheduler_config.json's DDIMScheduler"
};

/// Reads what parse_scheduler_config reads; the text was checked there or will
/// be. `place` names the file; an empty text gives a prediction not known.
[[nodiscard]] ModelPrediction model_prediction(
    std::string_view scheduler_config, std::string_view place);
/// What the options of a recipe, filled in, say.
[[nodiscard]] ModelPrediction model_prediction(
    const samplers::ScheduleOptions& recipe);

/// Where dpm++ or unipc was chosen for a model of the flow path, or
/// --prediction-type says that it is one: lets them run over flow sigmas, with
/// the model's shift, which no option of its own says.
void take_flow_path(const SamplerConfig& sampler, const ModelPrediction& model,
                    samplers::ScheduleOptions& options);

/// Refuses a solver that would turn this model's predictions into noise, unless
/// --prediction-type gives another prediction type. `options` are complete but
/// not resolved.
/// Errors: Errc::invalid_argument under --sampler, or Errc::unsupported under
/// `place` of the file where that names the solver itself.
void check_prediction(const SamplerConfig& sampler,
                      const ModelPrediction& model, std::string_view place,
                      const samplers::ScheduleOptions& options);

/// What works and is unusual: a prediction type against the file's, flow sigmas
/// for a model that does not predict flow, a shift that was taken over or not.
[[nodiscard]] std::vector<std::string> prediction_notes(
    const SamplerConfig& sampler, const ModelPrediction& model,
    const samplers::ScheduleOptions& options);

}  // namespace troupe::config
