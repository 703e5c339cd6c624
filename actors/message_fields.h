#pragma once

#include "actors/coordinator_events.h"
#include "actors/encoding_record.h"
#include "actors/job_fields.h"
#include "actors/job_status.h"
#include "actors/link_table.h"
#include "actors/session.h"
#include "actors/status_fields.h"
#include "kernels/core/fields.h"

// Lists of other folders' structs stand in their namespaces, where visitors
// find them.
namespace troupe {

void visit_fields(auto& visit, AnyConst<ValueName> auto& r) {
  visit("sample_index", r.sample_index);
  visit("run", r.run);
  visit("slot", r.slot);
}

}  // namespace troupe
namespace troupe::samplers {

void visit_fields(auto& visit, AnyConst<TaskResult> auto& r) {
  visit("id", r.id);
  visit("version", r.version);
  visit("scalars", r.scalars);
}

}  // namespace troupe::samplers

/// The fields of all messages between processes, listed once: actors/wire
/// writes, reads and bounds messages by these lists; those of a job's status
/// are in status_fields.h. A field's number in a message is its place in the
/// list, from 1 on. To add one: a member, and a line here.
///
/// Numbers of type int count something, and are never below 0.
namespace troupe::actors {

/// Of the name of a device.
inline constexpr std::uint64_t kMostDeviceName = 64;
/// Of a process, for other processes.
inline constexpr std::uint64_t kMostEndpoints = 64;
inline constexpr std::uint64_t kMostWorkersOfOne = 1 << 16;

void visit_fields(auto& visit, AnyConst<RemoteValue> auto& r) {
  visit("name", r.name);
  visit("process", r.process);
}

void visit_fields(auto& visit, AnyConst<FreedSlots> auto& r) {
  visit("sample_index", r.sample_index);
  visit("run", r.run);
  visit("slots", r.slots);
}

void visit_fields(auto& visit, AnyConst<SampleTask> auto& r) {
  visit("sample_index", r.sample_index);
  visit("run", r.run);
  visit("id", r.task.id);
  visit("version", r.task.version);
  visit("op", r.task.op);
  visit("branch", r.task.branch);
  visit("segment", r.task.segment);
  visit("part", r.task.part);
  visit("from", r.task.from);
  visit("to", r.task.to);
  visit("timestep_call", r.task.timestep_call);
  visit("inputs", r.task.inputs);
  visit("outputs", r.task.outputs);
  visit("grant", r.grant);
  visit("alone", r.alone);
  visit("coefficients", r.task.coefficients);
}

void visit_fields(auto& visit, AnyConst<Grant> auto& r) {
  visit("worker", r.worker);
  visit("epoch", r.epoch);
  visit("tasks", r.tasks);
  visit("max_rows", r.max_rows);
  visit("sources", r.sources);
  visit("frees", r.frees);
}

void visit_fields(auto& visit, AnyConst<Failure> auto& r) {
  visit("code", r.code);
  visit("place", r.place);
  visit("message", r.message);
  visit("hint", r.hint);
}

void visit_fields(auto& visit, AnyConst<HeldValue> auto& r) {
  visit("name", r.name);
  visit("gpu", r.memory);
}

void visit_fields(auto& visit, AnyConst<ReadValue> auto& r) {
  visit("name", r.name);
  visit("bytes", r.bytes);
}

void visit_fields(auto& visit, AnyConst<TraceSpan> auto& r) {
  visit("worker", r.worker);
  visit("process", r.process);
  visit("gpu", r.device);
  visit("op", r.op);
  visit("sample_index", r.sample_index);
  visit("rows", r.rows);
  visit("step", r.step);
  visit("segment", r.segment);
  visit("start", r.start);
  visit("duration", r.duration);
}

void visit_fields(auto& visit, AnyConst<TasksDone> auto& r) {
  visit("results", r.results);
}

void visit_fields(auto& visit, AnyConst<TasksFailed> auto& r) {
  visit("failure", r.failure);
  visit("is_elsewhere", r.is_elsewhere);
}

void visit_fields(auto& visit, AnyConst<InputsGone> auto& r) {
  visit("values", r.values);
}

void visit_fields(auto& /*visit*/, AnyConst<TasksReturned> auto& /*r*/) {}

void visit_fields(auto& visit, AnyConst<GrantResult> auto& r) {
  visit("grants", r.grants);
  visit("worker", r.worker);
  visit("epoch", r.epoch);
  visit("outcome", r.outcome);
  visit("held", r.held);
  visit("ticks", r.ticks);
  visit("span", r.span);
  visit("made", r.made);
  visit("reads", r.reads);
}

void visit_fields(auto& visit, AnyConst<WorkerUp> auto& r) {
  visit("worker", r.worker);
  visit("epoch", r.epoch);
}

void visit_fields(auto& visit, AnyConst<WorkerDown> auto& r) {
  visit("worker", r.worker);
  visit("epoch", r.epoch);
  visit("gone", r.gone);
}

void visit_fields(auto& visit, AnyConst<WorkerBeat> auto& r) {
  visit("worker", r.worker);
  visit("epoch", r.epoch);
  visit("ticks", r.ticks);
  visit("waits", r.waits);
}

void visit_fields(auto& visit, AnyConst<FreeValues> auto& r) {
  visit("process", r.process);
  visit("frees", r.frees);
}

void visit_fields(auto& visit, AnyConst<DropRuns> auto& r) {
  visit("process", r.process);
  visit("sample_index", r.sample_index);
  visit("last_run", r.last_run);
  visit("all_answered", r.all_answered);
}

void visit_fields(auto& visit, AnyConst<Redirect> auto& r) {
  visit("worker", r.worker);
  visit("epoch", r.epoch);
  visit("grant", r.grant);
  visit("sources", r.sources);
}

void visit_fields(auto& visit, AnyConst<Recall> auto& r) {
  visit("worker", r.worker);
  visit("epoch", r.epoch);
  visit("grants", r.grants);
}

void visit_fields(auto& visit, AnyConst<WorkerTraits> auto& r) {
  visit("execution_class", r.execution_class);
  visit("gpu", r.device);
  visit("max_rows", r.max_rows);
  visit("value_budget", r.value_budget);
  visit(at_most(kMostThreads, "threads"), r.threads);
}

void visit_fields(auto& visit, AnyConst<DeviceMeans> auto& r) {
  visit("gpu", r.device);
  visit(cut_to(kMostDeviceName, "name"), r.name);
  visit("memory_bytes", r.memory_bytes);
}

void visit_fields(auto& visit, AnyConst<ProcessMeans> auto& r) {
  visit("memory_bytes", r.memory_bytes);
  visit("available_memory_bytes", r.available_memory_bytes);
  visit(at_most(kMostDevices, "devices"), r.devices);
  visit(hash_key("machine"), r.machine);
}

void visit_fields(auto& visit, AnyConst<ProcessJoined> auto& r) {
  visit("process", r.process);
  visit("workers", r.workers);
  visit("value_budget", r.value_budget);
  visit("means", r.means);
}

void visit_fields(auto& visit, AnyConst<AdmitProcess> auto& r) {
  visit("process", r.process);
  visit("first_worker", r.first_worker);
  visit("num_workers", r.num_workers);
}

void visit_fields(auto& visit, AnyConst<RefuseProcess> auto& r) {
  visit("process", r.process);
  visit("cause", r.cause);
}

void visit_fields(auto& visit, AnyConst<CancelSample> auto& r) {
  visit("sample_index", r.sample_index);
}

void visit_fields(auto& visit, AnyConst<DrainProcess> auto& r) {
  visit("process", r.process);
}

void visit_fields(auto& visit, AnyConst<Offer> auto& r) {
  visit("job", r.job);
  visit("trace", r.trace);
}

void visit_fields(auto& visit, AnyConst<Join> auto& r) {
  visit("classes", r.classes);
  visit("joined", r.joined);
}

void visit_fields(auto& visit, AnyConst<EndWorker> auto& r) {
  visit("worker", r.worker);
  visit("epoch", r.epoch);
  visit("cause", r.cause);
}

void visit_fields(auto& visit, AnyConst<PeerTokens> auto& r) {
  visit("request", r.request);
  visit("answer", r.answer);
}

void visit_fields(auto& visit, AnyConst<PeerAddress> auto& r) {
  visit("process", r.process);
  visit(at_most(kMostEndpoints, "endpoints"), r.endpoints);
  visit("tokens", r.tokens);
  visit("gives_model", r.gives_model);
}

void visit_fields(auto& visit, AnyConst<JobOver> auto& r) {
  visit("cause", r.cause);
}

void visit_fields(auto& visit, AnyConst<ProcessReport> auto& r) {
  visit("process", r.process);
  visit("bytes_fetched", r.bytes_fetched);
  visit("bytes_given", r.bytes_given);
  visit("gives_model", r.gives_model);
}

void visit_fields(auto& visit, AnyConst<DamagedValue> auto& r) {
  visit("process", r.process);
  visit("holder", r.holder);
}

void visit_fields(auto& visit, AnyConst<EncoderRecord> auto& r) {
  visit("name", r.name);
  visit("class_name", r.class_name);
  visit("config", r.config);
}

void visit_fields(auto& visit, AnyConst<EncodingText> auto& r) {
  visit("encoder", r.encoder);
  visit("ids", r.ids);
  visit("skipped_layers", r.wanted.skipped_layers);
  visit("final_norm", r.wanted.final_norm);
  visit("is_kept", r.is_kept);
  visit("key_length", r.key_length);
}

void visit_fields(auto& visit, AnyConst<EncodingRecord> auto& r) {
  visit("model", r.model);
  visit("random_weights", r.random_weights);
  visit("dtype", r.dtype);
  visit("isa", r.isa);
  visit("device", r.device);
  visit("execution_class", r.execution_class);
  visit("encoders", r.encoders);
  visit(at_most(kMostEncodingTexts, "texts"), r.texts);
}

void visit_fields(auto& visit, AnyConst<EncodingOffer> auto& r) {
  visit_fields(visit, r.record);
}

void visit_fields(auto& /*visit*/, AnyConst<StandBy> auto& /*r*/) {}

void visit_fields(auto& visit, AnyConst<TextEncoded> auto& r) {
  visit("text", r.text);
}

void visit_fields(auto& visit, AnyConst<TextFetched> auto& r) {
  visit("text", r.text);
}

void visit_fields(auto& visit, AnyConst<EncodingDone> auto& r) {
  visit("execution_class", r.execution_class);
  visit("encoder_class", r.encoder_class);
  visit(hash_key("weights_xxh3"), r.weights_xxh3);
  visit("device", r.device);
}

void visit_fields(auto& visit, AnyConst<EncodingRefused> auto& r) {
  visit("cause", r.cause);
}

void visit_fields(auto& /*visit*/, AnyConst<NextJob> auto& /*r*/) {}

void visit_fields(auto& visit, AnyConst<RunValueKey> auto& r) {
  visit(hash_key("job"), r.job);
  visit("holder", r.holder);
  visit("name", r.name);
  visit("came_damaged", r.came_damaged);
}

void visit_fields(auto& visit, AnyConst<ConditionKey> auto& r) {
  visit(hash_key("hash"), r.hash);
}

void visit_fields(auto& visit, AnyConst<LatentsKey> auto& r) {
  visit(hash_key("job"), r.job);
}

void visit_fields(auto& visit, AnyConst<TextKey> auto& r) {
  visit("text", r.text);
}

void visit_fields(auto& visit, AnyConst<ProbeKey> auto& r) {
  visit(at_most(kMostProbeBytes, "bytes"), r.bytes);
}

void visit_fields(auto& visit, AnyConst<PaceKey> auto& r) {
  visit("process", r.process);
}

void visit_fields(auto& /*visit*/, AnyConst<ModelFilesKey> auto& /*r*/) {}

void visit_fields(auto& /*visit*/, AnyConst<ModelChunksKey> auto& /*r*/) {}

void visit_fields(auto& visit, AnyConst<ModelChunkKey> auto& r) {
  visit("file", r.file);
  visit("chunk", r.chunk);
}

void visit_fields(auto& visit, AnyConst<LinkPace> auto& r) {
  visit("round_trip", r.round_trip);
  visit("bytes_per_second", r.bytes_per_second);
}

void visit_fields(auto& visit, AnyConst<Applicant> auto& r) {
  visit("version", r.version);
  visit("name", r.name);
  visit(at_most(kMostEndpoints, "endpoints"), r.endpoints);
  visit(at_most(kMostWorkersOfOne, "cpu_workers"), r.workers.cpu);
  visit(at_most(kMostWorkersOfOne, "gpu_workers"), r.workers.gpu);
}

void visit_fields(auto& visit, AnyConst<Welcome> auto& r) {
  visit("version", r.version);
  visit("process", r.process);
  visit("is_over", r.is_over);
  visit("tokens", r.tokens);
}

void visit_fields(auto& visit, AnyConst<PeerGreeting> auto& r) {
  visit("process", r.process);
  visit("token", r.token);
}

void visit_fields(auto& /*visit*/, AnyConst<AskStatus> auto& /*r*/) {}

void visit_fields(auto& visit, AnyConst<AskStop> auto& r) {
  visit(cut_to(kMostText, "user"), r.user);
}

void visit_fields(auto& visit, AnyConst<Granted> auto& r) {
  visit(cut_to(kMostText, "what"), r.what);
}

}  // namespace troupe::actors
