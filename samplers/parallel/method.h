#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/inline_vector.h"
#include "samplers/evaluator.h"
#include "samplers/options.h"
#include "samplers/parallel/op_row.h"
#include "samplers/schedule.h"

namespace troupe::samplers {

/// A place for a tensor, solver state or boundary, numbered by the method. A
/// slot is written by one task only, never changed in place and never reused.
using Slot = std::uint32_t;
/// The few slots of a task.
using Slots = InlineVector<Slot, 4>;
/// Finite numbers that a method gives to a task.
using Coefficients = InlineVector<double, kMostCoefficients>;

/// Arithmetic is done by TaskRunner on the worker that holds the slots; methods
/// only move slot numbers, coefficients and scalars.
struct Task {
  std::uint64_t id = 0;       ///< unique within the method instance
  std::uint32_t version = 0;  ///< rises when the same id is issued again
  Op op = {};
  Branch branch = Branch::guided;
  int segment = 0;        ///< of Work::segment
  int part = 0;           ///< logical worker: 0 is the sample's home
  int from = 0;           ///< model-call index
  int to = 0;             ///< of a solver step: the next call
  int timestep_call = 0;  ///< whose timestep the network gets
  Slots inputs = {};
  Slots outputs = {};
  Coefficients coefficients = {};
  /// The state that it makes, if it makes one, is a point of the result's
  /// chain, which observers are shown. Later tasks may make the same point
  /// anew.
  bool is_on_chain = true;
  /// The state that it makes is an early result: what the method gives with
  /// fewer outputs or iterations.
  bool is_early_result = false;
};

/// The solver step that a task takes.
struct StepSlots {
  Slot state = 0;
  Slot model_output = 0;
  Slot next_state = 0;
  bool is_final = true;  ///< the state: no later task corrects it
};
/// Nothing for a task that takes no step. Errors: Errc::internal for a task
/// that is not `is_whole`.
[[nodiscard]] std::optional<StepSlots> step_of(const Task& task);
/// The slot of the state that a task makes, of point `Task::to`; nothing for a
/// task that makes none.
[[nodiscard]] std::optional<Slot> state_of(const Task& task);
/// The same, of a point of the chain.
[[nodiscard]] std::optional<Slot> point_of(const Task& task);
/// Whether a task has as many slots and coefficients as its op allows, and all
/// coefficients are finite.
[[nodiscard]] bool is_whole(const Task& task);
/// What stands in an output of the task.
[[nodiscard]] ValueKind output_kind(const Task& task, std::size_t place,
                                    int num_segments);
/// A task on the way from one call to another, with the timestep of the first.
[[nodiscard]] Task task_of(Op op, int from, int to, Slots inputs);
/// The task that makes pixels of a method's result. Its driver numbers it.
[[nodiscard]] Task decode_task(std::uint64_t id, Slot result, Slot pixels);

struct TaskResult {
  std::uint64_t id = 0;
  std::uint32_t version = 0;
  std::vector<double> scalars;  ///< as the op's row says
};

/// How many scalars the result of the task has.
[[nodiscard]] std::size_t num_scalars(const Task& task);
/// Whether the task left out blocks of the network, by its result's scalars.
[[nodiscard]] bool has_reused(const Task& task,
                              std::span<const double> scalars);

struct Progress {
  int accepted = 0;  ///< points of the chain that are final
  int total = 0;     ///< num_model_calls()
  /// Network evaluations whose results have arrived, or that a later result
  /// shows to have run; both guidance branches count as one, a segment as its
  /// share (rounded up).
  std::int64_t nfe = 0;
  std::int64_t rounds = 0;  ///< evaluations on the critical path
  /// Of the evaluations whose results have arrived: those that left out blocks
  /// of the network.
  std::int64_t reused = 0;
};

/// For Method::ready: no task is handed out before its inputs are made.
inline constexpr int kNothingAhead = 0;

/// A parallel method: a state machine for one sample without I/O, clock or
/// thread. Runs the same in production, in a plain loop and in a simulator.
class Method {
 public:
  virtual ~Method() = default;

  /// All tasks whose inputs are made (the tasks that write them were applied).
  /// Then, until `max_open` tasks are out, tasks *ahead*: their inputs will be
  /// made by tasks that were handed out before. Each task is handed out once.
  /// While an early result is missing, work far behind it waits: so
  /// MethodRow::most_live bounds what exists.
  [[nodiscard]] virtual std::vector<Task> ready(int max_open) = 0;
  /// Takes results in any order, also that of a task before those of the tasks
  /// that made its inputs. Returns the slots that have died: no task that is
  /// open or still to come reads them, and they are not the result. Nothing
  /// when the result was dropped: it was late, came twice, or was superseded.
  /// Errors: Errc::non_finite when a residual is NaN or infinite.
  virtual std::optional<Slots> apply(const TaskResult& result) = 0;
  /// The result is made. Tasks may still be open whose results are on their
  /// way.
  [[nodiscard]] virtual bool done() const = 0;
  [[nodiscard]] virtual Progress progress() const = 0;
  /// Progress::accepted, for those who ask with every result.
  [[nodiscard]] virtual int accepted() const { return progress().accepted; }
  /// The slot of the newest final state: x of the last accepted point, and of
  /// the finished sample once done() is true.
  [[nodiscard]] virtual Slot result_slot() const = 0;
  /// Points of the chain that tasks make, with the initial state.
  [[nodiscard]] virtual int num_points() const { return progress().total + 1; }
  /// The accepted points, each by the number of calls that lead to it.
  [[nodiscard]] virtual std::vector<int> points() const;
  /// Slots that tasks which were applied have made, and that have not died:
  /// what a snapshot is stored with.
  [[nodiscard]] virtual std::vector<Slot> live_slots() const = 0;
  /// Bytes from which `restore` goes on; tasks in flight are issued again.
  [[nodiscard]] virtual std::string snapshot() const = 0;
  /// For an instance made with the same options and schedule length, whose live
  /// slots are there. Results of tasks that were open in the snapshot are
  /// dropped. Those of tasks handed out after it are not told apart: the driver
  /// numbers its runs, and drops results of earlier ones.
  /// Errors: Errc::corrupt_file for bytes that are not a whole snapshot.
  virtual void restore(const std::string& bytes) = 0;
};

/// Slot 0 holds the initial state before the first `ready`.
inline constexpr Slot kInitialSlot = 0;

/// Errors: Errc::invalid_argument with the option's name (window, segments,
/// ages, warm-up larger than there is), Errc::unsupported for a solver that the
/// method cannot carry.
[[nodiscard]] std::unique_ptr<Method> make_method(const MethodOptions& options,
                                                  const Schedule& schedule);
/// Makes the method of each sample of a job; what samples share is made once.
/// The schedule must outlive the function. Thread: any. Errors: as above, also
/// of calls.
[[nodiscard]] std::function<std::unique_ptr<Method>()> method_maker(
    const MethodOptions& options, const Schedule& schedule);

}  // namespace troupe::samplers
