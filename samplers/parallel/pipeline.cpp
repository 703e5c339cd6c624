#include "samplers/parallel/pipeline.h"

#include <utility>

namespace troupe::samplers {

void Pipeline::advance(const Task& finished) {
  const Slot slot = finished.outputs.front();
  if (finished.segment + 1 < num_segments_) {
    issue_segment(finished.segment + 1, slot);
  } else {
    issue_step(slot);
  }
}

void Pipeline::issue_segment(int segment, Slot input) {
  Task task = task_of(Op::segment);
  task.segment = segment;
  task.part = segment;
  task.inputs = {input};
  task.outputs = {book().new_slot()};
  if (segment > 0) {
    task.frees = {input};
  }
  book().add(std::move(task));
}

}  // namespace troupe::samplers
