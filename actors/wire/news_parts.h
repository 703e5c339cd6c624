#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/coordinator_policy.h"
#include "actors/job_record.h"
#include "actors/wire/message.h"
#include "actors/wire/wire.pb.h"

// What messages between a coordinator and its processes are made of, in pairs:
// how it is written, and how it is read back. Not included outside this folder:
// it names protobuf. What is read wrongly ends in Errc::corrupt_file.

namespace troupe::actors::wire {

namespace proto = troupe::wire;

/// Numbers of workers, processes, calls, segments: none is below 0.
[[nodiscard]] int natural(int number);

template <typename Enum>
Enum enum_of(std::uint32_t number, Enum last) {
  if (number > static_cast<std::uint32_t>(last)) {
    refuse("a kind of task " + std::to_string(number));
  }
  return static_cast<Enum>(number);
}

void write(const ValueName& name, proto::ValueName& to);
ValueName read(const proto::ValueName& from);
void write(const RemoteValue& value, proto::RemoteValue& to);
RemoteValue read(const proto::RemoteValue& from);
void write(const FreedSlots& freed, proto::FreedSlots& to);
FreedSlots read(const proto::FreedSlots& from);
void write(const SampleTask& work, proto::Task& to);
SampleTask read(const proto::Task& from);
void write(const Failure& failure, proto::Failure& to);
Failure read(const proto::Failure& from);
void write(const samplers::TaskResult& result, proto::TaskResult& to);
samplers::TaskResult read(const proto::TaskResult& from);
void write(const HeldValue& value, proto::HeldValue& to);
HeldValue read(const proto::HeldValue& from);
void write(const ReadValue& value, proto::ReadValue& to);
ReadValue read(const proto::ReadValue& from);
void write(const TraceSpan& span, proto::Span& to);
TraceSpan read(const proto::Span& from);
void write(const WorkerTraits& traits, proto::Worker& to);
WorkerTraits read(const proto::Worker& from);
void write(const ProcessMeans& means, proto::ProcessMeans& to);
/// Of more devices than any machine has: refused.
ProcessMeans read(const proto::ProcessMeans& from);

void write(const ClassRecord& record, proto::ExecutionClass& to);
ClassRecord read(const proto::ExecutionClass& from);

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

}  // namespace troupe::actors::wire
