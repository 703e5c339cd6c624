#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "samplers/options.h"

// What a schedule is made from: options with their defaults filled in, and the
// points of a run, in three ways. Internal to samplers.

namespace troupe::samplers {

struct ScheduleTable;

/// Points of a run: timesteps of the n steps; n + 1 noise levels.
struct Points {
  std::vector<double> timesteps;
  std::vector<double> sigmas;
  /// ᾱ each step arrives at (whole training steps); empty for the others.
  std::vector<double> arrival_alphas;
};

/// Checks every option and fills in the defaults of the solver's diffusers
/// class. Errors: Errc::invalid_argument with the option's name.
[[nodiscard]] ScheduleOptions resolve(ScheduleOptions options);

/// Whether the levels are a flow's: alpha = 1 − sigma.
[[nodiscard]] bool is_flow(const ScheduleOptions& options);

/// The timesteps of `timestep_spacing` over the first `total` training steps.
[[nodiscard]] std::vector<double> spaced_timesteps(
    const ScheduleOptions& options, int total);

/// Whole training steps.
[[nodiscard]] Points discrete_points(const ScheduleOptions& options,
                                     const std::vector<float>& alphas_cumprod);
/// σ between the training steps.
[[nodiscard]] Points sigma_points(const ScheduleOptions& options,
                                  const std::vector<float>& alphas_cumprod);

/// Flow models.
[[nodiscard]] Points flow_euler_points(
    const ScheduleOptions& options, const std::vector<float>& alphas_cumprod);
[[nodiscard]] Points dpmpp_flow_points(
    const ScheduleOptions& options, const std::vector<float>& alphas_cumprod);
[[nodiscard]] Points unipc_flow_points(
    const ScheduleOptions& options, const std::vector<float>& alphas_cumprod);

/// Refuses a table with a number that no step can use: NaN, infinite or out of
/// its range. Errors: Errc::corrupt_file with the place.
void check_numbers(const ScheduleTable& table);

/// Errc::invalid_argument with the option's name.
[[noreturn]] void refuse_option(std::string_view option,
                                const std::string& message,
                                std::string_view hint);
/// Refuses flow_prediction for a rule that predicts noise.
void refuse_flow_prediction(const ScheduleOptions& options,
                            bool predicts_noise);

}  // namespace troupe::samplers
