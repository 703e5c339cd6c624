#pragma once

#include <cstddef>

/// The fields of a recipe, listed once for writing, reading and checking. Those
/// of schedule and method stand in a job's record too (actors/job_fields.h).
namespace troupe::config {

/// Changes when an old reader would misread a new recipe. A field that is only
/// added leaves it: the recipe's version then says that there may be more.
constexpr int kRecipeSchema = 1;
/// Bytes of one text.
constexpr std::size_t kLongestRecipeText = 4096;
/// Bytes of a prompt.
constexpr std::size_t kLongestPrompt = std::size_t{64} << 10U;

/// Visits the fields of an options struct with their key, in the direction of
/// the visitor.
template <typename Visitor, typename Options>
void visit_schedule(Visitor& visit, Options& o) {
  visit("solver", o.solver);
  visit("num_inference_steps", o.num_inference_steps);
  visit("num_train_timesteps", o.num_train_timesteps);
  visit("beta_start", o.beta_start);
  visit("beta_end", o.beta_end);
  visit("beta_schedule", o.beta_schedule);
  visit("trained_betas", o.trained_betas);
  visit("rescale_betas_zero_snr", o.rescale_betas_zero_snr);
  visit("prediction_type", o.prediction_type);
  visit("timestep_spacing", o.timestep_spacing);
  visit("steps_offset", o.steps_offset);
  visit("sigma_spacing", o.sigma_spacing);
  visit("set_alpha_to_one", o.set_alpha_to_one);
  visit("final_sigma_zero", o.final_sigma_zero);
  visit("sigma_min", o.sigma_min);
  visit("sigma_max", o.sigma_max);
  visit("clip_sample", o.clip_sample);
  visit("clip_sample_range", o.clip_sample_range);
  visit("thresholding", o.thresholding);
  visit("dynamic_thresholding_ratio", o.dynamic_thresholding_ratio);
  visit("sample_max_value", o.sample_max_value);
  visit("eta", o.eta);
  visit("variance_type", o.variance_type);
  visit("solver_order", o.solver_order);
  visit("algorithm", o.algorithm);
  visit("solver_type", o.solver_type);
  visit("lower_order_final", o.lower_order_final);
  visit("euler_at_final", o.euler_at_final);
  visit("predict_x0", o.predict_x0);
  visit("disable_corrector", o.disable_corrector);
  visit("lambda_min_clipped", o.lambda_min_clipped);
  visit("use_lu_lambdas", o.use_lu_lambdas);
  visit("use_flow_sigmas", o.use_flow_sigmas);
  visit("flow_shift", o.flow_shift);
  visit("shift", o.shift);
  visit("use_dynamic_shifting", o.use_dynamic_shifting);
  visit("time_shift_linear", o.time_shift_linear);
  visit("base_shift", o.base_shift);
  visit("max_shift", o.max_shift);
  visit("base_image_seq_len", o.base_image_seq_len);
  visit("max_image_seq_len", o.max_image_seq_len);
  visit("mu", o.mu);
  visit("shift_terminal", o.shift_terminal);
  visit("invert_sigmas", o.invert_sigmas);
  visit("stochastic_sampling", o.stochastic_sampling);
  visit("sigmas", o.sigmas);
  visit("timesteps", o.timesteps);
}

template <typename Visitor, typename Options>
void visit_method(Visitor& visit, Options& o) {
  visit("kind", o.kind);
  visit("window_size", o.window_size);
  visit("tolerance", o.tolerance);
  visit("carry", o.carry);
  visit("initial_guess", o.initial_guess);
  visit("accept", o.accept);
  visit("num_segments", o.num_segments);
  visit("age", o.age);
  visit("ages", o.ages);
  visit("stride", o.stride);
  visit("warmup_steps", o.warmup_steps);
  visit("final_fresh_steps", o.final_fresh_steps);
}

template <typename Visitor, typename AnyRecipe>
void visit_recipe(Visitor& visit, AnyRecipe& r) {
  visit("version", r.version);
  visit("model", r.model);
  visit("random_weights", r.random_weights);
  visit("weights_xxh3", r.weights_xxh3);
  visit("class_id", r.class_id);
  visit("class_name", r.class_name);
  visit("prompt", r.prompt);
  visit("negative_prompt", r.negative_prompt);
  visit("encoder_class", r.encoder_class);
  visit("prompt_embeds_xxh3", r.prompt_embeds_xxh3);
  visit("seed", r.seed);
  visit("index", r.index);
  visit("noise", r.noise);
  visit("init_latents_xxh3", r.init_latents_xxh3);
  visit("init_latents_drawn", r.init_latents_drawn);
  visit("width", r.width);
  visit("height", r.height);
  visit("guidance_scale", r.guidance_scale);
  visit("dtype", r.dtype);
  visit("isa", r.isa);
  visit("device", r.device);
  visit("bits", r.bits);
  visit("tf32", r.tf32);
  visit("execution_class", r.execution_class);
  visit("latents_xxh3", r.latents_xxh3);
}

}  // namespace troupe::config
