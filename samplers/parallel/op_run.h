#pragma once

#include <cstddef>
#include <vector>

#include "samplers/parallel/task_runner.h"

namespace troupe::samplers {

/// An evaluation of the network that drafts follow from.
struct SeenCall {
  int call = 0;
  Tensor latents;  ///< that the network saw; empty: there is none
  Tensor output;
};

/// What an op's `run` works with (op_row.h), and what several ops do. It is a
/// handle: copies mean the same tasks, and live no longer than those and their
/// TaskRunner. Thread: that of `ctx`.
struct OpRun {
  ExecContext& ctx;
  const Schedule& schedule;
  Evaluator& evaluator;
  NoiseSource& noise;
  const MethodOptions& options;
  QueuedTasks& queued;

  // What a task reads, on ctx's device: the value of a slot, or what a task
  // before it is to write there. Errors: Errc::internal for an empty slot, or
  // another kind of value.

  [[nodiscard]] Tensor tensor(const BoundTask& bound, std::size_t input) const;
  [[nodiscard]] SolverState state(const BoundTask& bound, Slot slot) const;
  /// A state in the memory that holds it: the host or any device.
  [[nodiscard]] SolverState far_state(const BoundTask& bound, Slot slot) const;
  /// Of a state: all that a forward pass wants.
  [[nodiscard]] Tensor latents(const BoundTask& bound, std::size_t input) const;
  /// A copy: a network works in place on what crosses a cut, and the slot must
  /// keep its bytes.
  [[nodiscard]] Boundary boundary(const BoundTask& bound,
                                  std::size_t input) const;
  /// What nobody changes.
  [[nodiscard]] Boundary cache(const BoundTask& bound, std::size_t input) const;

  /// For an output of the network.
  [[nodiscard]] Tensor new_output() const;
  /// point: model calls that led to the state.
  void write_state(const BoundTask& bound, Slot slot, int point,
                   SolverState state) const;
  /// Points from that one on, into the task's last outputs.
  void write_states(const BoundTask& bound, int first_point,
                    std::vector<SolverState> states) const;
  /// The solver step of the task from `state`. seen: the latents that the
  /// network saw; empty: they are the state's. Where they differ from the
  /// state's it is step(seen) + carry · (state − seen), the difference formed
  /// first.
  [[nodiscard]] SolverState step_from(const BoundTask& bound, SolverState state,
                                      const Tensor& model_output,
                                      const Tensor& seen, double carry) const;
  /// The same from the task's state, with `response_carry`, and writes it. Of
  /// latents of the same bytes it is the sequential run's. Does nothing for a
  /// task that takes no step.
  void take_step(const BoundTask& bound, const Tensor& model_output,
                 const Tensor& seen = {}) const;
  /// Drafts: goes on from point `from` by so many of the solver's own steps,
  /// with their own noise, as if clean samples lay on the line through those of
  /// the two evaluations, or stayed as in the newest one if there is no other.
  /// Clean samples, since a network that is off by δ sees noise that is off by
  /// δ/σ, and a draft made of it would be off by more each time. Returns the
  /// points in their order, without histories.
  [[nodiscard]] std::vector<SolverState> coast(const BoundTask& bound,
                                               const SeenCall& newest,
                                               const SeenCall& older, int from,
                                               SolverState state,
                                               std::size_t num_steps) const;
  /// The task fails unless what its step made of `latents` is finite.
  void expect_finite(const BoundTask& bound, const Tensor& latents,
                     const SolverState& next) const;
  /// What a task made of such latents is not finite: throws Errc::non_finite,
  /// naming sample, step and, if the evaluator can say it, the first block of
  /// the network that makes a NaN or an infinity of them. Empty: no block.
  [[noreturn]] void fail(const BoundTask& bound, const Tensor& latents) const;
};

/// Coefficients of the sweep that leads on from a call: J, by the policy of
/// MethodOptions::carry, and the scale of its residual, by the accept rule
/// (README.md). J is 0 for call 0, where every round has the same state, and
/// for Carry::deviation where a step begins at SolverRow's anchor, which the
/// sweep has corrected already: with 1 no change of UniPC's latents ever fades.
[[nodiscard]] Coefficients sweep_coefficients(const MethodOptions& options,
                                              const Schedule& schedule,
                                              int call);

/// What a change at a point is compared with under Accept::settled:
/// Schedule::residual_scale, but at least a tenth of the deviation √(α² + σ²)
/// of the latents. What a step makes of a change differs from J times it by
/// about the share of the noise that the step removes. That share is small
/// where much noise is left, and there the scale is large, larger than what a
/// network's rounding moves: ε in bf16 differs by 0.0035 after any change of
/// its input, which over √8 steps is 0.005, and the scale is 0.57. The last
/// scales of a run fall towards 0, faster than what a change does there. Always
/// > 0. 1 ≤ point ≤ num_model_calls().
[[nodiscard]] double settled_scale(const Schedule& schedule, int point);

}  // namespace troupe::samplers
