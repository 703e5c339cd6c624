#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/inline_vector.h"
#include "samplers/evaluator.h"
#include "samplers/options.h"
#include "samplers/schedule.h"

namespace troupe::samplers {

/// What a task computes. Arithmetic is done by TaskRunner on the worker that
/// holds the slots; methods only move slot numbers and scalars.
enum class Op : std::uint8_t {
  evaluate,  ///< state slot → model output slot (one branch or both), and with
             ///< a second output the next state: no wait between the two
  segment,  ///< part of an evaluation: boundary in, boundary or output out;
            ///< in an onion also skips out, or skips in
  combine,  ///< two branch outputs → guided output, and with a state as
            ///< third input the next state
  step,     ///< state + model output → next state
  sweep,    ///< one Picard update of a point; scalars: its residual
  decode    ///< final state → pixels
};

/// A place for a tensor, solver state or boundary, numbered by the method. A
/// slot is written by one task only, never changed in place and never reused.
using Slot = std::uint32_t;
/// The few slots of a task.
using Slots = InlineVector<Slot, 4>;

struct Task {
  std::uint64_t id = 0;       ///< unique within the method instance
  std::uint32_t version = 0;  ///< rises when the same id is issued again
  Op op = Op::evaluate;
  Branch branch = Branch::guided;
  int segment = 0;        ///< op segment
  int part = 0;           ///< logical worker: 0 is the sample's home
  int from = 0;           ///< model-call index
  int to = 0;             ///< step, sweep: next call
  int timestep_call = 0;  ///< whose timestep the network gets
  Slots inputs = {};
  Slots outputs = {};
};

/// The solver step that a task ends with: a step, or an evaluation or a
/// combination that goes on to it.
struct StepSlots {
  Slot state = 0;
  Slot model_output = 0;
  Slot next_state = 0;
};
[[nodiscard]] std::optional<StepSlots> step_of(const Task& task);

/// Scalars of a sweep, for the value it gave the next point: rms(new − old) ÷
/// the accept rule's scale, and 1 if every byte stayed the same. Other tasks
/// have none.
struct TaskResult {
  std::uint64_t id = 0;
  std::uint32_t version = 0;
  std::vector<double> scalars;
};

/// How many scalars the result of such a task has.
[[nodiscard]] constexpr std::size_t num_scalars(Op op) {
  return op == Op::sweep ? 2 : 0;
}

struct Progress {
  int accepted = 0;  ///< points of the chain that are final
  int total = 0;     ///< num_model_calls()
  /// Network evaluations whose results have arrived, or that a later result
  /// shows to have run; both guidance branches count as one, a segment as its
  /// share (rounded up).
  std::int64_t nfe = 0;
  std::int64_t rounds = 0;  ///< evaluations on the critical path
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

}  // namespace troupe::samplers
