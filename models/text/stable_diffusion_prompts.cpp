#include <array>
#include <string>

#include "kernels/core/error.h"
#include "models/text/prompt_pipeline.h"
#include "models/text/unicode.h"

namespace troupe::models {
namespace {

/// Padding is attended to, so all rows are computed, unless the encoder's
/// configuration says otherwise.
constexpr std::array kClipAlone = {
    PromptEncoder{.encoder = "text_encoder",
                  .tokenizer = "tokenizer",
                  .tokenizer_kind = "CLIP",
                  .most_tokens = 77,
                  .takes_stated_length = true,
                  .heeds_mask_key = true,
                  .wanted = {.skipped_layers = 0, .final_norm = true}}};

/// The tokenizer does what is done to the text.
std::string unchanged(std::string_view prompt) {
  check_utf8(prompt, "prompt", Errc::invalid_argument);
  return std::string(prompt);
}

Condition sd_condition(std::span<const EncodedPrompt> encoded) {
  Condition condition;
  condition.add("prompt_embeds", encoded[0].text.hidden);
  return condition;
}

}  // namespace

/// Source: diffusers pipelines/stable_diffusion/pipeline_stable_diffusion.py.
extern constinit const PromptPipeline kStableDiffusion{
    .class_name = "StableDiffusionPipeline",
    .encoders = kClipAlone,
    .cleaned = unchanged,
    .condition = sd_condition,
    .takes_clip_skip = true,
    .takes_several_vectors = true,
    .note = {}};

}  // namespace troupe::models
