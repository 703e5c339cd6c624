// Rectified flow, Liu et al. 2022, arXiv:2209.03003: dx/dσ = v.
#include "samplers/rules.h"

namespace troupe::samplers {
namespace {

double sigma_of(const Schedule& schedule, int call) {
  return schedule.sigmas()[static_cast<std::size_t>(call)];
}

}  // namespace

SolverState step_flow_euler(const StepInput& in) {
  const double sigma = sigma_of(in.schedule, in.from);
  const double sigma_to = sigma_of(in.schedule, in.to);
  SolverState next;
  if (!in.schedule.draws_noise(in.from)) {
    next.latents = apply(in.ctx, Memory::lasting, {1.0, sigma_to - sigma},
                         in.state.latents, in.output);
    return next;
  }
  // Back to the clean sample, then fresh noise up to the next level.
  const double kept = 1.0 - sigma_to;
  const Tensor noise = in.draw();
  next.latents = linear(in.ctx, Memory::lasting,
                        {{kept, &in.state.latents},
                         {-kept * sigma, &in.output},
                         {sigma_to, &noise}});
  return next;
}

double carry_flow_euler(const Schedule& schedule, int /*from*/, int to) {
  return schedule.is_stochastic() ? 1.0 - sigma_of(schedule, to) : 1.0;
}

}  // namespace troupe::samplers
