// Ho, Jain & Abbeel 2020, arXiv:2006.11239, eq. 6 and 7; learned variances of
// Nichol & Dhariwal 2021, arXiv:2102.09672.
#include <algorithm>
#include <cmath>

#include "kernels/core/error.h"
#include "kernels/core/polynomials.h"
#include "samplers/points.h"
#include "samplers/solver_row.h"
#include "samplers/step_arithmetic.h"

namespace troupe::samplers {
namespace {

struct DdpmCoefficients {
  double clean;
  double latents;
  double beta;       ///< upper bound of the variance
  double posterior;  ///< lower bound of the variance, > 0
};

DdpmCoefficients ddpm_coefficients(const Schedule& schedule, int from, int to) {
  const NoiseLevel here = schedule.level(from);
  const NoiseLevel there = schedule.arrival(to);
  const double kept = here.alpha / there.alpha;
  const double beta = 1.0 - kept * kept;
  const double variance = here.sigma * here.sigma;
  const double variance_there = there.sigma * there.sigma;
  constexpr double kSmallest = 1e-20;  // diffusers takes its logarithm
  return {there.alpha * beta / variance, kept * variance_there / variance, beta,
          std::max(variance_there / variance * beta, kSmallest)};
}

bool learns_ddpm(const ScheduleOptions& options) {
  return options.variance_type == VarianceType::learned ||
         options.variance_type == VarianceType::learned_range;
}

double fixed_deviation(VarianceType type, const DdpmCoefficients& c) {
  const bool large = type == VarianceType::fixed_large ||
                     type == VarianceType::fixed_large_log;
  return std::sqrt(large ? c.beta : c.posterior);
}

SolverState step_ddpm(const StepInput& in) {
  const DdpmCoefficients c = ddpm_coefficients(in.schedule, in.from, in.to);
  const VarianceType type = in.schedule.options().variance_type;
  const bool learned = learns_ddpm(in.schedule.options());
  if (learned && in.variance.empty()) {
    throw Error(Errc::shape_mismatch, "ddpm step",
                "model output: got as many channels as the latents, expected "
                "twice as many for a learned variance",
                "set variance_type to fixed_small for this model");
  }
  const Tensor clean = clean_sample(in, Memory::scratch);
  Tensor noise = in.draw();
  if (learned && !noise.empty()) {
    kernels::scale_by_learned_variance(
        in.ctx, in.variance, type == VarianceType::learned_range,
        detail::log_of_any(c.posterior), detail::log_of_any(c.beta), noise);
  }
  const double deviation = learned ? 1.0 : fixed_deviation(type, c);
  return summed_state(
      in,
      {{c.clean, &clean}, {c.latents, &in.state.latents}, {deviation, &noise}});
}

double carry_ddpm(const Schedule& schedule, int from, int to) {
  const DdpmCoefficients c = ddpm_coefficients(schedule, from, to);
  return c.latents + c.clean * clean_slope(schedule, from);
}

double deviation_ddpm(const Schedule& schedule, int from, int to) {
  return fixed_deviation(schedule.options().variance_type,
                         ddpm_coefficients(schedule, from, to));
}

constexpr std::string_view kShown[] = {"ddpm"};
constexpr SolverSpelling kSpellings[] = {{"ddpm"}, {"ddpmparallel"}};

}  // namespace

extern constinit const SolverRow kDdpm{
    .name = "ddpm",
    .shown_names = kShown,
    .spellings = kSpellings,
    .keys = {kBetaKeys, kZeroSnrKeys, kClipKeys, kThresholdKeys,
             "variance_type"},
    .levels = Levels::training_steps,
    .draws_at_timestep_zero = false,
    .is_stochastic = [](const ScheduleOptions&) { return true; },
    .learns_variance = learns_ddpm,
    .points = discrete_points,
    .step = step_ddpm,
    .carry = carry_ddpm,
    .deviation = deviation_ddpm};

}  // namespace troupe::samplers
