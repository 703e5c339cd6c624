#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/core/clock.h"
#include "kernels/core/device.h"
#include "kernels/core/error.h"
#include "kernels/core/tensor.h"
#include "kernels/core/value_channel.h"
#include "samplers/parallel/method.h"

namespace troupe::actors {

/// A troupe::Error as a value, fit for messages.
struct Failure {
  Errc code = Errc::internal;
  std::string place;
  std::string message;  ///< without the place
  std::string hint;
};

/// The failure that an exception in flight stands for; call inside `catch`.
[[nodiscard]] Failure current_failure();
/// The exception that a failure stands for.
[[nodiscard]] Error to_error(const Failure& failure);

/// One task of one sample.
struct SampleTask {
  std::uint64_t sample_index = 0;
  samplers::Task task;
  /// How often the sample has restarted: tasks of different runs never share a
  /// slot.
  std::uint32_t run = 0;
  /// Of this grant of the task. A task that is granted again has another.
  std::uint64_t grant = 0;
  bool alone = false;  ///< runs in a pass of its own
};

/// A value, and a process that holds it.
struct RemoteValue {
  ValueName name;
  int process = 0;

  friend bool operator==(const RemoteValue&, const RemoteValue&) = default;
};

/// Values of a run that no task reads any more.
struct FreedSlots {
  std::uint64_t sample_index = 0;
  std::uint32_t run = 0;
  samplers::Slots slots;
};

/// Tells a process to free these values. No grant to the process carried them.
struct FreeValues {
  int process = 0;
  std::vector<FreedSlots> frees;
};
/// Tells a process to forget the runs of a sample up to `last_run`; without it
/// all of them, since the sample has ended.
struct DropRuns {
  int process = 0;
  std::uint64_t sample_index = 0;
  std::optional<std::uint32_t> last_run;
  /// No worker has a task of them any more: workers need not hear of it.
  bool all_answered = false;
};
/// Permission to compute tasks, each as soon as its inputs are in the worker's
/// process. Only results with the same grant numbers and epoch count.
struct Grant {
  int worker = 0;
  std::uint32_t epoch = 0;  ///< the worker's incarnation
  std::vector<SampleTask> tasks;
  int max_rows = 1;  ///< of a forward pass, from now on
  /// The tasks' inputs that are not in the worker's process yet, each once, and
  /// who holds or will make them: that may be the worker's process itself.
  std::vector<RemoteValue> sources = {};
  /// Slots that the worker's process frees, whatever becomes of the tasks.
  std::vector<FreedSlots> frees = {};
};

/// Inputs of a granted task will come from these sources, not from those that
/// the grant, or a redirect before this one, has named. It changes nothing if
/// the task has all inputs, or is back.
struct Redirect {
  int worker = 0;
  std::uint32_t epoch = 0;
  std::uint64_t grant = 0;  ///< of the task
  std::vector<RemoteValue> sources;
};

/// Asks the worker to return these grants, if their tasks have not begun. A
/// GrantResult with TasksReturned names the grants that come back; the other
/// grants end with results. A second recall of a grant changes nothing.
struct Recall {
  int worker = 0;
  std::uint32_t epoch = 0;
  std::vector<std::uint64_t> grants;
};

/// What the coordinator tells the incarnation `epoch` of `worker`.
using WorkerMessage = std::variant<Grant, Redirect, Recall>;

/// One stretch of work on one worker: what a trace draws as a bar.
struct TraceSpan {
  int worker = 0;
  int process = 0;  ///< the worker's
  Device device;    ///< of that process
  samplers::Op op;
  std::uint64_t sample_index = 0;  ///< of the first row
  int rows = 1;                    ///< tasks that ran together
  int step = 0;                    ///< model-call index of the first row
  int segment = 0;
  TimePoint start;
  Duration duration{};
};

/// A value that a worker read, and its tensors' bytes.
struct ReadValue {
  ValueName name;
  std::uint64_t bytes = 0;

  friend bool operator==(const ReadValue&, const ReadValue&) = default;
};

/// What the result of a task says beside its values.
struct TaskScalars {
  samplers::Op op;
  std::uint64_t sample_index = 0;
  int step = 0;                 ///< model-call index
  std::vector<double> scalars;  ///< as the op's row says
};

/// A span, with the values that it made and read. A trace draws an arrow from
/// the span that made a value to a span that read it.
struct TracePass {
  TraceSpan span;
  std::vector<ValueName> made;
  /// Only values that were fetched from another process, or read out of another
  /// device's memory.
  std::vector<ReadValue> reads;
  /// Of its tasks whose results have some. A trace file lacks them.
  std::vector<TaskScalars> scalars = {};
};

/// A value that a process holds, and the memory that it lies in.
struct HeldValue {
  ValueName name;
  Device memory;
};

/// The tasks ran.
struct TasksDone {
  std::vector<samplers::TaskResult> results;  ///< in the order of the tasks
};
/// The pass ended with an error.
struct TasksFailed {
  Failure failure;
  /// With Errc::device_lost: the worker's own device works. Another device
  /// failed, whose memory the grant had to read.
  bool is_elsewhere = false;
};
/// No task ran: the holders of these inputs did not have them.
struct InputsGone {
  std::vector<RemoteValue> values;
};
/// No task ran: the worker returns the grants.
struct TasksReturned {};

/// What became of granted tasks that ran together, or were to.
struct GrantResult {
  std::vector<std::uint64_t> grants;  ///< of the tasks, in their order
  int worker = 0;
  std::uint32_t epoch = 0;
  std::variant<TasksDone, TasksFailed, InputsGone, TasksReturned> outcome;
  /// Values that the worker's process now holds: outputs, fetched inputs.
  std::vector<HeldValue> held;
  std::uint64_t ticks = 0;  ///< of the worker, when they were done
  TraceSpan span;           ///< what ran, and when
  /// Of a job that is traced: what the tasks made, and what of their inputs
  /// came from elsewhere (see TracePass).
  std::vector<ValueName> made;
  std::vector<ReadValue> reads;
};

/// An incarnation of a worker has begun.
struct WorkerUp {
  int worker = 0;
  std::uint32_t epoch = 0;
};

/// It has ended.
struct WorkerDown {
  int worker = 0;
  std::uint32_t epoch = 0;
  /// Set when it will not come up again: why.
  std::optional<Failure> gone = {};
};

/// A sign of life, and how much the worker has done since it came up.
struct WorkerBeat {
  int worker = 0;
  std::uint32_t epoch = 0;
  std::uint64_t ticks = 0;  ///< blocks run, counted once per row
  bool waits = false;       ///< has grants, and all of them wait for inputs
};

}  // namespace troupe::actors
