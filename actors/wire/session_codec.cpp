#include "actors/wire/session_codec.h"

#include <algorithm>
#include <utility>

#include "actors/wire/job_codec.h"
#include "actors/wire/news_codec.h"

namespace troupe::actors::wire {
namespace {

/// The most bytes of a greeting's record.
constexpr std::size_t kMostGreeting = std::size_t{64} << 10U;
constexpr int kMostEndpoints = 64;
constexpr int kMostWorkersOfOne = 1 << 16;

template <typename Field>
std::vector<std::string> texts_of(const Field& from) {
  if (from.size() > kMostEndpoints) {
    refuse("more than " + std::to_string(kMostEndpoints) + " endpoints");
  }
  return {from.begin(), from.end()};
}

void write(const PeerTokens& tokens, proto::PeerTokens& to) {
  to.set_request(tokens.request);
  to.set_answer(tokens.answer);
}

PeerTokens read(const proto::PeerTokens& from) {
  return {from.request(), from.answer()};
}

template <typename Message>
Message parsed_greeting(std::span<const std::byte> bytes) {
  limit_fields(bytes, 1, kMostEndpoints + 8);
  Message message;
  parse(bytes, kMostGreeting, message);
  refuse_unknown_fields(message);
  return message;
}

}  // namespace

void write(const DrainProcess& drain, proto::News& news) {
  news.mutable_drain()->set_process(drain.process);
}

DrainProcess read(const proto::DrainProcess& from) {
  return {natural(from.process())};
}

void write(const Offer& offer, proto::News& news) {
  proto::Offer& to = *news.mutable_offer();
  to.set_job(encode(offer.job));
  to.set_previews(offer.previews);
  to.set_trajectory(offer.trajectory);
  to.set_trace(offer.trace);
}

Offer read(const proto::Offer& from) {
  Offer offer;
  offer.job = read_job(std::as_bytes(std::span(from.job())));
  offer.previews = from.previews();
  offer.trajectory = from.trajectory();
  offer.trace = from.trace();
  return offer;
}

void write(const ProcessJoined& joined, proto::ProcessJoined& to) {
  to.set_process(joined.process);
  write_all(joined.workers, *to.mutable_workers());
  to.set_value_budget(joined.value_budget);
  write(joined.means, *to.mutable_means());
}

ProcessJoined read(const proto::ProcessJoined& from) {
  ProcessJoined joined{
      natural(from.process()), {}, from.value_budget(), read(from.means())};
  read_all(from.workers(), joined.workers);
  return joined;
}

void write(const Join& join, proto::News& news) {
  proto::Join& to = *news.mutable_join();
  for (const ClassRecord& one : join.classes) {
    write(one, *to.add_classes());
  }
  write(join.joined, *to.mutable_joined());
}

Join read(const proto::Join& from) {
  Join join;
  read_all(from.classes(), join.classes);
  join.joined = read(from.joined());
  for (const ClassRecord& one : join.classes) {
    check_class_name(one.name);
  }
  for (const WorkerTraits& worker : join.joined.workers) {
    if (static_cast<std::size_t>(worker.execution_class) >=
        join.classes.size()) {
      refuse("a worker of class " + std::to_string(worker.execution_class) +
             " of " + std::to_string(join.classes.size()));
    }
  }
  return join;
}

void write(const EndWorker& end, proto::News& news) {
  news.mutable_end_worker()->set_worker(end.worker);
  news.mutable_end_worker()->set_epoch(end.epoch);
  write(end.cause, *news.mutable_end_worker()->mutable_cause());
}

EndWorker read(const proto::EndWorker& from) {
  return {natural(from.worker()), from.epoch(), read(from.cause())};
}

void write(const PeerAddress& peer, proto::News& news) {
  news.mutable_peer()->set_process(peer.process);
  for (const std::string& endpoint : peer.endpoints) {
    news.mutable_peer()->add_endpoints(endpoint);
  }
  write(peer.tokens, *news.mutable_peer()->mutable_tokens());
  news.mutable_peer()->set_gives_model(peer.gives_model);
}

PeerAddress read(const proto::PeerAddress& from) {
  return {natural(from.process()), texts_of(from.endpoints()),
          read(from.tokens()), from.gives_model()};
}

void write(const JobOver& over, proto::News& news) {
  proto::JobOver& to = *news.mutable_over();
  if (over.cause) {
    write(*over.cause, *to.mutable_cause());
  }
}

JobOver read(const proto::JobOver& from) {
  JobOver over;
  if (from.has_cause()) {
    over.cause = read(from.cause());
  }
  return over;
}

void write(const ProcessReport& report, proto::News& news) {
  proto::ProcessReport& to = *news.mutable_report();
  to.set_process(report.process);
  to.set_bytes_fetched(report.bytes_fetched);
  to.set_bytes_given(report.bytes_given);
  to.set_gives_model(report.gives_model);
}

ProcessReport read(const proto::ProcessReport& from) {
  return {natural(from.process()), from.bytes_fetched(), from.bytes_given(),
          from.gives_model()};
}

void write(const DamagedValue& damaged, proto::News& news) {
  news.mutable_damaged()->set_process(damaged.process);
  news.mutable_damaged()->set_holder(damaged.holder);
}

DamagedValue read(const proto::DamagedValue& from) {
  const DamagedValue damaged{natural(from.process()), natural(from.holder())};
  if (damaged.process == damaged.holder) {
    refuse("a process that reports its own values as damaged");
  }
  return damaged;
}

std::string encode(const Applicant& applicant) {
  proto::Applicant message;
  message.set_version(applicant.version);
  message.set_name(applicant.name);
  for (const std::string& endpoint : applicant.endpoints) {
    message.add_endpoints(endpoint);
  }
  message.set_cpu_workers(applicant.workers.cpu);
  message.set_gpu_workers(applicant.workers.gpu);
  return bytes_of(message, kMostGreeting);
}

Applicant decode_applicant(std::span<const std::byte> bytes) {
  const auto message = parsed_greeting<proto::Applicant>(bytes);
  const config::WorkerCount workers{natural(message.cpu_workers()),
                                    natural(message.gpu_workers())};
  if (std::max(workers.cpu, workers.gpu) > kMostWorkersOfOne) {
    refuse("a process with more workers than a machine has");
  }
  return {message.version(), message.name(), texts_of(message.endpoints()),
          workers};
}

std::string encode(const Welcome& welcome) {
  proto::Welcome message;
  message.set_version(welcome.version);
  message.set_process(welcome.process);
  message.set_is_over(welcome.is_over);
  write(welcome.tokens, *message.mutable_tokens());
  return bytes_of(message, kMostGreeting);
}

Welcome decode_welcome(std::span<const std::byte> bytes) {
  const auto message = parsed_greeting<proto::Welcome>(bytes);
  return {message.version(), natural(message.process()), message.is_over(),
          read(message.tokens())};
}

std::string encode(const PeerGreeting& greeting) {
  proto::PeerGreeting message;
  message.set_process(greeting.process);
  message.set_token(greeting.token);
  return bytes_of(message, kMostGreeting);
}

PeerGreeting decode_peer_greeting(std::span<const std::byte> bytes) {
  const auto message = parsed_greeting<proto::PeerGreeting>(bytes);
  return {natural(message.process()), message.token()};
}

}  // namespace troupe::actors::wire
