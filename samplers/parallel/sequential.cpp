#include "samplers/parallel/sequential.h"

#include <utility>

namespace troupe::samplers {

void Sequential::begin_call() {
  Task task = task_of(Op::evaluate);
  task.inputs = {state()};
  task.outputs = {book().new_slot()};
  book().add(std::move(task));
}

void Sequential::advance(const Task& finished) {
  issue_step(finished.outputs.front());
}

}  // namespace troupe::samplers
