#include <utility>

#include "samplers/parallel/call_by_call.h"

namespace troupe::samplers {
namespace {

constexpr CallParts kPlainCall{.tasks = 1, .outputs = 1};

/// Evaluation and step, evaluation and step … on one worker: what every exact
/// method is compared with. The batch method is one of these per sample.
class Sequential final : public CallByCall {
 public:
  Sequential(MethodKind kind, int num_calls)
      : CallByCall(kind, num_calls, kPlainCall) {}

 private:
  Slot add_call(const Task& call, Slot state) override {
    Task task = call;
    task.op = Op::evaluate;
    task.inputs = {state};
    return add_with_step(std::move(task));
  }
};

std::unique_ptr<Method> make_sequential(const MethodOptions& options,
                                        const Schedule& schedule) {
  return std::make_unique<Sequential>(options.kind, schedule.num_model_calls());
}

Turn one_worker(const MethodOptions& /*options*/, const TurnShape& shape) {
  const double calls = shape.num_calls;
  return {.evaluations = calls, .busy = calls, .latency = calls};
}

double a_task_per_call(const MethodOptions& /*options*/, int num_calls) {
  return num_calls;
}

LiveValues most_live(const MethodOptions& /*options*/, int num_calls,
                     int max_open) {
  return most_live_of(kPlainCall, num_calls, max_open);
}

}  // namespace

extern constinit const MethodRow kSequential{
    .name = "sequential",
    .snapshot_format = 4,
    .chosen_because = "one worker, or one image without guidance",
    .make = make_sequential,
    .useful_workers = [](const MethodOptions&,
                         std::uint64_t) { return std::uint64_t{1}; },
    .most_rows = [](const MethodOptions&) { return 1; },
    .in_flight =
        [](int, int) {
          return InFlight{1, 1};
        },
    .turn = one_worker,
    .most_tasks = a_task_per_call,
    .most_live = most_live};

extern constinit const MethodRow kBatch{
    .name = "batch",
    .snapshot_format = 4,
    .chosen_because = "several images, so whole ones go to the workers",
    .make = make_sequential,
    .useful_workers = [](const MethodOptions&,
                         std::uint64_t samples) { return samples; },
    .in_flight =
        [](int, int rows_per_pass) {
          return InFlight{2 * rows_per_pass, rows_per_pass};
        },
    .turn = one_worker,
    .most_tasks = a_task_per_call,
    .most_live = most_live};

}  // namespace troupe::samplers
