// The part of CoordinatorPolicy that cuts samples: a sample that loses values
// goes on from its last cut.

#include <algorithm>
#include <utility>

#include "actors/coordinator_policy.h"

namespace troupe::actors {

using samplers::Slot;

/// Begins the next cut of a sample in flight. The slots of the cut are not
/// freed until the cut is over. No cut is taken while the coordinator's process
/// lacks room for it: samples that began before the first process joined count
/// without cuts.
void CoordinatorPolicy::cut_if_due(Sample& sample) {
  const int calls = sample.method->accepted();
  if (!can_lose_values_ || sample.next_cut ||
      now_ - sample.cut_began < options_.cuts.interval ||
      calls - sample.calls_when_cut < options_.cuts.calls ||
      room_.is_over(kHomeMemory)) {
    return;
  }
  TakeCut take{.sample_index = sample.index,
               .run = sample.run,
               .number = next_cut_,
               .last = {},
               .cut = {sample.method->snapshot(), {}, class_of(sample)},
               .values = {}};
  for (const Slot slot : sample.method->live_slots()) {
    if (slot == samplers::kInitialSlot) {
      continue;  // every process can make it
    }
    const std::optional<int> holder = sample.values.holder(slot, kHomeProcess);
    if (!holder) {
      return;  // lost; who needs it will find out
    }
    take.cut.slots.push_back(slot);
    take.values.push_back({{sample.index, sample.run, slot}, *holder});
  }
  for (const RemoteValue& value : take.values) {
    sample.values.expect(value.name.slot, kHomeProcess);
  }
  if (sample.last_cut) {
    take.last = sample.last_cut->number;
  }
  // No more than one cut's values come home before those that have died go.
  if (auto frees = frees_.take(kHomeProcess)) {
    commands_.push_back(FreeValues{kHomeProcess, std::move(*frees)});
  }
  ++next_cut_;
  sample.cut_began = now_;
  sample.calls_when_cut = calls;
  sample.next_cut = {take.number, calls, take.cut};
  commands_.emplace_back(std::move(take));
}

void CoordinatorPolicy::handle(const CutTaken& event) {
  const auto found = samples_.find(event.sample_index);
  if (found == samples_.end() || found->second.run != event.run) {
    return;  // it has restarted meanwhile
  }
  Sample& sample = found->second;
  auto cut = std::exchange(sample.next_cut, std::nullopt);
  require(cut && cut->number == event.number, Errc::internal, "coordinator",
          "a cut was taken that nobody asked for");
  for (const RemoteValue& value : event.gone) {
    sample.values.remove(value.name.slot, value.process);
  }
  if (event.gone.empty()) {
    sample.last_cut = std::move(cut);
  }
  free_slots(sample, std::exchange(sample.withheld, {}));
  if (lacks_values(sample)) {
    ++recoveries_;
    restart_in_class(sample);
  }
}

/// True if the sample has a cut of its class, and no point before it was still
/// on its way to observers: then the method and the values of the cut are
/// restored, in the coordinator's process.
bool CoordinatorPolicy::restore_cut(Sample& sample) {
  sample.cut_began = now_;
  sample.calls_when_cut = 0;
  if (sample.last_cut &&
      (sample.last_cut->cut.execution_class != class_of(sample) ||
       !has_shown(sample, sample.last_cut->calls))) {
    sample.last_cut.reset();
  }
  sample.intermediates.clear();
  sample.points.clear();
  if (!sample.last_cut) {
    return false;
  }
  const auto& [number, calls, cut] = *sample.last_cut;
  sample.method->restore(cut.snapshot);
  sample.calls_when_cut = sample.method->accepted();
  for (const int call : sample.method->points()) {
    sample.points.insert(call);  // before the loss
  }
  commands_.emplace_back(RestoreCut{sample.index, sample.run, number});
  const std::uint64_t when = next_grant_++;
  for (const Slot slot : cut.slots) {
    sample.values.expect(slot, kHomeProcess);
    sample.values.add(slot, kHomeProcess, {}, when);
  }
  return true;
}

}  // namespace troupe::actors
