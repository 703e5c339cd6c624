#pragma once

#include <string_view>

// Keys of scheduler_config.json that several of diffusers' classes have. For
// the solvers' rows only.

namespace troupe::samplers {

/// Of every class whose noise levels come from betas.
inline constexpr std::string_view kBetaKeys =
    "num_train_timesteps beta_start beta_end beta_schedule trained_betas "
    "prediction_type timestep_spacing steps_offset";
inline constexpr std::string_view kZeroSnrKeys = "rescale_betas_zero_snr";
inline constexpr std::string_view kClipKeys = "clip_sample clip_sample_range";
inline constexpr std::string_view kThresholdKeys =
    "thresholding dynamic_thresholding_ratio sample_max_value";
inline constexpr std::string_view kSpacingKeys =
    "use_karras_sigmas use_exponential_sigmas use_beta_sigmas";
inline constexpr std::string_view kMultistepKeys =
    "solver_order solver_type lower_order_final final_sigmas_type "
    "use_flow_sigmas flow_shift use_dynamic_shifting time_shift_type";

}  // namespace troupe::samplers
