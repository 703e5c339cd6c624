#pragma once

#include <concepts>
#include <type_traits>

#include "actors/job_record.h"
#include "actors/record_fields.h"
#include "config/enum_names.h"
#include "kernels/core/fields.h"
#include "samplers/option_fields.h"
#include "samplers/parallel/marked_graph.h"

/// The fields of a job's record, listed once: for its hash, its messages
/// (actors/wire) and --print-job.
namespace troupe::actors {

template <typename Visitor, AnyConst<ModelRecord> T>
void visit_fields(Visitor& visit, T& r) {
  visit("name", r.name);
  visit("denoiser_config", r.denoiser_config);
  visit("decoder_config", r.decoder_config);
  visit("random_weights", r.random_weights);
  visit(hash_key("weights_xxh3"), r.weights_xxh3);
  visit(hash_key("tensors_xxh3"), r.tensors_xxh3);
}

template <typename Visitor, AnyConst<ClassRecord> T>
void visit_fields(Visitor& visit, T& r) {
  visit("name", r.name);
  visit("device", r.device);
  visit("dtype", r.dtype);
  visit("isa", r.isa);
  visit("architecture", r.architecture);
  visit("batch_invariant", r.batch_invariant);
  visit("tf32", r.tf32);
}

template <typename Visitor, AnyConst<samplers::ScheduleOptions> T>
void visit_fields(Visitor& visit, T& r) {
  samplers::visit_schedule(visit, r);
}

/// Four numbers of one array in a message.
template <typename Visitor, AnyConst<samplers::NoiseLevel> T>
void visit_fields(Visitor& visit, T& r) {
  visit("alpha", r.alpha);
  visit("sigma", r.sigma);
  visit("log_alpha", r.log_alpha);
  visit("log_sigma", r.log_sigma);
}

template <typename Visitor, AnyConst<samplers::ScheduleTable> T>
void visit_fields(Visitor& visit, T& r) {
  visit("options", r.options);
  visit("timesteps", r.timesteps);
  visit("sigmas", r.sigmas);
  visit("alphas_cumprod", r.alphas_cumprod);
  visit("levels", r.levels);
  visit("arrivals", r.arrivals);
  visit("residual_scales", r.residual_scales);
  visit("init_noise_sigma", r.init_noise_sigma);
  visit("calls_before", r.calls_before);
  visit("calls_after", r.calls_after);
}

template <typename Visitor, AnyConst<samplers::GraphNode> T>
void visit_fields(Visitor& visit, T& r) {
  visit("name", r.name);
  visit("part", r.part);
  visit("segment", r.segment);
  visit("cost", r.cost);
  visit("stride", r.stride);
  visit("phase", r.phase);
  visit("timestep_offset", r.timestep_offset);
  visit("fresh", r.fresh);
}

template <typename Visitor, AnyConst<samplers::GraphEdge> T>
void visit_fields(Visitor& visit, T& r) {
  visit("from", r.from);
  visit("to", r.to);
  visit("lag", r.lag);
  visit("age", r.age);
  visit("latency", r.latency);
}

template <typename Visitor, AnyConst<samplers::GraphTable> T>
void visit_fields(Visitor& visit, T& r) {
  visit("nodes", r.nodes);
  visit("edges", r.edges);
  visit("warmup_steps", r.warmup_steps);
  visit("final_fresh_steps", r.final_fresh_steps);
}

template <typename Visitor, AnyConst<samplers::MethodOptions> T>
void visit_fields(Visitor& visit, T& r) {
  samplers::visit_method(visit, r);
  visit("graph", r.graph);
}

template <typename Visitor, AnyConst<JobRecord> T>
void visit_fields(Visitor& visit, T& r) {
  visit("model", r.model);
  visit("schedule", r.schedule);
  visit("method", r.method);
  visit("cuts", r.cuts);
  visit("guidance_scale", r.guidance_scale);
  visit("guidance_rescale", r.guidance_rescale);
  visit("latent_shape", r.latent_shape);
  visit("begin", r.begin);
  visit("end", r.end);
  visit(hash_key("conditions"), r.conditions);
  visit(hash_key("unconditional"), r.unconditional);
  visit("noise", r.noise);
  visit("seed", r.seed);
  visit("draws_latents", r.draws_latents);
  visit(hash_key("init_latents"), r.init_latents);
  visit("execution_classes", r.execution_classes);
  visit("picture_size", r.picture_size);
  visit("vae_tile", r.vae_tile);
  visit("dtype", r.dtype);
}

/// A row of a table, by name.
template <typename T>
concept NamedRow =
    std::same_as<T, samplers::Solver> || std::same_as<T, samplers::MethodKind>;

}  // namespace troupe::actors
