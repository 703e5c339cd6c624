// Karras et al. 2022, arXiv:2206.00364, in σ with α = 1; the ancestral step as
// in k-diffusion's sample_euler_ancestral.
#include <algorithm>
#include <cmath>

#include "samplers/points.h"
#include "samplers/solver_keys.h"
#include "samplers/solver_row.h"
#include "samplers/step_arithmetic.h"

namespace troupe::samplers {
namespace {

/// dx/dσ = (x − x0)/σ: the noise that the output implies.
LinearForm slope_form(const Schedule& schedule, int call) {
  const double sigma = schedule.level(call).sigma;
  const LinearForm clean = clean_form(schedule, call);
  return {(1.0 - clean.latents) / sigma, -clean.output / sigma};
}

struct AncestralSplit {
  double down;
  double up;
};

AncestralSplit split(double from, double to) {
  const double up = to / from * std::sqrt(std::max(0.0, from * from - to * to));
  return {std::sqrt(std::max(0.0, to * to - up * up)), up};
}

SolverState step_euler(const StepInput& in) {
  const double move = in.there().sigma - in.here().sigma;
  const LinearForm slope = slope_form(in.schedule, in.from);
  SolverState next;
  next.latents = apply(in.ctx, Memory::lasting,
                       {1.0 + move * slope.latents, move * slope.output},
                       in.state.latents, in.output);
  return next;
}

SolverState step_euler_ancestral(const StepInput& in) {
  const double sigma = in.here().sigma;
  const AncestralSplit to = split(sigma, in.there().sigma);
  const double move = to.down - sigma;
  const LinearForm slope = slope_form(in.schedule, in.from);
  const Tensor noise = in.draw();
  SolverState next;
  next.latents = weighted_sum(in.ctx, Memory::lasting,
                              {{1.0 + move * slope.latents, &in.state.latents},
                               {move * slope.output, &in.output},
                               {to.up, &noise}});
  return next;
}

double carry_euler(const Schedule& schedule, int from, int to) {
  const double move = schedule.arrival(to).sigma - schedule.level(from).sigma;
  return 1.0 + move * slope_form(schedule, from).latents;
}

double carry_euler_ancestral(const Schedule& schedule, int from, int to) {
  const double sigma = schedule.level(from).sigma;
  const double move = split(sigma, schedule.arrival(to).sigma).down - sigma;
  return 1.0 + move * slope_form(schedule, from).latents;
}

bool is_stochastic(const ScheduleOptions& /*o*/) { return true; }

constexpr std::string_view kShown[] = {"euler"};
constexpr SolverSpelling kSpellings[] = {{"euler"}, {"eulerdiscrete"}};
constexpr std::string_view kShownAncestral[] = {"euler_a"};
constexpr SolverSpelling kSpellingsAncestral[] = {
    {"eulera"}, {"eulerancestral"}, {"eulerancestraldiscrete"}};

}  // namespace

extern constinit const SolverRow kEuler{
    .name = "euler",
    .shown_names = kShown,
    .spellings = kSpellings,
    .keys = {kBetaKeys, kZeroSnrKeys, kSpacingKeys,
             "final_sigmas_type sigma_min sigma_max interpolation_type "
             "timestep_type"},
    .has_unit_signal = true,
    .points = sigma_points,
    .step = step_euler,
    .carry = carry_euler};

extern constinit const SolverRow kEulerAncestral{
    .name = "euler_ancestral",
    .shown_names = kShownAncestral,
    .spellings = kSpellingsAncestral,
    .keys = {kBetaKeys, kZeroSnrKeys},
    .has_unit_signal = true,
    .has_sample_prediction = false,
    .is_stochastic = is_stochastic,
    .points = sigma_points,
    .step = step_euler_ancestral,
    .carry = carry_euler_ancestral};

}  // namespace troupe::samplers
