#pragma once

#include <span>
#include <vector>

#include "samplers/options.h"

// Tables over the training steps. Internal to samplers.

namespace troupe::samplers {

/// β per training step in float32: trained or of `beta_schedule`, then the
/// zero-terminal-SNR rescale if asked (Lin et al. 2023, arXiv:2305.08891,
/// algorithm 1). The bits are those of diffusers, but for roots and
/// exponentials: ours are rounded correctly, PyTorch's not everywhere
/// (samplers/README.md).
[[nodiscard]] std::vector<float> make_betas(const ScheduleOptions& options);

/// ᾱ per training step: running product in double, stored as float32. With
/// the zero-terminal-SNR rescale the last entry is 0, or 2^−24 for solvers
/// that divide by it (`finite_sigmas`).
[[nodiscard]] std::vector<float> cumulative_alphas(std::span<const float> betas,
                                                   bool finite_sigmas,
                                                   bool zero_snr);

/// sqrt((1 − ᾱ)/ᾱ) per training step, float32 at every operation.
[[nodiscard]] std::vector<float> training_sigmas(
    std::span<const float> alphas_cumprod);

/// Natural logarithms, float32.
[[nodiscard]] std::vector<float> log_of(std::span<const float> values);

}  // namespace troupe::samplers
