#pragma once

#include "kernels/core/fields.h"

/// The fields of a schedule's and of a method's options, listed once: for
/// recipes, job records, files of schedulers, `troupe help json`, and for
/// putting what a user chose over the options.
/// To add a field: a member in options.h, and a line here.
namespace troupe::samplers {

/// Calls visit(key, field) for each field, in an order that never changes: job
/// records are hashed in it. `Options` is ScheduleOptions, constant or not.
template <typename Visitor, typename Options>
void visit_schedule(Visitor& visit, Options& o) {
  using Key = FieldKey;
  visit(Key{"solver", "solver"}, o.solver);
  visit(Key{"num_inference_steps", "steps"}, o.num_inference_steps);
  visit(Key{"num_train_timesteps", "steps of training"}, o.num_train_timesteps);
  visit(Key{"beta_start", "first training variance"}, o.beta_start);
  visit(Key{"beta_end", "last training variance"}, o.beta_end);
  visit(Key{"beta_schedule", "how variances grow"}, o.beta_schedule);
  visit(Key{"trained_betas", "variances, if given"}, o.trained_betas);
  visit(Key{"rescale_betas_zero_snr", "ends in pure noise"},
        o.rescale_betas_zero_snr);
  visit(Key{"prediction_type", "what the network predicts"}, o.prediction_type);
  visit(Key{"timestep_spacing", "absent: the solver's own"},
        o.timestep_spacing);
  visit(Key{"steps_offset", "added to leading timesteps"}, o.steps_offset);
  visit(Key{"sigma_spacing", "none, karras, exponential or beta"},
        o.sigma_spacing);
  visit(Key{"set_alpha_to_one", "last level is noise-free"},
        o.set_alpha_to_one);
  visit(Key{"final_sigma_zero", "last sigma is 0"}, o.final_sigma_zero);
  visit(Key{"sigma_min", "absent: the table's"}, o.sigma_min);
  visit(Key{"sigma_max", "absent: the table's"}, o.sigma_max);
  visit(Key{"clip_sample", "absent: the solver's own"}, o.clip_sample);
  visit(Key{"clip_sample_range", "bound of clipping"}, o.clip_sample_range);
  visit(Key{"thresholding", "dynamic thresholding"}, o.thresholding);
  visit(Key{"dynamic_thresholding_ratio", "quantile of it"},
        o.dynamic_thresholding_ratio);
  visit(Key{"sample_max_value", "bound of it"}, o.sample_max_value);
  visit(Key{"eta", "DDIM: noise of a step"}, o.eta);
  visit(Key{"variance_type", "DDPM: variance of a step"}, o.variance_type);
  visit(Key{"solver_order", "of a multistep solver"}, o.solver_order);
  visit(Key{"algorithm", "DPM-Solver's variant"}, o.algorithm);
  visit(Key{"solver_type", "formula of order 2; empty: default"},
        o.solver_type);
  visit(Key{"lower_order_final", "order falls at the end"},
        o.lower_order_final);
  visit(Key{"euler_at_final", "last step is Euler's"}, o.euler_at_final);
  visit(Key{"predict_x0", "UniPC: form of the update"}, o.predict_x0);
  visit(Key{"disable_corrector", "UniPC: by step"}, o.disable_corrector);
  visit(Key{"lambda_min_clipped", "lower bound of log SNR / 2",
            "number or string"},
        o.lambda_min_clipped);
  visit(Key{"use_lu_lambdas", "spacing of Lu"}, o.use_lu_lambdas);
  visit(Key{"use_flow_sigmas", "levels of flow matching"}, o.use_flow_sigmas);
  visit(Key{"flow_shift", "time shift of these"}, o.flow_shift);
  visit(Key{"shift", "time shift of flow_euler"}, o.shift);
  visit(Key{"use_dynamic_shifting", "shift by image size"},
        o.use_dynamic_shifting);
  visit(Key{"time_shift_linear", "linear, not exponential"},
        o.time_shift_linear);
  visit(Key{"base_shift", "shift of the smallest images"}, o.base_shift);
  visit(Key{"max_shift", "shift of the largest images"}, o.max_shift);
  visit(Key{"base_image_seq_len", "tokens of the smallest"},
        o.base_image_seq_len);
  visit(Key{"max_image_seq_len", "tokens of the largest"}, o.max_image_seq_len);
  visit(Key{"mu", "exponent of dynamic shifting, if given"}, o.mu);
  visit(Key{"shift_terminal", "level of the last step, if given"},
        o.shift_terminal);
  visit(Key{"invert_sigmas", "1 - sigma"}, o.invert_sigmas);
  visit(Key{"stochastic_sampling", "flow_euler draws noise"},
        o.stochastic_sampling);
  visit(Key{"sigmas", "levels that were given"}, o.sigmas);
  visit(Key{"timesteps", "timesteps that were given"}, o.timesteps);
  visit(Key{"denoising_start", "share of the run that was made before"},
        o.denoising_start);
  visit(Key{"denoising_end", "share of the run after which it ends"},
        o.denoising_end);
  visit(Key{"skip_prk_steps", "PNDM: no Runge-Kutta steps"}, o.skip_prk_steps);
}

/// Calls visit(key, field, ...) for what MethodOptions and MethodChoices have
/// under the same name. With several structs it visits their fields together.
template <typename Visitor, typename... Options>
void visit_choices(Visitor& visit, Options&... o) {
  using Key = FieldKey;
  visit(Key{"window_size", "points, cores or blocks at once"},
        o.window_size...);
  visit(Key{"tolerance", "picard, taa: 0 is exact"}, o.tolerance...);
  visit(Key{"carry", "picard: identity, coefficient or deviation"}, o.carry...);
  visit(Key{"initial_guess", "picard, taa: of points that enter"},
        o.initial_guess...);
  visit(Key{"accept", "picard: settled or first_failing"}, o.accept...);
  visit(Key{"num_segments", "stale: parts of the network"}, o.num_segments...);
  visit(Key{"stride", "stale: steps per round"}, o.stride...);
  visit(Key{"warmup_steps", "exact calls at the start"}, o.warmup_steps...);
  visit(Key{"final_fresh_steps", "exact steps at the end"},
        o.final_fresh_steps...);
  visit(Key{"cut", "stale: chain or onion"}, o.cut...);
  visit(Key{"stale_at", "stale: latents or cuts"}, o.stale_at...);
  visit(Key{"anchor", "draft: where drafts begin"}, o.anchor...);
  visit(Key{"num_outputs", "chords: outputs waited for"}, o.num_outputs...);
  visit(Key{"iterations", "parareal: corrections"}, o.iterations...);
  visit(Key{"memory", "taa: iterates that are mixed"}, o.memory...);
  visit(Key{"cache_threshold", "+cache: 0 is exact"}, o.cache_threshold...);
}

/// As visit_schedule, for MethodOptions. Early results are no option of a
/// user's.
template <typename Visitor, typename Options>
void visit_method(Visitor& visit, Options& o) {
  using Key = FieldKey;
  visit(Key{"kind",
            "sequential stands for every exact method; +cache: modifiers"},
        o.kind);
  visit(Key{"age", "stale: steps a cut may lag"}, o.age);
  visit(Key{"ages", "stale: the same, by cut"}, o.ages);
  visit(Key{"segment_speeds", "stale: how fast the segments' workers are"},
        o.segment_speeds);
  visit_choices(visit, o);
}

}  // namespace troupe::samplers
