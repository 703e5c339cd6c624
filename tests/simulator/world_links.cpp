// The part of World for processes that reach the coordinator's over a link:
// what CompanyListener, CompanyMember and the proxies do (actors/remote), and
// how processes come and go.

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "tests/simulator/world.h"

namespace troupe::actors::simulator {
namespace {

/// A job, as it is offered, if its conditions take some room.
constexpr std::size_t kOfferBytes = std::size_t{300} << 10U;
/// Such a record goes in several pieces, and two do not fit into the room.
constexpr std::size_t kMostBytes = std::size_t{700} << 10U;

}  // namespace

/// Only the coordinator's process is there. Others join.
Scenario World::as_begun(const Scenario& scenario) {
  Scenario begun = scenario;
  if (scenario.links) {
    const auto is_home = [](const WorkerTraits& traits) {
      return traits.process == kHomeProcess;
    };
    const auto count =
        static_cast<std::size_t>(std::ranges::count_if(begun.workers, is_home));
    begun.workers.resize(count);  // they are the first
    begun.devices.resize(count);
    begun.delays.resize(count);
    begun.value_budgets.resize(1);
    begun.num_at_start = static_cast<int>(count);
    begun.num_processes = 1;
  }
  return begun;
}

/// A host's process is followed by another when a fault has ended it.
int World::most_workers(const Scenario& scenario) {
  const std::size_t most = scenario.links ? 3 + scenario.faults.size() +
                                                scenario.links->faults.size()
                                          : 1;
  return static_cast<int>(scenario.workers.size() * most);
}

void World::begin_dialling() {
  const std::size_t last = static_cast<std::size_t>(plan_.num_at_start) - 1;
  for (int host = 1; host <= plan_.workers[last].process; ++host) {
    queue_.add(now() + random_.between(Duration{}, plan_.process.start),
               Dials{host});
  }
  for (const LinkFault& fault : plan_.links->faults) {
    queue_.add(fault.when, fault);
  }
}

// ---- actors and processes

int World::place_of(int actor) const {
  if (actor >= 0) {
    return process_of(actor);
  }
  return actor >= kSupervisor ? kHomeProcess : kSupervisor - 1 - actor;
}

void World::send(int from, int to, Happening message) {
  const int here = is_linked() ? place_of(from) : 0;
  const int there = is_linked() ? place_of(to) : 0;
  if (here == there) {
    hop(from, to, std::move(message));
    return;
  }
  const Side side = here == kHomeProcess ? Side::listener : Side::member;
  const int process = here == kHomeProcess ? there : here;
  hop(from, actor_of_link(process, side),
      Post{process, side,
           std::make_shared<Letter>(Letter{to, std::move(message), {}})});
}

/// Whose event it is; none: nobody's.
std::optional<int> World::runner_of(const Happening& happening) const {
  if (!is_linked()) {
    return std::nullopt;
  }
  return std::visit(
      [this](const auto& it) -> std::optional<int> {
        using Kind = std::decay_t<decltype(it)>;
        if constexpr (std::is_same_v<Kind, ToCoordinator>) {
          return kHomeProcess;
        } else if constexpr (std::is_same_v<Kind, ToSupervisor>) {
          return std::visit(
              [this](const auto& event) { return process_of(event.child); },
              it.event);
        } else if constexpr (std::is_same_v<Kind, ToWorker> ||
                             std::is_same_v<Kind, PassEnds> ||
                             std::is_same_v<Kind, EndsWorker>) {
          return process_of(it.worker);
        } else if constexpr (std::is_same_v<Kind, StartChild>) {
          return process_of(it.child);
        } else if constexpr (std::is_same_v<Kind, ToProcess> ||
                             std::is_same_v<Kind, Offered> ||
                             std::is_same_v<Kind, Over>) {
          return it.process;
        } else if constexpr (std::is_same_v<Kind, Admitted>) {
          return it.admit.process;
        } else if constexpr (std::is_same_v<Kind, Question>) {
          return it.value.process;
        } else if constexpr (std::is_same_v<Kind, Answer>) {
          return fetches_.at(it.fetch).process;
        } else if constexpr (std::is_same_v<Kind, Post>) {
          return it.from == Side::member ? it.process : kHomeProcess;
        } else {
          return std::nullopt;
        }
      },
      happening);
}

TimePoint World::frozen_until(int process) const {
  const auto found = frozen_.find(process);
  return found == frozen_.end() ? TimePoint{} : found->second;
}

std::optional<int> World::process_on(int host) const {
  const auto found = process_on_.find(host);
  return found == process_on_.end() || has_ended(found->second)
             ? std::nullopt
             : std::optional(found->second);
}

// ---- joining and leaving

void World::handle(Dials& dials) {
  if (ledger_.has_ended() || process_on(dials.host)) {
    return;
  }
  const int process = scenario_.num_processes++;
  const auto host = static_cast<std::size_t>(dials.host);
  ledger_.expect(
      members_.size() < static_cast<std::size_t>(most_workers(plan_)) /
                            plan_.workers.size() *
                            static_cast<std::size_t>(plan_.num_processes),
      "a host dials again and again");
  scenario_.value_budgets.push_back(plan_.value_budgets.at(host));
  stores_.emplace_back();
  process_on_[dials.host] = process;
  Member& its = members_.emplace_back();
  its.host = dials.host;
  its.troubled_until = now() + plan_.links->times.lease;
  LinkListener& self = *this;  // make_unique may not see that it is one
  its.link = std::make_unique<LinkPair>(
      process, plan_.links->net, plan_.links->times, Random(random_.bits()),
      self, sabotage_.of_links);
  its.link->dial(now());
}

/// As CompanyListener: who is let in is offered the job.
void World::link_up(int link, Side side) {
  if (side == Side::listener) {
    Post post{link, side,
              std::make_shared<Letter>(
                  Letter{actor_of_process(link), Offered{link}, {}})};
    handle(post);
  }
}

void World::handle(Offered& offered) {
  if (has_ended(offered.process)) {
    return;
  }
  if (!offered.is_ready) {
    queue_.add(
        now() + random_.between(plan_.process.start, 10 * plan_.process.start),
        Offered{offered.process, true});
    return;
  }
  const Member& its = member(offered.process);
  ProcessJoined joined{
      offered.process,
      {},
      plan_.value_budgets.at(static_cast<std::size_t>(its.host)),
      {.machine = static_cast<std::uint64_t>(its.host)}};
  std::ranges::copy_if(plan_.workers, std::back_inserter(joined.workers),
                       [&its](const WorkerTraits& traits) {
                         return traits.process == its.host;
                       });
  send(actor_of_process(offered.process), kCoordinator,
       ToCoordinator{std::move(joined)});
}

/// Its workers get their numbers.
void World::let_in(const AdmitProcess& admit) {
  Member& its = member(admit.process);
  for (std::size_t w = 0; w < plan_.workers.size(); ++w) {
    if (plan_.workers[w].process == its.host) {
      scenario_.workers.push_back(plan_.workers[w]);
      scenario_.workers.back().process = admit.process;
      scenario_.devices.push_back(plan_.devices[w]);
      scenario_.delays.push_back(plan_.delays[w]);
    }
  }
  ledger_.asked(admit);
  its.first_worker = admit.first_worker;
  its.num_workers = admit.num_workers;
  workers_.resize(scenario_.workers.size());
  outcome_.links.joins += outcome_.num_tasks > 0 ? 1 : 0;
  send(kCoordinator, actor_of_process(admit.process), Admitted{admit});
}

void World::handle(Admitted& admitted) {
  const AdmitProcess& admit = admitted.admit;
  for (int w = admit.first_worker;
       w < admit.first_worker + admit.num_workers && !has_ended(admit.process);
       ++w) {
    start_worker(w);
  }
}

/// As CompanyMember: one that comes late is not for the next incarnation.
void World::handle(const EndsWorker& ends) {
  if (at(ends.worker).epoch == ends.epoch) {
    tell_to_end(ends.worker, ends.cause);
  }
}

/// As CompanyMember: it leaves.
void World::handle(Over& over) {
  if (has_ended(over.process)) {
    return;
  }
  ledger_.expect(!ledger_.has_ended() || ledger_.gave_up() ||
                     is_out(over.process) ||
                     store(over.process).entries().empty(),
                 "a process keeps values after the job");
  member(over.process).link->leave(Side::member, "the job is over", now());
}

/// Of its own accord, or because its link is lost. Another one follows.
void World::end_member(int process) {
  Member& its = member(process);
  its.ended = now();
  forget_process(process);
  queue_.add(now() + random_.between(plan_.links->times.lease / 10,
                                     plan_.links->times.lease),
             Dials{its.host});
}

void World::kill_member(int process) {
  ++outcome_.links.kills;
  member(process).link->kill(Side::member);
  end_member(process);
}

// ---- what links carry

void World::wake_link(int link, std::size_t what, TimePoint when) {
  link_queue_.add(when, {link, what});
}

void World::handle_next_of_links() {
  const LinkDue due = link_queue_.take();
  const Side runner = LinkPair::runner_of(due.what);
  const TimePoint until =
      frozen_until(runner == Side::member ? due.process : kHomeProcess);
  if (now() < until) {
    link_queue_.add(until, due);
  } else {
    ++outcome_.num_frames;
    member(due.process).link->due(due.what, now());
  }
}

/// Most letters are short. Large letters (previews, in a real job) come in a
/// row; an offer may be large, too.
std::size_t World::bytes_of(const Letter& letter) {
  if (std::holds_alternative<Offered>(letter.news) && random_.chance(0.25)) {
    return kOfferBytes;
  }
  was_large_ = random_.below(512) < (was_large_ ? 256U : 1U);
  return was_large_ ? kMostBytes / 2 + random_.below(kMostBytes / 2)
                    : 100 + random_.below(900);
}

void World::handle(Post& post) {
  Member& its = member(post.process);
  if (its.link->has_ended(post.from)) {
    return;
  }
  auto& letters = its.letters[index_of(post.from)];
  post.letter->since = now();
  letters.push_back(post.letter);
  its.link->post(post.from,
                 its.num_arrived[index_of(post.from)] + letters.size(),
                 bytes_of(*post.letter), now());
}

/// Records arrive once and in order, and of sessions that are not lost.
void World::letter_arrived(int link, Side side, std::uint64_t letter) {
  Member& its = member(link);
  const std::size_t from = index_of(other(side));
  const std::uint64_t next = its.num_arrived[from] + 1;
  ledger_.expect(side == Side::member || !its.is_out,
                 "a record of a lost session arrives");
  ledger_.expect(letter >= next, "a record arrives twice");
  ledger_.expect(letter == next, "a record is left out");
  if (ledger_.first_error()) {
    return;
  }
  const std::shared_ptr<Letter> arrived = std::move(its.letters[from].front());
  its.letters[from].pop_front();
  ++its.num_arrived[from];
  if (const auto* to = std::get_if<ToCoordinator>(&arrived->news)) {
    its.has_asked =
        its.has_asked || std::holds_alternative<ProcessJoined>(to->event);
  }
  hop(actor_of_link(link, side), arrived->to, std::move(arrived->news));
}

void World::round_trip_measured(int link, Side side, Duration taken) {
  if (side == Side::listener && !member(link).is_out) {
    hop(actor_of_link(link, side), kCoordinator,
        // Values of some bytes take a pass's time, or no time.
        ToCoordinator{LinkMeasured{link, taken, link % 2 == 0 ? 1e9 : 200.0}});
  }
}

void World::link_cut(int link) {
  trouble(member(link), now() + plan_.links->net.reconnect);
}

/// As CompanyListener::lose, and CompanyMember: a membership ends with its
/// link.
void World::link_ended(int link, Side side,
                       const std::optional<net::Loss>& loss) {
  Member& its = member(link);
  check_loss(link, side, loss);
  if (side == Side::member) {
    if (!has_ended(link) && !sabotage_.outlives_links) {
      end_member(link);
    }
    return;
  }
  its.is_out = true;
  outcome_.links.losses += ledger_.has_ended() ? 0 : 1;
  if (loss && its.has_asked && !sabotage_.hides_losses) {
    its.is_reported = true;
    hop(actor_of_link(link, side), kCoordinator,
        ToCoordinator{
            ProcessDown{link,
                        {Errc::unreachable, "process", loss->what, {}},
                        loss->cause == net::LossCause::closed}});
  }
}

void World::value_wanted(int link, Side side, net::WantId want,
                         const std::string& key) {
  Question question = questions_.at(std::stoul(key));
  const int here = side == Side::listener ? kHomeProcess : link;
  const int holder = question.value.process;
  if (holder == here) {
    question.origin = {link, side, want};
    parked_[here].push_back(std::move(question));
    look_after_waiters(here);
  } else {
    ledger_.expect(here == kHomeProcess,
                   "a process is asked for the value of another");
    ++outcome_.links.relayed_values;
    member(holder).link->fetch(
        Side::listener, key,
        [this, link, side, want](std::optional<Symbol> symbol) {
          member(link).link->give(side, want, symbol, now());
        },
        now());
  }
}

}  // namespace troupe::actors::simulator
