#include "samplers/parallel/call_by_call.h"

#include <algorithm>
#include <utility>

namespace troupe::samplers {
namespace {

/// Calls that can have open tasks at once.
int most_under_way(int tasks_per_call, int max_open) {
  return (std::max(max_open, 1) - 1) / tasks_per_call + 2;
}

}  // namespace

LiveValues most_live_of(const CallParts& call, int num_calls, int max_open) {
  const int calls = std::min(most_under_way(call.tasks, max_open), num_calls);
  return {.states = calls + 1,
          .outputs = calls * call.outputs,
          .boundaries = calls * call.boundaries,
          .skips = calls * call.skips};
}

std::vector<Task> CallByCall::ready(int max_open) {
  while (issued_calls_ < num_calls_ &&
         (book_.num_open() < max_open || book_.is_made(issued_state_)) &&
         num_under_way() < most_under_way(parts_.tasks, max_open)) {
    issue_call();
  }
  return book_.take(max_open);
}

int CallByCall::num_under_way() const {
  const Task* const oldest = book_.oldest();
  return oldest == nullptr ? 0 : issued_calls_ - oldest->from;
}

void CallByCall::issue_call() {
  const Task call{.from = issued_calls_,
                  .to = issued_calls_ + 1,
                  .timestep_call = issued_calls_};
  const Slot state = issued_state_;
  Slot inner = book_.next_slot();
  issued_state_ = add_call(call, state);
  ++issued_calls_;
  book_.release(state);
  for (; inner < book_.next_slot(); ++inner) {
    if (inner != issued_state_) {
      book_.release(inner);
    }
  }
}

Slot CallByCall::add(Task task) {
  const Slot output = book_.new_slot();
  task.outputs = {output};
  book_.add(std::move(task));
  return output;
}

Slots CallByCall::add_with_two(Task task) {
  const Slot first = book_.new_slot();
  const Slots outputs = {first, book_.new_slot()};
  task.outputs = outputs;
  book_.add(std::move(task));
  return outputs;
}

Slot CallByCall::add_with_step(Task task) {
  return add_with_two(std::move(task)).at(1);
}

void CallByCall::advance(const Task& done,
                         const std::vector<double>& /*scalars*/) {
  const auto step = step_of(done);
  if (step && done.to > call_) {
    call_ = done.to;
    state_ = step->next_state;
  }
}

Progress CallByCall::progress() const {
  return {
      .accepted = call_, .total = num_calls_, .nfe = call_, .rounds = call_};
}

std::string CallByCall::snapshot() const {
  ByteWriter out(kind_, {num_calls_, parts_.tasks, parts_.skips});
  out.number(call_);
  out.number(state_);
  out.number(issued_calls_);
  out.number(issued_state_);
  book_.save(out);
  return out.take();
}

void CallByCall::restore(const std::string& bytes) {
  ByteReader in(bytes, kind_, {num_calls_, parts_.tasks, parts_.skips});
  in.number(call_, num_calls_);
  in.number(state_);
  in.number(issued_calls_, num_calls_);
  in.number(issued_state_);
  book_.load(in);
  in.expect_end();
}

}  // namespace troupe::samplers
