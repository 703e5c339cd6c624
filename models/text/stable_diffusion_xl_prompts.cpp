#include <array>
#include <cstring>
#include <string>

#include "kernels/core/error.h"
#include "models/text/prompt_pipeline.h"
#include "models/text/unicode.h"

namespace troupe::models {
namespace {

constexpr const char* kEmbeds = "prompt_embeds";
constexpr const char* kPooledName = "pooled";

/// Padding is attended to, so all rows are computed, whatever the encoders'
/// configurations say of masks.
constexpr PromptEncoder kClip{
    .encoder = "text_encoder",
    .tokenizer = "tokenizer",
    .tokenizer_kind = "CLIP",
    .most_tokens = 77,
    .takes_stated_length = true,
    .wanted = {.skipped_layers = 1, .final_norm = false}};
/// Alone it reads the first text.
constexpr PromptEncoder big_g(int text) {
  PromptEncoder encoder = kClip;
  encoder.encoder = "text_encoder_2";
  encoder.tokenizer = "tokenizer_2";
  encoder.text = text;
  return encoder;
}
constexpr std::array kClipAndBigG = {kClip, big_g(1)};
constexpr std::array kBigG = {big_g(0)};

constexpr std::array<std::string_view, 2> kMeanAndStd = {"latents_mean",
                                                         "latents_std"};

/// The tokenizers do what is done to the text.
std::string as_written(std::string_view prompt) {
  check_utf8(prompt, "prompt", Errc::invalid_argument);
  return std::string(prompt);
}

/// The rows of both encoders side by side: [N, 768 + 1280]. Prompts are of one
/// length for both.
Tensor side_by_side(const Tensor& first, const Tensor& second) {
  Tensor joined({first.dim(0), first.dim(1) + second.dim(1)}, DType::f32);
  for (std::int64_t row = 0; row < joined.dim(0); ++row) {
    std::byte* at = joined.item(row).bytes().data();
    const auto left = first.item(row).bytes();
    const auto right = second.item(row).bytes();
    std::memcpy(at, left.data(), left.size());
    std::memcpy(at + left.size(), right.data(), right.size());
  }
  return joined;
}

Condition sdxl_condition(std::span<const EncodedPrompt> encoded) {
  Condition condition;
  const EncodedText& last = encoded.back().text;
  condition.add(kEmbeds,
                encoded.size() == 1
                    ? last.hidden
                    : side_by_side(encoded[0].text.hidden, last.hidden));
  condition.add(kPooledName, last.pooled);
  return condition;
}

Condition sdxl_zeros(const Condition& like) {
  Condition condition;
  for (const char* name : {kEmbeds, kPooledName}) {
    Tensor tensor(like.find(name)->tensor.shape(), DType::f32);
    std::memset(tensor.bytes().data(), 0, tensor.num_bytes());
    condition.add(name, std::move(tensor));
  }
  return condition;
}

constexpr PromptPipeline pipeline_of(std::string_view class_name,
                                     std::span<const PromptEncoder> encoders,
                                     const PromptPipeline* without_first,
                                     bool goes_on) {
  return {.class_name = class_name,
          .encoders = encoders,
          .cleaned = as_written,
          .condition = sdxl_condition,
          .no_negative = sdxl_zeros,
          .gives_pooled = true,
          .latent_keys = kMeanAndStd,
          .without_first = without_first,
          .goes_on = goes_on,
          .takes_clip_skip = true,
          .takes_several_vectors = true,
          .note = {}};
}

constexpr std::string_view kBase = "StableDiffusionXLPipeline";
constexpr std::string_view kRefiner = "StableDiffusionXLImg2ImgPipeline";
constexpr PromptPipeline kBaseAlone = pipeline_of(kBase, kBigG, nullptr, false);
constexpr PromptPipeline kRefinerAlone =
    pipeline_of(kRefiner, kBigG, nullptr, true);

}  // namespace

// Source: diffusers pipelines/stable_diffusion_xl/
// pipeline_stable_diffusion_xl.py and pipeline_stable_diffusion_xl_img2img.py.
extern constinit const PromptPipeline kStableDiffusionXl =
    pipeline_of(kBase, kClipAndBigG, &kBaseAlone, false);
extern constinit const PromptPipeline kStableDiffusionXlRefiner =
    pipeline_of(kRefiner, kClipAndBigG, &kRefinerAlone, true);

}  // namespace troupe::models
