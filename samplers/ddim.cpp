// Song, Meng & Ermon 2021, arXiv:2010.02502, eq. 12 and 16.
#include <algorithm>
#include <cmath>

#include "samplers/points.h"
#include "samplers/solver_row.h"
#include "samplers/step_arithmetic.h"

namespace troupe::samplers {
namespace {

struct DdimCoefficients {
  double clean;
  double direction;
  double noise;
};

DdimCoefficients ddim_coefficients(const Schedule& schedule, int from, int to) {
  const NoiseLevel here = schedule.level(from);
  const NoiseLevel there = schedule.arrival(to);
  const double kept = here.alpha / there.alpha;
  const double posterior =
      there.sigma / here.sigma * std::sqrt(std::max(0.0, 1.0 - kept * kept));
  const double noise = schedule.options().eta * posterior;
  const double rest = there.sigma * there.sigma - noise * noise;
  return {there.alpha, std::sqrt(std::max(0.0, rest)), noise};
}

SolverState step_ddim(const StepInput& in) {
  const DdimCoefficients c = ddim_coefficients(in.schedule, in.from, in.to);
  const Tensor clean = clean_sample(in, Memory::scratch);
  const LinearForm direction = noise_form(in.schedule, in.from);
  const Tensor noise = in.draw();
  return summed_state(in, {{c.clean, &clean},
                           {c.direction * direction.latents, &in.state.latents},
                           {c.direction * direction.output, &in.output},
                           {c.noise, &noise}});
}

double carry_ddim(const Schedule& schedule, int from, int to) {
  const DdimCoefficients c = ddim_coefficients(schedule, from, to);
  return c.clean * clean_slope(schedule, from) +
         c.direction * noise_form(schedule, from).latents;
}

double deviation_ddim(const Schedule& schedule, int from, int to) {
  return ddim_coefficients(schedule, from, to).noise;
}

constexpr std::string_view kDdimNames[] = {"ddim"};
constexpr SolverSpelling kDdimSpellings[] = {{"ddim"}, {"ddimparallel"}};

}  // namespace

extern constinit const SolverRow kDdim{
    .name = "ddim",
    .shown_names = kDdimNames,
    .spellings = kDdimSpellings,
    .keys = {kBetaKeys, kZeroSnrKeys, kClipKeys, kThresholdKeys,
             "set_alpha_to_one eta"},
    .levels = Levels::training_steps,
    .goes_by_stride = true,
    .is_stochastic = [](const ScheduleOptions& o) { return o.eta > 0.0; },
    .points = discrete_points,
    .step = step_ddim,
    .carry = carry_ddim,
    .deviation = deviation_ddim};

}  // namespace troupe::samplers
