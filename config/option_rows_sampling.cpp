// A table file: one row per option.
#include <array>

#include "config/number_list.h"
#include "config/option_rows.h"

namespace troupe::config::rows {
namespace {

const Names& final_sigmas() {
  static const Names kNames = {"zero", "sigma_min"};
  return kNames;
}

}  // namespace

std::span<const Option> sampling_rows() {
  static const auto kTable = std::to_array<Option>({
      {"model", "", 'm', "DIR", "checkpoint folder in diffusers layout", kModel,
       kRuns | kSchedule,
       [](Config& c, Text at, Text text) { c.model_dir = filled(at, text); },
       [](const Config& c) -> std::string { return c.model_dir; }, "none"},
      {"random-weights", "", 0, "NAME",
       "a bundled model shape with random weights", kModel, kRuns,
       [](Config& c, Text at, Text text) {
         c.random_weights = filled(at, text);
       },
       [](const Config& c) -> std::string { return c.random_weights; }, "none"},
      {"class", "class-labels,classes,label", 'c', "LIST",
       "class names or ids; several cycle over the samples", kModel, kRuns,
       [](Config& c, Text at, Text text) { c.classes = parse_list(at, text); },
       [](const Config& c) -> std::string { return joined(c.classes); },
       "all in turn, from 0"},
      {"size", "resolution", 0, "WxH",
       "width and height of the pictures, in pixels", kModel, kRuns,
       [](Config& c, Text at, Text text) { c.size = parse_size(at, text); },
       [](const Config& c) -> std::string {
         return c.size ? to_string(*c.size) : std::string();
       },
       "as the model was trained"},
      {"samples", "num-samples,batch-count", 'n', "N|A:B",
       "how many images, or global indices [A, B)", kModel, kSample | kBench,
       [](Config& c, Text at, Text text) { c.samples = parse_range(at, text); },
       [](const Config& c) -> std::string { return to_string(c.samples); }},
      {"seed", "", 's', "N",
       "the same seed gives the same images; -1 is 2^64 - 1", kModel, kRuns,
       [](Config& c, Text at, Text text) { c.seed = parse_seed(at, text); },
       [](const Config& c) -> std::string { return std::to_string(c.seed); }},
      {"noise", "", 0, "KIND",
       "philox, or torch: as diffusers with a generator per image, seed + "
       "index, for latents and steps (DiTPipeline gives steps none)",
       kModel, kRuns,
       [](Config& c, Text at, Text text) {
         c.noise = parse_enum<NoiseKind>(at, text);
       },
       [](const Config& c) -> std::string { return name_of(c.noise); }},
      {"init-latents", "", 0, "FILE",
       "start from these latents (.safetensors, .npy, .npz)", kModel, kSample,
       [](Config& c, Text at, Text text) { c.init_latents = filled(at, text); },
       [](const Config& c) -> std::string { return c.init_latents; },
       "noise from the seed"},
      {"from", "", 0, "IMAGE", "take the recipe out of a PNG made by troupe",
       kModel, kSample,
       [](Config& c, Text at, Text text) { c.from_image = filled(at, text); },
       [](const Config& c) -> std::string { return c.from_image; }, "none"},
      {"sampler", "scheduler,solver", 0, "NAME",
       "ddim, ddpm, dpm++2m, euler, heun, unipc, … or a diffusers class; "
       "schedule compares several",
       kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) { c.sampler.name = filled(at, text); },
       [](const Config& c) -> std::string { return c.sampler.name; },
       "what the model's files say, else ddim"},
      {"steps", "num-inference-steps,num-steps", 0, "N", "denoising steps",
       kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.steps = small(at, text, 1);
       },
       [](const Config& c) -> std::string { return text_of(c.sampler.steps); },
       "what the model's sampling.json says, else 50"},
      {"guidance", "guidance-scale,cfg-scale", 0, "W",
       "classifier-free guidance; 1 is off", kSamplerGroup, kRuns,
       [](Config& c, Text at, Text text) {
         c.guidance_scale = parse_real(at, text, -1000, 1000);
       },
       [](const Config& c) -> std::string { return text_of(c.guidance_scale); },
       "what the model's sampling.json says, else 4; 1 for models without "
       "classes"},
      {"eta", "", 0, "X", "DDIM: 0 deterministic, 1 like DDPM", kSamplerGroup,
       kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.eta = parse_real(at, text, 0, 1);
       },
       [](const Config& c) -> std::string { return text_of(c.sampler.eta); },
       "0"},
      {"order", "solver-order", 0, "N", "order of a multistep solver, 1 to 3",
       kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.solver_order =
             static_cast<int>(parse_integer(at, text, 1, 3));
       },
       [](const Config& c) -> std::string {
         return text_of(c.sampler.solver_order);
       },
       "scheduler_config.json, else 2"},
      {"timestep-spacing", "spacing", 0, "KIND",
       "leading, trailing or linspace", kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.timestep_spacing =
             parse_enum<samplers::TimestepSpacing>(at, text);
       },
       [](const Config& c) -> std::string {
         return name_of(c.sampler.timestep_spacing);
       },
       "scheduler_config.json, else the solver's own"},
      {"sigma-spacing", "", 0, "KIND", "none, karras, exponential or beta",
       kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.sigma_spacing = parse_enum<samplers::SigmaSpacing>(at, text);
       },
       [](const Config& c) -> std::string {
         return name_of(c.sampler.sigma_spacing);
       },
       "scheduler_config.json, else none"},
      {"karras", "use-karras-sigmas", 0, "",
       "the same as --sigma-spacing karras", kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         if (parse_bool(at, text)) {
           c.sampler.sigma_spacing = samplers::SigmaSpacing::karras;
         } else if (c.sampler.sigma_spacing == samplers::SigmaSpacing::karras) {
           c.sampler.sigma_spacing.reset();
         }
       },
       nullptr},
      {"final-sigmas-type", "", 0, "KIND",
       "where the last step ends: zero or sigma_min", kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.final_sigma_zero =
             parse_choice(at, text, final_sigmas()) == 0;
       },
       [](const Config& c) -> std::string {
         const auto& is_zero = c.sampler.final_sigma_zero;
         return is_zero ? final_sigmas()[*is_zero ? 0 : 1] : std::string();
       },
       "scheduler_config.json, else zero"},
      {"prediction-type", "", 0, "KIND",
       "epsilon, v_prediction, sample or flow_prediction", kSamplerGroup,
       kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.prediction_type =
             parse_enum<samplers::PredictionType>(at, text);
       },
       [](const Config& c) -> std::string {
         return name_of(c.sampler.prediction_type);
       },
       "scheduler_config.json, else epsilon; flow_prediction with flow"},
      {"beta-schedule", "", 0, "KIND",
       "linear, scaled_linear, squaredcos_cap_v2, sigmoid or laplace",
       kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.beta_schedule = parse_enum<samplers::BetaSchedule>(at, text);
       },
       [](const Config& c) -> std::string {
         return name_of(c.sampler.beta_schedule);
       },
       "scheduler_config.json, else linear"},
      {"beta-start", "", 0, "X", "first training variance", kSamplerGroup,
       kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.beta_start = parse_real(at, text, 0, 1);
       },
       [](const Config& c) -> std::string {
         return text_of(c.sampler.beta_start);
       },
       "scheduler_config.json, else 0.0001"},
      {"beta-end", "", 0, "X", "last training variance", kSamplerGroup,
       kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.beta_end = parse_real(at, text, 0, 1);
       },
       [](const Config& c) -> std::string {
         return text_of(c.sampler.beta_end);
       },
       "scheduler_config.json, else 0.02"},
      {"train-steps", "num-train-timesteps", 0, "N",
       "timesteps the model was trained with", kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.num_train_timesteps = small(at, text, 1);
       },
       [](const Config& c) -> std::string {
         return text_of(c.sampler.num_train_timesteps);
       },
       "scheduler_config.json, else 1000"},
      {"shift", "flow-shift", 0, "X", "time shift of flow models",
       kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.shift = parse_real(at, text, 1e-6, 1e6);
       },
       [](const Config& c) -> std::string { return text_of(c.sampler.shift); },
       "scheduler_config.json, else 1"},
      {"variance-type", "", 0, "KIND",
       "DDPM: fixed_small, fixed_large, learned_range, …", kSamplerGroup,
       kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.variance_type = parse_enum<samplers::VarianceType>(at, text);
       },
       [](const Config& c) -> std::string {
         return name_of(c.sampler.variance_type);
       },
       "scheduler_config.json, else fixed_small"},
      {"clip-sample", "", 0, "BOOL", "clip the predicted clean sample",
       kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.clip_sample = parse_bool(at, text);
       },
       [](const Config& c) -> std::string {
         return c.sampler.clip_sample
                    ? std::string(*c.sampler.clip_sample ? "true" : "false")
                    : std::string();
       },
       "scheduler_config.json, else true for ddim and ddpm"},
      {"sigmas", "", 0, "LIST",
       "explicit noise levels, descending: numbers with commas or spaces, in "
       "brackets or not; @FILE reads them from a text file",
       kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.sigmas = parse_numbers(at, text);
       },
       [](const Config& c) -> std::string { return joined(c.sampler.sigmas); },
       "made from --steps and the spacing"},
      {"timesteps", "", 0, "LIST",
       "explicit timesteps, descending: written like --sigmas", kSamplerGroup,
       kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.timesteps = parse_numbers(at, text);
       },
       [](const Config& c) -> std::string {
         return joined(c.sampler.timesteps);
       },
       "made from --steps and the spacing"},
  });
  return kTable;
}

}  // namespace troupe::config::rows
