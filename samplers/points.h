#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "samplers/options.h"

// What a schedule is made from: options with their defaults filled in, and the
// points of a run, in three ways. Internal to samplers.

namespace troupe::samplers {

/// Points of a run: timesteps of the n steps; n + 1 noise levels.
struct Points {
  std::vector<double> timesteps;
  std::vector<double> sigmas;
  /// ᾱ each step arrives at (DDIM, DDPM); empty for the others.
  std::vector<double> arrival_alphas;
};

/// Checks every option and fills in the defaults of the solver's diffusers
/// class. Errors: Errc::invalid_argument with the option's name.
[[nodiscard]] ScheduleOptions resolve(ScheduleOptions options);

/// Whether the levels are a flow's: alpha = 1 − sigma.
[[nodiscard]] bool is_flow(const ScheduleOptions& options);

/// Whole training steps.
struct DiscreteRules {
  /// Each step goes back by the same stride, whatever the spacing.
  bool goes_by_stride = false;
  /// At the end ᾱ is that of training step 0, not 1.
  bool ends_at_first_alpha = false;
};
[[nodiscard]] Points discrete_points(const ScheduleOptions& options,
                                     const std::vector<float>& alphas_cumprod,
                                     const DiscreteRules& rules);

enum class WholeSteps : std::uint8_t { never, unless_cosine, always };

/// σ between the training steps.
struct SigmaRules {
  /// Training steps whose λ = log(α/σ) lies below lambda_min_clipped are left
  /// out, which the cosine schedule needs.
  bool has_clipped_lambda = false;
  /// The network is handed whole training steps, of n + 1 points without the
  /// last.
  bool has_whole_steps = false;
  /// Whether timesteps that belong to Karras σ are rounded to whole steps.
  WholeSteps karras_steps = WholeSteps::never;
  bool always_ends_at_zero = false;
  /// Respaced σ that do not end at 0 repeat their last value.
  bool repeats_respaced_end = false;
};
[[nodiscard]] Points sigma_points(const ScheduleOptions& options,
                                  const std::vector<float>& alphas_cumprod,
                                  const SigmaRules& rules);

/// Flow models. Errors: Errc::invalid_argument for listed σ above 1.
void check_flow_sigmas(const ScheduleOptions& options);
[[nodiscard]] Points flow_euler_points(
    const ScheduleOptions& options, const std::vector<float>& alphas_cumprod);
[[nodiscard]] Points dpmpp_flow_points(
    const ScheduleOptions& options, const std::vector<float>& alphas_cumprod);
[[nodiscard]] Points unipc_flow_points(
    const ScheduleOptions& options, const std::vector<float>& alphas_cumprod);

/// Errc::invalid_argument with the option's name.
[[noreturn]] void refuse_option(std::string_view option,
                                const std::string& message,
                                std::string_view hint);
/// Refuses flow_prediction for a rule that predicts noise.
void refuse_flow_prediction(const ScheduleOptions& options,
                            bool predicts_noise);

}  // namespace troupe::samplers
