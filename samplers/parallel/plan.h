#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "samplers/parallel/method.h"

namespace troupe::samplers {

/// The tasks of one sample, as a planner returns them. A task stands behind the
/// tasks that make its inputs. The plan leaves out tasks that the result does
/// not need.
class TaskList {
 public:
  /// Adds a task, which gets so many new output slots, and returns these.
  /// Errors: Errc::unsupported where a sample has more tasks than fit.
  Slots add(Task task, int num_outputs);
  /// The same of a task with one output.
  Slot add(Task task) { return add(std::move(task), 1).at(0); }
  /// The slot holds the state of a point of the chain, behind those of earlier
  /// calls, which no later task corrects. The last one is the result.
  /// point: model calls that led to it.
  void accept(Slot state, int point) { points_.push_back({state, point}); }
  /// The slot holds an early result (Task::is_early_result): the plan keeps the
  /// tasks that it needs.
  void show(Slot state) { early_results_.push_back(state); }

 private:
  friend class Plan;
  std::vector<Task> tasks_;
  struct Point {
    Slot state = 0;
    int calls = 0;
  };
  std::vector<Point> points_;
  std::vector<Slot> early_results_;
  Slot next_slot_ = kInitialSlot + 1;
};

/// A method whose tasks are known beforehand: a task list and what follows from
/// it. Immutable; the samples of a job share it.
class Plan {
 public:
  /// Asks the planner of the method's row.
  /// Errors: as MethodRow::plan and TaskList::add.
  Plan(const MethodOptions& options, int num_calls);

  [[nodiscard]] MethodKind kind() const { return options_.kind; }
  [[nodiscard]] int size() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] const Task& task(int index) const {
    return list_.tasks_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] std::size_t num_slots() const { return makers_.size(); }
  /// The task that makes the slot; kNoTask: it holds the initial state.
  [[nodiscard]] int maker_of(Slot slot) const { return makers_[slot]; }
  /// The tasks that read the slot, as often as they do.
  [[nodiscard]] std::span<const int> readers_of(Slot slot) const {
    return readers_[slot];
  }
  /// Points that were accepted, in order.
  [[nodiscard]] int num_points() const {
    return static_cast<int>(list_.points_.size());
  }
  [[nodiscard]] int num_early_results() const {
    return static_cast<int>(list_.early_results_.size());
  }
  [[nodiscard]] Slot slot_of_point(int point) const {
    return list_.points_[static_cast<std::size_t>(point)].state;
  }
  /// Model calls that led to the first so many points.
  [[nodiscard]] int calls_of(int points) const {
    return points == 0
               ? 0
               : list_.points_[static_cast<std::size_t>(points) - 1].calls;
  }

  static constexpr int kNoTask = -1;
  struct Node {
    /// The point that the task makes, from 0 on; −1: none.
    int point = -1;
    /// The newest point that the task needs, −1: the initial state; or the
    /// round before its own.
    int after = -1;
    /// The oldest point that needs the task; or its round.
    int needed_by = 0;
    /// Network passes that must happen in sequence until the task is done, in
    /// segments: a pass reads what another made, or is of the same segment.
    int depth = 0;
    /// What the task adds to the number of evaluations, times `units()`.
    int units = 0;
  };
  [[nodiscard]] const Node& node(int index) const {
    return nodes_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] std::int64_t units() const { return 2 * num_segments_; }
  [[nodiscard]] int num_segments() const { return num_segments_; }

  /// Tasks stand in an order of steps, and none is handed out far ahead of the
  /// oldest step that is not done. Where each task belongs to a worker, steps
  /// are points; where tasks spread, rounds: what can be evaluated at once.
  [[nodiscard]] int num_steps() const { return num_steps_; }
  /// How many steps a task may be ahead of the newest step whose tasks are all
  /// done: as many as `max_open` tasks take, and at least one; one where tasks
  /// spread.
  [[nodiscard]] int steps_ahead(int max_open) const;

  // What MethodRow says of a method without a plan.
  [[nodiscard]] LiveValues most_live(int max_open) const;
  [[nodiscard]] Turn turn(const TurnShape& shape) const;

 private:
  void drop_unneeded();
  void sort_by_rounds();
  void connect();
  [[nodiscard]] double cost_of(int index, const TurnShape& shape) const;

  MethodOptions options_;
  TaskList list_;  // the planner checks the options
  int num_segments_;
  int num_steps_ = 0;
  std::vector<Node> nodes_;
  std::vector<int> makers_;                    ///< by slot
  std::vector<InlineVector<int, 4>> readers_;  ///< likewise
};

/// A sample of a planned method. It is done when the result and all early
/// results are made. If a result is late, tasks far behind it wait: a task that
/// needs a step is handed out when all that this step needed is done, except
/// for Plan::steps_ahead.
class PlannedMethod final : public Method {
 public:
  explicit PlannedMethod(std::shared_ptr<const Plan> plan);

  [[nodiscard]] std::vector<Task> ready(int max_open) override;
  std::optional<Slots> apply(const TaskResult& result) override;
  [[nodiscard]] bool done() const override {
    return points_ == plan_->num_points() &&
           early_results_ == plan_->num_early_results();
  }
  [[nodiscard]] Progress progress() const override;
  [[nodiscard]] int accepted() const override {
    return plan_->calls_of(points_);
  }
  [[nodiscard]] Slot result_slot() const override { return result_; }
  [[nodiscard]] int num_points() const override {
    return plan_->num_points() + 1;
  }
  [[nodiscard]] std::vector<int> points() const override;
  [[nodiscard]] std::vector<Slot> live_slots() const override;
  [[nodiscard]] std::string snapshot() const override;
  void restore(const std::string& bytes) override;

 private:
  enum class State : std::uint8_t { waiting, out, done };
  struct TaskStatus {
    int inputs_missing = 0;
    State state = State::waiting;
    bool has_run = false;  ///< it is done, or a task that needs it has run
  };
  struct SlotStatus {
    int readers_left = 0;  ///< that are not done
    bool is_live = false;  ///< made, and not dead
  };

  [[nodiscard]] TaskStatus& at(int task) {
    return tasks_[static_cast<std::size_t>(task)];
  }
  void finish(int index);
  void note_run(int index);
  void bury_if_dead(Slot slot, Slots& dead);

  std::shared_ptr<const Plan> plan_;
  std::vector<TaskStatus> tasks_;
  std::vector<SlotStatus> slots_;
  std::vector<int> missing_;    ///< tasks that are not done, by `needed_by`
  std::vector<int> startable_;  ///< with complete inputs; some may be out
  int next_ahead_ = 0;          ///< all tasks before it were handed out
  int num_out_ = 0;
  int complete_ = -1;      ///< all that steps up to it need is done
  int points_ = 0;         ///< of the plan, up to the newest that is made
  int early_results_ = 0;  ///< that are made
  Slot result_ = kInitialSlot;
  std::int64_t units_run_ = 0;
  std::int64_t reused_ = 0;  ///< Progress::reused
  int depth_ = 0;
  std::uint32_t version_ = 0;  ///< of tasks that are handed out
};

}  // namespace troupe::samplers
