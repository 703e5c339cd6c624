#pragma once

#include <cstddef>

#include "samplers/option_fields.h"

/// The fields of a recipe, listed once for writing, reading, checking and
/// `troupe help json`. Those of schedule and method stand in
/// samplers/option_fields.h: a job's record has them too (actors/job_fields.h).
namespace troupe::config {

/// Changes when an old reader would misread a new recipe. A field that is only
/// added leaves it: the recipe's version then says that there may be more.
constexpr int kRecipeSchema = 1;
/// Bytes of a prompt.
constexpr std::size_t kLongestPrompt = std::size_t{64} << 10U;

/// As samplers::visit_schedule.
template <typename Visitor, typename AnyRecipe>
void visit_recipe(Visitor& visit, AnyRecipe& r) {
  using Key = FieldKey;
  visit(Key{"version", "version of Troupe that made the image"}, r.version);
  visit(Key{"model", "folder name or bundled name"}, r.model);
  visit(Key{"random_weights", "bundled name; empty for a checkpoint"},
        r.random_weights);
  visit(Key{"weights_xxh3", "XXH3-64 of weights and configuration"},
        r.weights_xxh3);
  visit(Key{"class_id", "class"}, r.class_id);
  visit(Key{"class_name", "its name"}, r.class_name);
  visit(Key{"prompt", "what it shows; absent: a class"}, r.prompt);
  visit(Key{"prompt_2", "what the second text encoder read; absent: the same"},
        r.prompt_2);
  visit(Key{"negative_prompt",
            "what guidance led away from; absent: none, or no text, but the "
            "pipeline's own condition"},
        r.negative_prompt);
  visit(Key{"negative_prompt_2",
            "what the second text encoder read of it; absent: the same"},
        r.negative_prompt_2);
  visit(Key{"clip_skip", "layers left out for prompts; absent: none"},
        r.clip_skip);
  visit(Key{"max_sequence_length",
            "tokens of a prompt that count; absent: as the pipeline has it"},
        r.max_sequence_length);
  visit(Key{"encoder_class", "what encoded the prompts"}, r.encoder_class);
  visit(Key{"encoder_device",
            "kind of device that encoded them; absent: the CPU"},
        r.encoder_device);
  visit(Key{"prompt_embeds_xxh3", "of given tensors in place of prompts"},
        r.prompt_embeds_xxh3);
  visit(Key{"seed", "seed of the run"}, r.seed);
  visit(Key{"index", "global index of the sample"}, r.index);
  visit(Key{"noise", "philox or torch"}, r.noise);
  visit(Key{"init_latents_xxh3", "of given latents; empty: drawn"},
        r.init_latents_xxh3);
  visit(Key{"init_latents_drawn", "whether torch drew them before"},
        r.init_latents_drawn);
  visit(Key{"guess_xxh3",
            "of a given trajectory that guesses came from; absent: none"},
        r.guess_xxh3);
  visit(Key{"width",
            "of the picture; absent in older ones: as the model was trained"},
        r.width);
  visit(Key{"height", "the same"}, r.height);
  visit(Key{"resolution_bins",
            "whether it was sampled at the nearest bin; absent: false"},
        r.resolution_bins);
  visit(Key{"original_size", "as --original-size; absent: the picture's"},
        r.told.original);
  visit(Key{"crop", "as --crop; absent: 0,0"}, r.told.crop);
  visit(Key{"target_size", "as --target-size; absent: the picture's"},
        r.told.target);
  visit(Key{"aesthetic_score", "as --aesthetic-score; absent: 6, or none"},
        r.told.aesthetic_score);
  visit(Key{"negative_original_size", "of the other branch; absent: the same"},
        r.told_negative.original);
  visit(Key{"negative_crop", "the same"}, r.told_negative.crop);
  visit(Key{"negative_target_size", "the same"}, r.told_negative.target);
  visit(Key{"negative_aesthetic_score", "of it; absent: 2.5, or none"},
        r.told_negative.aesthetic_score);
  visit(
      Key{"vae_tile", "side of the decoder's tiles in latents; absent: whole"},
      r.vae_tile);
  visit(Key{"ring_blocks",
            "blocks of keys that attention merged; absent: all keys at once"},
        r.ring_blocks);
  samplers::visit_guidance(visit, r.guidance);
  visit(Key{"dtype", "f32, bf16 or f16"}, r.dtype);
  visit(Key{"isa", "level of the CPU, as --isa names it"}, r.isa);
  visit(Key{"device", "kind of device; absent: the CPU"}, r.device);
  visit(Key{"bits", "of a GPU: free; absent: invariant"}, r.bits);
  visit(Key{"tf32", "of a GPU; absent: false"}, r.tf32);
  visit(Key{"execution_class", "what computed it"}, r.execution_class);
  visit(Key{"latents_xxh3", "XXH3-64 of the final latents' bytes"},
        r.latents_xxh3);
}

}  // namespace troupe::config
