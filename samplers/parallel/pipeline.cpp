#include <algorithm>
#include <utility>

#include "samplers/parallel/call_by_call.h"
#include "samplers/parallel/check_range.h"

namespace troupe::samplers {
namespace {

/// The network cut in segments, one worker each, all at age 0. One sample keeps
/// one worker busy; with as many samples in flight as segments all are.
class Pipeline final : public CallByCall {
 public:
  Pipeline(int num_calls, int num_segments)
      : CallByCall(MethodKind::pipeline, num_calls),
        num_segments_(num_segments) {}

 private:
  void begin_call() override { issue_segment(0, state()); }

  void advance(const Task& finished) override {
    const Slot slot = finished.outputs.front();
    if (finished.segment + 1 < num_segments_) {
      issue_segment(finished.segment + 1, slot);
    } else {
      issue_step(slot);
    }
  }

  void issue_segment(int segment, Slot input) {
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

  int num_segments_;
};

std::unique_ptr<Method> make_pipeline(const MethodOptions& options,
                                      const Schedule& schedule) {
  check_segments(options);
  return std::make_unique<Pipeline>(schedule.num_model_calls(),
                                    options.num_segments);
}

/// A worker may host several segments.
Turn pipeline_turn(const MethodOptions& options, const TurnShape& shape) {
  const double calls = shape.num_calls;
  const int hosted =
      (options.num_segments + shape.num_workers - 1) / shape.num_workers;
  return {.evaluations = calls,
          .busy = calls * std::min(hosted * shape.segment_share, 1.0),
          .latency = calls};
}

}  // namespace

extern constinit const MethodRow kPipeline{
    .name = "pipeline",
    .options = "segments",
    .make = make_pipeline,
    .parts = [](const MethodOptions& o) { return o.num_segments; },
    .useful_workers =
        [](const MethodOptions& o, std::uint64_t) {
          return static_cast<std::uint64_t>(o.num_segments);
        },
    .in_flight =
        [](int num_parts, int) {
          return InFlight{2 * num_parts, 2 * num_parts};
        },
    .turn = pipeline_turn,
    .most_tasks =
        [](const MethodOptions& o, int num_calls) {
          return (o.num_segments + 1.0) * num_calls;
        }};

}  // namespace troupe::samplers
