#include "samplers/solver.h"

#include <cmath>
#include <string>

#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "samplers/step_arithmetic.h"

namespace troupe::samplers {
namespace {

void check_latents(const Tensor& latents) {
  if (latents.shape().rank() == 0 || latents.dtype() != DType::f32 ||
      latents.empty()) {
    throw Error(Errc::shape_mismatch, "solver step",
                "latents: got " + to_string(latents.shape()) + " " +
                    std::string(to_string(latents.dtype())) +
                    ", expected [C, …] f32");
  }
}

/// The prediction's channels of a model output, which may carry a learned
/// variance behind them.
struct SplitOutput {
  Tensor prediction;
  Tensor variance;
};

SplitOutput split_output(const Tensor& latents, const Tensor& output) {
  const std::int64_t channels = latents.dim(0);
  const auto has = [&](std::int64_t count) {
    return output.shape() == with_channels(latents.shape(), count);
  };
  const bool fits =
      output.dtype() == DType::f32 && (has(channels) || has(2 * channels));
  if (!fits) {
    throw Error(Errc::shape_mismatch, "solver step",
                "model output: got " + to_string(output.shape()) + " " +
                    std::string(to_string(output.dtype())) + " for latents " +
                    to_string(latents.shape()) +
                    ", expected as many or twice as many channels, f32");
  }
  if (output.dim(0) == channels) {
    return {output, Tensor()};
  }
  return {output.slice(0, channels), output.slice(channels, 2 * channels)};
}

void check_calls(const Schedule& schedule, int from, int to) {
  if (from < 0 || to <= from || to > schedule.num_model_calls()) {
    throw Error(Errc::invalid_argument, "solver step",
                "model calls: got " + std::to_string(from) + " to " +
                    std::to_string(to) + ", expected 0 ≤ from < to ≤ " +
                    std::to_string(schedule.num_model_calls()));
  }
}

}  // namespace

SolverState initial_state(ExecContext& ctx, const Schedule& schedule,
                          const Tensor& unit_noise) {
  check_latents(unit_noise);
  SolverState state;
  state.latents = weighted_sum(ctx, Memory::lasting,
                               {{schedule.init_noise_sigma(), &unit_noise}});
  return state;
}

Tensor scale_model_input(ExecContext& ctx, const Schedule& schedule, int call,
                         const Tensor& latents) {
  if (schedule.options().solver->has_unit_signal) {
    const double sigma = schedule.level(call).sigma;
    return weighted_sum(ctx, Memory::lasting,
                        {{1.0 / std::sqrt(sigma * sigma + 1.0), &latents}});
  }
  return latents;
}

SolverState step(ExecContext& ctx, const Schedule& schedule, int from, int to,
                 const SolverState& state, const Tensor& model_output,
                 std::uint64_t sample_index, NoiseSource& noise) {
  check_calls(schedule, from, to);
  check_latents(state.latents);
  const SplitOutput split = split_output(state.latents, model_output);
  const Workspace::Scope scope(ctx.workspace());
  const StepInput in{ctx,   schedule,         from,           to,
                     state, split.prediction, split.variance, sample_index,
                     noise};
  return schedule.options().solver->step(in);
}

int most_state_tensors(const Schedule& schedule) {
  const ScheduleOptions& options = schedule.options();
  const auto kept = options.solver->most_kept;
  return 1 + (kept == nullptr ? 0 : kept(options));
}

double carry_coefficient(const Schedule& schedule, int from, int to) {
  check_calls(schedule, from, to);
  return schedule.options().solver->carry(schedule, from, to);
}

bool learns_variance(const ScheduleOptions& options) {
  const auto learns = options.solver->learns_variance;
  return learns != nullptr && learns(options);
}

double step_deviation(const Schedule& schedule, int from, int to) {
  check_calls(schedule, from, to);
  require(!learns_variance(schedule.options()), Errc::unsupported, "sampler",
          "a learned variance has no deviation beforehand");
  return schedule.draws_noise(from)
             ? schedule.options().solver->deviation(schedule, from, to)
             : 0.0;
}

Tensor denoised(ExecContext& ctx, const Schedule& schedule, int call,
                const Tensor& latents, const Tensor& model_output) {
  check_calls(schedule, call, schedule.num_model_calls());
  check_latents(latents);
  const SplitOutput split = split_output(latents, model_output);
  Tensor clean = read_clean(ctx, Memory::lasting, schedule, call, latents,
                            split.prediction);
  if (schedule.tells_sign_only(call)) {
    clip_clean(ctx, schedule.options(), true, clean);
  }
  return clean;
}

Tensor output_for(ExecContext& ctx, const Schedule& schedule, int call,
                  const Tensor& latents, const Tensor& clean,
                  const Tensor& like) {
  check_calls(schedule, call, schedule.num_model_calls());
  check_latents(latents);
  const SplitOutput split = split_output(latents, like);
  const LinearForm form = clean_form(schedule, call);
  if (form.output == 0.0 || !std::isfinite(form.output)) {
    return like;
  }
  const double scale = 1.0 / form.output;
  Tensor output = ctx.empty(like.shape(), DType::f32);
  Tensor prediction = output.slice(0, latents.dim(0));
  const kernels::Term terms[] = {{scale, &clean},
                                 {-form.latents * scale, &latents}};
  kernels::combine(ctx, terms, prediction);
  if (!split.variance.empty()) {
    Tensor variance = output.slice(latents.dim(0), output.dim(0));
    kernels::copy(ctx, split.variance, variance);
  }
  return output;
}

Tensor extrapolate(ExecContext& ctx, const Schedule& schedule, int from, int to,
                   const Tensor& latents, const Tensor& model_output) {
  check_calls(schedule, from, to);
  check_latents(latents);
  const SplitOutput split = split_output(latents, model_output);
  const ScheduleOptions& options = schedule.options();
  const Workspace::Scope scope(ctx.workspace());
  Tensor clean = read_clean(ctx, Memory::scratch, schedule, from, latents,
                            split.prediction);
  clip_clean(ctx, options, options.solver->has_key("clip_sample"), clean);
  const Tensor noise = apply(ctx, Memory::scratch, noise_form(schedule, from),
                             latents, split.prediction);
  const NoiseLevel there = schedule.arrival(to);
  return weighted_sum(ctx, Memory::lasting,
                      {{there.alpha, &clean}, {there.sigma, &noise}});
}

}  // namespace troupe::samplers
