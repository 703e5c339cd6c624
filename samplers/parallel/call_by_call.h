#pragma once

#include <string>
#include <vector>

#include "samplers/parallel/method.h"
#include "samplers/parallel/task_book.h"

namespace troupe::samplers {

/// The exact methods: one model call after the other, each followed by its
/// solver step. Subclasses say which tasks make up one model call.
class CallByCall : public Method {
 public:
  CallByCall(MethodKind kind, int num_calls)
      : kind_(kind), num_calls_(num_calls) {}

  [[nodiscard]] std::vector<Task> ready() final;
  bool apply(const TaskResult& result) final;
  [[nodiscard]] bool done() const final { return call_ == num_calls_; }
  [[nodiscard]] Progress progress() const final;
  [[nodiscard]] Slot result_slot() const final { return state_; }
  [[nodiscard]] std::string snapshot() const final;
  void restore(const std::string& bytes) final;

 protected:
  /// Issues the first tasks of the model call.
  virtual void begin_call() = 0;
  /// A task of the model call that has not ended with the step is done: issues
  /// what it made possible.
  virtual void advance(const Task& /*finished*/) {}

  /// A task of the present call, without slots.
  [[nodiscard]] Task task_of(Op op) const;
  void issue_step(Slot model_output);
  /// Lets an evaluation or a combination end with the solver step: gives it the
  /// outputs, and frees what nobody reads then.
  void go_on_to_step(Task& task);
  [[nodiscard]] TaskBook& book() { return book_; }
  [[nodiscard]] Slot state() const { return state_; }

 private:
  MethodKind kind_;
  int num_calls_;
  int call_ = 0;
  Slot state_ = kInitialSlot;
  TaskBook book_;
};

}  // namespace troupe::samplers
