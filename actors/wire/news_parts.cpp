#include "actors/wire/news_parts.h"

#include <bit>
#include <string>

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::actors::wire {

using samplers::Op;

/// Of a device: of what a peer says, no more is kept.
constexpr std::size_t kMostName = 64;

int natural(int number) {
  if (number < 0) {
    refuse("a number of " + std::to_string(number));
  }
  return number;
}

void write(const ValueName& name, proto::ValueName& to) {
  to.set_sample_index(name.sample_index);
  to.set_run(name.run);
  to.set_slot(name.slot);
}

ValueName read(const proto::ValueName& from) {
  return {from.sample_index(), from.run(), from.slot()};
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

void write(const ReadValue& value, proto::ReadValue& to) {
  write(value.name, *to.mutable_name());
  to.set_bytes(value.bytes);
}

ReadValue read(const proto::ReadValue& from) {
  return {read(from.name()), from.bytes()};
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
  to.set_process(span.process);
  if (span.device.kind == DeviceKind::cuda) {
    to.set_gpu(span.device.index);
  }
}

TraceSpan read(const proto::Span& from) {
  return {.worker = natural(from.worker()),
          .process = natural(from.process()),
          .device = from.has_gpu()
                        ? Device{DeviceKind::cuda, natural(from.gpu())}
                        : Device{},
          .op = enum_of(from.op(), Op::decode),
          .sample_index = from.sample_index(),
          .rows = natural(from.rows()),
          .step = natural(from.step()),
          .segment = natural(from.segment()),
          .start = TimePoint(Duration(from.start())),
          .duration = Duration(from.duration())};
}

void write(const WorkerTraits& traits, proto::Worker& to) {
  to.set_execution_class(traits.execution_class);
  if (traits.device.kind == DeviceKind::cuda) {
    to.set_gpu(traits.device.index);
  }
  to.set_max_rows(traits.max_rows);
  to.set_value_budget(traits.value_budget);
  to.set_threads(traits.threads);
}

WorkerTraits read(const proto::Worker& from) {
  WorkerTraits traits;
  traits.execution_class = natural(from.execution_class());
  if (from.has_gpu()) {
    traits.device = {DeviceKind::cuda, natural(from.gpu())};
  }
  traits.max_rows = natural(from.max_rows());
  traits.value_budget = from.value_budget();
  traits.threads = natural(from.threads());
  if (traits.threads > kMostThreads) {
    refuse("a worker of " + std::to_string(traits.threads) + " threads");
  }
  return traits;
}

void write(const ProcessMeans& means, proto::ProcessMeans& to) {
  to.set_memory_bytes(means.memory_bytes);
  to.set_available_memory_bytes(means.available_memory_bytes);
  for (const DeviceMeans& one : means.devices) {
    proto::DeviceMeans& device = *to.add_devices();
    if (one.device.kind == DeviceKind::cuda) {
      device.set_gpu(one.device.index);
    }
    device.set_name(one.name.substr(0, kMostName));
    device.set_memory_bytes(one.memory_bytes);
  }
  to.set_machine(means.machine);
}

ProcessMeans read(const proto::ProcessMeans& from) {
  if (static_cast<std::size_t>(from.devices_size()) > kMostDevices) {
    refuse("a process of " + std::to_string(from.devices_size()) + " devices");
  }
  ProcessMeans means{
      from.memory_bytes(), from.available_memory_bytes(), {}, from.machine()};
  for (const proto::DeviceMeans& one : from.devices()) {
    means.devices.push_back(
        {one.has_gpu() ? Device{DeviceKind::cuda, natural(one.gpu())}
                       : Device{},
         one.name().substr(0, kMostName), one.memory_bytes()});
  }
  return means;
}

}  // namespace troupe::actors::wire
