#include "actors/wire/news_codec.h"

#include <utility>
#include <vector>

#include "actors/wire/encoding_codec.h"
#include "actors/wire/message.h"
#include "actors/wire/session_codec.h"

namespace troupe::actors::wire {
namespace {

using wire::read;
using wire::write;

void write(const Grant& grant, proto::News& news) {
  proto::Grant& to = *news.mutable_grant();
  to.set_worker(grant.worker);
  to.set_epoch(grant.epoch);
  write_all(grant.tasks, *to.mutable_tasks());
  to.set_max_rows(grant.max_rows);
  write_all(grant.remote_inputs, *to.mutable_remote_inputs());
  write_all(grant.coming_inputs, *to.mutable_coming_inputs());
  write_all(grant.frees, *to.mutable_frees());
}

Grant read(const proto::Grant& from) {
  Grant grant;
  grant.worker = natural(from.worker());
  grant.epoch = from.epoch();
  read_all(from.tasks(), grant.tasks);
  grant.max_rows = natural(from.max_rows());
  read_all(from.remote_inputs(), grant.remote_inputs);
  read_all(from.coming_inputs(), grant.coming_inputs);
  read_all(from.frees(), grant.frees);
  if (grant.tasks.empty() || grant.max_rows == 0) {
    refuse("a grant without tasks, or for passes without rows");
  }
  return grant;
}

void write(const GrantResult& result, proto::News& news) {
  proto::GrantResult& to = *news.mutable_result();
  to.mutable_grants()->Add(result.grants.begin(), result.grants.end());
  to.set_worker(result.worker);
  to.set_epoch(result.epoch);
  write_all(result.results, *to.mutable_results());
  if (result.failure) {
    write(*result.failure, *to.mutable_failure());
  }
  write_all(result.gone, *to.mutable_gone());
  write_all(result.held, *to.mutable_held());
  to.set_failed_elsewhere(result.failed_elsewhere);
  to.set_returned(result.returned);
  write_all(result.previews, *to.mutable_previews());
  write_all(result.points, *to.mutable_points());
  to.set_ticks(result.ticks);
  write(result.span, *to.mutable_span());
  write_all(result.made, *to.mutable_made());
  write_all(result.reads, *to.mutable_reads());
}

GrantResult read(const proto::GrantResult& from) {
  GrantResult result;
  result.grants = {from.grants().begin(), from.grants().end()};
  result.worker = natural(from.worker());
  result.epoch = from.epoch();
  read_all(from.results(), result.results);
  if (from.has_failure()) {
    result.failure = read(from.failure());
  }
  read_all(from.gone(), result.gone);
  read_all(from.held(), result.held);
  result.failed_elsewhere = from.failed_elsewhere();
  result.returned = from.returned();
  for (const proto::Shown& shown : from.previews()) {
    result.previews.push_back(look_of<Preview>(shown));
  }
  for (const proto::Shown& shown : from.points()) {
    result.points.push_back(look_of<TrajectoryPoint>(shown));
  }
  result.ticks = from.ticks();
  result.span = read(from.span());
  read_all(from.made(), result.made);
  read_all(from.reads(), result.reads);
  return result;
}

void write(const WorkerUp& up, proto::News& news) {
  news.mutable_worker_up()->set_worker(up.worker);
  news.mutable_worker_up()->set_epoch(up.epoch);
}

WorkerUp read(const proto::WorkerUp& from) {
  return {natural(from.worker()), from.epoch()};
}

void write(const WorkerDown& down, proto::News& news) {
  proto::WorkerDown& to = *news.mutable_worker_down();
  to.set_worker(down.worker);
  to.set_epoch(down.epoch);
  if (down.gone) {
    write(*down.gone, *to.mutable_gone());
  }
}

WorkerDown read(const proto::WorkerDown& from) {
  WorkerDown down{natural(from.worker()), from.epoch()};
  if (from.has_gone()) {
    down.gone = read(from.gone());
  }
  return down;
}

void write(const WorkerBeat& beat, proto::News& news) {
  proto::WorkerBeat& to = *news.mutable_beat();
  to.set_worker(beat.worker);
  to.set_epoch(beat.epoch);
  to.set_ticks(beat.ticks);
  to.set_waits(beat.waits);
}

WorkerBeat read(const proto::WorkerBeat& from) {
  return {natural(from.worker()), from.epoch(), from.ticks(), from.waits()};
}

void write(const FreeValues& free, proto::News& news) {
  news.mutable_free()->set_process(free.process);
  write_all(free.frees, *news.mutable_free()->mutable_frees());
}

FreeValues read(const proto::FreeValues& from) {
  FreeValues free{natural(from.process()), {}};
  read_all(from.frees(), free.frees);
  return free;
}

void write(const DropRuns& drop, proto::News& news) {
  proto::DropRuns& to = *news.mutable_drop();
  to.set_process(drop.process);
  to.set_sample_index(drop.sample_index);
  if (drop.last_run) {
    to.set_last_run(*drop.last_run);
  }
  to.set_all_answered(drop.all_answered);
}

DropRuns read(const proto::DropRuns& from) {
  DropRuns drop{
      natural(from.process()), from.sample_index(), {}, from.all_answered()};
  if (from.has_last_run()) {
    drop.last_run = from.last_run();
  }
  return drop;
}

void write(const Recall& recall, proto::News& news) {
  proto::Recall& to = *news.mutable_recall();
  to.set_worker(recall.worker);
  to.set_epoch(recall.epoch);
  to.mutable_grants()->Add(recall.grants.begin(), recall.grants.end());
}

Recall read(const proto::Recall& from) {
  return {natural(from.worker()),
          from.epoch(),
          {from.grants().begin(), from.grants().end()}};
}

void write(const ProcessJoined& joined, proto::News& news) {
  write(joined, *news.mutable_joined());
}

void write(const AdmitProcess& admit, proto::News& news) {
  proto::AdmitProcess& to = *news.mutable_admit();
  to.set_process(admit.process);
  to.set_first_worker(admit.first_worker);
  to.set_num_workers(admit.num_workers);
}

AdmitProcess read(const proto::AdmitProcess& from) {
  return {natural(from.process()), natural(from.first_worker()),
          natural(from.num_workers())};
}

void write(const RefuseProcess& refuse, proto::News& news) {
  news.mutable_refuse()->set_process(refuse.process);
  write(refuse.cause, *news.mutable_refuse()->mutable_cause());
}

RefuseProcess read(const proto::RefuseProcess& from) {
  return {natural(from.process()), read(from.cause())};
}

void write(const CancelSample& cancel, proto::News& news) {
  news.mutable_cancel()->set_sample_index(cancel.sample_index);
}

CancelSample read(const proto::CancelSample& from) {
  return {from.sample_index()};
}

}  // namespace

std::string encode(const News& news) {
  proto::News message;
  std::visit([&message](const auto& one) { write(one, message); }, news);
  return bytes_of(message, kMostNewsBytes);
}

News decode_news(std::span<const std::byte> bytes) {
  limit_fields(bytes, 2, kMostNewsEntries);
  proto::News message;
  parse(bytes, kMostNewsBytes, message);
  refuse_unknown_fields(message);
  switch (message.news_case()) {
    case proto::News::kGrant:
      return read(message.grant());
    case proto::News::kResult:
      return read(message.result());
    case proto::News::kWorkerUp:
      return read(message.worker_up());
    case proto::News::kWorkerDown:
      return read(message.worker_down());
    case proto::News::kBeat:
      return read(message.beat());
    case proto::News::kFree:
      return read(message.free());
    case proto::News::kDrop:
      return read(message.drop());
    case proto::News::kRecall:
      return read(message.recall());
    case proto::News::kJoined:
      return read(message.joined());
    case proto::News::kAdmit:
      return read(message.admit());
    case proto::News::kRefuse:
      return read(message.refuse());
    case proto::News::kCancel:
      return read(message.cancel());
    case proto::News::kDrain:
      return read(message.drain());
    case proto::News::kOffer:
      return read(message.offer());
    case proto::News::kJoin:
      return read(message.join());
    case proto::News::kEndWorker:
      return read(message.end_worker());
    case proto::News::kPeer:
      return read(message.peer());
    case proto::News::kOver:
      return read(message.over());
    case proto::News::kReport:
      return read(message.report());
    case proto::News::kDamaged:
      return read(message.damaged());
    case proto::News::kEncodingOffer:
      return read(message.encoding_offer());
    case proto::News::kStandBy:
      return StandBy{};
    case proto::News::kTextEncoded:
      return read(message.text_encoded());
    case proto::News::kEncodingDone:
      return read(message.encoding_done());
    case proto::News::kEncodingRefused:
      return read(message.encoding_refused());
    case proto::News::kNextJob:
      return NextJob{};
    case proto::News::NEWS_NOT_SET:
      break;
  }
  refuse("an empty message, or one of an unknown kind");
}

}  // namespace troupe::actors::wire
