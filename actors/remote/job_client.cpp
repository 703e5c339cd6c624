#include "actors/remote/job_client.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "actors/remote/listen_at.h"
#include "actors/wire/codec.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

/// Behind the address as its place. `looked`: how long at most for an answer.
std::string in_words(const net::Loss& loss, Duration looked) {
  if (loss.cause == net::LossCause::unreachable) {
    return fmt::format("no job was found there within {:g} s: {}",
                       std::chrono::duration<double>(looked).count(),
                       loss.seen);
  }
  return loss.seen.empty() ? loss.what : loss.seen;
}

}  // namespace

JobClient::JobClient(ClientSpec spec) : spec_(std::move(spec)) {
  hub_ = spec_.make_hub ? spec_.make_hub(spec_.hub, *this)
                        : net::make_hub(spec_.hub, *this);
  net::DialOptions dial = spec_.dial;
  dial.record = wire::encode(Applicant{spec_.version, spec_.name, {}});
  const std::lock_guard lock(mutex_);
  peer_ = dial_at(*hub_, spec_.endpoint, std::move(dial), spec_.place);
}

JobClient::~JobClient() {
  hub_ = nullptr;  // no call of the handler from here on
}

/// Errors: why the job cannot be asked any more.
bool JobClient::has_ended(const std::unique_lock<std::mutex>& /*lock*/) const {
  if (failure_) {
    throw to_error(*failure_);
  }
  return is_over_;
}

std::optional<ClientAnswer> JobClient::ask(const ClientQuestion& question,
                                           Duration patience,
                                           std::stop_token stop) {
  std::unique_lock lock(mutex_);
  const auto await = [&](const auto& is_so) {
    const bool came = news_.wait_for(lock, stop, patience, [&] {
      return is_over_ || failure_.has_value() || is_so();
    });
    require(!stop.stop_requested(), Errc::interrupted, spec_.endpoint,
            "stopped before the job answered");
    require(came, Errc::unreachable, spec_.endpoint,
            "the job there does not answer");
  };
  await([this] { return is_up_; });
  if (has_ended(lock)) {
    return std::nullopt;
  }
  lock.unlock();
  (void)hub_->send(peer_, net::share(wire::encode(question)));
  lock.lock();
  await([this] { return !answers_.empty(); });
  if (answers_.empty() && has_ended(lock)) {
    return std::nullopt;
  }
  ClientAnswer answer = std::move(answers_.front());
  answers_.pop_front();
  if (const auto* refused = std::get_if<Failure>(&answer)) {
    throw to_error(*refused);
  }
  return answer;
}

void JobClient::on_greeting(net::PeerId peer,
                            const net::Greeting& /*greeting*/) {
  hub_->refuse(peer, "this process is a client and accepts no links");
}

void JobClient::on_up(net::PeerId /*peer*/, const net::Greeting& /*greeting*/) {
  const std::lock_guard lock(mutex_);
  is_up_ = true;
  news_.notify_all();
}

void JobClient::on_record(net::PeerId /*peer*/,
                          std::span<const std::byte> record) {
  std::optional<ClientAnswer> answer;
  std::optional<Failure> flaw;
  try {
    answer = wire::decode_answer(record);
  } catch (const Error&) {
    flaw = current_failure();
  }
  const std::lock_guard lock(mutex_);
  if (answer) {
    answers_.push_back(std::move(*answer));
  } else {
    failure_ = std::move(flaw);
  }
  news_.notify_all();
}

void JobClient::on_wanted(net::PeerId /*peer*/, net::WantId want,
                          std::string_view /*key*/) {
  hub_->give_nothing(want);
}

void JobClient::on_lost(net::PeerId /*peer*/, const net::Loss& loss) {
  const bool is_refusal = loss.cause == net::LossCause::refused ||
                          loss.cause == net::LossCause::version;
  const std::lock_guard lock(mutex_);
  if (loss.cause == net::LossCause::left) {
    is_over_ = true;
  } else {
    failure_ = Failure{is_refusal ? Errc::invalid_argument : Errc::unreachable,
                       spec_.endpoint,
                       in_words(loss, spec_.dial.deadline),
                       {}};
  }
  news_.notify_all();
}

}  // namespace troupe::actors
