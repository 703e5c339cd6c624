#include "samplers/betas.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "kernels/core/error.h"
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

/// function(value) of each.
std::vector<float> mapped(std::span<const float> values,
                          float (*function)(float)) {
  std::vector<float> result(values.size());
  std::ranges::transform(values, result.begin(), function);
  return result;
}

std::vector<float> one_minus(std::span<const float> values) {
  return mapped(values, [](float value) { return 1.0F - value; });
}

/// Nichol & Dhariwal 2021, arXiv:2102.09672.
double squared_cosine(double t) {
  const double c = std::cos((t + 0.008) / 1.008 * std::numbers::pi / 2.0);
  return c * c;
}

/// diffusers' "laplace" of DDPMScheduler: λ = log SNR of a Laplace
/// distribution.
double laplace(double t) {
  const double lambda = -0.5 * std::copysign(1.0, 0.5 - t) *
                        std::log(1.0 - 2.0 * std::fabs(0.5 - t) + 1e-6);
  const double snr = std::exp(lambda);
  return std::sqrt(snr / (1.0 + snr));
}

/// β that make `alpha_bar`, a function of t from 0 to 1, the running product.
std::vector<float> betas_of(double (*alpha_bar)(double), int count) {
  constexpr double kMaxBeta = 0.999;
  std::vector<float> betas(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const double now = alpha_bar(static_cast<double>(i) / count);
    const double next = alpha_bar(static_cast<double>(i + 1) / count);
    betas[static_cast<std::size_t>(i)] =
        static_cast<float>(std::min(1.0 - next / now, kMaxBeta));
  }
  return betas;
}

/// Xu et al. 2022, arXiv:2203.02923 (GeoDiff), float32 at every operation.
std::vector<float> sigmoid_betas(double start, double end, int count) {
  std::vector<float> betas = torch_linspace(-6.0, 6.0, count);
  for (float& beta : betas) {
    const auto rise =
        static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(beta))));
    beta = rise * static_cast<float>(end - start) + static_cast<float>(start);
  }
  return betas;
}

std::vector<float> scaled_linear_betas(double start, double end, int count) {
  std::vector<float> betas =
      torch_linspace(std::sqrt(start), std::sqrt(end), count);
  for (float& beta : betas) {
    beta *= beta;
  }
  return betas;
}

std::vector<float> scheduled_betas(const ScheduleOptions& o) {
  const int count = o.num_train_timesteps;
  switch (o.beta_schedule) {
    case BetaSchedule::linear:
      return torch_linspace(o.beta_start, o.beta_end, count);
    case BetaSchedule::scaled_linear:
      return scaled_linear_betas(o.beta_start, o.beta_end, count);
    case BetaSchedule::squaredcos_cap_v2:
      return betas_of(squared_cosine, count);
    case BetaSchedule::sigmoid:
      return sigmoid_betas(o.beta_start, o.beta_end, count);
    case BetaSchedule::laplace:
      return betas_of(laplace, count);
  }
  throw Error(Errc::internal, "betas", "unknown schedule");
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
  std::vector<float> betas(options.trained_betas.begin(),
                           options.trained_betas.end());
  if (betas.empty()) {
    betas = scheduled_betas(options);
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
  return mapped(alphas_cumprod,
                [](float a) { return std::sqrt((1.0F - a) / a); });
}

std::vector<float> log_of(std::span<const float> values) {
  return mapped(values, [](float value) {
    return static_cast<float>(std::log(static_cast<double>(value)));
  });
}

}  // namespace troupe::samplers
