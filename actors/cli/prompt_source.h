#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/cli/model_source.h"
#include "actors/cli/text_encoding.h"
#include "actors/encoding_record.h"
#include "models/text/prompt_pipeline.h"
#include "models/text/tokenizer.h"

namespace troupe::actors {

/// `of` is one of the model's pipeline.
/// Errors: Errc::not_found for a folder without it; Errc::unsupported for a
/// class that Troupe does not have; those of its files.
[[nodiscard]] PromptEncoderSource open_prompt_encoder(
    const ModelSource& model, const models::PromptEncoder& of);

/// The tokenizer of an encoder. For random weights a bundled stand-in, whose
/// ids differ from the real ones (models/text/bundled_tokenizers.h).
/// Errors: Errc::not_found for a folder without it; Errc::corrupt_file for one
/// of another kind than the encoder's; those of models::open_tokenizer.
[[nodiscard]] std::shared_ptr<const models::Tokenizer> open_prompt_tokenizer(
    const ModelSource& model, const models::PromptEncoder& of);

/// The number of tokens that a prompt is cut to, and padded to unless padding
/// is masked. Errors: Errc::corrupt_file for a model_max_length that has no
/// room for the marks, or for which the encoder has too few positions.
[[nodiscard]] std::int64_t prompt_length(
    const ModelSource& model, const models::PromptEncoder& of,
    const models::Tokenizer& tokenizer,
    const models::TextEncoderDescription& encoder);

/// What turns prompts into conditions: the text encoders of a model and their
/// tokenizers, known before any weight is read. Immutable. Thread: any.
class PromptSource {
 public:
  /// Errors: Errc::not_found for a model without a pipeline, an encoder or a
  /// tokenizer; Errc::unsupported for an encoder that Troupe does not have:
  /// with `hint`, or a better hint; those of their files.
  /// max_length: tokens of a prompt that count; 0: the pipeline's own number.
  PromptSource(const ModelSource& model, std::string_view hint, int max_length);

  [[nodiscard]] const models::PromptPipeline& pipeline() const noexcept {
    return *pipeline_;
  }
  /// What the user should know of the tokenizers.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept {
    return notes_;
  }
  /// The tokens of a prompt for each encoder. second: the text for encoders
  /// that read a second text; empty: the prompt.
  /// Errors: those of the pipeline's `cleaned` and of Tokenizer::encode.
  [[nodiscard]] std::vector<models::Tokens> tokens(
      const std::string& prompt, const std::string& second = {}) const;
  /// The condition for a missing negative prompt, beside the prompt's condition
  /// `like`; nothing: a missing prompt counts as an empty text.
  [[nodiscard]] std::optional<models::Condition> no_negative(
      const models::Condition& like) const;
  /// Whether no_negative gives a condition.
  [[nodiscard]] bool has_no_negative() const noexcept;
  /// While the longest prompt is encoded by this device.
  [[nodiscard]] EncodingMemory memory(const JobDevice& by) const;

  /// The most layers that a prompt may leave out (ClipSkip).
  [[nodiscard]] std::int64_t most_clip_skip() const;

  /// Layers that the first `prompts` of a list leave out, beyond those that the
  /// pipeline does. A negative prompt, which comes last, leaves out none.
  struct ClipSkip {
    int layers = 0;
    std::size_t prompts = 0;
  };
  /// The tokens of prompts, as a job for the encoders.
  struct Work {
    EncodingRecord record;
    /// For each prompt and encoder, a place in the record's texts; none for a
    /// prompt without tokens.
    std::vector<std::vector<std::size_t>> prompts;
    std::size_t first_negative = 0;  ///< those from here on are negative
  };
  /// The texts of such a job alone.
  [[nodiscard]] Work texts_of(
      const std::vector<std::vector<models::Tokens>>& prompts,
      ClipSkip clip_skip) const;
  /// Bytes of what the encoders make of them.
  [[nodiscard]] std::uint64_t num_bytes(const Work& work) const;
  /// `by`: the device of this process that would encode the prompts.
  [[nodiscard]] Work work_of(
      const JobDevice& by,
      const std::vector<std::vector<models::Tokens>>& prompts,
      ClipSkip clip_skip) const;
  /// The encoders of such a record.
  [[nodiscard]] PromptEncoders encoders() const noexcept { return encoders_; }
  /// The condition of each prompt, of what the encoders made of its texts; none
  /// for a prompt without tokens. `finish` adds what is not of the prompt. A
  /// condition is made each time that a pass uses it. Errors: those of the
  /// pipeline's `condition`.
  [[nodiscard]] std::vector<StoredCondition> conditions(
      const Work& work, const EncodedTexts& encoded,
      const ConditionFinisher& finish) const;

 private:
  void open_parts(const ModelSource& model);
  /// Lengths, masks and notes. Errors: those of prompt_length;
  /// Errc::corrupt_file for tokenizers of different lengths.
  void look_at_parts(const ModelSource& model, int max_length);

  const models::PromptPipeline* pipeline_;
  std::string model_;
  bool is_random_;
  bool zeros_for_no_negative_;
  // One for each encoder of the pipeline:
  std::vector<PromptEncoderSource> encoders_;
  std::vector<std::shared_ptr<const models::Tokenizer>> tokenizers_;
  std::vector<std::string> tokenizer_places_;  ///< folders, for messages
  std::vector<std::int64_t> lengths_;  ///< the user's, or see prompt_length
  std::vector<bool> hides_padding_;    ///< its rows are computed, and not seen
  std::vector<std::string> notes_;
};

}  // namespace troupe::actors
