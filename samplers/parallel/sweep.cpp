#include "samplers/parallel/sweep.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/elementwise.h"

namespace troupe::samplers {
namespace {

Tensor carried(const Tensor& step, double carry, const Tensor& x_new,
               const Tensor& x_old) {
  Tensor moved(step.shape(), DType::f32);
  const std::array difference = {kernels::Term{1.0, &x_new},
                                 kernels::Term{-1.0, &x_old}};
  kernels::combine(difference, moved);
  const std::array sum = {kernels::Term{1.0, &step},
                          kernels::Term{carry, &moved}};
  kernels::combine(sum, moved);
  return moved;
}

double residual(const Tensor& x_new, const Tensor& x_old, double scale) {
  const auto size = static_cast<double>(x_new.num_elements());
  return std::sqrt(kernels::sum_squared_difference(x_new, x_old) / size) /
         scale;
}

}  // namespace

void check_finite(const SolverState& state, std::uint64_t sample_index,
                  int call, const Schedule& schedule) {
  if (!kernels::all_finite(state.latents)) {
    throw Error(Errc::non_finite, "step",
                "the latents of sample " + std::to_string(sample_index) +
                    " are not finite after step " + std::to_string(call + 1) +
                    " of " + std::to_string(schedule.num_model_calls()),
                "check the weights with `troupe inspect`, or use --dtype f32");
  }
}

SweepOutput sweep_window(const SweepInput& input) {
  SweepOutput out;
  SolverState now = input.states.front();
  for (std::size_t i = 0; i < input.outputs.size(); ++i) {
    const int call = input.from + static_cast<int>(i);
    const Tensor x_new = now.latents;
    const Tensor& x_old = input.states[i].latents;
    now.latents = x_old;
    now = step(input.schedule, call, call + 1, now, input.outputs[i],
               input.sample_index, input.noise);
    if (!bytes_equal(x_new, x_old)) {
      const double carry =
          input.options.carry == Carry::identity
              ? 1.0
              : carry_coefficient(input.schedule, call, call + 1);
      now.latents = carried(now.latents, carry, x_new, x_old);
    }
    check_finite(now, input.sample_index, call, input.schedule);
    const Tensor& before = input.states[i + 1].latents;
    out.scalars.push_back(
        residual(now.latents, before, input.schedule.residual_scale(call + 1)));
    out.scalars.push_back(bytes_equal(now.latents, before) ? 1.0 : 0.0);
    out.states.push_back(now);
  }
  const int evaluated = input.from + static_cast<int>(input.outputs.size()) - 1;
  for (std::size_t i = 0; i < input.num_guesses; ++i) {
    SolverState guess;
    guess.latents =
        input.options.initial_guess == InitialGuess::last_point
            ? now.latents
            : extrapolate(input.schedule, evaluated,
                          evaluated + 2 + static_cast<int>(i),
                          input.states[input.outputs.size() - 1].latents,
                          input.outputs.back());
    out.states.push_back(std::move(guess));
  }
  return out;
}

}  // namespace troupe::samplers
