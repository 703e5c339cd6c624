// Liu et al. 2022, arXiv:2202.09778: pseudo numerical methods (PNDM). A step
// moves along an output as DDIM does, which is formula (9) of the paper.
// Outputs of several calls are joined first, as linear multistep and
// Runge-Kutta methods join slopes.
//
// With skip_prk_steps (PLMS) the first step is taken twice from the same
// latents: call 1 stands where call 0 led to, and the mean of both outputs
// leads there again. Without it (PRK) the first three steps have four calls
// each, a Runge-Kutta group. All other steps have one call, and use the outputs
// of up to three steps before.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/core/error.h"
#include "samplers/points.h"
#include "samplers/solver_row.h"
#include "samplers/step_arithmetic.h"

namespace troupe::samplers {
namespace {

constexpr int kGroupCalls = 4;
constexpr int kMostGroups = 3;
constexpr std::size_t kMostKept = 3;

int num_groups(const ScheduleOptions& o) {
  return o.skip_prk_steps ? 0
                          : std::min(kMostGroups, o.num_inference_steps - 1);
}

int extra_calls(const ScheduleOptions& o) {
  if (o.skip_prk_steps) {
    return o.num_inference_steps > 1 ? 1 : 0;
  }
  return (kGroupCalls - 1) * num_groups(o);
}

bool is_in_group(const ScheduleOptions& o, int call) {
  return call < kGroupCalls * num_groups(o);
}

/// The call's place in its group, 0 outside of groups.
int stage_of(const ScheduleOptions& o, int call) {
  return is_in_group(o, call) ? call % kGroupCalls : 0;
}

/// PLMS: the call whose step begins at the latents of the call before.
bool is_second_try(const ScheduleOptions& o, int call) {
  return call == 1 && extra_calls(o) == 1;
}

/// Where a step's first call stands, in steps. An explicit list may be uneven,
/// so the unit is then the training step, and the clean sample stands one
/// training step further.
double place_of(const Schedule& schedule, int call) {
  const ScheduleOptions& o = schedule.options();
  if (!o.timesteps.empty()) {
    return call < schedule.num_model_calls() ? -schedule.timestep(call) : 1.0;
  }
  if (is_in_group(o, call)) {
    return call / kGroupCalls;
  }
  const int extra = o.skip_prk_steps && call < 2 ? 0 : extra_calls(o);
  return call - extra;
}

/// x' = latents · x + output · m, if the noise stays that of m.
LinearForm transfer(const ScheduleOptions& o, const NoiseLevel& from,
                    const NoiseLevel& to) {
  if (o.prediction_type == PredictionType::v_prediction) {
    return {to.alpha * from.alpha + to.sigma * from.sigma,
            to.sigma * from.alpha - to.alpha * from.sigma};
  }
  const double kept = to.alpha / from.alpha;
  return {kept, to.sigma - kept * from.sigma};
}

/// Weights of the own output and those before it, newest first: the mean over
/// the step of the polynomial through them (Adams and Bashforth). With equal
/// steps (3, -1)/2, (23, -16, 5)/12 and (55, -59, 37, -9)/24.
using OutputWeights = std::array<double, kMostKept + 1>;
OutputWeights mean_weights(const StepInput& in, std::size_t older) {
  const double here = place_of(in.schedule, in.from);
  const double length = place_of(in.schedule, in.to) - here;
  OutputWeights u{};  // places of the outputs; the step goes from 0 to 1
  for (std::size_t i = 0; i < older; ++i) {
    u[i + 1] =
        (place_of(in.schedule, in.state.history_calls[i]) - here) / length;
  }
  // Means of 1, u, u (u - u1), u (u - u1) (u - u2).
  const OutputWeights means = {1.0, 0.5, 1.0 / 3.0 - u[1] / 2.0,
                               0.25 - (u[1] + u[2]) / 3.0 + u[1] * u[2] / 2.0};
  OutputWeights weights{};
  for (std::size_t k = 0; k <= older; ++k) {  // the k-th divided difference
    for (std::size_t j = 0; j <= k; ++j) {
      double product = 1.0;
      for (std::size_t i = 0; i <= k; ++i) {
        product *= i == j ? 1.0 : u[j] - u[i];
      }
      weights[j] += means[k] / product;
    }
  }
  return weights;
}

/// The network's tensor may be a part of a larger one.
Tensor copy_of_output(const StepInput& in) {
  return weighted_sum(in.ctx, Memory::lasting, {{1.0, &in.output}});
}

SolverState multistep(const StepInput& in) {
  const std::vector<Tensor>& m = in.state.history;
  const std::size_t older = std::min(m.size(), kMostKept);
  const OutputWeights weights = mean_weights(in, older);
  const LinearForm move =
      transfer(in.schedule.options(), in.here(), in.there());
  const Tensor own = copy_of_output(in);
  const auto earlier = [&](std::size_t i) { return i < older ? &m[i] : &own; };
  SolverState next = summed_state(in, {{move.latents, &in.state.latents},
                                       {move.output * weights[0], &own},
                                       {move.output * weights[1], earlier(0)},
                                       {move.output * weights[2], earlier(1)},
                                       {move.output * weights[3], earlier(2)}});
  next.order = static_cast<int>(older) + 1;
  remember(in, own, kMostKept, next);
  if (is_second_try(in.schedule.options(), in.to)) {
    next.anchor = in.state.latents;
  }
  return next;
}

/// diffusers begins it a stride before its timestep: with linspace and trailing
/// spacing that may lie beside the first timestep.
NoiseLevel start_of_second_try(const Schedule& schedule) {
  const ScheduleOptions& o = schedule.options();
  if (!o.timesteps.empty()) {
    return schedule.level(0);
  }
  const int stride = o.num_train_timesteps / o.num_inference_steps;
  const double t = schedule.timestep(1) + stride;
  const auto alphas = schedule.alphas_cumprod();
  if (!(t >= 0.0 && t < static_cast<double>(alphas.size()))) {
    throw Error(Errc::invalid_argument, "pndm step",
                "timestep of call 1: got " +
                    std::to_string(schedule.timestep(1)) + ", expected " +
                    std::to_string(stride) + " below a training step");
  }
  const double a = alphas[static_cast<std::size_t>(t)];
  return {std::sqrt(a), std::sqrt(std::max(0.0, 1.0 - a))};
}

[[noreturn]] void refuse_state(const StepInput& in) {
  throw Error(Errc::invalid_argument, "pndm step",
              "state at call " + std::to_string(in.from) +
                  ": got none of the calls before it in this step, expected "
                  "their latents and outputs",
              "start at the first call of a step");
}

/// Its own output is not remembered, as in diffusers.
SolverState second_try(const StepInput& in) {
  const SolverState& state = in.state;
  if (state.anchor.empty() || state.history.empty()) {
    refuse_state(in);
  }
  const double start = place_of(in.schedule, 0);
  const double own = 0.5 * (place_of(in.schedule, in.to) - start) /
                     (place_of(in.schedule, in.from) - start);
  const LinearForm move = transfer(
      in.schedule.options(), start_of_second_try(in.schedule), in.there());
  SolverState next =
      summed_state(in, {{move.latents, &state.anchor},
                        {move.output * (1.0 - own), &state.history[0]},
                        {move.output * own, &in.output}});
  next.order = 2;
  next.history = {state.history[0]};
  next.history_calls = {state.history_calls[0]};
  return next;
}

/// First call of a group.
SolverState runge_kutta_stage(const StepInput& in) {
  const LinearForm move =
      transfer(in.schedule.options(), in.here(), in.there());
  const Tensor own = copy_of_output(in);
  SolverState next = summed_state(
      in, {{move.latents, &in.state.latents}, {move.output, &own}});
  next.anchor = in.state.latents;
  next.slope = weighted_sum(in.ctx, Memory::lasting, {{1.0 / 6.0, &own}});
  next.order = 1;
  remember(in, own, kMostKept, next);
  return next;
}

/// The others: each begins at the group's first latents, the last one moves
/// along (m0 + 2 m1 + 2 m2 + m3) / 6.
SolverState later_stage(const StepInput& in, int stage) {
  const SolverState& state = in.state;
  if (state.anchor.empty() || state.slope.empty() ||
      state.history_calls.empty() ||
      state.history_calls[0] != in.from - stage) {
    refuse_state(in);
  }
  const NoiseLevel start = in.schedule.level(in.from - stage);
  const LinearForm move = transfer(in.schedule.options(), start, in.there());
  const bool is_last = stage == kGroupCalls - 1;
  SolverState next = is_last
                         ? summed_state(in, {{move.latents, &state.anchor},
                                             {move.output, &state.slope},
                                             {move.output / 6.0, &in.output}})
                         : summed_state(in, {{move.latents, &state.anchor},
                                             {move.output, &in.output}});
  if (!is_last) {
    next.anchor = state.anchor;
    next.slope = weighted_sum(in.ctx, Memory::lasting,
                              {{1.0, &state.slope}, {1.0 / 3.0, &in.output}});
  }
  next.order = is_last ? 4 : 1;
  next.history = state.history;
  next.history_calls = state.history_calls;
  return next;
}

/// A group is taken as a whole or left out as a whole.
void check_jump(const StepInput& in) {
  const ScheduleOptions& o = in.schedule.options();
  const int stage = stage_of(o, in.from);
  const bool leaves = stage != 0 && stage != kGroupCalls - 1;
  if (in.to != in.from + 1 && (leaves || stage_of(o, in.to) != 0)) {
    throw Error(Errc::invalid_argument, "pndm step",
                "jump from call " + std::to_string(in.from) + " to " +
                    std::to_string(in.to) +
                    ": expected none into or out of a Runge-Kutta step",
                "jump from its first or last call to the first one of another "
                "step");
  }
}

SolverState step_pndm(const StepInput& in) {
  const ScheduleOptions& o = in.schedule.options();
  check_jump(in);
  if (is_second_try(o, in.from)) {
    return second_try(in);
  }
  if (const int stage = stage_of(o, in.from); stage > 0) {
    return later_stage(in, stage);
  }
  // A jump from a group's first call leaves the group out.
  return is_in_group(o, in.from) && in.to == in.from + 1 ? runge_kutta_stage(in)
                                                         : multistep(in);
}

/// Steps that begin at the latents of an earlier call have none of their own.
double carry_pndm(const Schedule& schedule, int from, int to) {
  const ScheduleOptions& o = schedule.options();
  if (is_second_try(o, from) || stage_of(o, from) > 0) {
    return 0.0;
  }
  return transfer(o, schedule.level(from), schedule.arrival(to)).latents;
}

/// The points of one call a step, with more calls put in between.
class CallList {
 public:
  CallList(const ScheduleOptions& options, const std::vector<float>& alphas)
      : options_(options),
        alphas_(alphas),
        steps_(discrete_points(options, alphas)) {}

  Points take() {
    const auto groups = static_cast<std::size_t>(num_groups(options_));
    for (std::size_t i = 0; i < steps_.timesteps.size(); ++i) {
      const double t = steps_.timesteps[i];
      if (i < groups) {
        add_group(t, steps_.timesteps.at(i + 1));
        continue;
      }
      if (is_second_try(options_, static_cast<int>(i))) {
        add(t, alpha_at(t));
      }
      add(t, steps_.arrival_alphas[i]);
    }
    calls_.sigmas.push_back(steps_.sigmas.back());
    return calls_;
  }

 private:
  [[nodiscard]] double alpha_at(double t) const {
    return static_cast<double>(alphas_.at(static_cast<std::size_t>(t)));
  }
  void add(double t, double arrival_alpha) {
    const double a = alpha_at(t);
    calls_.timesteps.push_back(t);
    calls_.sigmas.push_back(std::sqrt((1.0 - a) / a));
    calls_.arrival_alphas.push_back(arrival_alpha);
  }
  /// Calls at the step's begin, twice in its middle, and at its end.
  void add_group(double begin, double end) {
    const bool listed = !options_.timesteps.empty();
    const int stride =
        options_.num_train_timesteps / options_.num_inference_steps;
    const double half = listed ? std::floor((begin - end) / 2.0) : stride / 2;
    const double middle = end + half;
    add(begin, alpha_at(listed ? middle : begin - half));
    add(middle, alpha_at(middle));
    add(middle, alpha_at(end));
    add(end, alpha_at(end));
  }

  const ScheduleOptions& options_;
  const std::vector<float>& alphas_;
  Points steps_;
  Points calls_;
};

Points pndm_points(const ScheduleOptions& o, const std::vector<float>& alphas) {
  return CallList(o, alphas).take();
}

/// The last outputs. PRK: beside them a group's first latents and the sum of
/// its outputs.
int most_kept(const ScheduleOptions& o) {
  return static_cast<int>(kMostKept) + (o.skip_prk_steps ? 0 : 2);
}

std::string pndm_label(const ScheduleOptions& o) {
  return o.skip_prk_steps ? "plms" : "pndm";
}

constexpr std::string_view kPndmNames[] = {"pndm", "plms"};
constexpr SolverSpelling kPndmSpellings[] = {
    {"pndm"}, {.key = "plms", .skip_prk_steps = true}};

}  // namespace

extern constinit const SolverRow kPndm{
    .name = "pndm",
    .shown_names = kPndmNames,
    .spellings = kPndmSpellings,
    .keys = {kBetaKeys, "set_alpha_to_one skip_prk_steps"},
    .levels = Levels::training_steps,
    .has_sample_prediction = false,
    .goes_by_stride = true,
    .most_kept = most_kept,
    .extra_calls = extra_calls,
    .set_alpha_to_one = false,
    .points = pndm_points,
    .label = pndm_label,
    .step = step_pndm,
    .carry = carry_pndm};

}  // namespace troupe::samplers
