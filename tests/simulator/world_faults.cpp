// The part of World for faults of workers, processes and samples.

#include <algorithm>

#include "tests/simulator/world.h"

namespace troupe::actors::simulator {

bool World::strikes(const Fault& fault) const {
  if (fault.kind == FaultKind::join) {
    return !ledger_.has_ended();
  }
  if (fault.kind == FaultKind::cancel) {
    return fault.sample_index <
               static_cast<std::uint64_t>(scenario_.num_samples) &&
           !ledger_.has_ended(fault.sample_index);
  }
  const auto worker = static_cast<std::size_t>(fault.worker);
  if (worker >= workers_.size()) {
    return false;  // it has not joined yet
  }
  return fault.kind == FaultKind::end_process || fault.kind == FaultKind::drain
             ? process_of(fault.worker) != kHomeProcess &&
                   !has_ended(process_of(fault.worker))
             : workers_[worker].policy.has_value();
}

void World::handle(Fault& fault) {
  const auto here = is_linked() ? as_of_now(fault) : std::optional(fault);
  if (here && here->in_cut) {
    ends_in_cuts_.push_back(*here);
  } else if (here && strikes(*here)) {
    ++outcome_.struck.at(static_cast<std::size_t>(fault.kind));
    strike(*here);
  }
}

void World::strike(const Fault& fault) {
  if (fault.kind == FaultKind::join) {
    join_process(fault.worker);
  } else if (fault.kind == FaultKind::kill) {
    end_worker(fault.worker, {Errc::job_failed, "worker", "was killed", {}});
  } else if (fault.kind == FaultKind::end_process) {
    end_process(process_of(fault.worker));
  } else if (fault.kind == FaultKind::drain) {
    const DrainProcess drain{process_of(fault.worker)};
    if (is_linked()) {
      send(actor_of_process(drain.process), kCoordinator, ToCoordinator{drain});
    } else {
      queue_.add(now(), ToCoordinator{drain});
    }
  } else if (fault.kind == FaultKind::cancel) {
    ledger_.heard(CancelSample{fault.sample_index});
    queue_.add(now(), ToCoordinator{CancelSample{fault.sample_index}});
  } else if (fault.kind == FaultKind::slow) {
    at(fault.worker).slow_until = now() + fault.length;
    at(fault.worker).slowness = fault.factor;
  } else {
    freeze(fault);
  }
}

/// The coordinator's process asks for these values of a cut. Holders that were
/// to end in one end before the question has come.
void World::end_in_cut(const std::vector<RemoteValue>& asked) {
  std::erase_if(ends_in_cuts_, [&](Fault fault) {
    const int process = process_of(fault.worker);
    const bool is_asked =
        std::ranges::any_of(asked, [&](const RemoteValue& value) {
          return value.process == process &&
                 !store(kHomeProcess).find(value.name);
        });
    if (is_asked) {
      fault.in_cut = false;
      queue_.add(now() + random_.between(Duration{}, scenario_.link.latency),
                 fault);
    }
    return is_asked;
  });
}

void World::freeze(const Fault& fault) {
  Worker& worker = at(fault.worker);
  worker.frozen_since =
      now() < worker.frozen_until ? worker.frozen_since : now();
  const TimePoint until = std::max(worker.frozen_until, now() + fault.length);
  const Duration longer = until - std::max(worker.frozen_until, now());
  worker.frozen_until = until;
  if (worker.pass) {
    worker.pass->end += longer;
    worker.pass->start += longer;  // its blocks so far stay as many
  }
  queue_.add(worker.frozen_until, Thaws{fault.worker});
}

}  // namespace troupe::actors::simulator
