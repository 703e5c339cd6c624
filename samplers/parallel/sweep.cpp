#include "samplers/parallel/sweep.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "kernels/copy.h"
#include "samplers/parallel/coast.h"
#include "samplers/parallel/op_run.h"

namespace troupe::samplers {
namespace {

// Places of a point's readings.
constexpr std::size_t kFinite = 0;
constexpr std::size_t kSquares = 1;
constexpr std::size_t kUnchanged = 2;

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
      if (schedule.options().solver->begins_at_anchor) {
        return 0.0;
      }
      return deviation(schedule.arrival(call + 1)) /
             deviation(schedule.level(call));
  }
  throw Error(Errc::internal, "sweep", "an unknown kind of carry");
}

/// The points after the window, of which nothing is known yet. A line goes
/// through the ends of the round: neighbours differ by less than rounding in
/// bf16.
void add_guesses(ExecContext& ctx, const SweepInput& input,
                 std::vector<SolverState>& states) {
  if (input.guess == InitialGuess::linear_x0) {
    const CleanLine line{.call = input.call,
                         .latents = input.old_here,
                         .output = input.output,
                         .older_call = input.first_call,
                         .older_latents = input.first_here,
                         .older_output = input.first_output};
    std::ranges::move(
        coast(ctx, input.schedule, input.noise, input.sample_index, line,
              input.call + 1, states.back(), input.num_guesses),
        std::back_inserter(states));
    return;
  }
  const Tensor last = states.back().latents;
  for (std::size_t i = 0; i < input.num_guesses; ++i) {
    SolverState guess;
    guess.latents = input.guess == InitialGuess::last_point
                        ? last
                        : extrapolate(ctx, input.schedule, input.call,
                                      input.call + 2 + static_cast<int>(i),
                                      input.old_here, input.output);
    states.push_back(std::move(guess));
  }
}

/// Adds to a sweep's error which evaluation it came from, and then its block.
[[noreturn]] void name_output(const OpRun& run, const BoundTask& bound,
                              const SweepInput& input, const Error& error) {
  kernels::Readings readings(run.ctx, 1);
  readings.all_finite(input.output);
  if (readings.wait().front() != 0.0) {
    throw error;
  }
  run.name_block(bound, input.call, input.old_here, error);
}

/// Errors: Errc::internal unless it lies before the task's call.
int first_call_of(const Task& task) {
  const double first = task.coefficients.at(2);
  require(first >= 0 && first < task.from && first == std::floor(first),
          Errc::internal, "sweep", "the round's first call is none");
  return static_cast<int>(first);
}

/// The mixture of the latents at a point.
NoiseLevel level_of(const Schedule& schedule, int point) {
  return point == 0 ? schedule.level(0) : schedule.arrival(point);
}

}  // namespace

SweepOutput sweep_point(ExecContext& ctx, const SweepInput& input,
                        kernels::Readings& readings) {
  SolverState now = input.state;
  now.latents = input.old_here;
  now = step(ctx, input.schedule, input.call, input.call + 1, now, input.output,
             input.sample_index, input.noise);
  if (!input.is_first) {  // the first is as it was: nothing to carry
    // In place: the step's latents are new and nobody else's.
    kernels::add_carry(ctx, now.latents, input.carry, input.state.latents,
                       input.old_here, now.latents);
  }
  SweepOutput out;
  out.first_reading = readings.all_finite(now.latents);
  readings.sum_squared_difference(now.latents, input.old_next);
  readings.bytes_equal(now.latents, input.old_next);
  out.states.push_back(std::move(now));
  add_guesses(ctx, input, out.states);
  return out;
}

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

std::vector<double> sweep_scalars(const SweepInput& input,
                                  const SweepOutput& output,
                                  std::span<const double> values) {
  const auto point = values.subspan(output.first_reading, kReadingsPerPoint);
  if (point[kFinite] == 0.0) {
    throw non_finite_error(input.sample_index, input.call, input.schedule);
  }
  const auto size =
      static_cast<double>(output.states.front().latents.num_elements());
  return {std::sqrt(point[kSquares] / size) / input.scale, point[kUnchanged]};
}

void run_sweep(const OpRun& run, OpTasks tasks) {
  const BoundTask& bound = *tasks.front();
  const Task& task = bound.task;
  SweepInput input{.schedule = run.schedule,
                   .noise = run.noise,
                   .sample_index = bound.sample_index,
                   .call = task.from,
                   .is_first = step_of(task)->is_final,
                   .state = run.state(bound, task.inputs.at(0)),
                   .old_here = run.latents(bound, 1),
                   .old_next = run.latents(bound, 2),
                   .output = run.tensor(bound, 3),
                   .first_call = task.from,
                   .num_guesses = task.outputs.size() - 1,
                   .guess = run.options.initial_guess,
                   .carry = task.coefficients.at(0),
                   .scale = task.coefficients.at(1)};
  if (task.inputs.size() > 4) {
    // The method gives both slots and the number, or none: `is_whole` does not
    // say so of a peer's task.
    input.first_here = run.latents(bound, 4);
    input.first_output = run.tensor(bound, 5);
    input.first_call = first_call_of(task);
  }
  SweepOutput output = sweep_point(run.ctx, input, *run.queued.readings);
  for (std::size_t i = 0; i < output.states.size(); ++i) {
    run.write_state(bound, task.outputs.at(i), task.to + static_cast<int>(i),
                    output.states[i]);
  }
  run.queued.verdicts.push_back(
      {&bound, [run, &bound, input = std::move(input),
                output = std::move(output)](std::span<const double> values) {
         try {
           return sweep_scalars(input, output, values);
         } catch (const Error& error) {
           name_output(run, bound, input, error);
         }
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
  const double scale = deviation(level_of(run.schedule, task.from));
  for (int point = task.from + 1; point <= task.to; ++point) {
    SolverState guess;
    guess.latents = run.ctx.empty(here.shape(), DType::f32);
    kernels::add_carry(run.ctx, known(point),
                       deviation(level_of(run.schedule, point)) / scale, here,
                       known_here, guess.latents);
    run.write_state(
        bound, task.outputs.at(static_cast<std::size_t>(point - task.from - 1)),
        point, std::move(guess));
  }
}

}  // namespace troupe::samplers
