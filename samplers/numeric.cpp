#include "samplers/numeric.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>

namespace troupe::samplers {
template <typename T>
double timestep_of_log(T log_sigma, std::span<const float> log_sigmas) {
  if (log_sigmas.size() < 2) {
    return 0.0;
  }
  // With zero SNR the last level may lie below those before it.
  const auto inner = log_sigmas.first(log_sigmas.size() - 1);
  const auto above = std::ranges::upper_bound(inner, log_sigma);
  const auto count = static_cast<std::size_t>(above - inner.begin());
  const bool is_last = log_sigma >= log_sigmas.back();
  const std::size_t low =
      is_last ? inner.size() - 1 : std::max<std::size_t>(count, 1) - 1;
  const T at_low = log_sigmas[low];
  const T at_high = log_sigmas[low + 1];
  const T weight =
      std::clamp((at_low - log_sigma) / (at_low - at_high), T{0}, T{1});
  return static_cast<double>(T{1} - weight) * static_cast<double>(low) +
         static_cast<double>(weight) * static_cast<double>(low + 1);
}
template double timestep_of_log(double, std::span<const float>);
template double timestep_of_log(float, std::span<const float>);

std::string to_text(double value) {
  if (std::isnan(value)) {
    return "nan";  // whatever its sign
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.10g", value);
  return text.data();
}

std::vector<double> linspace(double start, double stop, int count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  const double step = count > 1 ? (stop - start) / (count - 1) : 0.0;
  for (int i = 0; i < count; ++i) {
    values[static_cast<std::size_t>(i)] = i * step + start;
  }
  if (count > 1) {
    values.back() = stop;
  }
  return values;
}

std::vector<double> arange_down(double start, double step) {
  const auto count = static_cast<std::size_t>(std::ceil(start / step));
  // numpy takes the difference of the first two elements as its increment.
  const double delta = (start - step) - start;
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = start + static_cast<double>(i) * delta;
  }
  return values;
}

std::vector<float> torch_linspace(double start, double stop, int count) {
  const auto first = static_cast<float>(start);
  const auto last = static_cast<float>(stop);
  std::vector<float> values(static_cast<std::size_t>(count));
  if (count == 1) {
    values[0] = first;
    return values;
  }
  const float step = (last - first) / static_cast<float>(count - 1);
  for (int i = 0; i < count; ++i) {
    // A product of two floats is exact in double: one rounding, like fma.
    const double value =
        i < count / 2
            ? static_cast<double>(first) + static_cast<double>(step) * i
            : static_cast<double>(last) -
                  static_cast<double>(step) * (count - 1 - i);
    values[static_cast<std::size_t>(i)] = static_cast<float>(value);
  }
  return values;
}

double round_half_even(double value) {
  const double low = std::floor(value);
  const double rest = value - low;
  if (rest > 0.5 || (rest == 0.5 && std::fmod(low, 2.0) != 0.0)) {
    return low + 1.0;
  }
  return low;
}

double interpolate(double x, std::span<const float> table) {
  const auto last = static_cast<double>(table.size() - 1);
  if (x <= 0.0) {
    return table.front();
  }
  if (x >= last) {
    return table.back();
  }
  const auto low = static_cast<std::size_t>(x);
  const double slope =
      static_cast<double>(table[low + 1]) - static_cast<double>(table[low]);
  return slope * (x - static_cast<double>(low)) +
         static_cast<double>(table[low]);
}

std::vector<double> karras_sigmas(double sigma_max, double sigma_min,
                                  int count) {
  constexpr double kRho = 7.0;
  const double high = std::pow(sigma_max, 1.0 / kRho);
  const double low = std::pow(sigma_min, 1.0 / kRho);
  std::vector<double> sigmas = linspace(0.0, 1.0, count);
  for (double& value : sigmas) {
    value = std::pow(high + value * (low - high), kRho);
  }
  return sigmas;
}

std::vector<double> exponential_sigmas(double sigma_max, double sigma_min,
                                       int count) {
  std::vector<double> sigmas =
      linspace(std::log(sigma_max), std::log(sigma_min), count);
  for (double& value : sigmas) {
    value = std::exp(value);
  }
  return sigmas;
}

}  // namespace troupe::samplers
