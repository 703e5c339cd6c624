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

template <typename Visitor, AnyConst<ValueName> T>
void visit_fields(Visitor& visit, T& r) {
  visit("sample_index", r.sample_index);
  visit("run", r.run);
  visit("slot", r.slot);
}

}  // namespace troupe
namespace troupe::samplers {

template <typename Visitor, AnyConst<TaskResult> T>
void visit_fields(Visitor& visit, T& r) {
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

template <typename Visitor, AnyConst<RemoteValue> T>
void visit_fields(Visitor& visit, T& r) {
  visit("name", r.name);
  visit("process", r.process);
}

template <typename Visitor, AnyConst<FreedSlots> T>
void visit_fields(Visitor& visit, T& r) {
  visit("sample_index", r.sample_index);
  visit("run", r.run);
  visit("slots", r.slots);
}

template <typename Visitor, AnyConst<SampleTask> T>
void visit_fields(Visitor& visit, T& r) {
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

template <typename Visitor, AnyConst<Grant> T>
void visit_fields(Visitor& visit, T& r) {
  visit("worker", r.worker);
  visit("epoch", r.epoch);
  visit("tasks", r.tasks);
  visit("max_rows", r.max_rows);
  visit("sources", r.sources);
  visit("frees", r.frees);
}

template <typename Visitor, AnyConst<Failure> T>
void visit_fields(Visitor& visit, T& r) {
  visit("code", r.code);
  visit("place", r.place);
  visit("message", r.message);
  visit("hint", r.hint);
}

template <typename Visitor, AnyConst<HeldValue> T>
void visit_fields(Visitor& visit, T& r) {
  visit("name", r.name);
  visit("gpu", r.memory);
}

template <typename Visitor, AnyConst<ReadValue> T>
void visit_fields(Visitor& visit, T& r) {
  visit("name", r.name);
  visit("bytes", r.bytes);
}

template <typename Visitor, AnyConst<Preview> T>
void visit_fields(Visitor& visit, T& r) {
  visit("sample_index", r.sample_index);
  visit("call", r.call);
  visit("latents", r.latents);
}

template <typename Visitor, AnyConst<TrajectoryPoint> T>
void visit_fields(Visitor& visit, T& r) {
  visit("sample_index", r.sample_index);
  visit("call", r.calls);
  visit("latents", r.latents);
}

template <typename Visitor, AnyConst<TraceSpan> T>
void visit_fields(Visitor& visit, T& r) {
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

template <typename Visitor, AnyConst<TasksDone> T>
void visit_fields(Visitor& visit, T& r) {
  visit("results", r.results);
}

template <typename Visitor, AnyConst<TasksFailed> T>
void visit_fields(Visitor& visit, T& r) {
  visit("failure", r.failure);
  visit("is_elsewhere", r.is_elsewhere);
}

template <typename Visitor, AnyConst<InputsGone> T>
void visit_fields(Visitor& visit, T& r) {
  visit("values", r.values);
}

template <typename Visitor, AnyConst<TasksReturned> T>
void visit_fields(Visitor& /*visit*/, T& /*r*/) {}

template <typename Visitor, AnyConst<GrantResult> T>
void visit_fields(Visitor& visit, T& r) {
  visit("grants", r.grants);
  visit("worker", r.worker);
  visit("epoch", r.epoch);
  visit("outcome", r.outcome);
  visit("held", r.held);
  visit("previews", r.previews);
  visit("points", r.points);
  visit("ticks", r.ticks);
  visit("span", r.span);
  visit("made", r.made);
  visit("reads", r.reads);
}

template <typename Visitor, AnyConst<WorkerUp> T>
void visit_fields(Visitor& visit, T& r) {
  visit("worker", r.worker);
  visit("epoch", r.epoch);
}

template <typename Visitor, AnyConst<WorkerDown> T>
void visit_fields(Visitor& visit, T& r) {
  visit("worker", r.worker);
  visit("epoch", r.epoch);
  visit("gone", r.gone);
}

template <typename Visitor, AnyConst<WorkerBeat> T>
void visit_fields(Visitor& visit, T& r) {
  visit("worker", r.worker);
  visit("epoch", r.epoch);
  visit("ticks", r.ticks);
  visit("waits", r.waits);
}

template <typename Visitor, AnyConst<FreeValues> T>
void visit_fields(Visitor& visit, T& r) {
  visit("process", r.process);
  visit("frees", r.frees);
}

template <typename Visitor, AnyConst<DropRuns> T>
void visit_fields(Visitor& visit, T& r) {
  visit("process", r.process);
  visit("sample_index", r.sample_index);
  visit("last_run", r.last_run);
  visit("all_answered", r.all_answered);
}

template <typename Visitor, AnyConst<Redirect> T>
void visit_fields(Visitor& visit, T& r) {
  visit("worker", r.worker);
  visit("epoch", r.epoch);
  visit("grant", r.grant);
  visit("sources", r.sources);
}

template <typename Visitor, AnyConst<Recall> T>
void visit_fields(Visitor& visit, T& r) {
  visit("worker", r.worker);
  visit("epoch", r.epoch);
  visit("grants", r.grants);
}

template <typename Visitor, AnyConst<WorkerTraits> T>
void visit_fields(Visitor& visit, T& r) {
  visit("execution_class", r.execution_class);
  visit("gpu", r.device);
  visit("max_rows", r.max_rows);
  visit("value_budget", r.value_budget);
  visit(at_most(kMostThreads, "threads"), r.threads);
}

template <typename Visitor, AnyConst<DeviceMeans> T>
void visit_fields(Visitor& visit, T& r) {
  visit("gpu", r.device);
  visit(cut_to(kMostDeviceName, "name"), r.name);
  visit("memory_bytes", r.memory_bytes);
}

template <typename Visitor, AnyConst<ProcessMeans> T>
void visit_fields(Visitor& visit, T& r) {
  visit("memory_bytes", r.memory_bytes);
  visit("available_memory_bytes", r.available_memory_bytes);
  visit(at_most(kMostDevices, "devices"), r.devices);
  visit(hash_key("machine"), r.machine);
}

template <typename Visitor, AnyConst<ProcessJoined> T>
void visit_fields(Visitor& visit, T& r) {
  visit("process", r.process);
  visit("workers", r.workers);
  visit("value_budget", r.value_budget);
  visit("means", r.means);
}

template <typename Visitor, AnyConst<AdmitProcess> T>
void visit_fields(Visitor& visit, T& r) {
  visit("process", r.process);
  visit("first_worker", r.first_worker);
  visit("num_workers", r.num_workers);
}

template <typename Visitor, AnyConst<RefuseProcess> T>
void visit_fields(Visitor& visit, T& r) {
  visit("process", r.process);
  visit("cause", r.cause);
}

template <typename Visitor, AnyConst<CancelSample> T>
void visit_fields(Visitor& visit, T& r) {
  visit("sample_index", r.sample_index);
}

template <typename Visitor, AnyConst<DrainProcess> T>
void visit_fields(Visitor& visit, T& r) {
  visit("process", r.process);
}

template <typename Visitor, AnyConst<Offer> T>
void visit_fields(Visitor& visit, T& r) {
  visit("job", r.job);
  visit("previews", r.previews);
  visit("trajectory", r.trajectory);
  visit("trace", r.trace);
}

template <typename Visitor, AnyConst<Join> T>
void visit_fields(Visitor& visit, T& r) {
  visit("classes", r.classes);
  visit("joined", r.joined);
}

template <typename Visitor, AnyConst<EndWorker> T>
void visit_fields(Visitor& visit, T& r) {
  visit("worker", r.worker);
  visit("epoch", r.epoch);
  visit("cause", r.cause);
}

template <typename Visitor, AnyConst<PeerTokens> T>
void visit_fields(Visitor& visit, T& r) {
  visit("request", r.request);
  visit("answer", r.answer);
}

template <typename Visitor, AnyConst<PeerAddress> T>
void visit_fields(Visitor& visit, T& r) {
  visit("process", r.process);
  visit(at_most(kMostEndpoints, "endpoints"), r.endpoints);
  visit("tokens", r.tokens);
  visit("gives_model", r.gives_model);
}

template <typename Visitor, AnyConst<JobOver> T>
void visit_fields(Visitor& visit, T& r) {
  visit("cause", r.cause);
}

template <typename Visitor, AnyConst<ProcessReport> T>
void visit_fields(Visitor& visit, T& r) {
  visit("process", r.process);
  visit("bytes_fetched", r.bytes_fetched);
  visit("bytes_given", r.bytes_given);
  visit("gives_model", r.gives_model);
}

template <typename Visitor, AnyConst<DamagedValue> T>
void visit_fields(Visitor& visit, T& r) {
  visit("process", r.process);
  visit("holder", r.holder);
}

template <typename Visitor, AnyConst<EncoderRecord> T>
void visit_fields(Visitor& visit, T& r) {
  visit("name", r.name);
  visit("class_name", r.class_name);
  visit("config", r.config);
}

template <typename Visitor, AnyConst<EncodingText> T>
void visit_fields(Visitor& visit, T& r) {
  visit("encoder", r.encoder);
  visit("ids", r.ids);
  visit("skipped_layers", r.wanted.skipped_layers);
  visit("final_norm", r.wanted.final_norm);
  visit("is_kept", r.is_kept);
  visit("key_length", r.key_length);
}

template <typename Visitor, AnyConst<EncodingRecord> T>
void visit_fields(Visitor& visit, T& r) {
  visit("model", r.model);
  visit("random_weights", r.random_weights);
  visit("dtype", r.dtype);
  visit("isa", r.isa);
  visit("device", r.device);
  visit("execution_class", r.execution_class);
  visit("encoders", r.encoders);
  visit(at_most(kMostEncodingTexts, "texts"), r.texts);
}

template <typename Visitor, AnyConst<EncodingOffer> T>
void visit_fields(Visitor& visit, T& r) {
  visit_fields(visit, r.record);
}

template <typename Visitor, AnyConst<StandBy> T>
void visit_fields(Visitor& /*visit*/, T& /*r*/) {}

template <typename Visitor, AnyConst<TextEncoded> T>
void visit_fields(Visitor& visit, T& r) {
  visit("text", r.text);
  visit("hidden", r.encoded.hidden);
  visit("pooled", r.encoded.pooled);
}

template <typename Visitor, AnyConst<EncodingDone> T>
void visit_fields(Visitor& visit, T& r) {
  visit("execution_class", r.execution_class);
  visit("encoder_class", r.encoder_class);
  visit(hash_key("weights_xxh3"), r.weights_xxh3);
  visit("device", r.device);
}

template <typename Visitor, AnyConst<EncodingRefused> T>
void visit_fields(Visitor& visit, T& r) {
  visit("cause", r.cause);
}

template <typename Visitor, AnyConst<NextJob> T>
void visit_fields(Visitor& /*visit*/, T& /*r*/) {}

template <typename Visitor, AnyConst<RunValueKey> T>
void visit_fields(Visitor& visit, T& r) {
  visit(hash_key("job"), r.job);
  visit("holder", r.holder);
  visit("name", r.name);
  visit("came_damaged", r.came_damaged);
}

template <typename Visitor, AnyConst<ConditionKey> T>
void visit_fields(Visitor& visit, T& r) {
  visit(hash_key("hash"), r.hash);
}

template <typename Visitor, AnyConst<LatentsKey> T>
void visit_fields(Visitor& visit, T& r) {
  visit(hash_key("job"), r.job);
}

template <typename Visitor, AnyConst<ProbeKey> T>
void visit_fields(Visitor& visit, T& r) {
  visit(at_most(kMostProbeBytes, "bytes"), r.bytes);
}

template <typename Visitor, AnyConst<PaceKey> T>
void visit_fields(Visitor& visit, T& r) {
  visit("process", r.process);
}

template <typename Visitor, AnyConst<ModelFilesKey> T>
void visit_fields(Visitor& /*visit*/, T& /*r*/) {}

template <typename Visitor, AnyConst<ModelChunksKey> T>
void visit_fields(Visitor& /*visit*/, T& /*r*/) {}

template <typename Visitor, AnyConst<ModelChunkKey> T>
void visit_fields(Visitor& visit, T& r) {
  visit("file", r.file);
  visit("chunk", r.chunk);
}

template <typename Visitor, AnyConst<LinkPace> T>
void visit_fields(Visitor& visit, T& r) {
  visit("round_trip", r.round_trip);
  visit("bytes_per_second", r.bytes_per_second);
}

template <typename Visitor, AnyConst<Applicant> T>
void visit_fields(Visitor& visit, T& r) {
  visit("version", r.version);
  visit("name", r.name);
  visit(at_most(kMostEndpoints, "endpoints"), r.endpoints);
  visit(at_most(kMostWorkersOfOne, "cpu_workers"), r.workers.cpu);
  visit(at_most(kMostWorkersOfOne, "gpu_workers"), r.workers.gpu);
}

template <typename Visitor, AnyConst<Welcome> T>
void visit_fields(Visitor& visit, T& r) {
  visit("version", r.version);
  visit("process", r.process);
  visit("is_over", r.is_over);
  visit("tokens", r.tokens);
}

template <typename Visitor, AnyConst<PeerGreeting> T>
void visit_fields(Visitor& visit, T& r) {
  visit("process", r.process);
  visit("token", r.token);
}

template <typename Visitor, AnyConst<AskStatus> T>
void visit_fields(Visitor& /*visit*/, T& /*r*/) {}

template <typename Visitor, AnyConst<AskStop> T>
void visit_fields(Visitor& visit, T& r) {
  visit(cut_to(kMostText, "user"), r.user);
}

template <typename Visitor, AnyConst<Granted> T>
void visit_fields(Visitor& visit, T& r) {
  visit(cut_to(kMostText, "what"), r.what);
}

}  // namespace troupe::actors
