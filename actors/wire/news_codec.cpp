#include "actors/wire/news_codec.h"

#include <bit>
#include <utility>
#include <vector>

#include "actors/wire/message.h"
#include "actors/wire/wire.pb.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::actors::wire {
namespace {

namespace proto = troupe::wire;
using samplers::Op;

// ---- pairs: what is written, and how it is read back

void write(const ValueName& name, proto::ValueName& to) {
  to.set_sample_index(name.sample_index);
  to.set_run(name.run);
  to.set_slot(name.slot);
}

ValueName read(const proto::ValueName& from) {
  return {from.sample_index(), from.run(), from.slot()};
}

/// Numbers of workers, processes, calls, segments: none is below 0.
int natural(int number) {
  if (number < 0) {
    refuse("a number of " + std::to_string(number));
  }
  return number;
}

template <typename Enum>
Enum enum_of(std::uint32_t number, Enum last) {
  if (number > static_cast<std::uint32_t>(last)) {
    refuse("a kind of task " + std::to_string(number));
  }
  return static_cast<Enum>(number);
}

void write(const RemoteValue& value, proto::RemoteValue& to) {
  write(value.name, *to.mutable_name());
  to.set_process(value.process);
}

RemoteValue read(const proto::RemoteValue& from) {
  return {read(from.name()), natural(from.process())};
}

void write(const FreedSlots& freed, proto::FreedSlots& to) {
  to.set_sample_index(freed.sample_index);
  to.set_run(freed.run);
  to.mutable_slots()->Add(freed.slots.begin(), freed.slots.end());
}

FreedSlots read(const proto::FreedSlots& from) {
  return {from.sample_index(),
          from.run(),
          {from.slots().begin(), from.slots().end()}};
}

void write(const SampleTask& work, proto::Task& to) {
  const samplers::Task& task = work.task;
  to.set_sample_index(work.sample_index);
  to.set_run(work.run);
  to.set_id(task.id);
  to.set_version(task.version);
  to.set_op(static_cast<std::uint32_t>(task.op));
  to.set_branch(static_cast<std::uint32_t>(task.branch));
  to.set_segment(task.segment);
  to.set_part(task.part);
  to.set_from(task.from);
  to.set_to(task.to);
  to.set_timestep_call(task.timestep_call);
  to.mutable_inputs()->Add(task.inputs.begin(), task.inputs.end());
  to.mutable_outputs()->Add(task.outputs.begin(), task.outputs.end());
  to.set_grant(work.grant);
  to.set_alone(work.alone);
}

SampleTask read(const proto::Task& from) {
  SampleTask work;
  work.sample_index = from.sample_index();
  work.run = from.run();
  work.task = {.id = from.id(),
               .version = from.version(),
               .op = enum_of(from.op(), Op::decode),
               .branch = enum_of(from.branch(), samplers::Branch::uncond),
               .segment = natural(from.segment()),
               .part = natural(from.part()),
               .from = natural(from.from()),
               .to = natural(from.to()),
               .timestep_call = natural(from.timestep_call()),
               .inputs = {from.inputs().begin(), from.inputs().end()},
               .outputs = {from.outputs().begin(), from.outputs().end()}};
  work.grant = from.grant();
  work.alone = from.alone();
  return work;
}

void write(const Failure& failure, proto::Failure& to) {
  to.set_code(std::string(to_string(failure.code)));
  to.set_place(failure.place);
  to.set_message(failure.message);
  to.set_hint(failure.hint);
}

Failure read(const proto::Failure& from) {
  for (int code = 1; code <= static_cast<int>(Errc::device_full); ++code) {
    if (to_string(static_cast<Errc>(code)) == from.code()) {
      return {static_cast<Errc>(code), from.place(), from.message(),
              from.hint()};
    }
  }
  refuse("a failure of the kind " + in_quotes(from.code()));
}

void write(const samplers::TaskResult& result, proto::TaskResult& to) {
  to.set_id(result.id);
  to.set_version(result.version);
  for (const double scalar : result.scalars) {
    to.add_scalars(std::bit_cast<std::uint64_t>(scalar));
  }
}

samplers::TaskResult read(const proto::TaskResult& from) {
  samplers::TaskResult result{from.id(), from.version(), {}};
  for (const std::uint64_t bits : from.scalars()) {
    result.scalars.push_back(std::bit_cast<double>(bits));
  }
  return result;
}

void write(const HeldValue& value, proto::HeldValue& to) {
  write(value.name, *to.mutable_name());
  if (value.memory.kind == DeviceKind::cuda) {
    to.set_gpu(value.memory.index);
  }
}

HeldValue read(const proto::HeldValue& from) {
  HeldValue value{read(from.name()), {}};
  if (from.has_gpu()) {
    value.memory = {DeviceKind::cuda, natural(from.gpu())};
  }
  return value;
}

template <typename Look>  // Preview or TrajectoryPoint
void write(const Look& look, proto::Shown& to) {
  const auto& [sample_index, call, latents] = look;
  to.set_sample_index(sample_index);
  to.set_call(call);
  put_named({"latents", latents}, *to.mutable_latents());
}

template <typename Look>
Look look_of(const proto::Shown& from) {
  return {from.sample_index(), natural(from.call()),
          named_of(from.latents()).tensor};
}

void write(const TraceSpan& span, proto::Span& to) {
  to.set_worker(span.worker);
  to.set_op(static_cast<std::uint32_t>(span.op));
  to.set_sample_index(span.sample_index);
  to.set_rows(span.rows);
  to.set_step(span.step);
  to.set_segment(span.segment);
  to.set_start(span.start.time_since_epoch().count());
  to.set_duration(span.duration.count());
}

TraceSpan read(const proto::Span& from) {
  return {.worker = natural(from.worker()),
          .op = enum_of(from.op(), Op::decode),
          .sample_index = from.sample_index(),
          .rows = natural(from.rows()),
          .step = natural(from.step()),
          .segment = natural(from.segment()),
          .start = TimePoint(Duration(from.start())),
          .duration = Duration(from.duration())};
}

template <typename Plain, typename Field>
void write_all(const std::vector<Plain>& values, Field& to) {
  to.Reserve(static_cast<int>(values.size()));
  for (const Plain& value : values) {
    write(value, *to.Add());
  }
}

template <typename Plain, typename Field>
void read_all(const Field& from, std::vector<Plain>& values) {
  values.reserve(static_cast<std::size_t>(from.size()));
  for (const auto& one : from) {
    values.push_back(read(one));
  }
}

// ---- messages

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
  if (grant.tasks.empty()) {
    refuse("a grant without tasks");
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
    case proto::News::NEWS_NOT_SET:
      break;
  }
  refuse("a message that says nothing, or something new");
}

}  // namespace troupe::actors::wire
