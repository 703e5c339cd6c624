#include "samplers/parallel/sweep.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

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
double carry_of(const SweepInput& input) {
  const Schedule& schedule = input.schedule;
  const int call = input.call;
  switch (input.options.carry) {
    case Carry::identity:
      return 1.0;
    case Carry::coefficient:
      return carry_coefficient(schedule, call, call + 1);
    case Carry::deviation:
      return deviation(schedule.arrival(call + 1)) /
             deviation(schedule.level(call));
  }
  throw Error(Errc::internal, "sweep", "an unknown kind of carry");
}

/// The points after the window, of which nothing is known yet.
void add_guesses(ExecContext& ctx, const SweepInput& input,
                 std::vector<SolverState>& states) {
  const Tensor last = states.back().latents;
  for (std::size_t i = 0; i < input.num_guesses; ++i) {
    SolverState guess;
    guess.latents = input.options.initial_guess == InitialGuess::last_point
                        ? last
                        : extrapolate(ctx, input.schedule, input.call,
                                      input.call + 2 + static_cast<int>(i),
                                      input.old_here, input.output);
    states.push_back(std::move(guess));
  }
}

}  // namespace

Error non_finite_error(std::uint64_t sample_index, int call,
                       const Schedule& schedule) {
  return {Errc::non_finite, "step",
          "the latents of sample " + std::to_string(sample_index) +
              " are not finite after step " + std::to_string(call + 1) +
              " of " + std::to_string(schedule.num_model_calls()),
          "check the weights with `troupe inspect`, or use --dtype f32"};
}

SweepOutput sweep_point(ExecContext& ctx, const SweepInput& input,
                        kernels::Readings& readings) {
  SolverState now = input.state;
  now.latents = input.old_here;
  now = step(ctx, input.schedule, input.call, input.call + 1, now, input.output,
             input.sample_index, input.noise);
  if (!input.is_first) {  // the first is as it was: nothing to carry
    // In place: the step's latents are new and nobody else's.
    kernels::add_carry(ctx, now.latents, carry_of(input), input.state.latents,
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
  constexpr double kLeastShare = 0.2;
  const NoiseLevel at = schedule.arrival(point);
  return std::max(at.alpha, kLeastShare * deviation(at));
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
  const double scale = input.options.accept == Accept::settled
                           ? settled_scale(input.schedule, input.call + 1)
                           : input.schedule.residual_scale(input.call + 1);
  return {std::sqrt(point[kSquares] / size) / scale, point[kUnchanged]};
}

}  // namespace troupe::samplers
