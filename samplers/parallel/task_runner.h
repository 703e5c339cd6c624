#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/core/error.h"
#include "samplers/evaluator.h"
#include "samplers/parallel/method.h"
#include "samplers/parallel/slot_table.h"
#include "samplers/solver.h"

namespace troupe::samplers {

struct SweepInput;
struct QueuedTasks;

/// A task of one sample, with that sample's slots.
struct BoundTask {
  std::uint64_t sample_index = 0;
  Task task;
  SlotTable* slots = nullptr;
};

/// Does the arithmetic of tasks. Tasks handed over together that are of one
/// kind (evaluate, or one segment) go through the network as one forward pass.
/// A task without a forward pass may read the output of an earlier task of the
/// same call. Running a task again writes the same bytes into the same slots.
///
/// Slots may hold tensors of the host or of any device that ctx reaches: they
/// are brought to ctx's device, and what is made stays there, but for pixels
/// and the latents at the end of the schedule, which go to the host. On a
/// device work is only queued; what steps and sweeps must know of their latents
/// is read back once for all tasks handed over together, and while it is on its
/// way more tasks may be queued. `finish` writes the slots, so a filled slot
/// holds a complete value.
///
/// Slots in and out, by op:
///   evaluate  state → model output (, next state)
///   segment   state (segment 0) or boundary (, skips) → boundary, or model
///             output (last) (, skips)
///   combine   cond output, uncond output (, state) → model output (, next
///             state)
///   step      state, model output → state
///   sweep     state of point `from` as its round has made it, then as it was
///             before; state of point `to` as it was before; model output →
///             state of point `to`, then guesses for as many points as outputs
///             are left. The first point of a round has one state.
///   decode    state → pixels, as bytes
/// Thread: one ctx per thread; the runner itself may be shared.
class TaskRunner {
 public:
  TaskRunner(const Schedule& schedule, Evaluator& evaluator, NoiseSource& noise,
             const MethodOptions& options);

  /// Queues the tasks; on the CPU, computes them. `behind`, if any, may queue
  /// work that must be complete together with the tasks. Errors: those of the
  /// evaluator and of `behind`.
  [[nodiscard]] std::unique_ptr<QueuedTasks> queue(
      ExecContext& ctx, std::vector<BoundTask> tasks,
      const std::function<void(const QueuedTasks&)>& behind = {});
  /// Waits until the queued tasks are done; later tasks may have been queued
  /// meanwhile. Results in the order of the tasks. Errors: Errc::non_finite
  /// with sample, step and, where the evaluator can say it, block when a state
  /// is not finite; Errc::device_lost.
  [[nodiscard]] std::vector<TaskResult> finish(ExecContext& ctx,
                                               QueuedTasks& queued);

 private:
  void evaluate(ExecContext& ctx, std::span<const BoundTask* const> tasks,
                QueuedTasks& queued);
  void run_segment(ExecContext& ctx, std::span<const BoundTask* const> tasks,
                   QueuedTasks& queued);
  void combine(ExecContext& ctx, const BoundTask& bound, QueuedTasks& queued);
  void queue_step(ExecContext& ctx, const BoundTask& bound,
                  const Tensor& model_output, QueuedTasks& queued);
  void queue_sweep(ExecContext& ctx, const BoundTask& bound,
                   QueuedTasks& queued);
  void decode(ExecContext& ctx, const BoundTask& bound, QueuedTasks& queued);
  /// What the steps and sweeps say: scalars, or an error.
  void judge(ExecContext& ctx, QueuedTasks& queued,
             std::span<TaskResult> results);
  void write_state(ExecContext& ctx, const BoundTask& bound, Slot slot,
                   int point, SolverState state, QueuedTasks& queued);
  /// Adds to a sweep's error which evaluation it came from, and then its block.
  [[noreturn]] void name_output(ExecContext& ctx, const BoundTask& bound,
                                const SweepInput& input, const Error& error);
  [[noreturn]] void name_block(ExecContext& ctx, const BoundTask& bound,
                               int call, const Tensor& latents,
                               const Error& error);

  const Schedule& schedule_;
  Evaluator& evaluator_;
  NoiseSource& noise_;
  MethodOptions options_;
};

}  // namespace troupe::samplers
