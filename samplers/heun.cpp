// Karras et al. 2022, arXiv:2206.00364, algorithm 1 without churn: an Euler
// stage, then a second one at its end point; two model calls per step.
#include <string>

#include "kernels/core/error.h"
#include "samplers/points.h"
#include "samplers/solver_row.h"
#include "samplers/step_arithmetic.h"

namespace troupe::samplers {
namespace {

bool is_second_stage(int call) { return call % 2 == 1; }

/// dx/dσ at the latents the state stands at.
Tensor slope_at(const StepInput& in, Memory memory) {
  const Tensor& x = in.state.latents;
  if (*in.schedule.options().clip_sample) {
    const double sigma = in.here().sigma;
    const Tensor clean = clean_sample(in, Memory::scratch);
    return weighted_sum(in.ctx, memory,
                        {{1.0 / sigma, &x}, {-1.0 / sigma, &clean}});
  }
  return apply(in.ctx, memory, slope_form(in.schedule, in.from), x, in.output);
}

SolverState first_stage(const StepInput& in) {
  const double move = in.there().sigma - in.here().sigma;
  const bool is_kept = is_second_stage(in.to);
  const Tensor slope =
      slope_at(in, is_kept ? Memory::lasting : Memory::scratch);
  SolverState next =
      summed_state(in, {{1.0, &in.state.latents}, {move, &slope}});
  if (is_kept) {
    next.anchor = in.state.latents;
    next.slope = slope;
    next.history_calls = {in.from};
  }
  return next;
}

SolverState second_stage(const StepInput& in) {
  const SolverState& state = in.state;
  if (state.anchor.empty() || state.slope.empty() ||
      state.history_calls.empty()) {
    throw Error(Errc::invalid_argument, "heun step",
                "state at call " + std::to_string(in.from) +
                    ": got none of the first stage, expected anchor and slope",
                "start at an even call");
  }
  if (is_second_stage(in.to)) {
    throw Error(Errc::invalid_argument, "heun step",
                "jump from second stage " + std::to_string(in.from) + " to " +
                    std::to_string(in.to) + ": expected an even call",
                "end the jump at a step's first stage");
  }
  const double start = in.schedule.level(state.history_calls[0]).sigma;
  const double half = 0.5 * (in.there().sigma - start);
  const Tensor slope = slope_at(in, Memory::scratch);
  return summed_state(
      in, {{1.0, &state.anchor}, {half, &state.slope}, {half, &slope}});
}

SolverState step_heun(const StepInput& in) {
  return is_second_stage(in.from) ? second_stage(in) : first_stage(in);
}

double carry_heun(const Schedule& schedule, int from, int to) {
  const double sigma = schedule.level(from).sigma;
  const double slope = slope_form(schedule, from).latents;
  if (!is_second_stage(from)) {
    return 1.0 + (schedule.arrival(to).sigma - sigma) * slope;
  }
  const double start = schedule.level(from - 1).sigma;
  return 0.5 * (schedule.arrival(to).sigma - start) * slope;
}

/// Two model calls per step: every inner point twice.
Points points(const ScheduleOptions& o, const std::vector<float>& alphas) {
  const Points steps = sigma_points(o, alphas);
  Points doubled;
  for (std::size_t i = 0; i < steps.timesteps.size(); ++i) {
    for (int copy = i == 0 ? 1 : 0; copy < 2; ++copy) {
      doubled.timesteps.push_back(steps.timesteps[i]);
      doubled.sigmas.push_back(steps.sigmas[i]);
    }
  }
  doubled.sigmas.push_back(steps.sigmas.back());
  return doubled;
}

constexpr std::string_view kHeunNames[] = {"heun"};
constexpr SolverSpelling kHeunSpellings[] = {{"heun"}, {"heundiscrete"}};

}  // namespace

extern constinit const SolverRow kHeun{
    .name = "heun",
    .shown_names = kHeunNames,
    .spellings = kHeunSpellings,
    .keys = {kBetaKeys, kClipKeys, kSpacingKeys},
    .has_unit_signal = true,
    .most_kept = [](const ScheduleOptions&) { return 2; },  // anchor, slope
    .has_two_calls = true,
    .beta_start = 0.00085,
    .beta_end = 0.012,
    .points = points,
    .step = step_heun,
    .carry = carry_heun};

}  // namespace troupe::samplers
