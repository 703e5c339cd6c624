#include "actors/wire/client_codec.h"

#include <algorithm>

#include "actors/wire/message.h"
#include "actors/wire/news_parts.h"
#include "actors/wire/wire.pb.h"

namespace troupe::actors::wire {
namespace {

/// Of a sentence or a name: a peer can say anything.
constexpr std::size_t kMostText = 1024;

/// Of one node: an answer has room for those of all nodes.
constexpr std::size_t kMostShownDevices = 16;
constexpr int kMostShownClasses = 4;
constexpr std::size_t kMostOfClass = 32;

std::string short_text(const std::string& text) {
  return text.substr(0, kMostText);
}

void write(const NodeStatus& node, proto::NodeStatus& to) {
  // An answer has room for all of them.
  constexpr std::size_t kMostOfNode = 128;
  to.set_name(node.name.substr(0, kMostOfNode));
  to.set_process(node.process);
  to.set_workers(node.workers);
  to.set_tasks(node.tasks);
  to.set_rows(node.rows);
  to.set_busy_seconds(node.busy_seconds);
  to.set_busy_share(node.busy_share);
  to.set_bytes_sent(node.bytes_sent);
  to.set_bytes_received(node.bytes_received);
  to.set_losses(node.losses);
  to.set_status(node.status);
  to.set_cause(node.cause.substr(0, kMostOfNode));
  to.set_threads(node.threads);
  ProcessMeans means = node.means;
  means.devices.resize(std::min(means.devices.size(), kMostShownDevices));
  wire::write(means, *to.mutable_means());
  for (const std::string& name : node.execution_classes) {
    if (to.execution_classes_size() < kMostShownClasses) {
      to.add_execution_classes(name.substr(0, kMostOfClass));
    }
  }
}

NodeStatus read(const proto::NodeStatus& from) {
  return {.name = from.name(),
          .process = natural(from.process()),
          .workers = natural(from.workers()),
          .threads = natural(from.threads()),
          .tasks = from.tasks(),
          .rows = from.rows(),
          .busy_seconds = from.busy_seconds(),
          .busy_share = from.busy_share(),
          .bytes_sent = from.bytes_sent(),
          .bytes_received = from.bytes_received(),
          .losses = natural(from.losses()),
          .status = from.status(),
          .cause = from.cause(),
          .means = wire::read(from.means()),
          .execution_classes = {from.execution_classes().begin(),
                                from.execution_classes().end()}};
}

void write(const JobStatus& status, proto::JobStatus& to) {
  to.set_model(short_text(status.model));
  to.set_method(status.method);
  to.set_images_total(status.images_total);
  to.set_images_done(status.images_done);
  to.set_images_failed(status.images_failed);
  to.set_images_cancelled(status.images_cancelled);
  to.set_calls_done(status.calls_done);
  to.set_calls_total(status.calls_total);
  to.set_fraction(status.fraction);
  to.set_calls_per_second(status.calls_per_second);
  to.set_elapsed_seconds(status.elapsed_seconds);
  to.set_seconds_left(status.seconds_left);
  to.set_recoveries(status.recoveries);
  to.set_waits_for_workers(status.waits_for_workers);
  for (const NodeStatus& node : status.nodes) {
    if (to.nodes_size() < kMostClientNodes) {
      write(node, *to.add_nodes());
    }
  }
}

JobStatus read(const proto::JobStatus& from) {
  JobStatus status{.model = from.model(),
                   .method = from.method(),
                   .images_total = from.images_total(),
                   .images_done = from.images_done(),
                   .images_failed = from.images_failed(),
                   .images_cancelled = from.images_cancelled(),
                   .calls_done = from.calls_done(),
                   .calls_total = from.calls_total(),
                   .fraction = from.fraction(),
                   .calls_per_second = from.calls_per_second(),
                   .elapsed_seconds = from.elapsed_seconds(),
                   .seconds_left = from.seconds_left(),
                   .waits_for_workers = from.waits_for_workers(),
                   .recoveries = from.recoveries(),
                   .nodes = {}};
  for (const proto::NodeStatus& node : from.nodes()) {
    status.nodes.push_back(read(node));
  }
  return status;
}

void put(const AskStatus& /*ask*/, proto::ClientQuestion& to) {
  to.mutable_status();
}
void put(const AskStop& ask, proto::ClientQuestion& to) {
  to.mutable_stop()->set_user(short_text(ask.user));
}
void put(const CancelSample& cancel, proto::ClientQuestion& to) {
  to.mutable_cancel()->set_sample_index(cancel.sample_index);
}

void put(const JobStatus& status, proto::ClientAnswer& to) {
  write(status, *to.mutable_status());
}
void put(const Granted& granted, proto::ClientAnswer& to) {
  to.mutable_granted()->set_what(short_text(granted.what));
}
void put(const Failure& refused, proto::ClientAnswer& to) {
  wire::write(refused, *to.mutable_refused());
}

template <typename Message>
Message parsed(std::span<const std::byte> bytes) {
  limit_fields(bytes, 2, kMostClientNodes + 32);
  // Devices too: one of two bytes takes fifty times that. Texts of a node can
  // look like fields, and count.
  limit_fields(bytes, 4, kMostClientNodes * 200);
  Message message;
  parse(bytes, kMostClientBytes, message);
  refuse_unknown_fields(message);
  return message;
}

}  // namespace

std::string encode(const ClientQuestion& question) {
  proto::ClientQuestion message;
  std::visit([&](const auto& asks) { put(asks, message); }, question);
  return bytes_of(message, kMostClientBytes);
}

ClientQuestion decode_question(std::span<const std::byte> bytes) {
  const auto message = parsed<proto::ClientQuestion>(bytes);
  switch (message.question_case()) {
    case proto::ClientQuestion::kStatus:
      return AskStatus{};
    case proto::ClientQuestion::kStop:
      return AskStop{message.stop().user()};
    case proto::ClientQuestion::kCancel:
      return CancelSample{message.cancel().sample_index()};
    case proto::ClientQuestion::QUESTION_NOT_SET:
      break;
  }
  refuse("it asks nothing");
}

std::string encode(const ClientAnswer& answer) {
  proto::ClientAnswer message;
  std::visit([&](const auto& says) { put(says, message); }, answer);
  return bytes_of(message, kMostClientBytes);
}

ClientAnswer decode_answer(std::span<const std::byte> bytes) {
  const auto message = parsed<proto::ClientAnswer>(bytes);
  switch (message.answer_case()) {
    case proto::ClientAnswer::kStatus:
      return read(message.status());
    case proto::ClientAnswer::kGranted:
      return Granted{message.granted().what()};
    case proto::ClientAnswer::kRefused:
      return wire::read(message.refused());
    case proto::ClientAnswer::ANSWER_NOT_SET:
      break;
  }
  refuse("it answers nothing");
}

}  // namespace troupe::actors::wire
