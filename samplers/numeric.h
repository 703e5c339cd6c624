#pragma once

#include <span>
#include <string>
#include <vector>

// Arithmetic that must give the numbers of NumPy and PyTorch, so that a
// schedule visits exactly the points a diffusers user knows. Internal to
// samplers.

namespace troupe::samplers {

/// A number for a message: "1001", "0.085".
[[nodiscard]] std::string to_text(double value);

/// numpy.linspace(start, stop, count): start + i·step, the last point exact.
[[nodiscard]] std::vector<double> linspace(double start, double stop,
                                           int count);
/// numpy.arange(start, 0, −step).
[[nodiscard]] std::vector<double> arange_down(double start, double step);
/// torch.linspace in float32: from both ends towards the middle, one rounding
/// per element.
[[nodiscard]] std::vector<float> torch_linspace(double start, double stop,
                                                int count);
/// The nearest float32.
[[nodiscard]] inline double to_float32(double value) {
  return static_cast<double>(static_cast<float>(value));
}
/// Nearest integer, halves to even, as numpy.round.
[[nodiscard]] double round_half_even(double value);
/// numpy.interp(x, 0 … n − 1, table): linear inside, constant outside.
[[nodiscard]] double interpolate(double x, std::span<const float> table);

/// The (fractional) training step of a noise level, by linear interpolation of
/// ascending log σ; outside values go to the nearest end. T = float gives a
/// level of the table its own step. In double the rounding of the table's
/// logarithms moves it a little below, where cutting off the fraction gives the
/// step before. Source: diffusers `_sigma_to_t` (float: under NumPy 1).
template <typename T>
[[nodiscard]] double timestep_of_log(T log_sigma,
                                     std::span<const float> log_sigmas);

/// Karras et al. 2022, arXiv:2206.00364, eq. 5, with rho = 7.
[[nodiscard]] std::vector<double> karras_sigmas(double sigma_max,
                                                double sigma_min, int count);
/// Evenly spaced in log σ.
[[nodiscard]] std::vector<double> exponential_sigmas(double sigma_max,
                                                     double sigma_min,
                                                     int count);
/// Quantiles of the Beta(0.6, 0.6) distribution. Lee et al. 2024,
/// arXiv:2407.12173.
[[nodiscard]] std::vector<double> beta_sigmas(double sigma_max,
                                              double sigma_min, int count);

}  // namespace troupe::samplers
