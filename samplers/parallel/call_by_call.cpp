#include "samplers/parallel/call_by_call.h"

#include <utility>

namespace troupe::samplers {

std::vector<Task> CallByCall::ready() {
  if (book_.idle() && !done()) {
    begin_call();
  }
  return book_.take();
}

bool CallByCall::apply(const TaskResult& result) {
  const auto finished = book_.finish(result);
  if (!finished) {
    return false;
  }
  if (const auto step = step_of(*finished)) {
    state_ = step->next_state;
    ++call_;
  } else {
    advance(*finished);
  }
  return true;
}

Progress CallByCall::progress() const {
  return {
      .accepted = call_, .total = num_calls_, .nfe = call_, .rounds = call_};
}

Task CallByCall::task_of(Op op) const {
  return {.op = op, .from = call_, .to = call_ + 1, .timestep_call = call_};
}

void CallByCall::issue_step(Slot model_output) {
  Task task = task_of(Op::step);
  task.inputs = {state_, model_output};
  task.outputs = {book_.new_slot()};
  task.frees = task.inputs;
  book_.add(std::move(task));
}

void CallByCall::go_on_to_step(Task& task) {
  const Slot output = book_.new_slot();
  task.outputs = {output, book_.new_slot()};
  task.frees.insert(task.frees.end(), {state_, output});
}

std::string CallByCall::snapshot() const {
  ByteWriter out(kind_, {num_calls_});
  out.number(call_);
  out.number(state_);
  book_.save(out);
  return out.take();
}

void CallByCall::restore(const std::string& bytes) {
  ByteReader in(bytes, kind_, {num_calls_});
  in.number(call_, num_calls_);
  in.number(state_);
  book_.load(in);
  in.expect_end();
}

}  // namespace troupe::samplers
