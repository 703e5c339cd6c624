#include "samplers/parallel/cfg.h"

#include <utility>

namespace troupe::samplers {

void Cfg::begin_call() {
  for (const Branch branch : {Branch::cond, Branch::uncond}) {
    Task task = task_of(Op::evaluate);
    task.branch = branch;
    task.part = branch == Branch::cond ? 0 : 1;
    task.inputs = {state()};
    task.outputs = {book().new_slot()};
    book().add(std::move(task));
  }
}

void Cfg::advance(const Task& finished) {
  if (!book().idle()) {
    return;  // the other branch runs
  }
  // Cond took the lower of two neighbouring slots.
  const Slot slot = finished.outputs.front();
  const Slot cond = finished.branch == Branch::cond ? slot : slot - 1;
  Task task = task_of(Op::combine);
  task.inputs = {cond, cond + 1, state()};
  task.frees = {cond, cond + 1};
  go_on_to_step(task);
  book().add(std::move(task));
}

}  // namespace troupe::samplers
