#include "samplers/parallel/cache.h"
#include "samplers/parallel/plan.h"

namespace troupe::samplers {
namespace {

/// Evaluation and step, evaluation and step … on one worker: what every exact
/// method is compared with. The batch method is this plan for each sample. With
/// +cache an evaluation may reuse what the one before it left.
TaskList plan_sequential(const MethodOptions& options, int num_calls) {
  TaskList list;
  Slot state = kInitialSlot;
  std::optional<Slot> cache;
  for (int call = 0; call < num_calls; ++call) {
    const bool caches = leaves_cache(options, call, num_calls);
    const Slots made = list.add(
        evaluation(options, call, num_calls, state, cache), caches ? 3 : 2);
    if (caches) {
      cache = made.at(1);
    }
    state = made.at(caches ? 2 : 1);
    list.accept(state, call + 1);
  }
  return list;
}

}  // namespace

constexpr MethodRow kSequential{
    .name = "sequential",
    .snapshot_format = 5,
    .modifiers = "cache",
    .chosen_because = "one worker, or one image without guidance",
    .plan = plan_sequential,
    .useful_workers = [](const MethodOptions&,
                         std::uint64_t) { return std::uint64_t{1}; },
    .most_rows = [](const MethodOptions&) { return 1; },
    .in_flight =
        [](int, int) {
          return InFlight{1, 1};
        }};
constinit const MethodKind MethodKind::sequential{kSequential};

constexpr MethodRow kBatch{
    .name = "batch",
    .snapshot_format = 5,
    .modifiers = "cache",
    .chosen_because = "several images, so whole ones go to the workers",
    .plan = plan_sequential,
    .useful_workers = [](const MethodOptions&,
                         std::uint64_t samples) { return samples; },
    .in_flight =
        [](int, int rows_per_pass) {
          return InFlight{2 * rows_per_pass, rows_per_pass};
        }};
constinit const MethodKind MethodKind::batch{kBatch};

}  // namespace troupe::samplers
