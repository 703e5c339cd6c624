// Karras et al. 2022, arXiv:2206.00364, in σ with α = 1; the ancestral step as
// in k-diffusion's sample_euler_ancestral.
#include <algorithm>
#include <cmath>

#include "samplers/points.h"
#include "samplers/solver_row.h"
#include "samplers/step_arithmetic.h"

namespace troupe::samplers {
namespace {

/// The slope is followed by `move`; an ancestral step goes further down and
/// comes back with fresh noise.
struct Leg {
  double move;
  double noise;
};

Leg leg(const Schedule& schedule, int from_call, int to_call) {
  const double from = schedule.level(from_call).sigma;
  const double to = schedule.arrival(to_call).sigma;
  if (!schedule.is_stochastic()) {
    return {to - from, 0.0};
  }
  const double up = to / from * std::sqrt(std::max(0.0, from * from - to * to));
  return {std::sqrt(std::max(0.0, to * to - up * up)) - from, up};
}

SolverState step_euler(const StepInput& in) {
  const Leg to = leg(in.schedule, in.from, in.to);
  const LinearForm slope = slope_form(in.schedule, in.from);
  const Tensor noise = in.draw();
  return summed_state(in, {{1.0 + to.move * slope.latents, &in.state.latents},
                           {to.move * slope.output, &in.output},
                           {to.noise, &noise}});
}

double carry_euler(const Schedule& schedule, int from, int to) {
  return 1.0 +
         leg(schedule, from, to).move * slope_form(schedule, from).latents;
}

double deviation_euler(const Schedule& schedule, int from, int to) {
  return leg(schedule, from, to).noise;
}

constexpr std::string_view kEulerNames[] = {"euler"};
constexpr SolverSpelling kEulerSpellings[] = {{"euler"}, {"eulerdiscrete"}};
constexpr std::string_view kAncestralNames[] = {"euler_a"};
constexpr SolverSpelling kAncestralSpellings[] = {
    {"eulera"}, {"eulerancestral"}, {"eulerancestraldiscrete"}};

}  // namespace

extern constinit const SolverRow kEuler{
    .name = "euler",
    .shown_names = kEulerNames,
    .spellings = kEulerSpellings,
    .keys = {kBetaKeys, kZeroSnrKeys, kSpacingKeys,
             "final_sigmas_type interpolation_type "
             "timestep_type"},
    .has_unit_signal = true,
    .points = sigma_points,
    .step = step_euler,
    .carry = carry_euler};

extern constinit const SolverRow kEulerAncestral{
    .name = "euler_ancestral",
    .shown_names = kAncestralNames,
    .spellings = kAncestralSpellings,
    .keys = {kBetaKeys, kZeroSnrKeys},
    .has_unit_signal = true,
    .has_sample_prediction = false,
    .is_stochastic = [](const ScheduleOptions&) { return true; },
    .points = sigma_points,
    .step = step_euler,
    .carry = carry_euler,
    .deviation = deviation_euler};

}  // namespace troupe::samplers
