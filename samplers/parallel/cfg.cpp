#include <utility>

#include "samplers/parallel/plan.h"

namespace troupe::samplers {
namespace {

/// The two guidance branches of a model call on two workers (parts 0 and 1),
/// combined and stepped at home. Exact: rows of a forward are independent.
TaskList plan_cfg(const MethodOptions& /*options*/, int num_calls) {
  TaskList list;
  Slot state = kInitialSlot;
  for (int call = 0; call < num_calls; ++call) {
    const auto branch = [&](Branch one, int part) {
      Task task = task_of(Op::evaluate, call, call + 1, {state});
      task.branch = one;
      task.part = part;
      return list.add(std::move(task));
    };
    const Slot cond = branch(Branch::cond, 0);
    const Slot uncond = branch(Branch::uncond, 1);
    const Slots inputs = {cond, uncond, state};
    state = list.add(task_of(Op::combine, call, call + 1, inputs), 2).at(1);
    list.accept(state, call + 1);
  }
  return list;
}

}  // namespace

constexpr MethodRow kCfg{
    .name = "cfg",
    .snapshot_format = 5,
    .chosen_because =
        "fewer images than workers, so the two branches of "
        "guidance share them",
    .splits_guidance = true,
    .plan = plan_cfg,
    .parts = [](const MethodOptions&) { return 2; },
    .useful_workers = [](const MethodOptions&,
                         std::uint64_t samples) { return 2 * samples; }};
constinit const MethodKind MethodKind::cfg{kCfg};

}  // namespace troupe::samplers
