#include "actors/remote/company_member.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <utility>
#include <variant>

#include "actors/remote/link_values.h"
#include "actors/remote/listen_at.h"
#include "actors/remote/peer_checks.h"
#include "actors/shells.h"
#include "actors/system_config.h"
#include "actors/worker_core.h"
#include "kernels/core/error.h"
#include "kernels/core/log.h"
#include "kernels/core/pool.h"

namespace troupe::actors {

using net::bytes_of;
using wire::News;

namespace {

/// Between two reports.
constexpr auto kReportInterval = std::chrono::seconds(1);

net::DialOptions dial_options(const std::optional<PeerSpec>& peers) {
  return peers ? net::DialOptions{{}, peers->key, peers->deadline}
               : net::DialOptions{};
}

constexpr const char* kNobodyWaits = "nobody waits for the prompts any more";

/// The coordinator's process lives, but does not do what it is waited for.
Failure does_not(const char* what, const MemberSpec& spec) {
  const std::chrono::duration<double> patience = spec.patience;
  return {
      Errc::unreachable,
      spec.endpoint,
      fmt::format("the first process {} within {} s", what, patience.count()),
      {}};
}

}  // namespace

CompanyMember::CompanyMember(MemberSpec spec)
    : spec_(std::move(spec)),
      channel_(std::make_shared<LinkChannel>(
          own_values_, LinkChannelOptions{
                           .relay = kHomeProcess,
                           .dial = dial_options(spec_.peers),
                           .silence = spec_.silence,
                           .on_damage = [this](int holder, const std::string&) {
                             report_damage(holder);
                           }})) {
  hub_ = spec_.make_hub ? spec_.make_hub(spec_.hub, *this)
                        : net::make_hub(spec_.hub, *this);
  net::DialOptions dial = spec_.dial;
  dial.record = wire::encode(
      Applicant{spec_.version, spec_.name, listen(), spec_.workers});
  const std::lock_guard lock(mutex_);
  peer_ = dial_at(*hub_, spec_.endpoint, std::move(dial), spec_.place);
  outbox_ = std::make_shared<Outbox>(*hub_, peer_);
}

/// Listens for other workers; returns the endpoints to dial.
std::vector<std::string> CompanyMember::listen() {
  if (!spec_.peers || spec_.peers->bind.empty()) {
    return {};
  }
  try {
    const PeerSpec& own = *spec_.peers;
    return {advertised(own.advertise, listen_at(*hub_, own.bind, own.place))};
  } catch (const Error& error) {
    if (!spec_.peers->may_fail) {
      throw;
    }
    log_message(LogLevel::info,
                std::string("the coordinator relays values from here: ") +
                    error.what());
    return {};
  }
}

CompanyMember::~CompanyMember() {
  channel_->close();
  std::unique_lock lock(mutex_);
  const std::shared_ptr<ModelGiver> giver = std::move(giver_);
  lock.unlock();
  // The giver ends before the hub over which it gives.
}

std::optional<Offered> CompanyMember::wait_for_offer(
    std::stop_token stop, const std::function<void()>& on_stand_by) {
  const std::stop_callback wake(stop, [this] {
    const std::lock_guard lock(mutex_);
    news_.notify_all();
  });
  std::unique_lock lock(mutex_);
  const auto is_settled = [&] {
    return offer_ || end_ || stop.stop_requested();
  };
  const bool came = news_.wait_for(lock, spec_.patience,
                                   [&] { return stands_by_ || is_settled(); });
  if (!came) {
    throw to_error(does_not("offered no job", spec_));
  }
  if (!is_settled() && on_stand_by) {
    lock.unlock();
    on_stand_by();
    lock.lock();
  }
  news_.wait(lock, is_settled);
  if (end_ && (end_->kind == MemberEnd::Kind::over ||
               end_->kind == MemberEnd::Kind::next)) {
    return std::nullopt;
  }
  if (end_) {
    throw to_error(end_->cause.value());
  }
  require(offer_.has_value(), Errc::interrupted, spec_.endpoint,
          "stopped before there was a job");
  return std::exchange(offer_, std::nullopt);
}

bool CompanyMember::stands_by() const {
  const std::lock_guard lock(mutex_);
  return stands_by_;
}

std::optional<MemberEnd> CompanyMember::end() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

void CompanyMember::give_text(std::uint64_t text,
                              const models::EncodedText& encoded,
                              std::stop_token stop) {
  constexpr std::uint64_t kMostHeld = std::uint64_t{32} << 20U;
  const std::stop_callback wake(stop, [this] {
    const std::lock_guard lock(mutex_);
    news_.notify_all();
  });
  std::unique_lock lock(mutex_);
  const auto has_room = [this] {
    std::uint64_t bytes = 0;
    for (const auto& [number, parcel] : texts_) {
      bytes += num_bytes(parcel);
    }
    return bytes <= kMostHeld;
  };
  news_.wait(lock, [&] { return end_ || has_room() || stop.stop_requested(); });
  require(!end_, Errc::unreachable, spec_.endpoint, kNobodyWaits);
  require(has_room(), Errc::interrupted, spec_.endpoint,
          "stopped before the prompts were fetched");
  texts_[text] = {{"hidden", encoded.hidden}, {"pooled", encoded.pooled}};
  outbox_->send(wire::encode(News(TextEncoded{text})));
}

void CompanyMember::answer(
    const std::variant<EncodingDone, EncodingRefused>& answer) {
  const std::string message = std::visit(
      [](const auto& part) { return wire::encode(News(part)); }, answer);
  const std::lock_guard lock(mutex_);
  require(!end_, Errc::unreachable, spec_.endpoint, kNobodyWaits);
  outbox_->send(message);
}

std::vector<int> CompanyMember::model_givers() const {
  return spec_.peers ? channel_->model_givers() : std::vector<int>{};
}

void CompanyMember::ask(int process, const ValueKey& key,
                        const net::FetchOptions& options,
                        const net::FetchTaker& taker) {
  channel_->ask(process, key, options, taker);
}

void CompanyMember::give_model(std::shared_ptr<ModelGiver> giver) {
  if (!spec_.peers) {
    return;
  }
  const std::lock_guard lock(mutex_);
  giver_.swap(giver);
  report();
  // What gave until now ends after the lock: its thread ends with it.
}

bool CompanyMember::gives_model() const {
  const std::lock_guard lock(mutex_);
  return giver_ != nullptr;
}

Parcel CompanyMember::take(std::future<net::Fetched>& asked,
                           const std::string& what,
                           const std::stop_token& stop) const {
  constexpr auto kGlance = std::chrono::milliseconds(50);
  while (asked.wait_for(kGlance) != std::future_status::ready) {
    require(!stop.stop_requested(), Errc::interrupted, spec_.endpoint,
            "stopped before " + what + " came");
    require(!is_over(), Errc::unreachable, spec_.endpoint, "the job is over");
  }
  const net::Fetched fetched = asked.get();
  require(fetched.status == net::FetchStatus::found, Errc::unreachable,
          spec_.endpoint, what + " did not come: " + fetched.what);
  return from_link(fetched.value);
}

std::future<net::Fetched> CompanyMember::ask_home(const ValueKey& key,
                                                  std::size_t most_bytes) {
  auto promise = std::make_shared<std::promise<net::Fetched>>();
  ask(kHomeProcess, key, patient_fetch(most_bytes),
      [promise](net::Fetched its) { promise->set_value(std::move(its)); });
  return promise->get_future();
}

JobValues CompanyMember::values_of(const JobRecord& job, std::stop_token stop) {
  // So many small ones hide the time of a message to a host far away.
  constexpr std::size_t kAskedAhead = 32;
  std::vector<std::uint64_t> hashes = job.conditions;
  hashes.insert(hashes.end(), job.unconditional.begin(),
                job.unconditional.end());
  std::ranges::sort(hashes);
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
  std::erase(hashes, 0U);
  JobValues values;
  const auto store = std::make_shared<TensorStore>();
  std::deque<std::future<net::Fetched>> asked;
  auto next = hashes.begin();
  while (next != hashes.end() || !asked.empty()) {
    while (asked.size() < kAskedAhead && next != hashes.end()) {
      asked.push_back(ask_home(ConditionKey{*next++}, kMostConditionBytes));
    }
    const models::Condition condition =
        condition_of(take(asked.front(), "a condition of the job", stop));
    asked.pop_front();
    values.conditions.emplace(condition.hash(),
                              StoredCondition(condition, store));
  }
  if (!job.init_latents.empty() || !job.guesses.empty()) {
    const std::size_t points = job.schedule.timesteps.size() + 1;
    const std::size_t latents =
        job.init_latents.size() + points * job.guesses.size();
    auto given = ask_home(
        LatentsKey{hash_of(job)},
        kMostOutlineBytes + latents * sizeof(float) *
                                static_cast<std::size_t>(
                                    Shape(job.latent_shape).num_elements()));
    for (NamedTensor& one : take(given, "the latents of the job", stop)) {
      require(one.name == "latents" || one.name == "guesses",
              Errc::corrupt_file, spec_.endpoint,
              "the job's latents are others");
      (one.name == "latents" ? values.init_latents : values.guesses) =
          std::move(one.tensor);
    }
  }
  return values;
}

void CompanyMember::decline(const Failure& cause) {
  leave(cause.place + ": " + cause.message);
}

void CompanyMember::leave(const std::string& sentence) {
  hub_->leave(peer_, sentence);
}

MemberEnd CompanyMember::serve(MemberJob job, std::stop_token drain,
                               std::stop_token stop) {
  const auto context = context_of(std::move(job.parts));
  {
    const std::lock_guard lock(mutex_);
    on_device_lost_ = std::move(job.on_device_lost);
  }
  const std::shared_ptr<ValueStore> store = make_store(*context, channel_);
  own_values_->attach(process_, answers_of(store));
  SystemConfig config;
  check_threads(kSystemThreads +
                (job.make_executor ? 0 : num_threads(job.workers)));
  MemberEnd end;
  {
    ThreadExecutor joiner;  // ends after the actors
    caf::actor_system system(config);
    const CoordinatorActor coordinator =
        spawn_coordinator_proxy(system, proxy_spec(std::move(job.classes)));
    const NodeActor node =
        spawn_node(system, {.process = process_,
                            .joins = true,
                            .workers = std::move(job.workers),
                            .value_budget = job.value_budget,
                            .means = std::move(job.means),
                            .restart = job.restart,
                            .job = context,
                            .store = store,
                            .make_executor = std::move(job.make_executor),
                            .coordinator = coordinator,
                            .joiner = &joiner});
    end = wait_for_end(coordinator, drain, std::move(stop));
    caf::anon_send_exit(node, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(coordinator, caf::exit_reason::user_shutdown);
  }
  channel_->close();
  {
    const std::lock_guard lock(mutex_);
    report();
  }
  leave(end.cause                ? end.cause->message
        : drain.stop_requested() ? "it was asked to leave"
                                 : "the job is over");
  return end;
}

std::shared_ptr<JobContext> CompanyMember::context_of(JobParts parts) {
  const std::lock_guard lock(mutex_);
  return std::make_shared<JobContext>(
      std::move(parts), std::make_shared<const SteadyClock>(), traces_);
}

CoordinatorProxySpec CompanyMember::proxy_spec(
    std::vector<ClassRecord> classes) {
  return {.outbox = outbox_,
          .classes = std::move(classes),
          .on_process =
              [this](const ProcessActor& actor) {
                const std::lock_guard lock(mutex_);
                node_ = actor;
              },
          .on_worker =
              [this](const WorkerUp& up, const WorkerActor& worker) {
                const std::lock_guard lock(mutex_);
                workers_[up.worker] = {up.epoch, worker};
              },
          .on_fault =
              [this](const Failure& cause) {
                finish({MemberEnd::Kind::failed, cause});
              }};
}

/// The job's end, as far as this process is concerned.
MemberEnd CompanyMember::wait_for_end(const CoordinatorActor& coordinator,
                                      std::stop_token drain,
                                      std::stop_token stop) {
  const std::stop_callback leave_soon(drain, [this, coordinator] {
    caf::anon_send(coordinator, CoordinatorEvent(DrainProcess{process_}));
  });
  const std::stop_callback leave_now(stop, [this] {
    finish({MemberEnd::Kind::failed,
            Failure{Errc::interrupted, "worker", "stopped by a signal", {}}});
  });
  const TimePoint deadline = SteadyClock().now() + spec_.patience;
  std::unique_lock lock(mutex_);
  while (!news_.wait_for(lock, kReportInterval,
                         [this] { return end_.has_value(); })) {
    report();
    if (!is_admitted_ && SteadyClock().now() >= deadline) {
      end_ = {MemberEnd::Kind::lost,
              does_not("did not admit this process", spec_)};
    }
  }
  node_ = nullptr;
  workers_.clear();
  return *end_;
}

/// Sends a ProcessReport, if it differs from the last one.
void CompanyMember::report() {
  const ProcessReport now{process_, channel_->bytes_fetched(),
                          channel_->bytes_given(), giver_ != nullptr};
  if (now.bytes_fetched != reported_.bytes_fetched ||
      now.bytes_given != reported_.bytes_given ||
      now.gives_model != reported_.gives_model) {
    reported_ = now;
    outbox_->send(wire::encode(News(now)));
  }
}

/// Reports the holder alone: the details stand in the log of this process.
void CompanyMember::report_damage(int holder) {
  const std::lock_guard lock(mutex_);
  outbox_->send(wire::encode(News(DamagedValue{process_, holder})));
}

bool CompanyMember::is_over() const {
  const std::lock_guard lock(mutex_);
  return end_ && end_->kind == MemberEnd::Kind::over;
}

void CompanyMember::finish(MemberEnd end) {
  {
    const std::lock_guard lock(mutex_);
    if (!end_) {
      end_ = std::move(end);
    }
    news_.notify_all();
  }
  ended_.request_stop();
}

// ---- what links bring

bool CompanyMember::is_coordinator(net::PeerId peer) const {
  const std::lock_guard lock(mutex_);
  return peer == peer_;
}

void CompanyMember::on_greeting(net::PeerId peer,
                                const net::Greeting& greeting) {
  channel_->accept(*hub_, peer, greeting);
}

void CompanyMember::on_up(net::PeerId peer, const net::Greeting& greeting) {
  if (!is_coordinator(peer)) {
    channel_->came_up(peer, greeting);
    return;
  }
  try {
    const Welcome welcome = wire::decode_welcome(bytes_of(greeting.record));
    if (welcome.is_over) {
      finish({});
      return;
    }
    channel_->set_peer(kHomeProcess, peer);
    channel_->open(*hub_, welcome.process, welcome.tokens);
    const std::lock_guard lock(mutex_);
    process_ = welcome.process;
  } catch (const Error& error) {
    finish({MemberEnd::Kind::failed, current_failure()});
  }
}

void CompanyMember::on_room(net::PeerId /*peer*/) { outbox_->on_room(); }

void CompanyMember::on_lost(net::PeerId peer, const net::Loss& loss) {
  if (!is_coordinator(peer)) {
    channel_->lost(peer, loss.what);
    return;
  }
  const bool is_refusal = loss.cause == net::LossCause::refused ||
                          loss.cause == net::LossCause::version;
  finish({is_refusal ? MemberEnd::Kind::refused : MemberEnd::Kind::lost,
          Failure{is_refusal ? Errc::invalid_argument : Errc::unreachable,
                  spec_.endpoint,
                  loss.seen.empty() ? loss.what : loss.seen,
                  {}}});
}

void CompanyMember::on_record(net::PeerId peer,
                              std::span<const std::byte> record) {
  if (!is_coordinator(peer)) {
    const std::string what =
        "a worker's process sends no messages of a coordinator";
    hub_->leave(peer, what);
    channel_->lost(peer, what);
    return;
  }
  try {
    if (const auto message = assembler_.add(record, wire::kMostNewsBytes)) {
      hear(wire::decode_news(bytes_of(*message)));
    }
  } catch (const Error&) {
    finish({MemberEnd::Kind::failed, current_failure()});
  }
}

template <typename Message>
void CompanyMember::pass_on(Message message) {
  if constexpr (AlternativeOf<Message, WorkerMessage>) {
    if constexpr (std::same_as<Message, Grant>) {
      check_grant(message, job_);
    }
    const auto found = workers_.find(message.worker);
    if (found != workers_.end()) {
      caf::anon_send(found->second.actor, WorkerMessage(std::move(message)));
    }
  } else if constexpr (AlternativeOf<Message, ProcessMessage>) {
    if (node_) {
      caf::anon_send(node_, ProcessMessage(std::move(message)));
    }
  } else {
    throw Error(Errc::corrupt_file, "message",
                "only a coordinator takes this message");
  }
}

void CompanyMember::end_worker(const EndWorker& end) {
  const auto found = workers_.find(end.worker);
  // The message may come late: the incarnation that it names has ended, and the
  // next one is at work.
  if (found != workers_.end() && found->second.epoch == end.epoch) {
    if (end.cause.code == Errc::device_lost) {
      log_message(LogLevel::warning,
                  "a worker of this process ends: " + end.cause.message);
    }
    const WorkerActor& worker = found->second.actor;
    caf::anon_send(caf::actor_cast<caf::actor>(worker),
                   caf::exit_msg{worker.address(), to_caf_error(end.cause)});
    if (end.cause.code == Errc::device_lost && on_device_lost_) {
      on_device_lost_();
    }
  }
}

void CompanyMember::hear(News news) {
  if (auto* over = std::get_if<JobOver>(&news)) {
    finish({MemberEnd::Kind::over, std::move(over->cause)});
    return;
  }
  if (std::holds_alternative<NextJob>(news)) {
    finish({MemberEnd::Kind::next, {}});
    return;
  }
  if (auto* refuse = std::get_if<RefuseProcess>(&news)) {
    finish({MemberEnd::Kind::refused, std::move(refuse->cause)});
    return;
  }
  if (const auto* address = std::get_if<PeerAddress>(&news)) {
    if (spec_.peers) {
      channel_->set_address(*address);
    }
    return;
  }
  const std::lock_guard lock(mutex_);
  if (auto* offer = std::get_if<Offer>(&news)) {
    traces_ = offer->trace;
    job_ = offer->job;
    channel_->set_job(hash_of(job_));
    offer_ = std::move(*offer);
    news_.notify_all();
  } else if (auto* encoding = std::get_if<EncodingOffer>(&news)) {
    check(encoding->record);
    stands_by_ = true;  // what follows it takes its time, too
    offer_ = std::move(*encoding);
    news_.notify_all();
  } else if (const auto* fetched = std::get_if<TextFetched>(&news)) {
    texts_.erase(fetched->text);
    news_.notify_all();
  } else if (std::holds_alternative<StandBy>(news)) {
    stands_by_ = true;
    news_.notify_all();
  } else if (auto* end = std::get_if<EndWorker>(&news)) {
    end_worker(*end);
  } else {
    is_admitted_ = is_admitted_ || std::holds_alternative<AdmitProcess>(news);
    std::visit([this](auto& message) { pass_on(std::move(message)); }, news);
  }
}

void CompanyMember::on_wanted(net::PeerId /*peer*/, net::WantId want,
                              std::string_view bytes) {
  const std::optional<ValueKey> key = key_of(bytes);
  if (const auto* const asked = key ? std::get_if<TextKey>(&*key) : nullptr) {
    const std::lock_guard lock(mutex_);
    const auto text = texts_.find(asked->text);
    return text == texts_.end() ? hub_->give_nothing(want)
                                : hub_->give(want, to_link(text->second));
  }
  std::shared_ptr<ModelGiver> giver;
  if (key && asks_for_model(*key)) {
    const std::lock_guard lock(mutex_);
    giver = giver_;
  }
  if (giver) {
    giver->answer(*hub_, want, *key);
  } else if (!key || !channel_->answer(want, *key)) {
    hub_->give_nothing(want);
  }
}

}  // namespace troupe::actors
