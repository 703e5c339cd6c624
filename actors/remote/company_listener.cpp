#include "actors/remote/company_listener.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "actors/remote/listen_at.h"
#include "actors/remote/peer_checks.h"
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
    : spec_(std::move(spec)),
      offer_(wire::encode(News(spec_.offer))),
      job_(hash_of(spec_.offer.job)) {
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
            channel_->set_job(job_);
            for (const auto& [peer, member] : members_.all()) {
              channel_->set_peer(member->process, peer);
            }
            return channel_;
          },
      .begin =
          [this](caf::actor_system& system, CoordinatorActor coordinator) {
            start(system, std::move(coordinator));
          },
      .end = [this] { stop(); },
      .name_of =
          [this](int process) {
            const std::lock_guard lock(mutex_);
            const std::vector<Process>& known = members_.known();
            const auto place = static_cast<std::size_t>(process) - 1;
            return process > kHomeProcess && place < known.size()
                       ? label_of(known[place])
                       : "process " + std::to_string(process);
          }};
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
      measure(*member);
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

std::vector<Process> CompanyListener::processes() const {
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

void CompanyListener::on_greeting(net::PeerId peer,
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
                              const std::optional<net::RoundTrip>& round_trip) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Member> member = members_.find(peer);
  if (member && round_trip) {
    member->clock.hear(*round_trip, SteadyClock().now());
    // A beat waits behind the values that measure a link.
    const bool is_measured_now =
        !member->is_of_this_host && member->measure_at == TimePoint::max();
    if (!is_measured_now) {
      note_round_trip(*member, round_trip->taken);
    }
    if (system_ != nullptr && SteadyClock().now() >= member->measure_at) {
      measure(*member);
    }
  }
}

void CompanyListener::note_round_trip(Member& member, Duration taken) {
  constexpr int kSmoothing = 8;
  member.round_trip =
      member.round_trip == Duration{}
          ? taken
          : member.round_trip + (taken - member.round_trip) / kSmoothing;
  report_link(member);
}

/// Reports a link to the coordinator if its speed or its round trip differs
/// clearly from the last report.
void CompanyListener::report_link(Member& member) {
  constexpr Duration kShort = std::chrono::milliseconds(1);
  constexpr double kSameSpeed = 1.25;
  const LinkPace now{member.round_trip, member.bytes_per_second};
  const LinkPace& last = member.reported;
  const bool is_other_trip =
      std::chrono::abs(now.round_trip - last.round_trip) >
      std::max(kShort, last.round_trip / 4);
  const bool is_faster =
      now.bytes_per_second > kSameSpeed * last.bytes_per_second;
  if (coordinator_ && !is_over_ && (is_other_trip || is_faster)) {
    member.reported = now;
    tell(LinkMeasured{member.process, now.round_trip, now.bytes_per_second});
  }
}

/// Measures the link of a member of another host that has joined, in both
/// directions, and presents the member to the coordinator then: so nothing is
/// sent over a slow link before it is known. Measures again later, because
/// another link may have been busy, or may have become better.
void CompanyListener::measure(Member& member) {
  if (member.is_of_this_host) {
    // Its values stay within this host.
    present(member, *member.join);
    return;
  }
  member.measure_at = TimePoint::max();
  channel_->measure(
      member.process,
      [this, peer = member.peer](const std::optional<LinkPace>& from_it) {
        if (!from_it) {  // nor would it answer another question
          measured(peer, {}, {});
          return;
        }
        const std::lock_guard lock(mutex_);
        const std::shared_ptr<Member> its = members_.find(peer);
        if (!its || system_ == nullptr) {
          return;
        }
        net::FetchOptions fetch;
        fetch.deadline = 3 * LinkChannel::kProbePatience;
        channel_->ask(its->process, PaceKey{kHomeProcess}, fetch,
                      [this, peer, from_it](const net::Fetched& fetched) {
                        measured(peer, from_it, pace_of(fetched.value));
                      });
      });
}

/// A link may have been busy while it was measured: so the best measurement
/// counts.
void CompanyListener::measured(net::PeerId peer,
                               const std::optional<LinkPace>& from_it,
                               const std::optional<LinkPace>& to_it) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Member> member = members_.find(peer);
  if (!member || system_ == nullptr) {
    return;
  }
  constexpr Duration kAgain = std::chrono::seconds(30);
  member->measure_at = SteadyClock().now() + kAgain;
  if (from_it && to_it) {
    member->bytes_per_second =
        std::max(member->bytes_per_second,
                 std::min(from_it->bytes_per_second, to_it->bytes_per_second));
    if (member->round_trip == Duration{} ||
        from_it->round_trip < member->round_trip) {
      member->round_trip = from_it->round_trip;
    }
  }
  const bool is_new = !member->is_presented;
  if (is_new) {
    present(*member, *member->join);
  }
  report_link(*member);
  if (is_new) {
    measure_neighbours(*member);
  }
}

/// Two workers' hosts may have a fast link to each other and slow links to this
/// one. A link that is not measured counts like the slower of the two to this
/// process. So the listener measures links between processes whose own link is
/// slow: of a new process, those to the last few that joined.
void CompanyListener::measure_neighbours(const Member& member) {
  constexpr double kSlow = 64e6;
  constexpr int kMost = 8;
  const auto is_slow = [](const Member& one) {
    return one.bytes_per_second > 0 && one.bytes_per_second < kSlow;
  };
  int num_asked = 0;
  for (int other = member.process - 1;
       is_slow(member) && other > kHomeProcess && num_asked < kMost; --other) {
    const std::shared_ptr<Member> its = members_.find_process(other);
    if (!its || !its->is_presented || !is_slow(*its)) {
      continue;
    }
    ++num_asked;
    net::FetchOptions fetch;
    fetch.deadline = 4 * LinkChannel::kProbePatience;
    channel_->ask(
        member.process, PaceKey{other}, fetch,
        [this, process = member.process, other](const net::Fetched& fetched) {
          const std::lock_guard lock(mutex_);
          const auto pace = pace_of(fetched.value);
          if (pace && coordinator_ && !is_over_) {
            tell(LinkMeasured{process, pace->round_trip, pace->bytes_per_second,
                              other});
          }
        });
  }
}

void CompanyListener::on_other_key(const std::string& address) {
  log_other_key(address, spec_.hub.keys.has_value());
}

void CompanyListener::on_lost(net::PeerId peer, const net::Loss& loss) {
  if (spec_.clients != nullptr && spec_.clients->remove(peer)) {
    return;
  }
  if (const std::optional<Departure> gone = remove_member(
          peer, loss.what, loss.cause == net::LossCause::closed)) {
    log_departure(*gone, loss);
  }
}

/// Whether any process computes now.
Rest CompanyListener::rest() const {
  return spec_.only_directs && !members_.anyone_works() ? Rest::waits
                                                        : Rest::works;
}

std::optional<Departure> CompanyListener::remove_member(net::PeerId peer,
                                                        const std::string& why,
                                                        bool has_ended) {
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
    members_.known(*member).leave(why);
  }
  if (channel_) {
    channel_->remove_peer(member->process);
  }
  if (member->actor) {
    tell(ProcessDown{
        member->process, {Errc::unreachable, "process", why, {}}, has_ended});
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
  (void)remove_member(peer, what, false);
}

/// A value of the process had another hash than announced, or cannot be read.
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
                                std::string_view bytes) {
  if (!member_of(peer)) {  // a client, or one that was lost meanwhile
    hub_->give_nothing(want);
    return;
  }
  const std::optional<ValueKey> key = key_of(bytes);
  if (!key) {
    return breach(peer, "a question with a key that names no value");
  }
  const auto* const latents = std::get_if<LatentsKey>(&*key);
  if (latents != nullptr && latents->job == job_) {
    Parcel given;
    for (const auto& [name, tensor] :
         {std::pair("latents", &spec_.values.init_latents),
          std::pair("guesses", &spec_.values.guesses)}) {
      if (!tensor->empty()) {
        given.push_back({name, *tensor});
      }
    }
    hub_->give(want, to_link(given));
    return;
  }
  if (const auto* const condition = std::get_if<ConditionKey>(&*key)) {
    const auto found = spec_.values.conditions.find(condition->hash);
    if (found == spec_.values.conditions.end()) {
      return hub_->give_nothing(want);
    }
    try {
      hub_->give(want, to_link(parcel_of(found->second.get())));
    } catch (const Error& error) {  // the disk
      log_message(LogLevel::warning, error.what());
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
  if (model && asks_for_model(*key)) {
    model->answer(*hub_, want, *key);
  } else if (!channel || asks_for_model(*key) || !channel->answer(want, *key)) {
    hub_->give_nothing(want);
  }
}

// ---- what processes say

void CompanyListener::on_record(net::PeerId peer,
                                std::span<const std::byte> record) {
  const auto member = member_of(peer);
  if (!member) {
    if (spec_.clients != nullptr) {
      spec_.clients->hear(*hub_, peer, record);
    }
    return;
  }
  try {
    if (const auto message =
            member->assembler.add(record, wire::kMostNewsBytes)) {
      News news = wire::decode_news(bytes_of(*message));
      if (const auto* value = std::get_if<DamagedValue>(&news)) {
        blame(member, *value);
      } else {
        hear(*member, std::move(news));
      }
    }
  } catch (const Error& error) {
    std::unique_lock lock(mutex_);
    const std::string who = label_of(members_.known(*member));
    lock.unlock();
    breach(peer, who + ": " + error.what());
  }
}

/// Drops one process: the holder that gave the damaged value, or the reader
/// that reports the damage. The report is believed, because the reader gets
/// other values whole. A reader that names a second holder is dropped itself:
/// more likely this reader is wrong than both holders. The coordinator's
/// process cannot be dropped. Errors: Errc::corrupt_file if the reader is to be
/// dropped.
void CompanyListener::blame(const std::shared_ptr<Member>& by,
                            const DamagedValue& value) {
  const auto expect = [](bool is_so, const char* what) {
    require(is_so, Errc::corrupt_file, "value", what);
  };
  {
    const std::lock_guard lock(mutex_);
    expect(value.process == by->process &&
               value.holder <= static_cast<int>(members_.known().size()),
           "it speaks for another process");
    if (is_over_) {
      return;
    }
    expect(value.holder != kHomeProcess,
           "a value of the first process came damaged to it");
    expect(by->blamed.value_or(value.holder) == value.holder,
           "values of two processes came damaged to it");
    by->blamed = value.holder;
  }
  damaged(value.holder, "a value of process " + std::to_string(value.holder) +
                            " came damaged to process " +
                            std::to_string(value.process) +
                            ", which gets others whole");
}

void CompanyListener::tell(CoordinatorEvent event) {
  if (coordinator_) {
    caf::anon_send(coordinator_, std::move(event));
  }
}

void CompanyListener::hear(Member& member, News news) {
  const auto expect = [&](bool is_its_own) {
    require(is_its_own, Errc::corrupt_file, "message",
            "it speaks for another process");
  };
  const std::lock_guard lock(mutex_);
  if (auto* join = std::get_if<Join>(&news)) {
    expect(join->joined.process == member.process && !member.join);
    this->join(member, std::move(*join));
  } else if (auto* up = std::get_if<WorkerUp>(&news)) {
    expect(member.has(up->worker));
    if (system_ != nullptr) {
      WorkerActor& worker = member.workers[up->worker];
      caf::anon_send_exit(worker, caf::exit_reason::user_shutdown);
      worker = spawn_worker_proxy(*system_, member.outbox, *up);
      caf::anon_send(coordinator_, *up, worker);
    }
  } else if (auto* down = std::get_if<WorkerDown>(&news)) {
    expect(member.has(down->worker));
    if (down->gone && !is_over_) {
      ++member.num_lost;
      log_lost_worker(members_.known(member), rest(), down->gone->message);
    }
    tell(*std::move(down));
  } else if (auto* beat = std::get_if<WorkerBeat>(&news)) {
    expect(member.has(beat->worker));
    tell(*beat);
  } else if (auto* result = std::get_if<GrantResult>(&news)) {
    expect(member.has(result->worker));
    check_result(*result);
    result->span.worker = result->worker;
    result->span.process = member.process;
    member.clock.place(result->span, SteadyClock().now());
    Process& known = members_.known(member);
    known.clock_error = std::max(known.clock_error, member.clock.error());
    tell(*std::move(result));
  } else if (auto* drain = std::get_if<DrainProcess>(&news)) {
    expect(drain->process == member.process);
    member.drains = true;
    if (member.is_presented) {
      tell(*drain);
    }
  } else if (const auto* report = std::get_if<ProcessReport>(&news)) {
    expect(report->process == member.process);
    Process& known = members_.known(member);
    known.bytes_sent = report->bytes_given;
    known.bytes_received = report->bytes_fetched;
    members_.gives_model(member, report->gives_model);
  } else {
    expect(false);
  }
}

/// Translates the class numbers of the process to those of the job, then
/// presents the process to the coordinator.
void CompanyListener::join(Member& member, Join join) {
  const std::string& required = spec_.required_class;
  const std::vector<ClassRecord>& offered = spec_.offer.job.execution_classes;
  for (WorkerTraits& worker : join.joined.workers) {
    const ClassRecord& own =
        join.classes[static_cast<std::size_t>(worker.execution_class)];
    if (!required.empty() && own.name != required) {
      const std::string why =
          "the process computes other bytes than the job: got class " +
          own.name + ", expected " + required;
      member.outbox->send(wire::encode(News(RefuseProcess{
          member.process,
          {Errc::another_class, "execution class", why,
           "use the same build on hosts of one kind, or hold all to one level "
           "with --isa"}})));
      member.is_refused = true;
      log_refused(label_of(members_.known(member)), why);
      return;
    }
    worker.execution_class = spec_.classes->number_of(own);
    if (spec_.row_seconds) {
      worker.row_seconds = spec_.row_seconds(
          own, device_name(join.joined.means, worker.device), worker.threads);
    }
    std::vector<std::string>& known = members_.known(member).execution_classes;
    if (std::ranges::find(known, own.name) != known.end()) {
      continue;
    }
    known.push_back(own.name);
    if (std::ranges::find(offered, own.name, &ClassRecord::name) ==
        offered.end()) {
      log_message(LogLevel::warning,
                  label_of(members_.known(member)) +
                      " computes in another execution class: its images have "
                      "the bytes of class " +
                      own.name +
                      " (--isa or --require-class holds all to one)");
    }
  }
  member.join = std::move(join);
  if (system_ != nullptr) {
    measure(member);
  }
}

/// Shows the process to the coordinator.
void CompanyListener::present(Member& member, const Join& join) {
  member.is_presented = true;
  const net::PeerId peer = member.peer;
  ProcessProxySpec proxy{.outbox = member.outbox};
  proxy.on_answer = [this, peer](const AdmitProcess& admit) {
    const std::lock_guard lock(mutex_);
    if (const auto its = members_.find(peer)) {
      its->first_worker = admit.first_worker;
      its->num_workers = admit.num_workers;
      members_.known(*its).work.workers = admit.num_workers;
      log_joined(members_.known(*its), its->join->joined);
    }
  };
  proxy.on_refusal = [this, peer](const Failure& why) {
    const std::lock_guard lock(mutex_);
    if (const auto its = members_.find(peer)) {
      its->is_refused = true;
      log_refused(label_of(members_.known(*its)), why.message);
    }
  };
  proxy.on_end = [this, peer] {
    const std::lock_guard lock(mutex_);
    const auto its = members_.find(peer);
    if (its && its->actor) {  // let go by the coordinator
      its->outbox->send(wire::encode(News(JobOver{})));
    }
  };
  member.actor = spawn_process_proxy(*system_, std::move(proxy));
  caf::anon_send(coordinator_, join.joined, member.actor);
  if (member.drains) {
    tell(DrainProcess{member.process});
  }
}

}  // namespace troupe::actors
