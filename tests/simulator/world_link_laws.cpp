// The part of World for faults of links, and for what may never happen to one.

#include <algorithm>

#include "tests/simulator/world.h"

namespace troupe::actors::simulator {

// ---- faults

/// The fault for the same worker of the process that now runs on the host.
std::optional<Fault> World::as_of_now(const Fault& fault) {
  if (fault.kind == FaultKind::join || fault.kind == FaultKind::cancel) {
    return fault;
  }
  const auto worker = static_cast<std::size_t>(fault.worker);
  const int host = plan_.workers.at(worker).process;
  if (host == kHomeProcess) {
    return fault;
  }
  const auto process = process_on(host);
  if (!process || member(*process).num_workers == 0) {
    return std::nullopt;
  }
  const auto before = std::count_if(
      plan_.workers.begin(),
      plan_.workers.begin() + static_cast<std::ptrdiff_t>(worker),
      [host](const WorkerTraits& traits) { return traits.process == host; });
  Fault now = fault;
  now.worker = member(*process).first_worker + static_cast<int>(before);
  return now;
}

void World::trouble(Member& member, TimePoint until) {
  // What was lost is sent again, and those who waited come first.
  member.troubled_until =
      std::max(member.troubled_until, until + 2 * plan_.links->times.lease);
}

void World::handle(LinkFault& fault) {
  LinkHazards& counts = outcome_.links;
  const bool is_short = fault.length < plan_.links->times.lease;
  if (ledger_.has_ended()) {
    return;
  }
  if (fault.kind == LinkFaultKind::freeze_home) {
    ++counts.home_freezes;
    freeze_process(kHomeProcess, fault.length);
    for (Member& one : members_) {
      trouble(one, now() + fault.length);
    }
    return;
  }
  const auto process = process_on(fault.host);
  if (!process || is_out(*process)) {
    return;
  }
  Member& its = member(*process);
  const TimePoint until = now() + fault.length;
  if (fault.kind == LinkFaultKind::kill) {
    kill_member(*process);
  } else if (fault.kind == LinkFaultKind::freeze) {
    ++(is_short ? counts.short_freezes : counts.long_freezes);
    trouble(its, until);
    freeze_process(*process, fault.length);
  } else if (fault.kind == LinkFaultKind::cut_in_record) {
    its.link->cut_in_record();
  } else {
    trouble(its, until);
    if (fault.kind == LinkFaultKind::partition) {
      ++(is_short ? counts.short_partitions : counts.long_partitions);
      if (fault.to_member) {
        its.link->block(Side::member, until);
      }
      if (fault.to_listener) {
        its.link->block(Side::listener, until);
      }
    }
    if (fault.kind == LinkFaultKind::cut || fault.breaks) {
      ++counts.connections_lost;
      its.link->cut(fault.length + plan_.links->net.reconnect, fault.lingers,
                    now());
    }
  }
}

/// It runs nothing: neither its workers nor its link.
void World::freeze_process(int process, Duration length) {
  frozen_[process] = std::max(frozen_until(process), now() + length);
  for (int w = 0; w < static_cast<int>(workers_.size()); ++w) {
    if (process_of(w) == process && at(w).policy) {
      Fault freezes;
      freezes.kind = FaultKind::freeze;
      freezes.worker = w;
      freezes.length = length;
      freeze(freezes);
    }
  }
}

// ---- laws

/// Until then the coordinator may take a worker of it for dead that is not.
TimePoint World::excused_until(int process) const {
  if (!is_linked()) {
    return {};
  }
  const TimePoint home = frozen_until(kHomeProcess);
  return process == kHomeProcess
             ? home
             : std::max(home, member(process).troubled_until);
}

/// Nobody is lost without a cause, or breaks the protocol, and who is lost
/// leaves nobody waiting.
void World::check_loss(int process, Side side,
                       const std::optional<net::Loss>& loss) {
  const Member& its = member(process);
  ledger_.expect(its.link->num_fetches(side) == 0,
                 "a question to a lost process has no end");
  const bool has_cause = now() < its.troubled_until ||
                         (side == Side::listener && its.ended) || !loss ||
                         loss->cause != net::LossCause::silent;
  ledger_.expect(has_cause, "a link is lost without a fault");
  ledger_.expect(!loss || loss->cause != net::LossCause::breach,
                 "the two sides of a link do not agree");
}

/// What a link carries arrives soon, or the link is lost; and of a process that
/// has ended the coordinator hears.
void World::check_links() {
  if (!is_linked() || now() < frozen_until(kHomeProcess)) {
    return;
  }
  const Duration lease = plan_.links->times.lease;
  const TimePoint home = frozen_until(kHomeProcess);
  for (std::size_t m = 0; m < members_.size(); ++m) {
    const Member& its = members_[m];
    if (its.ended) {
      const TimePoint since = std::max(*its.ended, home);
      ledger_.expect(its.is_reported || !its.has_asked || ledger_.has_ended() ||
                         now() < since + 4 * lease,
                     "a process has ended without a report");
      continue;
    }
    ledger_.expect(!its.link->has_ended(Side::member),
                   "a process goes on that has lost its link");
    for (const auto& letters : its.letters) {
      const TimePoint since = letters.empty() || its.is_out
                                  ? now()
                                  : std::max(letters.front()->since, home);
      ledger_.expect(now() < std::max(since, its.troubled_until) + 4 * lease,
                     "a record waits for ever");
    }
  }
}

void World::count_links() {
  LinkHazards& counts = outcome_.links;
  for (const Member& its : members_) {
    const LinkCounts& one = its.link->counts();
    counts.connections_lost += one.lost_in_record;
    counts.lost_in_record += one.lost_in_record;
    counts.duplicates += one.duplicates;
    counts.waits_for_room += one.waits_for_room;
  }
}

}  // namespace troupe::actors::simulator
