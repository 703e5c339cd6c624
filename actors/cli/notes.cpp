#include "actors/cli/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "config/known_keys.h"
#include "config/model_prediction.h"
#include "kernels/core/error.h"
#include "kernels/core/log.h"

namespace troupe::actors {
namespace {

void add(std::vector<std::string>& notes, std::string note) {
  if (!note.empty()) {
    notes.push_back(std::move(note));
  }
}

/// σ of the first and the last training step; none for flow schedules.
std::optional<std::pair<double, double>> trained_sigmas(
    const samplers::Schedule& schedule) {
  const std::span<const float> alphas = schedule.alphas_cumprod();
  if (alphas.empty()) {
    return std::nullopt;
  }
  const auto sigma = [](double a) { return std::sqrt((1 - a) / a); };
  return std::pair(sigma(alphas.front()), sigma(alphas.back()));
}

void add(std::vector<std::string>& notes, const models::Component& component,
         std::string_view known_keys) {
  const std::vector<std::string> keys = component.config.keys();
  add(notes, config::unknown_keys_note(component.config.place(),
                                       component.class_name, known_keys, keys));
  if (!component.variant.empty()) {
    notes.push_back(component.folder.string() + ": only the variant " +
                    component.variant + " of the weights is there, and used");
  }
}

}  // namespace

std::string scheduler_path(const models::Checkpoint& checkpoint) {
  return (checkpoint.folder / "scheduler" / "scheduler_config.json").string();
}

std::vector<std::string> scheduler_notes(const models::Checkpoint& checkpoint) {
  const std::string path = scheduler_path(checkpoint);
  if (checkpoint.scheduler_config.empty()) {
    return {path +
            " is not there: the noise schedule is DDIM's default (1000 linear "
            "betas)"};
  }
  std::vector<std::string> notes;
  add(notes,
      config::unknown_scheduler_keys_note(path, checkpoint.scheduler_config));
  return notes;
}

std::vector<std::string> network_notes(
    const models::Checkpoint& checkpoint,
    const models::DenoiserDescription& denoiser) {
  std::vector<std::string> notes;
  add(notes, checkpoint.transformer, denoiser.config_keys());
  if (checkpoint.vae) {
    add(notes, *checkpoint.vae, models::DecoderDescription::kConfigKeys);
  }
  return notes;
}

std::vector<std::string> model_notes(const config::SamplerConfig& sampler,
                                     std::string_view scheduler_config,
                                     std::string_view place,
                                     const samplers::ScheduleOptions& options) {
  const config::ModelPrediction model =
      config::model_prediction(scheduler_config, place);
  if (!model.is_known && options.solver->levels == samplers::Levels::flow) {
    return {
        "no scheduler_config.json says what the model predicts: taken as "
        "flow_prediction, which this sampler needs"};
  }
  return config::prediction_notes(sampler, model, options);
}

void check_lists(const config::SamplerConfig& sampler,
                 const samplers::Schedule& schedule) {
  const auto trained = trained_sigmas(schedule);
  const auto lowest =
      std::find_if(sampler.sigmas.rbegin(), sampler.sigmas.rend(),
                   [](double sigma) { return sigma > 0; });
  if (lowest == sampler.sigmas.rend() || !trained) {
    return;
  }
  if (*lowest > trained->second) {
    throw Error(Errc::invalid_argument, "--sigmas",
                fmt::format("no noise level that the model was trained with: "
                            "got {:g} to {:g}, expected some below {:g}",
                            sampler.sigmas.front(), *lowest, trained->second),
                "go on to smaller levels; troupe schedule shows those of a "
                "number of steps");
  }
}

std::vector<std::string> list_notes(const config::SamplerConfig& sampler,
                                    const samplers::Schedule& schedule) {
  const auto lacks_zero = [](const std::vector<double>& list) {
    return !list.empty() && list.back() != 0;
  };
  std::vector<std::string> notes;
  if (lacks_zero(sampler.sigmas)) {
    notes.emplace_back("a final noise level of 0 was added to --sigmas");
  }
  const auto trained = trained_sigmas(schedule);
  if (!sampler.sigmas.empty() && trained) {
    // A list that is printed with six digits ends where the table does.
    constexpr double kRounding = 1e-5;
    for (const double sigma : sampler.sigmas) {
      const bool above = sigma > trained->second * (1 + kRounding);
      if (above || (sigma > 0 && sigma < trained->first * (1 - kRounding))) {
        notes.push_back(fmt::format(
            "--sigmas {:g} is {} the trained levels, {:g} to {:g}; the network "
            "is told the nearest training step",
            sigma, above ? "above" : "below", trained->first, trained->second));
        break;
      }
    }
  }
  if (lacks_zero(sampler.timesteps) && schedule.sigmas().back() == 0) {
    notes.emplace_back(
        "a final noise level of 0 was added to --timesteps, without a call of "
        "the network");
  }
  return notes;
}

void add_note(std::vector<std::string>& notes, const std::string& note) {
  if (std::ranges::find(notes, note) == notes.end()) {
    notes.push_back(note);
  }
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    log_message(LogLevel::warning, note);
  }
}

}  // namespace troupe::actors
