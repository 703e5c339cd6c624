#include <utility>
#include <vector>

#include "samplers/parallel/check_range.h"
#include "samplers/parallel/plan.h"

namespace troupe::samplers {
namespace {

/// The network cut in parts, one worker each, all at age 0. One sample keeps
/// one worker busy; as many samples in flight as parts keep all workers busy.
TaskList plan_pipeline(const MethodOptions& options, int num_calls) {
  check_segments(options);
  TaskList list;
  Slot state = kInitialSlot;
  for (int call = 0; call < num_calls; ++call) {
    Slot boundary = state;
    std::vector<Slot> kept;  // the innermost is taken first
    for (int segment = 0; segment < num_segments(options); ++segment) {
      Task task = task_of(Op::segment, call, call + 1, {boundary});
      task.segment = segment;
      task.part = part_of_segment(options, segment);
      if (takes_skips(options, segment)) {
        task.inputs.push_back(kept.back());
        kept.pop_back();
      }
      const bool keeps = keeps_skips(options, segment);
      const Slots outputs = list.add(std::move(task), keeps ? 2 : 1);
      boundary = outputs.at(0);
      if (keeps) {
        kept.push_back(outputs.at(1));
      }
    }
    state =
        list.add(task_of(Op::step, call, call + 1, {state, boundary})).at(0);
    list.accept(state, call + 1);
  }
  return list;
}

}  // namespace

extern constinit const MethodRow kPipeline{
    .name = "pipeline",
    .snapshot_format = 5,
    .options = "segments segment-speeds cut",
    .plan = plan_pipeline,
    .parts = [](const MethodOptions& o) { return o.num_segments; },
    .useful_workers =
        [](const MethodOptions& o, std::uint64_t) {
          return static_cast<std::uint64_t>(o.num_segments);
        },
    .in_flight =
        [](int num_parts, int) {
          return InFlight{2 * num_parts, 2 * num_parts};
        }};

}  // namespace troupe::samplers
