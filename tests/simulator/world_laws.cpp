// The part of World that looks for what may never be: laws that need more than
// the ledger knows.

#include <algorithm>
#include <set>

#include "tests/simulator/world.h"

namespace troupe::actors::simulator {

/// A frozen worker with grants loses the grants when its lease is over. News of
/// earlier work may arrive a pulse late, and so may the loss.
void World::check_leases() {
  for (int w = 0; w < static_cast<int>(workers_.size()); ++w) {
    Worker& worker = at(w);
    if (!worker.policy || worker.policy->waits()) {
      worker.last_idle = now();
    } else if (worker.epoch == ledger_.epoch_of(w) &&
               now() < worker.frozen_until && !ledger_.grants_of(w).empty()) {
      const TimePoint since =
          std::max({worker.frozen_since, worker.last_idle,
                    ledger_.held_since(w), excused_until(process_of(w))});
      const Duration most = ledger_.longest_lease(w) + 3 * scenario_.pulse;
      ledger_.expect(now() - since <= most, "a frozen worker keeps its grants");
    }
  }
}

/// Each grant that the coordinator waits for is at its worker or on the way.
void World::check_grants() {
  if (ledger_.has_ended()) {
    return;
  }
  std::set<std::uint64_t> seen;
  each_on_way([&](const Happening& happening) {
    if (const auto* to = std::get_if<ToWorker>(&happening)) {
      if (const auto* grant = std::get_if<Grant>(&to->event)) {
        for (const SampleTask& work : grant->tasks) {
          seen.insert(work.grant);
        }
      }
    } else if (const auto* from = std::get_if<ToCoordinator>(&happening)) {
      if (const auto* result = std::get_if<GrantResult>(&from->event)) {
        seen.insert(result->grants.begin(), result->grants.end());
      }
    }
  });
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    const Worker& worker = workers_[w];
    const int index = static_cast<int>(w);
    if (!worker.policy || worker.epoch != ledger_.epoch_of(index) ||
        is_out(process_of(index))) {
      continue;  // its end will be heard of
    }
    for (const std::uint64_t id : ledger_.grants_of(index)) {
      ledger_.expect(seen.contains(id) ||
                         std::ranges::binary_search(worker.policy->held(), id),
                     "a grant is nowhere");
    }
  }
}

/// Who cancels a sample waits for nothing.
void World::check_cancelled(const CancelSample& cancel) {
  ledger_.expect(ledger_.has_ended() ||
                     ledger_.has_ended(cancel.sample_index) ||
                     ledger_.is_coming_home(cancel.sample_index),
                 "a sample goes on that is cancelled");
}

/// The sample is in flight, in this run.
bool World::is_current(const ValueName& name) const {
  const auto run = coordinator_.run_of(name.sample_index);
  return run && run->run == name.run;
}

bool World::is_listed(const ValueName& name) const {
  const auto run = coordinator_.run_of(name.sample_index);
  return run && run->values->copies().find(name.slot) != nullptr;
}

bool World::is_being_dropped(const ValueName& name, int process) const {
  bool found = false;
  each_on_way([&](const Happening& happening) {
    const auto* to = std::get_if<ToProcess>(&happening);
    const auto* drop =
        to == nullptr ? nullptr : std::get_if<DropRuns>(&to->news);
    const auto* free =
        to == nullptr ? nullptr : std::get_if<FreeValues>(&to->news);
    found = found ||
            (drop != nullptr && to->process == process &&
             drop->sample_index == name.sample_index &&
             (!drop->last_run || name.run <= *drop->last_run)) ||
            (free != nullptr && to->process == process &&
             std::ranges::any_of(free->frees, [&](const FreedSlots& freed) {
               return freed.sample_index == name.sample_index &&
                      freed.run == name.run &&
                      std::ranges::find(freed.slots, name.slot) !=
                          freed.slots.end();
             }));
  });
  return found;
}

/// V3: a held value is in the directory, or is being freed; a holder that the
/// directory lists has the value.
void World::check_values() {
  if (ledger_.has_ended()) {
    return;
  }
  for (int process = 0; process < scenario_.num_processes; ++process) {
    if (has_ended(process) || is_out(process)) {
      continue;
    }
    for (const auto& [index, entry] : store(process).entries()) {
      if (!entry.table) {
        continue;
      }
      const auto run = coordinator_.run_of(index);
      for (const auto& [slot, symbol] : entry.table->values()) {
        const ValueName name{index, entry.run, slot};
        bool is_listed = false;
        if (run && run->run == entry.run) {
          const auto* const copies = run->values->copies().find(slot);
          is_listed =
              copies != nullptr &&
              std::ranges::find(*copies, process,
                                &RunDirectory::Copy::process) != copies->end();
        }
        ledger_.expect(is_listed || coordinator_.will_free(name, process) ||
                           is_being_dropped(name, process),
                       "a process holds a value that nobody knows of");
      }
    }
  }
  for (int sample = 0; sample < scenario_.num_samples; ++sample) {
    const auto index = static_cast<std::uint64_t>(sample);
    const auto run = coordinator_.run_of(index);
    if (!run) {
      continue;
    }
    for (const auto [slot, copies] : run->values->copies()) {
      for (const RunDirectory::Copy& copy : copies) {
        ledger_.expect(!copy.is_there || has_ended(copy.process) ||
                           is_out(copy.process) ||
                           store(copy.process).find({index, run->run, slot}),
                       "a holder in the directory has not got the value");
      }
    }
  }
}

/// Of values that are not being dropped with their run.
std::uint64_t World::bytes_in(int process) {
  std::uint64_t bytes = 0;
  for (const auto& [index, entry] : store(process).entries()) {
    if (entry.table && is_current({index, entry.run, 0})) {
      bytes += entry.table->bytes(scenario_.value_sizes);
    }
  }
  return bytes;
}

/// G4: what a process holds fits, but for samples that came to it because
/// others were lost.
void World::check_room(int process) {
  const std::uint64_t most = ledger_.most_bytes(process);
  ledger_.expect(has_ended(process) || most == 0 || bytes_in(process) <= most,
                 "a process holds more than it keeps room for");
}

/// The same in the coordinator's process, with the values of cuts that are not
/// among the others.
void World::check_room_with_cuts() {
  const std::uint64_t most = ledger_.most_bytes(kHomeProcess);
  if (most == 0) {
    return;
  }
  std::uint64_t bytes = bytes_in(kHomeProcess);
  for (const auto& [index, cuts] : cuts_) {
    for (const auto& [number, kept] : cuts) {
      SymbolTable beside(index);
      for (const auto& [slot, symbol] : kept.values) {
        if (!store(kHomeProcess).find({index, kept.run, slot})) {
          (void)beside.put(slot, symbol);
        }
      }
      bytes += beside.bytes(scenario_.value_sizes);
    }
  }
  ledger_.expect(bytes <= most, "cuts take more than there is room for");
}

/// Of a job that ended with all its samples. Who is linked is asked when it
/// hears of the end.
void World::check_ended_stores() {
  for (int process = 0; process < scenario_.num_processes; ++process) {
    ledger_.expect(ledger_.gave_up() || has_ended(process) ||
                       (is_linked() && process != kHomeProcess) ||
                       store(process).entries().empty(),
                   "a process keeps values after the job");
  }
}

}  // namespace troupe::actors::simulator
