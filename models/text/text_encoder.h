#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/dtype.h"
#include "kernels/core/tensor.h"
#include "models/files/class_tensors.h"
#include "models/files/json.h"
#include "models/files/weight_source.h"

namespace troupe::models {

/// The output of an encoder for one text.
struct EncodedText {
  Tensor hidden;  ///< [rows, D] f32 on the host
  Tensor pooled;  ///< [P] f32 on the host; empty where the encoder has none
};

/// Which hidden state is wanted.
struct HiddenState {
  /// Layers left out at the end: 0 = output of the last layer, 1 = what
  /// transformers calls hidden_states[-2], …; all of them: the embeddings.
  int skipped_layers = 0;
  /// Whether the final norm is applied to it (SD 1.5, T5: yes; SDXL: no).
  bool final_norm = true;
};

/// A network that turns the ids of a text into vectors. Immutable. Thread: any,
/// one ctx per thread, on the encoder's device.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  /// All rows of `ids` are computed. Attention sees the first `key_length`
  /// rows: ids.size() without a mask.
  ///
  /// Bits:   they do not depend on threads. Those of the first `key_length`
  ///         rows do not depend on what ids stand behind them.
  /// Errors: Errc::invalid_argument for an id outside the vocabulary, no ids or
  ///         too many, a key_length or a layer that does not exist;
  ///         Errc::non_finite with the first layer that made a NaN or an
  ///         infinity; Errc::interrupted.
  [[nodiscard]] virtual EncodedText encode(ExecContext& ctx,
                                           std::span<const std::int32_t> ids,
                                           std::int64_t key_length,
                                           HiddenState wanted) const = 0;
  /// XXH3-64 of all tensors and of the configuration.
  [[nodiscard]] std::uint64_t weights_hash() const noexcept { return hash_; }

 private:
  friend class TextEncoderDescription;
  std::uint64_t hash_ = 0;
};

/// What a text encoder's config.json says of its inputs and outputs.
struct TextEncoderFacts {
  std::int64_t width = 0;         ///< D of EncodedText::hidden
  std::int64_t pooled_width = 0;  ///< P of EncodedText::pooled; 0: none
  std::int64_t vocab_size = 0;
  std::int64_t max_tokens = 0;  ///< the most ids of one text
  std::int64_t num_layers = 0;
};

/// What encoding one text costs.
struct TextEncoderCosts {
  double flops = 0;  ///< floating-point operations
  /// Bytes of the packed weights, where embedding tables are stored in f32 (one
  /// of 16 bits stays as it is). Loading takes the largest matrix, once or
  /// twice, beside them.
  std::uint64_t weights_bytes = 0;
  /// Of these, the tables that stay on the host wherever the encoder computes.
  std::uint64_t table_bytes = 0;
  /// Of activations, of the result, and of what is kept from text to text.
  std::uint64_t pass_bytes = 0;
};

class LayerReader;

/// What is known of a text encoder from its config.json, before any weight is
/// read. Immutable. Thread: any.
class TextEncoderDescription {
 public:
  virtual ~TextEncoderDescription() = default;

  [[nodiscard]] std::int64_t width() const noexcept { return facts_.width; }
  [[nodiscard]] std::int64_t pooled_width() const noexcept {
    return facts_.pooled_width;
  }
  [[nodiscard]] std::int64_t vocab_size() const noexcept {
    return facts_.vocab_size;
  }
  [[nodiscard]] std::int64_t max_tokens() const noexcept {
    return facts_.max_tokens;
  }
  [[nodiscard]] std::int64_t num_layers() const noexcept {
    return facts_.num_layers;
  }

  /// For a text of so many ids, at most max_tokens(), on a CPU or a GPU that
  /// computes in `compute`: from a metered run of the encoder
  /// (kernels/core/meter.h). Errors: Errc::invalid_argument.
  [[nodiscard]] TextEncoderCosts costs(std::int64_t tokens, DType compute,
                                       DeviceKind kind) const;
  /// Every tensor that files of the transformers class may have.
  [[nodiscard]] ClassTensors tensors() const;

  /// Checks all tensors, then reads and packs one tensor after the other.
  /// Complete on return.
  /// Errors: those of WeightSource and kernels::PackedLinear;
  /// Errc::interrupted.
  [[nodiscard]] std::unique_ptr<TextEncoder> load(ExecContext& ctx,
                                                  DType compute,
                                                  WeightSource& weights) const;
  /// The weights_hash that the encoder would have when loaded. One tensor at a
  /// time is in memory. Errors: those of WeightSource; Errc::interrupted.
  [[nodiscard]] std::uint64_t weights_hash(ExecContext& ctx,
                                           WeightSource& weights) const;

 protected:
  /// spellings: the ways in which files name the tensors, tried in this order;
  /// `read` gives each a meaning. unread: tensors that files of the class may
  /// have and that `read` never reads.
  TextEncoderDescription(const TextEncoderFacts& facts,
                         std::span<const std::string_view> spellings,
                         ClassTensors unread)
      : facts_(facts), spellings_(spellings), unread_(std::move(unread)) {}

  /// Reads all layers in the order of the hash. The first tensor decides the
  /// spelling. The encoder computes in `compute` if the reader packs or meters.
  [[nodiscard]] virtual std::unique_ptr<TextEncoder> read(
      LayerReader& reader, std::string_view spelling, DType compute) const = 0;
  [[nodiscard]] virtual std::uint64_t hash_with_config(
      std::uint64_t tensors) const = 0;

 private:
  [[nodiscard]] std::vector<TensorSpec> specs(std::string_view spelling) const;
  /// That of the weights, which are checked.
  [[nodiscard]] std::string_view checked_spelling(WeightSource& weights) const;

  TextEncoderFacts facts_;
  std::span<const std::string_view> spellings_;
  ClassTensors unread_;
};

/// One row of the table of text encoders. It stands at the end of the encoder's
/// own file. To add one: write its file, name its row in text_encoder.cpp and
/// the file in models/CMakeLists.txt.
struct TextEncoderRow {
  /// The class that model_index.json names.
  std::string_view class_name;
  /// Errors: Errc::corrupt_file; Errc::unsupported.
  std::unique_ptr<TextEncoderDescription> (*describe)(const Json& config);
};

using TextEncoderTable = std::span<const TextEncoderRow* const>;
/// The text encoders that Troupe has.
[[nodiscard]] TextEncoderTable text_encoder_table();

/// The row of `class_name`. `config` is where errors say the name comes from.
/// Errors: Errc::unsupported for a name that is not in the table.
[[nodiscard]] const TextEncoderRow& find_text_encoder(
    const Json& config, std::string_view class_name,
    TextEncoderTable table = text_encoder_table());

}  // namespace troupe::models
