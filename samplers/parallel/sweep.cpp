#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/copy.h"
#include "samplers/parallel/op_run.h"

namespace troupe::samplers {
namespace {

/// Of latents whose clean sample has unit variance.
double deviation(const NoiseLevel& at) {
  return std::sqrt(at.alpha * at.alpha + at.sigma * at.sigma);
}

/// J of the step from `call`.
double carry_of(Carry kind, const Schedule& schedule, int call) {
  switch (kind) {
    case Carry::identity:
      return 1.0;
    case Carry::coefficient:
      return carry_coefficient(schedule, call, call + 1);
    case Carry::deviation:
      break;
  }
  return schedule.options().solver->begins_at_anchor
             ? 0.0
             : deviation(schedule.arrival(call + 1)) /
                   deviation(schedule.level(call));
}

/// The points after the window, of which nothing is known yet. A line goes
/// through the ends of the round: neighbours differ by less than rounding in
/// bf16.
std::vector<SolverState> guesses_of(const OpRun& run, const BoundTask& bound,
                                    const Tensor& old_here,
                                    const Tensor& output,
                                    const SolverState& last) {
  const Task& task = bound.task;
  const std::size_t count = task.outputs.size() - 1;
  if (count == 0) {
    return {};
  }
  if (run.options.initial_guess == InitialGuess::linear_x0) {
    SeenCall first;
    if (task.inputs.size() > 4) {
      // The method gives both slots and the number, or none: `is_whole` does
      // not say so of a peer's task.
      const double call = task.coefficients.at(2);
      require(call >= 0 && call < task.from && call == std::floor(call),
              Errc::internal, "sweep", "the round's first call is none");
      first = {static_cast<int>(call), run.latents(bound, 4),
               run.tensor(bound, 5)};
    }
    return run.coast(bound, {task.from, old_here, output}, first, task.to, last,
                     count);
  }
  std::vector<SolverState> guesses(count);
  for (std::size_t i = 0; i < count; ++i) {
    guesses[i].latents =
        run.options.initial_guess == InitialGuess::last_point
            ? last.latents
            : extrapolate(run.ctx, run.schedule, task.from,
                          task.to + 1 + static_cast<int>(i), old_here, output);
  }
  return guesses;
}

}  // namespace

double settled_scale(const Schedule& schedule, int point) {
  constexpr double kLeastShare = 0.1;
  return std::max(schedule.residual_scale(point),
                  kLeastShare * deviation(schedule.arrival(point)));
}

Coefficients sweep_coefficients(const MethodOptions& options,
                                const Schedule& schedule, int call) {
  return {call == 0 ? 0.0 : carry_of(options.carry, schedule, call),
          options.accept == Accept::settled
              ? settled_scale(schedule, call + 1)
              : schedule.residual_scale(call + 1)};
}

/// One update of the Picard family (README.md), with the step's result
///
///   Φ_j = step(S_j with latents x_old[j], m_j)
///
/// of the state S_j that this round has made, whose latents are x_new[j], and
/// m_j the network's output at x_old[j]. Where both latents have the same bytes
/// nothing is added (−0.0 + 0 is not −0.0): so every converged point has the
/// bytes of the sequential run. The carry acts on latents only; histories and
/// anchors are those of the round's own steps.
void run_sweep(const OpRun& run, OpTasks tasks) {
  const BoundTask& bound = *tasks.front();
  const Task& task = bound.task;
  const Tensor old_here = run.latents(bound, 1);
  const Tensor output = run.tensor(bound, 3);
  // The first point of a round is as it was: nothing to carry.
  const SolverState next = run.step_from(
      bound, run.state(bound, task.inputs.at(0)), output,
      step_of(task)->is_final ? Tensor() : old_here, task.coefficients.at(0));
  const Tensor old_next = run.latents(bound, 2);
  kernels::Readings& readings = *run.queued.readings;
  const std::size_t finite = readings.all_finite(next.latents);
  const std::size_t squares =
      readings.sum_squared_difference(next.latents, old_next);
  const std::size_t same = readings.bytes_equal(next.latents, old_next);
  run.write_state(bound, task.outputs.at(0), task.to, next);
  run.write_states(bound, task.to + 1,
                   guesses_of(run, bound, old_here, output, next));
  const auto size = static_cast<double>(next.latents.num_elements());
  run.queued.verdicts.push_back(
      {&bound,
       [=, &bound](std::span<const double> values) -> std::vector<double> {
         if (values[finite] == 0.0) {
           // Names a block of the network only if its output is at fault.
           kernels::Readings of_output(run.ctx, 1);
           of_output.all_finite(output);
           run.fail(bound, of_output.wait()[0] != 0.0 ? Tensor() : old_here);
         }
         return {
             std::sqrt(values[squares] / size) / bound.task.coefficients.at(1),
             values[same]};
       }});
}

void run_guess(const OpRun& run, OpTasks tasks) {
  const BoundTask& bound = *tasks.front();
  const Task& task = bound.task;
  require(task.to - task.from == static_cast<int>(task.outputs.size()),
          Errc::internal, "guess", "has a wrong number of points");
  const Tensor here = run.latents(bound, 0);
  const auto known = [&](int point) {
    Tensor on_host(here.shape(), DType::f32);
    run.noise.guess(bound.sample_index, point, on_host);
    return kernels::borrow(run.ctx, on_host);
  };
  const Tensor known_here = known(task.from);
  const auto deviation_at = [&](int point) {
    return deviation(point == 0 ? run.schedule.level(0)
                                : run.schedule.arrival(point));
  };
  const double scale = deviation_at(task.from);
  std::vector<SolverState> guesses;
  for (int point = task.from + 1; point <= task.to; ++point) {
    Tensor& guess = guesses.emplace_back().latents;
    guess = run.ctx.empty(here.shape(), DType::f32);
    kernels::add_carry(run.ctx, known(point), deviation_at(point) / scale, here,
                       known_here, guess);
  }
  run.write_states(bound, task.from + 1, std::move(guesses));
}

}  // namespace troupe::samplers
