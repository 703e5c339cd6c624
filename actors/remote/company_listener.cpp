#include "actors/remote/company_listener.h"

#include <condition_variable>
#include <optional>
#include <string>
#include <utility>

#include "actors/remote/listen_at.h"
#include "kernels/core/error.h"
#include "kernels/core/log.h"

namespace troupe::actors {
namespace {

using net::bytes_of;
using wire::News;

/// For those who compute to leave when the job is over: at their next block.
constexpr auto kFarewell = std::chrono::seconds(5);

}  // namespace

CompanyListener::CompanyListener(ListenerSpec spec)
    : spec_(std::move(spec)), offer_(wire::encode(News(spec_.offer))) {
  hub_ = spec_.make_hub ? spec_.make_hub(spec_.hub, *this)
                        : net::make_hub(spec_.hub, *this);
  for (const std::string& endpoint : spec_.endpoints) {
    endpoints_.push_back(listen_at(*hub_, endpoint, spec_.place));
  }
}

CompanyListener::~CompanyListener() {
  stop();
  std::unique_lock lock(mutex_);
  const std::shared_ptr<ModelGiver> model = std::move(spec_.model);
  lock.unlock();
  // The giver ends before the hub over which it gives.
}

Detours CompanyListener::detours() {
  return {
      .channel =
          [this](std::shared_ptr<ValueChannel> own) {
            const std::lock_guard lock(mutex_);
            channel_ = std::make_shared<LinkChannel>(
                std::move(own),
                LinkChannelOptions{
                    .silence = spec_.silence,
                    .on_damage =
                        [this](int process, const std::string& what) {
                          damaged(process, what);
                        },
                    .find_other =
                        [this](const ValueName& name, int holder, auto then) {
                          find_other(name, holder, std::move(then));
                        }});
            channel_->open(*hub_, kHomeProcess);
            for (const auto& [peer, member] : members_.all()) {
              channel_->set_peer(member->process, peer);
            }
            return channel_;
          },
      .begin =
          [this](caf::actor_system& system, CoordinatorActor coordinator) {
            start(system, std::move(coordinator));
          },
      .end = [this] { stop(); }};
}

void CompanyListener::start(caf::actor_system& system,
                            CoordinatorActor coordinator) {
  if (spec_.clients != nullptr) {
    spec_.clients->open(coordinator);
  }
  const std::lock_guard lock(mutex_);
  system_ = &system;
  coordinator_ = std::move(coordinator);
  for (const auto& [peer, member] : members_.all()) {
    if (member->join) {
      present(*member, *member->join);
    }
  }
}

void CompanyListener::stop() {
  if (spec_.clients != nullptr) {
    spec_.clients->close();
  }
  const std::lock_guard lock(mutex_);
  if (channel_) {
    channel_->close();
  }
  for (const auto& [peer, member] : members_.all()) {
    caf::anon_send_exit(std::exchange(member->actor, nullptr),
                        caf::exit_reason::user_shutdown);
    for (const auto& [number, worker] : std::exchange(member->workers, {})) {
      caf::anon_send_exit(worker, caf::exit_reason::user_shutdown);
    }
  }
  coordinator_ = nullptr;
  system_ = nullptr;
}

void CompanyListener::end(std::optional<Failure> cause) {
  std::unique_lock lock(mutex_);
  is_over_ = true;
  cause_ = std::move(cause);
  const std::string over = wire::encode(News(JobOver{cause_}));
  for (const auto& [peer, member] : members_.all()) {
    member->outbox->send(over);
  }
  left_.wait_for(lock, kFarewell, [this] { return members_.empty(); });
}

std::vector<RemoteProcess> CompanyListener::processes() const {
  const std::lock_guard lock(mutex_);
  return members_.known();
}

std::uint64_t CompanyListener::bytes_fetched() const {
  const std::lock_guard lock(mutex_);
  return channel_ ? channel_->bytes_fetched() : 0;
}

std::uint64_t CompanyListener::bytes_given() const {
  const std::lock_guard lock(mutex_);
  return channel_ ? channel_->bytes_given() : 0;
}

std::uint64_t CompanyListener::bytes_relayed() const {
  const std::lock_guard lock(mutex_);
  return channel_ ? channel_->bytes_relayed() : 0;
}

// ---- who comes and goes

void CompanyListener::on_knock(net::PeerId peer,
                               const net::Greeting& greeting) {
  if (spec_.clients != nullptr &&
      spec_.clients->accept(*hub_, peer, greeting)) {
    return;
  }
  try {
    const Applicant applicant =
        wire::decode_applicant(bytes_of(greeting.record));
    const std::string& own = spec_.version;
    if (refuse_other_version(*hub_, peer, applicant, own)) {
      return;
    }
    std::unique_lock lock(mutex_);
    if (is_over_) {
      lock.unlock();
      hub_->accept(peer, wire::encode(Welcome{own, kHomeProcess, true, {}}));
    } else {
      const auto member =
          members_.add(*hub_, peer, applicant, greeting.address);
      if (channel_) {
        channel_->set_peer(member->process, peer);
      }
      lock.unlock();
      hub_->accept(peer,
                   wire::encode(Welcome{own, member->process, false,
                                        member->address.tokens}),
                   "process " + std::to_string(member->process));
    }
  } catch (const Error& error) {
    hub_->refuse(peer, error.what());
  }
}

void CompanyListener::on_up(net::PeerId peer,
                            const net::Greeting& /*greeting*/) {
  if (const auto member = member_of(peer)) {
    member->outbox->send(offer_);
    const std::lock_guard lock(mutex_);
    if (is_over_) {  // since the greeting
      member->outbox->send(wire::encode(News(JobOver{cause_})));
    } else {
      members_.came_up(*member);
    }
  }
}

void CompanyListener::on_room(net::PeerId peer) {
  if (const auto member = member_of(peer)) {
    member->outbox->on_room();
  }
}

void CompanyListener::on_beat(net::PeerId peer,
                              std::span<const std::byte> /*payload*/,
                              const std::optional<net::RoundTrip>& round_trip) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Member> member = members_.find(peer);
  if (member && round_trip) {
    member->clock.hear(*round_trip, SteadyClock().now());
    report_round_trip(*member, round_trip->taken);
  }
}

/// One that is short, or as long as before, changes nothing for anybody.
void CompanyListener::report_round_trip(Member& member, Duration taken) {
  constexpr int kSmoothing = 8;
  constexpr Duration kShort = std::chrono::milliseconds(1);
  member.round_trip =
      member.round_trip == Duration{}
          ? taken
          : member.round_trip + (taken - member.round_trip) / kSmoothing;
  const Duration change =
      std::chrono::abs(member.round_trip - member.reported_round_trip);
  if (coordinator_ && !is_over_ &&
      change > std::max(kShort, member.reported_round_trip / 4)) {
    member.reported_round_trip = member.round_trip;
    caf::anon_send(coordinator_,
                   RoundTripMeasured{member.process, member.round_trip});
  }
}

void CompanyListener::on_lost(net::PeerId peer, const net::Loss& loss) {
  if (spec_.clients != nullptr && spec_.clients->remove(peer)) {
    return;
  }
  if (const std::optional<Departure> gone = remove_member(peer, loss.what)) {
    log_departure(*gone, loss);
  }
}

/// Who computes now.
Rest CompanyListener::rest() const {
  return spec_.only_directs && !members_.anyone_works() ? Rest::waits
                                                        : Rest::works;
}

std::optional<Departure> CompanyListener::remove_member(
    net::PeerId peer, const std::string& why) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Member> member = members_.remove(peer, !is_over_);
  if (!member) {
    return std::nullopt;
  }
  std::optional<Departure> departure;
  // Who has joined and is let go at the end of the job is no news.
  if (!is_over_ && !member->is_refused && (member->actor || !member->join)) {
    departure = {.of = members_.known(*member),
                 .has_joined = member->actor != nullptr,
                 .is_known = members_.has_gone_before(*member),
                 .rest = rest()};
  }
  if (!is_over_) {
    members_.known(*member).gone = why;
  }
  if (channel_) {
    channel_->remove_peer(member->process);
  }
  if (member->actor) {
    caf::anon_send(
        coordinator_,
        ProcessDown{member->process, {Errc::unreachable, "process", why, {}}});
    caf::anon_send_exit(std::exchange(member->actor, nullptr),
                        caf::exit_reason::user_shutdown);
  }
  for (const auto& [number, worker] : std::exchange(member->workers, {})) {
    caf::anon_send_exit(worker, caf::exit_reason::user_shutdown);
  }
  left_.notify_all();
  return departure;
}

/// What a peer sends is looked at before any policy sees it.
void CompanyListener::breach(net::PeerId peer, const std::string& what) {
  log_message(LogLevel::warning, what);
  hub_->leave(peer, what);
  (void)remove_member(peer, what);
}

/// A value of the process had another hash than it said, or is none.
void CompanyListener::damaged(int process, const std::string& what) {
  std::unique_lock lock(mutex_);
  if (const auto member = members_.find_process(process)) {
    lock.unlock();
    breach(member->peer, what);
  }
}

void CompanyListener::find_other(const ValueName& name, int holder,
                                 std::function<void(std::optional<int>)> then) {
  CoordinatorActor coordinator;
  {
    const std::lock_guard lock(mutex_);
    coordinator = coordinator_;
  }
  if (coordinator) {
    caf::anon_send(coordinator, HolderAsked{name, holder, std::move(then)});
  } else {
    then(std::nullopt);
  }
}

std::shared_ptr<Member> CompanyListener::member_of(net::PeerId peer) const {
  const std::lock_guard lock(mutex_);
  return members_.find(peer);
}

// ---- values

void CompanyListener::on_wanted(net::PeerId peer, net::WantId want,
                                std::string_view key) {
  if (!member_of(peer)) {  // a client, or one that was lost meanwhile
    hub_->give_nothing(want);
    return;
  }
  if (key == kLatentsKey) {
    hub_->give(want, to_link({{"latents", spec_.values.init_latents}}));
    return;
  }
  if (const auto hash = condition_asked(key)) {
    const auto found = spec_.values.conditions.find(*hash);
    if (found != spec_.values.conditions.end()) {
      hub_->give(want, to_link(parcel_of(found->second)));
    } else {
      hub_->give_nothing(want);
    }
    return;
  }
  std::shared_ptr<LinkChannel> channel;
  std::shared_ptr<ModelGiver> model;
  {
    const std::lock_guard lock(mutex_);
    channel = channel_;
    model = spec_.model;
  }
  if (model && asks_for_model(key)) {
    model->answer(*hub_, want, key);
  } else if (!channel || asks_for_model(key)) {
    hub_->give_nothing(want);
  } else if (!channel->answer(want, key)) {
    breach(peer, "a question for a value that is none");
  }
}

}  // namespace troupe::actors
