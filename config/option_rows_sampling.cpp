// A table file: one row per option.
#include <array>

#include "config/option_rows.h"

namespace troupe::config::rows {
namespace {

/// Another spelling of --sigma-spacing.
void set_karras(Config& config, Text place, Text text) {
  auto& spacing = config.sampler.sigma_spacing;
  if (parse_bool(place, text)) {
    spacing = samplers::SigmaSpacing::karras;
  } else if (spacing == samplers::SigmaSpacing::karras) {
    spacing.reset();
  }
}

/// Several of `bench methods`.
Field steps_field() {
  return {[](Config& config, Text place, Text text) {
            Sampler& sampler = config.sampler;
            sampler.step_counts.clear();
            for (const std::string& count : parse_list(place, text)) {
              sampler.step_counts.push_back(
                  static_cast<int>(parse_integer(place, count, 1, kMany)));
            }
            if (sampler.step_counts.empty()) {
              fail_empty(place);
            }
            sampler.steps = sampler.step_counts.front();
            if (sampler.step_counts.size() == 1) {
              sampler.step_counts.clear();
            }
          },
          [](const Config& config) {
            const Sampler& sampler = config.sampler;
            return sampler.step_counts.empty() ? text_of(sampler.steps)
                                               : text_of(sampler.step_counts);
          }};
}

/// A side alone leaves the other, 0, to the model.
bool has_both_sides(const Config& config) {
  return config.size && config.size->width > 0 && config.size->height > 0;
}

Field size_field() {
  return {parsed(&Config::size, parse_size).set, [](const Config& config) {
            return has_both_sides(config) ? to_string(*config.size)
                                          : std::string();
          }};
}

Field side_field(std::int64_t PictureSize::*side) {
  return {[=](Config& config, Text place, Text text) {
            PictureSize size = config.size.value_or(PictureSize());
            size.*side = parse_integer(place, text, 1, kMostPixelsPerSide);
            config.size = size;
          },
          [=](const Config& config) {
            const std::int64_t pixels = config.size && !has_both_sides(config)
                                            ? (*config.size).*side
                                            : 0;
            return pixels > 0 ? std::to_string(pixels) : std::string();
          }};
}

/// A count is of each prompt, a range of all pictures.
Field samples_field() {
  return {[](Config& config, Text place, Text text) {
            config.samples = parse_range(place, text);
            config.samples_per_prompt = text.find(':') == Text::npos;
          },
          [](const Config& config) {
            const SampleRange& range = config.samples;
            return config.samples_per_prompt || range.begin > 0
                       ? to_string(range)
                       : "0:" + to_string(range);
          }};
}

/// Each sets one more. No text of them all is read back: a prompt may have any
/// character.
Field prompts_field(std::vector<std::string> Config::*member) {
  return {[=](Config& config, Text /*place*/, Text text) {
            (config.*member).emplace_back(text);
          },
          [=](const Config& config) {
            return (config.*member).empty() ? "" : (config.*member).front();
          },
          member};
}

/// A member of Config::told or Config::told_negative.
template <typename T, typename Parse>
Field told_field(SizeConfig Config::*branch,
                 std::optional<T> SizeConfig::*member, Parse parse) {
  return {
      [=](Config& config, Text place, Text text) {
        config.*branch.*member = parse(place, text);
      },
      [=](const Config& config) { return text_of(config.*branch.*member); }};
}

double parse_score(Text place, Text text) {
  return parse_real(place, text, -1000, 1000);
}

Field final_sigmas_field() {
  static const Names kNames = {"zero", "sigma_min"};
  Field final_sigmas =
      parsed(&Sampler::final_sigma_zero, [](Text place, Text text) {
        return parse_choice(place, text, kNames) == 0;
      });
  final_sigmas.get = [](const Config& config) {
    const std::optional<bool>& is_zero = config.sampler.final_sigma_zero;
    return is_zero ? kNames[*is_zero ? 0 : 1] : std::string();
  };
  return final_sigmas;
}

}  // namespace

std::span<const Option> sampling_rows() {
  static const auto kTable = std::to_array<Option>({
      {"model", "model-path,model-dir,model-id,pretrained-model-name-or-path",
       'm', "DIR", "checkpoint folder in diffusers layout", kModel,
       often(kSample | kBench) | kComputes | kSchedule | kEncode,
       field(&Config::model_dir), "none"},
      {"random-weights", "", 0, "NAME",
       "a bundled model shape with random weights", kModel,
       often(kSample | kBench) | kRuns | kEncode,
       field(&Config::random_weights), "none"},
      {"class", "class-labels,classes,label", 'c', "LIST",
       "class names or ids; several cycle over the samples", kModel,
       often(kSample | kBench) | kRuns, parsed(&Config::classes, parse_list),
       "all in turn, from 0"},
      {"prompt", "text", 'p', "TEXT",
       by_verb({{kVerify, "what the pictures shall show"},
                {kRuns | kEncode,
                 "what the pictures shall show; several are as the lines of a "
                 "--prompt-file"}}),
       kModel, often(kSample | kBench) | kRuns | kEncode,
       prompts_field(&Config::prompts), "none"},
      {"prompt-2", "", 0, "TEXT",
       "what the second text encoder reads (Stable Diffusion XL)", kModel,
       kRuns | kEncode, field(&Config::prompt_2), "as --prompt"},
      {"prompt-file", "prompts,from-file,prompts-file", 0, "FILE",
       "a prompt on each line, blank ones left out; - is standard input; image "
       "i shows prompt i modulo their number",
       kModel, often(kSample) | kBench | kEncode, field(&Config::prompt_file),
       "none"},
      {"negative-prompt", "negative,neg-prompt", 0, "TEXT",
       "what guidance leads away from; several are one for each prompt", kModel,
       often(kSample) | kRuns | kEncode,
       prompts_field(&Config::negative_prompts),
       "the pipeline's own, which is mostly no text"},
      {"negative-prompt-file", "negative-prompts", 0, "FILE",
       "a negative prompt on each line, one for all prompts or one for each; a "
       "blank line is an empty one",
       kModel, kSample | kBench | kEncode, field(&Config::negative_prompt_file),
       "none"},
      {"negative-prompt-2", "", 0, "TEXT",
       "what the second text encoder reads of it (Stable Diffusion XL)", kModel,
       kRuns | kEncode, field(&Config::negative_prompt_2),
       "as --negative-prompt"},
      {"clip-skip", "", 0, "N",
       "leave out the last N layers of the text encoders for the prompt "
       "(Stable Diffusion), as diffusers counts: where others say 2, it is 1",
       kModel, kRuns | kEncode, whole(&Config::clip_skip, 0, 1000)},
      {"max-sequence-length", "", 0, "N",
       "tokens of a prompt that count, with its end mark; 0: as many as in the "
       "pipeline (PixArt)",
       kModel, kRuns | kEncode, whole(&Config::max_sequence_length, 0, 1024)},
      {"prompt-embeds", "", 0, "FILE",
       "prompts that are encoded already, as troupe encode or diffusers makes "
       "them (.safetensors, .npz)",
       kModel, kRuns, field(&Config::prompt_embeds), "none"},
      {"size", "resolution,image-size", 0, "WxH",
       "width and height of the pictures, in pixels", kModel,
       often(kSample | kBench) | kRuns, size_field(),
       "as the model was trained"},
      {"width", "W", 'W', "N", "their width alone", kModel, kRuns,
       side_field(&PictureSize::width), "as --size says"},
      {"height", "H", 'H', "N", "their height alone", kModel, kRuns,
       side_field(&PictureSize::height), "as --size says"},
      {"no-resolution-bins", "", 0, "",
       "sample at --size itself, not at the nearest size that the pipeline was "
       "made for (PixArt)",
       kModel, kRuns, field(&Config::no_resolution_bins)},
      {"original-size", "", 0, "WxH",
       "what the network is told of the picture before it was scaled (Stable "
       "Diffusion XL)",
       kModel, kRuns,
       told_field(&Config::told, &SizeConfig::original, parse_size),
       "the picture's size"},
      {"crop", "crops-coords-top-left", 0, "TOP,LEFT",
       "how much the network is told to have been cut off, in pixels (Stable "
       "Diffusion XL)",
       kModel, kRuns,
       told_field(&Config::told, &SizeConfig::crop, parse_corner), "0,0"},
      {"target-size", "", 0, "WxH",
       "the size that the network is told in place of the picture's (Stable "
       "Diffusion XL)",
       kModel, kRuns,
       told_field(&Config::told, &SizeConfig::target, parse_size),
       "the picture's size"},
      {"negative-original-size", "", 0, "WxH",
       "--original-size of what guidance leads away from; beside "
       "--negative-target-size",
       kModel, kRuns,
       told_field(&Config::told_negative, &SizeConfig::original, parse_size),
       "as --original-size"},
      {"negative-crop", "negative-crops-coords-top-left", 0, "TOP,LEFT",
       "--crop of it; beside the negative sizes", kModel, kRuns,
       told_field(&Config::told_negative, &SizeConfig::crop, parse_corner),
       "0,0 beside the negative sizes, else as --crop"},
      {"negative-target-size", "", 0, "WxH",
       "--target-size of it; beside --negative-original-size", kModel, kRuns,
       told_field(&Config::told_negative, &SizeConfig::target, parse_size),
       "as --target-size"},
      {"aesthetic-score", "", 0, "X",
       "how beautiful the network is told that the picture is (the refiner of "
       "Stable Diffusion XL)",
       kModel, kRuns,
       told_field(&Config::told, &SizeConfig::aesthetic_score, parse_score),
       "6"},
      {"negative-aesthetic-score", "", 0, "X",
       "the same of what guidance leads away from", kModel, kRuns,
       told_field(&Config::told_negative, &SizeConfig::aesthetic_score,
                  parse_score),
       "2.5"},
      {"vae-tiling", "enable-vae-tiling", 0, "",
       "decode large pictures in overlapping tiles, as diffusers does: memory "
       "of a tile, and a slightly different picture",
       kModel, kRuns, field(&Config::vae_tiling)},
      {"samples",
       "num-samples,num-images-per-prompt,batch-count,num-images,n-samples",
       'n', "N|A:B",
       "how many images, of each prompt if there are several; or global "
       "indices [A, B)",
       kModel, often(kSample | kBench), samples_field()},
      {"share", "", 0, "I/N",
       "draw part I of N equal parts of the images, counted from 0: for tasks "
       "that share one run",
       kModel, kSample, parsed(&Config::share, parse_share), "all images"},
      {"seed", "", 's', "N",
       "the same seed gives the same images; -1 is 2^64 - 1", kModel,
       often(kSample) | kRuns, parsed(&Config::seed, parse_seed)},
      {"noise", "", 0, "KIND",
       "philox, or torch: as diffusers with a generator per image, seed + "
       "index, for latents and steps (DiTPipeline gives steps none)",
       kModel, kRuns, field(&Config::noise)},
      {"init-latents", "", 0, "FILE",
       "start from these latents (.safetensors, .npy, .npz)", kModel, kSample,
       field(&Config::init_latents), "noise from the seed"},
      {"from", "", 0, "FILE",
       by_verb(
           {{kSample,
             "take the recipe out of a PNG made by troupe, and write "
             "NAME-again.png beside it unless --out or the like says where"},
            {kKeys, "the company's key file, for keys worker"}}),
       kModel, often(kSample) | kKeys, field(&Config::from), "none"},
      {"sampler",
       "scheduler,solver,sampling-method,sample-method,sampler-name,scheduler-"
       "type",
       0, "NAME",
       by_verb({{kSchedule,
                 "ddim, ddpm, dpm++2m, euler, heun, unipc, … or a diffusers "
                 "class; several are compared"},
                {kSamplers,
                 "ddim, ddpm, dpm++2m, euler, heun, unipc, … or a diffusers "
                 "class"}}),
       kSamplerGroup, often(kSample | kBench) | kSamplers,
       field(&Sampler::name), "what the model's files say, else ddim"},
      {"steps",
       "num-inference-steps,num-steps,inference-steps,sampling-steps,num-"
       "sampling-steps,sample-steps,ddim-steps",
       0, "N",
       by_verb({{kBench,
                 "denoising steps; with methods several with commas are "
                 "compared"},
                {kSamplers, "denoising steps"}}),
       kSamplerGroup, often(kSample | kBench) | kSamplers, steps_field(),
       "what the model's sampling.json says, else its pipeline's default, else "
       "50"},
      {"guidance", "guidance-scale,cfg-scale,cfg", 0, "W",
       "classifier-free guidance; 1 is off", kSamplerGroup,
       often(kSample | kBench) | kRuns,
       real(&Config::guidance_scale, -1000, 1000),
       "what the model's sampling.json says, else its pipeline's default, else "
       "4; 1 for models without classes and prompts"},
      {"guidance-rescale", "", 0, "X",
       "against pictures that guidance overexposes: how much of a guided "
       "output gets the deviation of the conditional one, 0 to 1",
       kSamplerGroup, kRuns, real(&samplers::Guidance::rescale, 0, 1)},
      {"guidance-interval", "", 0, "LO:HI",
       "guide only while the noise level lies between the two, as troupe "
       "schedule shows it; other steps have the prompt alone and cost half",
       kSamplerGroup, kRuns,
       parsed(&samplers::Guidance::interval, parse_sigma_range), "0:inf"},
      {"eta", "ddim-eta", 0, "X", "DDIM: 0 deterministic, 1 like DDPM",
       kSamplerGroup, kSamplers, real(&Sampler::eta, 0, 1), "0"},
      {"order", "solver-order", 0, "N", "order of a multistep solver, 1 to 3",
       kSamplerGroup, kSamplers, whole(&Sampler::solver_order, 1, 3),
       "scheduler_config.json, else 2"},
      {"timestep-spacing", "spacing", 0, "KIND",
       "leading, trailing or linspace", kSamplerGroup, kSamplers,
       field(&Sampler::timestep_spacing),
       "scheduler_config.json, else the solver's own"},
      {"sigma-spacing", "", 0, "KIND", "none, karras, exponential or beta",
       kSamplerGroup, kSamplers, field(&Sampler::sigma_spacing),
       "scheduler_config.json, else none"},
      {"karras", "use-karras-sigmas", 0, "",
       "the same as --sigma-spacing karras", kSamplerGroup, kSamplers,
       Field{set_karras}},
      {"final-sigmas-type", "", 0, "KIND",
       "where the last step ends: zero or sigma_min", kSamplerGroup, kSamplers,
       final_sigmas_field(), "scheduler_config.json, else zero"},
      {"prediction-type", "", 0, "KIND",
       "epsilon, v_prediction, sample or flow_prediction", kSamplerGroup,
       kSamplers, field(&Sampler::prediction_type),
       "scheduler_config.json, else epsilon; flow_prediction with flow"},
      {"beta-schedule", "", 0, "KIND",
       "linear, scaled_linear, squaredcos_cap_v2, sigmoid or laplace",
       kSamplerGroup, kSamplers, field(&Sampler::beta_schedule),
       "scheduler_config.json, else linear"},
      {"beta-start", "", 0, "X", "first training variance", kSamplerGroup,
       kSamplers, real(&Sampler::beta_start, 0, 1),
       "scheduler_config.json, else 0.0001"},
      {"beta-end", "", 0, "X", "last training variance", kSamplerGroup,
       kSamplers, real(&Sampler::beta_end, 0, 1),
       "scheduler_config.json, else 0.02"},
      {"train-steps", "num-train-timesteps", 0, "N",
       "timesteps the model was trained with", kSamplerGroup, kSamplers,
       whole(&Sampler::num_train_timesteps, 1),
       "scheduler_config.json, else 1000"},
      {"shift", "flow-shift", 0, "X", "time shift of flow models",
       kSamplerGroup, kSamplers, real(&Sampler::shift, 1e-6, 1e6),
       "scheduler_config.json, else 1"},
      {"variance-type", "", 0, "KIND",
       "DDPM: fixed_small, fixed_large, learned_range, …", kSamplerGroup,
       kSamplers, field(&Sampler::variance_type),
       "scheduler_config.json, else fixed_small"},
      {"clip-sample", "", 0, "BOOL", "clip the predicted clean sample",
       kSamplerGroup, kSamplers, parsed(&Sampler::clip_sample, parse_bool),
       "scheduler_config.json, else true for ddim and ddpm"},
      {"denoising-start", "", 0, "X",
       "go on where another run ended, with the latents that it left: the "
       "share of the training steps that was made, 0 to 1",
       kSamplerGroup, kSample | kSchedule,
       real(&Sampler::denoising_start, 0, 1), "0"},
      {"denoising-end", "", 0, "X",
       "end after this share of the training steps, 0 to 1, and leave the rest "
       "to another run",
       kSamplerGroup, kSamplers, real(&Sampler::denoising_end, 0, 1), "1"},
      {"sigmas", "", 0, "LIST",
       "explicit noise levels, descending: numbers with commas or spaces, in "
       "brackets or not; @FILE reads them from a text file",
       kSamplerGroup, kSamplers, parsed(&Sampler::sigmas, parse_numbers),
       "made from --steps and the spacing"},
      {"timesteps", "", 0, "LIST",
       "explicit timesteps, descending: written like --sigmas", kSamplerGroup,
       kSamplers, parsed(&Sampler::timesteps, parse_numbers),
       "made from --steps and the spacing"},
  });
  return kTable;
}

}  // namespace troupe::config::rows
