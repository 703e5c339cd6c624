#pragma once

#include <string>
#include <vector>

#include "samplers/parallel/method.h"
#include "samplers/parallel/task_book.h"

namespace troupe::samplers {

/// What one model call adds to a sample's tasks and values, beside a state.
struct CallParts {
  int tasks = 1;
  int outputs = 1;
  int boundaries = 0;
  int skips = 0;
};
/// MethodRow::most_live of a CallByCall.
[[nodiscard]] LiveValues most_live_of(const CallParts& call, int num_calls,
                                      int max_open);

/// The exact methods: one model call after the other, each followed by its
/// solver step. The number of calls alone decides which tasks there are, so any
/// number of them can be issued ahead, but not behind a call whose results are
/// late: from the oldest open task on there are only as many calls as
/// `max_open` tasks take, and one more. Subclasses say which tasks make up one
/// model call.
class CallByCall : public BookedMethod {
 public:
  CallByCall(MethodKind kind, int num_calls, const CallParts& call)
      : kind_(kind), num_calls_(num_calls), parts_(call) {}

  [[nodiscard]] std::vector<Task> ready(int max_open) final;
  [[nodiscard]] bool done() const final { return call_ == num_calls_; }
  [[nodiscard]] Progress progress() const final;
  [[nodiscard]] Slot result_slot() const final { return state_; }
  [[nodiscard]] std::string snapshot() const final;
  void restore(const std::string& bytes) final;

 protected:
  /// Adds the tasks of one model call: `call` has its numbers, and `state` is
  /// the slot that it starts from. Returns the slot of the next state, which
  /// alone is read by later calls.
  virtual Slot add_call(const Task& call, Slot state) = 0;

  /// Gives the task one output and adds it. Returns the output.
  Slot add(Task task);
  /// The same with two.
  Slots add_with_two(Task task);
  /// Lets an evaluation or a combination end with the solver step. Returns the
  /// slot of the next state.
  Slot add_with_step(Task task);

 private:
  void advance(const Task& done, const std::vector<double>& scalars) final;
  void issue_call();
  /// Calls between the oldest one with an open task and the next to be issued.
  [[nodiscard]] int num_under_way() const;

  MethodKind kind_;
  int num_calls_;
  CallParts parts_;
  int call_ = 0;  ///< calls whose step was applied
  Slot state_ = kInitialSlot;
  int issued_calls_ = 0;
  Slot issued_state_ = kInitialSlot;  ///< after them
};

}  // namespace troupe::samplers
