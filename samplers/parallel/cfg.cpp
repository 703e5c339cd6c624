#include <utility>

#include "samplers/parallel/call_by_call.h"

namespace troupe::samplers {
namespace {

/// The two guidance branches of a model call on two workers (parts 0 and 1),
/// combined and stepped at home. Exact: rows of a forward are independent.
class Cfg final : public CallByCall {
 public:
  explicit Cfg(int num_calls) : CallByCall(MethodKind::cfg, num_calls) {}

 private:
  void begin_call() override {
    for (const Branch branch : {Branch::cond, Branch::uncond}) {
      Task task = task_of(Op::evaluate);
      task.branch = branch;
      task.part = branch == Branch::cond ? 0 : 1;
      task.inputs = {state()};
      task.outputs = {book().new_slot()};
      book().add(std::move(task));
    }
  }

  void advance(const Task& finished) override {
    if (!book().idle()) {
      return;  // the other branch runs
    }
    // Cond took the lower of two neighbouring slots.
    const Slot slot = finished.outputs.front();
    const Slot cond = finished.branch == Branch::cond ? slot : slot - 1;
    Task task = task_of(Op::combine);
    task.inputs = {cond, cond + 1, state()};
    task.frees = {cond, cond + 1};
    go_on_to_step(task);
    book().add(std::move(task));
  }
};

}  // namespace

extern constinit const MethodRow kCfg{
    .name = "cfg",
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
    // Two branches, and what joins them.
    .most_tasks = [](const MethodOptions&,
                     int num_calls) { return 3.0 * num_calls; }};

}  // namespace troupe::samplers
