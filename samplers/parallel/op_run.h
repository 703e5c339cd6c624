#pragma once

#include <string>

#include "samplers/parallel/task_runner.h"

namespace troupe::samplers {

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
  /// The solver step that the task takes. seen: the latents that the network
  /// saw; empty: those of the state. Of others the step is
  /// step(seen) + J · (state − seen), J `response_carry`; of the same
  /// bytes it is the sequential run's.
  void take_step(const BoundTask& bound, const Tensor& model_output,
                 const Tensor& seen = {}) const;
  /// The task fails unless what its step from `before` made is finite.
  void expect_finite(const BoundTask& bound, const SolverState& before,
                     const SolverState& next) const;
  /// Throws the error, with the first block of the network that makes a NaN or
  /// an infinity of these latents, if the evaluator can say it.
  [[noreturn]] void name_block(const BoundTask& bound, int call,
                               const Tensor& latents, const Error& error) const;
};

/// Errc::non_finite, naming the sample and the step that made the latents.
[[nodiscard]] Error non_finite_error(std::uint64_t sample_index, int call,
                                     const Schedule& schedule);

}  // namespace troupe::samplers
