#include "samplers/parallel/op_run.h"

#include <new>
#include <utility>

#include "kernels/copy.h"
#include "samplers/step_arithmetic.h"

namespace troupe::samplers {
namespace {

template <typename T>
T read(const QueuedTasks& queued, const BoundTask& bound, Slot slot) {
  SlotTable::Value value = queued.get(bound, slot);
  T* held = std::get_if<T>(&value);
  require(held != nullptr, Errc::internal, "task",
          "a slot holds another kind of value than the task expects");
  return std::move(*held);
}

/// J of the step from a call, of an output that the network gave for a draft:
/// what the step's result changes by with the latents. For Gaussian data of
/// deviation s along the change, the clean sample that a network sees changes
/// by r = α s² ÷ (α² s² + σ²), and J is α′ r + σ′ (1 − α r) ÷ σ. 0 where a step
/// begins at SolverRow's anchor (see sweep_coefficients).
double response_carry(const Schedule& schedule, int call) {
  // The deviation s. Drafts are off along the directions in which pictures
  // differ most, so s is large. 20 and 50 steps of `stale` of two parts, demo
  // model, bf16, relative RMSE from the sequential run, medians of 32 runs:
  // 0.024 and 0.010 with 8, 0.026 and 0.011 with 4, 0.030 and 0.012 with 1.
  // Infinity takes the output as the noise at the new latents: 0.024 and 0.023,
  // though with a longer warm-up and a tenth of the calls fresh.
  constexpr double kDeviation = 8.0;
  if (schedule.options().solver->begins_at_anchor) {
    return 0.0;
  }
  const NoiseLevel here = schedule.level(call);
  const NoiseLevel there = schedule.arrival(call + 1);
  const double data = here.alpha * kDeviation * kDeviation;
  const double response = data / (here.alpha * data + here.sigma * here.sigma);
  const double noise = 1.0 - here.alpha * response;
  return there.alpha * response +
         (noise == 0.0 ? 0.0 : there.sigma * noise / here.sigma);
}

}  // namespace

Tensor OpRun::tensor(const BoundTask& bound, std::size_t input) const {
  return kernels::borrow(
      ctx, read<Tensor>(queued, bound, bound.task.inputs.at(input)));
}

SolverState OpRun::far_state(const BoundTask& bound, Slot slot) const {
  return read<SolverState>(queued, bound, slot);
}

SolverState OpRun::state(const BoundTask& bound, Slot slot) const {
  SolverState state = far_state(bound, slot);
  for (Tensor* tensor : {&state.latents, &state.anchor, &state.slope}) {
    *tensor = kernels::borrow(ctx, *tensor);
  }
  for (Tensor& tensor : state.history) {
    tensor = kernels::borrow(ctx, tensor);
  }
  return state;
}

Tensor OpRun::latents(const BoundTask& bound, std::size_t input) const {
  const Slot slot = bound.task.inputs.at(input);
  return kernels::borrow(ctx, far_state(bound, slot).latents);
}

Boundary OpRun::boundary(const BoundTask& bound, std::size_t input) const {
  auto boundary = read<Boundary>(queued, bound, bound.task.inputs.at(input));
  for (NamedTensor& named : boundary) {
    ctx.keep(named.tensor);
    named.tensor = kernels::clone(ctx, named.tensor);
  }
  return boundary;
}

Boundary OpRun::cache(const BoundTask& bound, std::size_t input) const {
  auto cache = read<Boundary>(queued, bound, bound.task.inputs.at(input));
  for (NamedTensor& named : cache) {
    named.tensor = kernels::borrow(ctx, named.tensor);
  }
  return cache;
}

Tensor OpRun::new_output() const {
  return ctx.empty(
      with_channels(evaluator.latent_shape(), evaluator.out_channels()),
      DType::f32);
}

void OpRun::write_state(const BoundTask& bound, Slot slot, int point,
                        SolverState state) const {
  if (point == schedule.num_model_calls()) {
    state.latents = kernels::read_back(ctx, state.latents);
  }
  queued.write(bound, slot, std::move(state));
}

void OpRun::write_states(const BoundTask& bound, int first_point,
                         std::vector<SolverState> states) const {
  const Slots& slots = bound.task.outputs;
  const std::size_t first_slot = slots.size() - states.size();
  for (std::size_t i = 0; i < states.size(); ++i) {
    write_state(bound, slots.at(first_slot + i),
                first_point + static_cast<int>(i), std::move(states[i]));
  }
}

SolverState OpRun::step_from(const BoundTask& bound, SolverState state,
                             const Tensor& model_output, const Tensor& seen,
                             double carry) const {
  const Task& task = bound.task;
  const Tensor now = state.latents;
  if (!seen.empty()) {
    state.latents = seen;
  }
  SolverState next = step(ctx, schedule, task.from, task.to, state,
                          model_output, bound.sample_index, noise);
  if (!seen.empty()) {
    // In place: the step's latents are new and nobody else's.
    kernels::add_carry(ctx, next.latents, carry, now, seen, next.latents);
  }
  return next;
}

void OpRun::take_step(const BoundTask& bound, const Tensor& model_output,
                      const Tensor& seen) const {
  const std::optional<StepSlots> slots = step_of(bound.task);
  if (!slots) {
    return;
  }
  const SolverState before = state(bound, slots->state);
  SolverState next = step_from(bound, before, model_output, seen,
                               response_carry(schedule, bound.task.from));
  expect_finite(bound, seen.empty() ? before.latents : seen, next);
  write_state(bound, slots->next_state, bound.task.to, std::move(next));
}

std::vector<SolverState> OpRun::coast(const BoundTask& bound,
                                      const SeenCall& newest,
                                      const SeenCall& older, int from,
                                      SolverState state,
                                      std::size_t num_steps) const {
  const auto clean_of = [this](const SeenCall& seen) {
    return denoised(ctx, schedule, seen.call, seen.latents, seen.output);
  };
  const bool has_older = !older.latents.empty();
  const Tensor newest_clean = clean_of(newest);
  const Tensor older_clean = has_older ? clean_of(older) : Tensor();
  std::vector<SolverState> points;
  for (std::size_t i = 0; i < num_steps; ++i) {
    const int call = from + static_cast<int>(i);
    const double ahead = has_older ? static_cast<double>(call - newest.call) /
                                         (newest.call - older.call)
                                   : 0.0;
    const Tensor clean =
        weighted_sum(ctx, Memory::lasting,
                     {{1.0 + ahead, &newest_clean}, {-ahead, &older_clean}});
    state = step(
        ctx, schedule, call, call + 1, state,
        output_for(ctx, schedule, call, state.latents, clean, newest.output),
        bound.sample_index, noise);
    points.emplace_back().latents = state.latents;
  }
  return points;
}

void OpRun::expect_finite(const BoundTask& bound, const Tensor& latents,
                          const SolverState& next) const {
  queued.verdicts.push_back(
      {&bound,
       [run = *this, &bound, latents,
        finite = queued.readings->all_finite(next.latents)](
           std::span<const double> values) -> std::vector<double> {
         if (values[finite] == 0.0) {
           run.fail(bound, latents);
         }
         return {};
       }});
}

void OpRun::fail(const BoundTask& bound, const Tensor& latents) const {
  const int call = bound.task.from;
  std::string where;
  if (!latents.empty()) {
    try {
      where = evaluator.first_non_finite(
          ctx, {.sample_index = bound.sample_index,
                .timestep = schedule.timestep(call),
                .latents = scale_model_input(ctx, schedule, call, latents)});
    } catch (const std::bad_alloc&) {
      // As below.
    } catch (const Error& other) {
      // What runs a segment alone may not have the blocks to look in, or no
      // memory for it: the sample is at fault all the same. A device that fails
      // may have made the NaN.
      if (other.code() == Errc::interrupted ||
          other.code() == Errc::device_lost) {
        throw;
      }
    }
  }
  const std::string cause =
      where.empty() ? "" : "; the first NaN or infinity appears in " + where;
  throw Error(Errc::non_finite, "step",
              "the latents of sample " + std::to_string(bound.sample_index) +
                  " are not finite after step " + std::to_string(call + 1) +
                  " of " + std::to_string(schedule.num_model_calls()) + cause,
              "check the weights with `troupe inspect`, or use --dtype f32");
}

}  // namespace troupe::samplers
