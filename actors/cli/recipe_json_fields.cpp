#include <array>

#include "actors/cli/json_fields.h"
#include "actors/cli/json_rows.h"
#include "config/recipe.h"
#include "config/recipe_fields.h"

namespace troupe::actors {
namespace {

constexpr std::array<const char*, 3> kJob[] = {
    {"job", "string", "name of the job: a hash of all that follows"},
    {"model", "object",
     "name, configurations, hash of the weights; those of tensors are told to "
     "other processes only"},
    {"schedule.options", "object", "as schedule in a recipe, resolved"},
    {"schedule.timesteps", "array of numbers", "what the network is told"},
    {"schedule.sigmas", "array of numbers", "noise levels; one more"},
    {"schedule.levels", "array of objects", "alpha, sigma, their logarithms"},
    {"schedule.arrivals", "array of objects", "the same where a step ends"},
    {"schedule.residual_scales", "array of numbers", "picard's measure"},
    {"schedule.alphas_cumprod", "array of numbers", "by training step"},
    {"schedule.init_noise_sigma", "number", "scale of the first latents"},
    {"schedule.calls_before", "integer", "of the whole run, made elsewhere"},
    {"schedule.calls_after", "integer", "the same, to be made later"},
    {"method", "object", "as in a recipe; graph: of a stale pipeline"},
    {"cuts", "array of integers", "blocks at which segments begin and end"},
    {"guidance_scale", "number", "1: none"},
    {"guidance_rescale", "number",
     "share of a guided output that has the conditional branch's deviation"},
    {"latent_shape", "array of integers", "of one sample"},
    {"picture_size", "array of integers",
     "height and width that what is decoded is cut to; empty: as it is"},
    {"begin", "integer", "first sample, by global index"},
    {"end", "integer", "one past the last"},
    {"conditions", "array of strings",
     "hashes; sample i has i modulo n; zeros: no sample of the job has it"},
    {"unconditional", "array of strings",
     "the same of guidance's other branch; empty: there is none"},
    {"noise", "string", "philox or torch"},
    {"seed", "integer", "seed of the run"},
    {"seed_text", "string", "the same, for readers of doubles (jq)"},
    {"draws_latents", "boolean", "torch draws them even if others are given"},
    {"init_latents", "array of strings", "hashes of given latents"},
    {"execution_classes", "array of objects",
     "how each kind of device computes"},
    {"dtype", "string",
     "of --dtype, for kinds of devices that join later; absent: they choose"},
    {"vae_tile", "integer",
     "side of the decoder's tiles in latents; 0: whole pictures"},
};

}  // namespace

std::vector<JsonField> recipe_json_fields() {
  const config::Recipe recipe;
  JsonRows rows;
  rows.add("schema", "integer",
           "1; changes when an old reader would misread it");
  config::visit_recipe(rows, recipe);
  rows.begin("method", "what of the method decides the bytes");
  samplers::visit_method(rows, recipe.method);
  rows.begin("schedule", "the noise schedule, resolved");
  samplers::visit_schedule(rows, recipe.schedule);
  return std::move(rows).rows();
}

std::vector<JsonField> job_json_fields() {
  std::vector<JsonField> fields;
  for (const auto& [path, type, meaning] : kJob) {
    fields.push_back({path, type, meaning});
  }
  return fields;
}

}  // namespace troupe::actors
