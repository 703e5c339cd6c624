#include <algorithm>
#include <utility>
#include <vector>

#include "samplers/parallel/call_by_call.h"
#include "samplers/parallel/check_range.h"

namespace troupe::samplers {
namespace {

CallParts call_of(const MethodOptions& options) {
  const int segments = num_segments(options);
  CallParts call{.tasks = segments + 1, .boundaries = segments - 1};
  for (int segment = 0; segment < segments; ++segment) {
    call.skips += keeps_skips(options, segment) ? 1 : 0;
  }
  return call;
}

/// The network cut in parts, one worker each, all at age 0. One sample keeps
/// one worker busy; as many samples in flight as parts keep all workers busy.
class Pipeline final : public CallByCall {
 public:
  Pipeline(int num_calls, const MethodOptions& options)
      : CallByCall(MethodKind::pipeline, num_calls, call_of(options)),
        options_(options) {}

 private:
  Slot add_call(const Task& call, Slot state) override {
    Slot boundary = state;
    std::vector<Slot> kept;  // the innermost is taken first
    for (int segment = 0; segment < num_segments(options_); ++segment) {
      Task task = call;
      task.op = Op::segment;
      task.segment = segment;
      task.part = part_of_segment(options_, segment);
      task.inputs = {boundary};
      if (takes_skips(options_, segment)) {
        task.inputs.push_back(kept.back());
        kept.pop_back();
      }
      if (keeps_skips(options_, segment)) {
        const Slots outputs = add_with_two(std::move(task));
        boundary = outputs.at(0);
        kept.push_back(outputs.at(1));
      } else {
        boundary = add(std::move(task));
      }
    }
    Task step = call;
    step.op = Op::step;
    step.inputs = {state, boundary};
    return add(std::move(step));
  }

  MethodOptions options_;
};

std::unique_ptr<Method> make_pipeline(const MethodOptions& options,
                                      const Schedule& schedule) {
  check_segments(options);
  return std::make_unique<Pipeline>(schedule.num_model_calls(), options);
}

/// A worker may host several parts.
Turn pipeline_turn(const MethodOptions& options, const TurnShape& shape) {
  const double calls = shape.num_calls;
  const int hosted =
      (options.num_segments + shape.num_workers - 1) / shape.num_workers;
  return {.evaluations = calls,
          .busy = calls * std::min(hosted * shape.part_share, 1.0),
          .latency = calls};
}

}  // namespace

extern constinit const MethodRow kPipeline{
    .name = "pipeline",
    .snapshot_format = 4,
    .options = "segments segment-speeds cut",
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
          return (num_segments(o) + 1.0) * num_calls;
        },
    .most_live =
        [](const MethodOptions& o, int num_calls, int max_open) {
          return most_live_of(call_of(o), num_calls, max_open);
        }};

}  // namespace troupe::samplers
