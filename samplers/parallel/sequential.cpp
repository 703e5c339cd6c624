#include "samplers/parallel/sequential.h"

#include <utility>

namespace troupe::samplers {

void Sequential::begin_call() {
  Task task = task_of(Op::evaluate);
  task.inputs = {state()};
  go_on_to_step(task);
  book().add(std::move(task));
}

}  // namespace troupe::samplers
