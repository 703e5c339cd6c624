#pragma once

#include <concepts>
#include <string>

#include "actors/job_record.h"
#include "actors/record_fields.h"
#include "config/enum_names.h"
#include "kernels/core/fields.h"
#include "samplers/guidance.h"
#include "samplers/option_fields.h"

/// The fields of a job's record, listed once: for its hash, its messages
/// (actors/wire) and --print-job.
namespace troupe::actors {

void visit_fields(auto& visit, AnyConst<ModelRecord> auto& r) {
  visit("name", r.name);
  visit({"denoiser_config", "", "object"}, r.denoiser_config);
  visit({"decoder_config", "", "object"}, r.decoder_config);
  visit("random_weights", r.random_weights);
  visit(hash_key("weights_xxh3"), r.weights_xxh3);
  visit(hash_key("tensors_xxh3"), r.tensors_xxh3);
}

void visit_fields(auto& visit, AnyConst<ClassRecord> auto& r) {
  visit("name", r.name);
  visit("device", r.device);
  visit("dtype", r.dtype);
  visit("isa", r.isa);
  visit("architecture", r.architecture);
  visit("batch_invariant", r.batch_invariant);
  visit("tf32", r.tf32);
}

void visit_fields(auto& visit, AnyConst<samplers::ScheduleOptions> auto& r) {
  samplers::visit_schedule(visit, r);
}

/// Four numbers of one array in a message.
void visit_fields(auto& visit, AnyConst<samplers::NoiseLevel> auto& r) {
  visit("alpha", r.alpha);
  visit("sigma", r.sigma);
  visit("log_alpha", r.log_alpha);
  visit("log_sigma", r.log_sigma);
}

void visit_fields(auto& visit, AnyConst<samplers::ScheduleTable> auto& r) {
  visit({"options", "as schedule in a recipe, resolved", "object"}, r.options);
  visit({"timesteps", "what the network is told"}, r.timesteps);
  visit({"sigmas", "noise levels; one more"}, r.sigmas);
  visit({"alphas_cumprod", "by training step"}, r.alphas_cumprod);
  visit({"levels", "alpha, sigma, their logarithms", "array of objects"},
        r.levels);
  visit({"arrivals", "the same where a step ends", "array of objects"},
        r.arrivals);
  visit({"residual_scales", "picard's measure"}, r.residual_scales);
  visit({"init_noise_sigma", "scale of the first latents"}, r.init_noise_sigma);
  visit({"calls_before", "of the whole run, made elsewhere"}, r.calls_before);
  visit({"calls_after", "the same, to be made later"}, r.calls_after);
}

void visit_fields(auto& visit, AnyConst<samplers::MethodOptions> auto& r) {
  samplers::visit_method(visit, r);
}

template <typename Visitor, AnyConst<JobRecord> T>
void visit_fields(Visitor& visit, T& r) {
  visit({"model",
         "name, configurations, hash of the weights; those of tensors are told "
         "to other processes only",
         "object"},
        r.model);
  visit({"schedule", "the noise schedule: its options and its numbers"},
        r.schedule);
  visit({"method", "as in a recipe", "object"}, r.method);
  visit({"cuts", "blocks at which segments begin and end"}, r.cuts);
  samplers::visit_guidance(visit, r.guidance);
  visit({"latent_shape", "of one sample"}, r.latent_shape);
  visit({"begin", "first sample, by global index"}, r.begin);
  visit({"end", "one past the last"}, r.end);
  visit(hash_key({"conditions",
                  "hashes; sample i has i modulo n; zeros: no sample of the "
                  "job has it"}),
        r.conditions);
  visit(hash_key({"unconditional",
                  "the same of guidance's other branch; empty: there is none"}),
        r.unconditional);
  visit({"noise", "philox or torch"}, r.noise);
  visit({"seed", "seed of the run"}, r.seed);
  visit({"draws_latents", "torch draws them even if others are given"},
        r.draws_latents);
  visit(hash_key({"init_latents", "hashes of given latents"}), r.init_latents);
  visit({"execution_classes", "how each kind of device computes",
         "array of objects"},
        r.execution_classes);
  visit({"picture_size",
         "height and width that what is decoded is cut to; empty: as it is"},
        r.picture_size);
  visit(
      {"vae_tile", "side of the decoder's tiles in latents; 0: whole pictures"},
      r.vae_tile);
  visit({"dtype",
         "of --dtype, for kinds of devices that join later; absent: they "
         "choose"},
        r.dtype);
  visit(if_any({"ring_blocks",
                "blocks of keys that attention merges; absent: all keys at "
                "once"}),
        r.ring_blocks);
  visit(hash_key(if_any({"guesses",
                         "hashes of given trajectories that guesses come from; "
                         "absent: none"})),
        r.guesses);
  if constexpr (ShowsFields<Visitor>) {
    visit({"seed_text", "the same as seed, for readers of doubles (jq)"},
          std::to_string(r.seed));
  }
}

/// A row of a table, by name.
template <typename T>
concept NamedRow =
    std::same_as<T, samplers::Solver> || std::same_as<T, samplers::MethodKind>;
[[nodiscard]] inline std::string name_of_row(samplers::Solver row) {
  return std::string(row->name);
}
[[nodiscard]] inline std::string name_of_row(samplers::MethodKind row) {
  return to_string(row);
}

}  // namespace troupe::actors
