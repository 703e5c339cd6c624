#include "actors/remote/encoding_listener.h"

#include <algorithm>
#include <chrono>
#include <ranges>
#include <utility>
#include <variant>

#include "actors/remote/listen_at.h"
#include "actors/remote/member_log.h"
#include "kernels/core/error.h"
#include "kernels/core/log.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

using net::bytes_of;
using wire::News;

/// For the processes to leave; a process that encodes leaves at its next layer.
constexpr auto kTimeToLeave = std::chrono::seconds(5);
/// Between two looks for a process that says nothing any more.
constexpr Duration kBetweenGlances = std::chrono::seconds(1);
/// Of what a process says before the job begins.
constexpr std::size_t kMostMessageBytes = std::size_t{1} << 20U;
/// For a text to come; EncodingListenerSpec::silence ends sooner.
constexpr Duration kFetchDeadline = std::chrono::hours(24);

}  // namespace

EncodingListener::EncodingListener(EncodingListenerSpec spec)
    : spec_(std::move(spec)) {
  hub_ = spec_.make_hub ? spec_.make_hub(spec_.hub, *this)
                        : net::make_hub(spec_.hub, *this);
  endpoint_ = listen_at(*hub_, spec_.endpoint, spec_.place);
}

EncodingListener::~EncodingListener() {
  std::unique_lock lock(mutex_);
  if (is_dismissed_) {
    return;
  }
  is_over_ = true;
  answer_.reset();
  for (const auto& [peer, process] : processes_) {
    tell(process, JobOver{});
  }
  news_.wait_for(lock, kTimeToLeave, [this] { return processes_.empty(); });
}

std::size_t EncodingListener::num_here() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      processes_, [](const auto& entry) { return entry.second.is_up; }));
}

std::size_t EncodingListener::await_other_number(
    std::size_t known, std::optional<TimePoint> deadline,
    std::stop_token stop) {
  std::unique_lock lock(mutex_);
  const auto is_other = [&] { return num_here() != known; };
  if (deadline) {
    news_.wait_until(lock, stop, *deadline, is_other);
  } else {
    news_.wait(lock, stop, is_other);
  }
  return num_here();
}

config::WorkerCount EncodingListener::workers() const {
  const std::lock_guard lock(mutex_);
  config::WorkerCount all;
  for (const auto& [peer, process] : processes_) {
    if (process.is_up) {
      all += process.workers;
    }
  }
  return all;
}

void EncodingListener::ask_for(EncodingRecord record,
                               std::vector<EncoderShape> shapes) {
  check(record);
  const std::lock_guard lock(mutex_);
  record_ = std::move(record);
  shapes_ = std::move(shapes);
  ask_next();
}

EncodedElsewhere EncodingListener::wait(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (!news_.wait_for(lock, stop, std::min(kBetweenGlances, spec_.silence),
                         [this] { return result_.has_value(); })) {
    require(!stop.stop_requested(), Errc::interrupted, spec_.place,
            "stopped before the prompts were encoded");
    if (answer_ && SteadyClock().now() - heard_at_ > spec_.silence) {
      const auto minutes =
          std::chrono::duration_cast<std::chrono::minutes>(spec_.silence);
      give_up(
          processes_.at(*asked_).known,
          "nothing came of it for " +
              counted(static_cast<std::uint64_t>(minutes.count()), "minute"));
    }
  }
  return *std::exchange(result_, std::nullopt);
}

void EncodingListener::refuse(const std::string& why) {
  const std::lock_guard lock(mutex_);
  const auto found = asked_ ? processes_.find(*asked_) : processes_.end();
  if (found != processes_.end()) {
    give_up(found->second.known, why);
  } else {  // it has left meanwhile
    log_message(LogLevel::warning, "prompts are encoded again: " + why);
    ask_next();
  }
}

void EncodingListener::dismiss() {
  std::unique_lock lock(mutex_);
  is_dismissed_ = true;
  std::vector<net::PeerId> here;
  for (const auto& [peer, process] : processes_) {
    here.push_back(peer);
    tell(process, NextJob{});
  }
  news_.wait_for(lock, kTimeToLeave, [&] {
    return std::ranges::none_of(
        here, [this](net::PeerId peer) { return processes_.contains(peer); });
  });
}

std::vector<Process> EncodingListener::processes() const {
  const std::lock_guard lock(mutex_);
  std::vector<Process> processes;
  for (const auto& [peer, process] : processes_) {
    if (process.is_up) {
      processes.push_back(process.known);
    }
  }
  return processes;
}

bool EncodingListener::waits() const {
  const std::lock_guard lock(mutex_);
  return record_ && !asked_;
}

std::optional<int> EncodingListener::encoder() const {
  const std::lock_guard lock(mutex_);
  const auto found = answer_ ? processes_.find(*asked_) : processes_.end();
  return found != processes_.end() ? std::optional(found->second.known.process)
                                   : std::nullopt;
}

// ---- who is asked

void EncodingListener::tell(const Peer& process, const News& news) const {
  if (process.is_up) {
    process.outbox->send(wire::encode(news));
  }
}

void EncodingListener::ask_next() {
  answer_.reset();
  asked_.reset();
  for (const auto& [peer, process] : processes_) {  // as they came
    if (process.is_up && !process.has_declined) {
      asked_ = peer;
      answer_.emplace(*record_, shapes_);
      asked_at_ = SteadyClock().now();
      heard_at_ = asked_at_;
      log_message(LogLevel::info,
                  label_of(process.known) + " is asked to encode the prompts");
      tell(process, EncodingOffer{*record_});
      return;
    }
  }
}

void EncodingListener::give_up(const Process& asked, const std::string& why) {
  const Process whom = asked;
  if (const auto found = processes_.find(*asked_); found != processes_.end()) {
    found->second.has_declined = true;
  }
  ask_next();
  log_no_encoder(whom, answer_.has_value(), why);
}

void EncodingListener::remove(net::PeerId peer, const std::string& why) {
  const auto found = processes_.find(peer);
  if (found == processes_.end()) {
    return;
  }
  const Process gone = found->second.known;
  processes_.erase(found);
  if (answer_ && asked_ == peer && !is_over_ && !is_dismissed_) {
    give_up(gone, why);
  }
  news_.notify_all();
}

void EncodingListener::hear(net::PeerId peer, Peer& process, News news) {
  const bool is_asked = answer_ && asked_ == peer;
  if (!is_asked && (process.has_declined || is_over_ || is_dismissed_)) {
    return;  // it was said before it heard of that
  }
  require(is_asked, Errc::corrupt_file, "message",
          "it was not asked to encode");
  heard_at_ = SteadyClock().now();
  if (const auto* text = std::get_if<TextEncoded>(&news)) {
    hub_->fetch(
        peer, wire::encode(ValueKey(TextKey{text->text})),
        {.most_bytes = answer_->name(*text), .deadline = kFetchDeadline},
        [this, peer, number = text->text](const net::Fetched& its) {
          fetched(peer, number, its);
        });
  } else if (const auto* done = std::get_if<EncodingDone>(&news)) {
    answer_->end(*done);
    finish();
  } else if (const auto* refused = std::get_if<EncodingRefused>(&news)) {
    give_up(process.known, to_error(refused->cause).what());
  } else {
    throw Error(Errc::corrupt_file, "message",
                "the message belongs to a job that was not offered");
  }
}

void EncodingListener::finish() {
  if (std::optional<EncodedElsewhere> result = answer_->finish()) {
    result->seconds =
        std::chrono::duration<double>(heard_at_ - asked_at_).count();
    result_ = std::move(result);
    answer_.reset();
    news_.notify_all();
  }
}

void EncodingListener::breach(net::PeerId peer, const Error& error) {
  const std::string what =
      label_of(processes_.at(peer).known) + ": " + error.what();
  if (!answer_ || asked_ != peer) {  // else `remove` says so
    log_message(LogLevel::warning, what);
  }
  hub_->leave(peer, what);
  remove(peer, error.what());
}

// ---- what the links bring

void EncodingListener::fetched(net::PeerId peer, std::uint64_t text,
                               const net::Fetched& its) {
  const std::lock_guard lock(mutex_);
  if (!answer_ || asked_ != peer || its.status == net::FetchStatus::lost) {
    return;  // another one is asked; `on_lost` reports a loss
  }
  try {
    answer_->take(text, its);
    heard_at_ = SteadyClock().now();
    tell(processes_.at(peer), TextFetched{text});
    finish();
  } catch (const Error& error) {
    breach(peer, error);
  }
}

void EncodingListener::on_greeting(net::PeerId peer,
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
    Welcome welcome{own, kHomeProcess, true, {}};
    {
      const std::lock_guard lock(mutex_);
      if (!is_over_) {
        welcome = {own, ++num_known_, false, new_tokens()};
        Peer& process = processes_[peer];
        process.known = {.name = applicant.name, .process = welcome.process};
        process.known.work.workers =
            applicant.workers.cpu + applicant.workers.gpu;
        process.workers = applicant.workers;
        process.outbox = std::make_shared<Outbox>(*hub_, peer);
      }
    }
    hub_->accept(peer, wire::encode(welcome),
                 "process " + std::to_string(welcome.process));
  } catch (const Error& error) {
    hub_->refuse(peer, error.what());
  }
}

void EncodingListener::on_up(net::PeerId peer,
                             const net::Greeting& /*greeting*/) {
  const std::lock_guard lock(mutex_);
  const auto found = processes_.find(peer);
  if (found == processes_.end()) {
    return;
  }
  Peer& process = found->second;
  process.is_up = true;
  if (is_over_) {
    tell(process, JobOver{});
  } else if (is_dismissed_) {
    tell(process, NextJob{});
  } else if (record_ && !asked_) {
    ask_next();
  } else {
    tell(process, StandBy{});
  }
  news_.notify_all();
}

void EncodingListener::on_record(net::PeerId peer,
                                 std::span<const std::byte> record) {
  std::unique_lock lock(mutex_);
  const auto found = processes_.find(peer);
  if (found == processes_.end()) {
    lock.unlock();
    if (spec_.clients != nullptr) {
      spec_.clients->hear(*hub_, peer, record);
    }
    return;
  }
  Peer& process = found->second;
  try {
    if (const auto message = process.assembler.add(record, kMostMessageBytes)) {
      hear(peer, process, wire::decode_news(bytes_of(*message)));
    }
  } catch (const Error& error) {
    breach(peer, error);
  }
}

void EncodingListener::on_room(net::PeerId peer) {
  const std::lock_guard lock(mutex_);
  const auto found = processes_.find(peer);
  if (found != processes_.end()) {
    found->second.outbox->on_room();
  }
}

void EncodingListener::on_wanted(net::PeerId /*peer*/, net::WantId want,
                                 std::string_view /*key*/) {
  hub_->give_nothing(want);
}

void EncodingListener::on_other_key(const std::string& address) {
  log_other_key(address, spec_.hub.keys.has_value());
}

void EncodingListener::on_lost(net::PeerId peer, const net::Loss& loss) {
  if (spec_.clients != nullptr && spec_.clients->remove(peer)) {
    return;
  }
  const std::lock_guard lock(mutex_);
  remove(peer, loss.what);
}

}  // namespace troupe::actors
