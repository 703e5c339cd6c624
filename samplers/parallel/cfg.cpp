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
      return list
          .add({.op = Op::evaluate,
                .branch = one,
                .part = part,
                .from = call,
                .to = call + 1,
                .timestep_call = call,
                .inputs = {state}})
          .at(0);
    };
    const Slot cond = branch(Branch::cond, 0);
    const Slot uncond = branch(Branch::uncond, 1);
    state = list.add({.op = Op::combine,
                      .from = call,
                      .to = call + 1,
                      .timestep_call = call,
                      .inputs = {cond, uncond, state}},
                     2)
                .at(1);
    list.accept(state, call + 1);
  }
  return list;
}

}  // namespace

extern constinit const MethodRow kCfg{
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

}  // namespace troupe::samplers
