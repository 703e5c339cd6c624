// Rectified flow, Liu et al. 2022, arXiv:2209.03003: dx/dσ = v.
#include "samplers/points.h"
#include "samplers/solver_row.h"
#include "samplers/step_arithmetic.h"

namespace troupe::samplers {
namespace {

double sigma_of(const Schedule& schedule, int call) {
  return schedule.sigmas()[static_cast<std::size_t>(call)];
}

SolverState step_flow_euler(const StepInput& in) {
  const double sigma = sigma_of(in.schedule, in.from);
  const double sigma_to = sigma_of(in.schedule, in.to);
  if (!in.schedule.draws_noise(in.from)) {
    return summed_state(
        in, {{1.0, &in.state.latents}, {sigma_to - sigma, &in.output}});
  }
  // Back to the clean sample, then fresh noise up to the next level.
  const double kept = 1.0 - sigma_to;
  const Tensor noise = in.draw();
  return summed_state(in, {{kept, &in.state.latents},
                           {-kept * sigma, &in.output},
                           {sigma_to, &noise}});
}

double carry_flow_euler(const Schedule& schedule, int /*from*/, int to) {
  return schedule.is_stochastic() ? 1.0 - sigma_of(schedule, to) : 1.0;
}

double deviation_flow_euler(const Schedule& schedule, int /*from*/, int to) {
  return sigma_of(schedule, to);
}

constexpr std::string_view kFlowEulerNames[] = {"flow"};
constexpr SolverSpelling kFlowEulerSpellings[] = {{"flow"},
                                                  {"floweuler"},
                                                  {"flowmatch"},
                                                  {"flowmatcheuler"},
                                                  {"flowmatcheulerdiscrete"}};

}  // namespace

extern constinit const SolverRow kFlowEuler{
    .name = "flow_euler",
    .shown_names = kFlowEulerNames,
    .spellings = kFlowEulerSpellings,
    .keys = {"num_train_timesteps", kSpacingKeys,
             "shift use_dynamic_shifting time_shift_type base_shift max_shift "
             "base_image_seq_len max_image_seq_len shift_terminal "
             "invert_sigmas stochastic_sampling"},
    .levels = Levels::flow,
    .is_stochastic =
        [](const ScheduleOptions& o) { return o.stochastic_sampling; },
    .points = flow_euler_points,
    .label = [](const ScheduleOptions&) { return std::string("flow"); },
    .step = step_flow_euler,
    .carry = carry_flow_euler,
    .deviation = deviation_flow_euler};

}  // namespace troupe::samplers
