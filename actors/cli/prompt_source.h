#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/cli/encoding_cache.h"
#include "actors/cli/model_source.h"
#include "models/text/prompt_pipeline.h"
#include "models/text/tokenizer.h"

namespace troupe::actors {

/// A text encoder as its files describe it, or as it is bundled.
struct PromptEncoderSource {
  std::string class_name;
  std::shared_ptr<const models::TextEncoderDescription> description;
  /// Null: its weights are random.
  std::shared_ptr<const models::Component> files;
};
/// `of` is one of the model's pipeline.
/// Errors: Errc::not_found for a folder without it; Errc::unsupported for a
/// class that Troupe does not have; those of its files.
[[nodiscard]] PromptEncoderSource open_prompt_encoder(
    const ModelSource& model, const models::PromptEncoder& of);

/// The tokenizer beside it; for random weights a bundled one, whose ids are not
/// those of the real one (models/text/bundled_tokenizers.h).
/// Errors: Errc::not_found for a folder without it; Errc::corrupt_file for one
/// of another kind than the encoder's; those of models::open_tokenizer.
[[nodiscard]] std::shared_ptr<const models::Tokenizer> open_prompt_tokenizer(
    const ModelSource& model, const models::PromptEncoder& of);

/// What turns prompts into conditions: the text encoders of a model and their
/// tokenizers, known before any weight is read. Immutable. Thread: any.
class PromptSource {
 public:
  /// Errors: Errc::not_found for a model without a pipeline, an encoder or a
  /// tokenizer; Errc::unsupported for an encoder that Troupe does not have:
  /// both say `hint`, unless they know better; those of their files.
  PromptSource(const ModelSource& model, std::string_view hint);

  [[nodiscard]] const models::PromptPipeline& pipeline() const noexcept {
    return *pipeline_;
  }
  /// The tokens of a prompt for each encoder. second: what those encoders are
  /// given that read a second text; empty: the prompt, too.
  /// Errors: those of the pipeline's `cleaned` and of Tokenizer::encode.
  [[nodiscard]] std::vector<models::Tokens> tokens(
      const std::string& prompt, const std::string& second = {}) const;
  /// The condition of no negative prompt beside `like`, that of a prompt;
  /// nothing: it is that of an empty text.
  [[nodiscard]] std::optional<models::Condition> no_negative(
      const models::Condition& like) const;
  /// Whether no_negative gives a condition.
  [[nodiscard]] bool has_no_negative() const noexcept;
  /// Bytes of the largest encoder while it encodes: they are in memory one
  /// after another.
  [[nodiscard]] std::uint64_t required_bytes(DType compute) const;

  /// Conditions, and the hash of the encoders' weights and configurations.
  struct Encoded {
    std::vector<models::Condition> conditions;
    std::uint64_t weights_hash = 0;
    std::uint64_t num_kept = 0;  ///< texts that the cache had
  };
  /// The most layers that a prompt may leave out (ClipSkip).
  [[nodiscard]] std::int64_t most_clip_skip() const;

  /// Layers that the first `prompts` of a list leave out, beyond those that the
  /// pipeline does. A negative prompt, which comes last, leaves out none.
  struct ClipSkip {
    int layers = 0;
    std::size_t prompts = 0;
  };
  /// Encodes what `tokens` gave for each prompt: reads one encoder after
  /// another with all cores, and lets each go before the next. An encoder whose
  /// texts are all in the cache is not read.
  /// Errors: those of TextEncoder; Errc::interrupted.
  [[nodiscard]] Encoded encode(
      ExecContext& ctx, DType compute,
      const std::vector<std::vector<models::Tokens>>& prompts,
      ClipSkip clip_skip, const EncodingCache& cache) const;

 private:
  struct Part {
    const models::PromptEncoder* of = nullptr;
    std::shared_ptr<const models::TextEncoderDescription> encoder;
    std::shared_ptr<const models::Tokenizer> tokenizer;
    /// Null: its weights are random.
    std::shared_ptr<const models::Component> files;
    /// Where its random weights come from.
    std::string bundled = {};

    /// The tokenizer's folder, for messages.
    [[nodiscard]] std::string tokenizer_place() const;
  };
  class Encoding;
  void open_parts(const ModelSource& model);
  [[nodiscard]] static Part open_part(const ModelSource& model,
                                      const models::PromptEncoder& of);

  const models::PromptPipeline* pipeline_;
  bool zeros_for_no_negative_;
  std::vector<Part> parts_;
};

}  // namespace troupe::actors
