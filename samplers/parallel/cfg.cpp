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
  const Slot slot = finished.outputs.front();
  if (finished.op == Op::combine) {
    issue_step(slot);
  } else if (book().idle()) {  // both branches are done
    // Cond took the lower of two neighbouring slots.
    const Slot cond = finished.branch == Branch::cond ? slot : slot - 1;
    Task task = task_of(Op::combine);
    task.inputs = {cond, cond + 1};
    task.outputs = {book().new_slot()};
    task.frees = task.inputs;
    book().add(std::move(task));
  }
}

}  // namespace troupe::samplers
