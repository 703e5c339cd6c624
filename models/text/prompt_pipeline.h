#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "models/condition.h"
#include "models/pixart/resolution_bins.h"
#include "models/text/text_encoder.h"

namespace troupe::models {

/// A text encoder of a pipeline and the tokenizer beside it, by the names of
/// their folders.
struct PromptEncoder {
  std::string_view encoder;    ///< "text_encoder"
  std::string_view tokenizer;  ///< "tokenizer"
  /// What Tokenizer::kind() must be. Ids of another kind may be known to the
  /// encoder, too, and mean something else.
  std::string_view tokenizer_kind;
  /// Which text of a prompt it reads: 0 is the first, 1 the second. Without a
  /// second text it reads the first.
  int text = 0;
  /// Tokens that it is given at most, with begin and end marks.
  std::int64_t most_tokens = 0;
  /// Whether the tokenizer's own max_length, where there is one, counts in
  /// place of most_tokens.
  bool takes_stated_length = false;
  /// Whether padding is left out of attention, and so never computed. If not,
  /// it is made of tokens as any other.
  bool is_masked = false;
  /// Whether `use_attention_mask` in the encoder's configuration counts: then
  /// padding is computed, but attention does not see it.
  bool heeds_mask_key = false;
  /// Rows of the encoder's table are made a multiple of this number.
  std::int64_t row_multiple = 1;
  HiddenState wanted;
};

/// A prompt that one encoder has made numbers of.
struct EncodedPrompt {
  EncodedText text;
  std::int64_t length = 0;  ///< tokens that are not padding
};

/// How a pipeline of diffusers makes conditions of prompts. One row of the
/// table of pipelines; it stands in the pipeline's own file. Its default steps
/// and guidance stand in config/sampling_defaults.cpp. To add one: see
/// README.md.
struct PromptPipeline {
  std::string_view class_name;  ///< `_class_name` of model_index.json
  std::span<const PromptEncoder> encoders;
  /// The text that tokenizers are given for what the user wrote.
  /// Errors: Errc::invalid_argument for ill-formed UTF-8.
  std::string (*cleaned)(std::string_view prompt);
  /// encoded: by each encoder in turn; of one length, unless it is masked.
  Condition (*condition)(std::span<const EncodedPrompt> encoded);
  /// The condition of no negative prompt, beside `like`, that of a prompt.
  /// Null: a missing negative prompt is an empty text.
  Condition (*no_negative)(const Condition& like) = nullptr;
  /// Whether a condition has the last encoder's pooled vector.
  bool gives_pooled = false;
  /// Keys of the autoencoder's config.json, beside scaling_factor, by which it
  /// undoes the normalisation of latents. It ignores the other ones of
  /// kLatentKeys.
  std::span<const std::string_view> latent_keys = {};
  /// How prompts are encoded where the folder was saved without the first
  /// encoder; null: they are not.
  const PromptPipeline* without_first = nullptr;
  /// Its network does not begin with noise: it goes on with what another one
  /// made.
  bool goes_on = false;
  /// Whether a prompt may be taken from an earlier layer of the encoders
  /// (`clip_skip` of diffusers). Negative prompts always use the last layer.
  bool takes_clip_skip = false;
  /// Whether a word with several vectors is read as all of them
  /// (Tokenizer::with_all_vectors).
  bool takes_several_vectors = false;
  /// Whether the user may say how many tokens count (`max_sequence_length` of
  /// diffusers).
  bool takes_max_length = false;
  /// A note for the user when `cleaned` changes a prompt.
  std::string_view note;
  /// The sizes that it samples at, for a network that was trained with latents
  /// of this side; pictures of other sizes are scaled and cut. None, or null:
  /// at any size.
  std::span<const ResolutionBin> (*bins)(std::int64_t sample_size) = nullptr;

  /// Texts that a prompt may have.
  [[nodiscard]] int num_texts() const;
};

/// What may say how latents were normalised. The pipeline decides which count.
inline constexpr std::array<std::string_view, 3> kLatentKeys = {
    "shift_factor", "latents_mean", "latents_std"};

using PromptPipelineTable = std::span<const PromptPipeline* const>;
/// The pipelines that Troupe has.
[[nodiscard]] PromptPipelineTable prompt_pipeline_table();

/// The row of a `_class_name`, or null.
[[nodiscard]] const PromptPipeline* find_prompt_pipeline(
    std::string_view class_name,
    PromptPipelineTable table = prompt_pipeline_table());

/// Their classes, for messages: "PixArtSigmaPipeline".
[[nodiscard]] std::string prompt_pipeline_names(
    PromptPipelineTable table = prompt_pipeline_table());

}  // namespace troupe::models
