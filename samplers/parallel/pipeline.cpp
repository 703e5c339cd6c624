#include <algorithm>
#include <utility>

#include "samplers/parallel/call_by_call.h"
#include "samplers/parallel/check_range.h"

namespace troupe::samplers {
namespace {

CallParts call_of(int num_segments) {
  return {
      .tasks = num_segments + 1, .outputs = 1, .boundaries = num_segments - 1};
}

/// The network cut in segments, one worker each, all at age 0. One sample keeps
/// one worker busy; with as many samples in flight as segments all are.
class Pipeline final : public CallByCall {
 public:
  Pipeline(int num_calls, int num_segments)
      : CallByCall(MethodKind::pipeline, num_calls, call_of(num_segments)),
        num_segments_(num_segments) {}

 private:
  Slot add_call(const Task& call, Slot state) override {
    Slot boundary = state;
    for (int segment = 0; segment < num_segments_; ++segment) {
      Task task = call;
      task.op = Op::segment;
      task.segment = segment;
      task.part = segment;
      task.inputs = {boundary};
      boundary = add(std::move(task));
    }
    Task step = call;
    step.op = Op::step;
    step.inputs = {state, boundary};
    return add(std::move(step));
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
    .snapshot_format = 2,
    .options = "segments segment-speeds",
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
        },
    .most_live =
        [](const MethodOptions& o, int num_calls, int max_open) {
          return most_live_of(call_of(o.num_segments), num_calls, max_open);
        }};

}  // namespace troupe::samplers
