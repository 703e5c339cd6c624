#include "samplers/betas.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "samplers/numeric.h"

namespace troupe::samplers {
namespace {

std::vector<float> running_product(std::span<const float> values) {
  std::vector<float> products(values.size());
  double product = 1.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    product *= static_cast<double>(values[i]);
    products[i] = static_cast<float>(product);
  }
  return products;
}

std::vector<float> one_minus(std::span<const float> values) {
  std::vector<float> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(),
                 [](float value) { return 1.0F - value; });
  return result;
}

/// Nichol & Dhariwal 2021, arXiv:2102.09672.
double squared_cosine(double t) {
  const double c = std::cos((t + 0.008) / 1.008 * std::numbers::pi / 2.0);
  return c * c;
}

std::vector<float> squared_cosine_betas(int count) {
  constexpr double kMaxBeta = 0.999;
  std::vector<float> betas(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const double now = squared_cosine(static_cast<double>(i) / count);
    const double next = squared_cosine(static_cast<double>(i + 1) / count);
    betas[static_cast<std::size_t>(i)] =
        static_cast<float>(std::min(1.0 - next / now, kMaxBeta));
  }
  return betas;
}

void rescale_to_zero_terminal_snr(std::vector<float>& betas) {
  std::vector<float> bars = running_product(one_minus(betas));
  for (float& bar : bars) {
    bar = std::sqrt(bar);
  }
  const float first = bars.front();
  const float last = bars.back();
  const float scale = first / (first - last);
  for (float& bar : bars) {
    const float shifted = (bar - last) * scale;
    bar = shifted * shifted;
  }
  betas[0] = 1.0F - bars[0];
  for (std::size_t i = 1; i < bars.size(); ++i) {
    betas[i] = 1.0F - bars[i] / bars[i - 1];
  }
}

}  // namespace

std::vector<float> make_betas(const ScheduleOptions& options) {
  std::vector<float> betas;
  const int count = options.num_train_timesteps;
  if (!options.trained_betas.empty()) {
    betas.assign(options.trained_betas.begin(), options.trained_betas.end());
  } else if (options.beta_schedule == BetaSchedule::linear) {
    betas = torch_linspace(options.beta_start, options.beta_end, count);
  } else if (options.beta_schedule == BetaSchedule::scaled_linear) {
    betas = torch_linspace(std::sqrt(options.beta_start),
                           std::sqrt(options.beta_end), count);
    for (float& beta : betas) {
      beta *= beta;
    }
  } else {
    betas = squared_cosine_betas(count);
  }
  if (options.rescale_betas_zero_snr) {
    rescale_to_zero_terminal_snr(betas);
  }
  return betas;
}

std::vector<float> cumulative_alphas(std::span<const float> betas,
                                     bool finite_sigmas, bool zero_snr) {
  std::vector<float> products = running_product(one_minus(betas));
  if (zero_snr && finite_sigmas) {
    products.back() = std::ldexp(1.0F, -24);
  }
  return products;
}

std::vector<float> training_sigmas(std::span<const float> alphas_cumprod) {
  std::vector<float> sigmas(alphas_cumprod.size());
  std::transform(alphas_cumprod.begin(), alphas_cumprod.end(), sigmas.begin(),
                 [](float a) { return std::sqrt((1.0F - a) / a); });
  return sigmas;
}

std::vector<float> log_of(std::span<const float> values) {
  std::vector<float> logs(values.size());
  std::transform(values.begin(), values.end(), logs.begin(), [](float value) {
    return static_cast<float>(std::log(static_cast<double>(value)));
  });
  return logs;
}

}  // namespace troupe::samplers
