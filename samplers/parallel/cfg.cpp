#include <utility>

#include "samplers/parallel/call_by_call.h"

namespace troupe::samplers {
namespace {

constexpr CallParts kCfgCall{.tasks = 3, .outputs = 3};

/// The two guidance branches of a model call on two workers (parts 0 and 1),
/// combined and stepped at home. Exact: rows of a forward are independent.
class Cfg final : public CallByCall {
 public:
  explicit Cfg(int num_calls)
      : CallByCall(MethodKind::cfg, num_calls, kCfgCall) {}

 private:
  Slot add_call(const Task& call, Slot state) override {
    Task combine = call;
    combine.op = Op::combine;
    for (const Branch branch : {Branch::cond, Branch::uncond}) {
      Task task = call;
      task.op = Op::evaluate;
      task.branch = branch;
      task.part = branch == Branch::cond ? 0 : 1;
      task.inputs = {state};
      combine.inputs.push_back(add(std::move(task)));
    }
    combine.inputs.push_back(state);
    return add_with_step(std::move(combine));
  }
};

}  // namespace

extern constinit const MethodRow kCfg{
    .name = "cfg",
    .snapshot_format = 4,
    .chosen_because =
        "fewer images than workers, so the two branches of "
        "guidance share them",
    .splits_guidance = true,
    .make = [](const MethodOptions&,
               const Schedule& schedule) -> std::unique_ptr<Method> {
      return std::make_unique<Cfg>(schedule.num_model_calls());
    },
    .parts = [](const MethodOptions&) { return 2; },
    .useful_workers = [](const MethodOptions&,
                         std::uint64_t samples) { return 2 * samples; },
    .turn =
        [](const MethodOptions&, const TurnShape& shape) {
          const double share =
              static_cast<double>(shape.num_calls) / shape.num_workers;
          return Turn{.evaluations = static_cast<double>(shape.num_calls),
                      .busy = share,
                      .latency = share};
        },
    // Two branches, and their combination.
    .most_tasks = [](const MethodOptions&,
                     int num_calls) { return 3.0 * num_calls; },
    .most_live =
        [](const MethodOptions&, int num_calls, int max_open) {
          return most_live_of(kCfgCall, num_calls, max_open);
        }};

}  // namespace troupe::samplers
