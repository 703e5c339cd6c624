#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/cli/encoding_cache.h"
#include "actors/cli/job_devices.h"
#include "actors/encoding_record.h"
#include "kernels/core/context.h"
#include "models/files/checkpoint.h"
#include "models/text/text_encoder.h"

namespace troupe::actors {

/// A text encoder as its files describe it, or as it is bundled.
struct PromptEncoderSource {
  EncoderRecord record;
  std::shared_ptr<const models::TextEncoderDescription> description;
  /// Null: its weights are random.
  std::shared_ptr<const models::Component> files;
  /// Where its random weights come from: "tiny-sdxl/text_encoder".
  std::string bundled = {};
};
using PromptEncoders = std::span<const PromptEncoderSource>;

/// Called with a place in the record's texts, what was made of that one, and
/// the hash of the encoder's weights.
using TextTaker =
    std::function<void(std::size_t text, const models::EncodedText& encoded,
                       std::uint64_t weights_xxh3)>;

/// Called with a place in the record's encoders, and the hash of the weights of
/// that one, once it is read.
using WeightsTaker =
    std::function<void(std::size_t encoder, std::uint64_t weights_xxh3)>;

/// A record's texts in the cache, as encoded by the class of who asks. Keys
/// have the hash of an encoder's weights. Files that an earlier run has read
/// are known by their stamps.
class TextCache {
 public:
  /// Keeps references to the record and the encoders.
  TextCache(EncodingRecord& record, PromptEncoders encoders,
            const std::filesystem::path& folder);

  /// Cached texts of encoders whose weights' hash is known; marks these texts
  /// as kept.
  [[nodiscard]] EncodedTexts find();
  /// Adds cached texts of an encoder whose weights' hash has just become known,
  /// as for a new copy of its files. Returns the number of texts. Errors: those
  /// of note_hash.
  std::size_t find_more(std::size_t encoder, std::uint64_t weights_xxh3,
                        EncodedTexts& found);
  /// Whether it has a folder.
  [[nodiscard]] bool is_used() const noexcept { return cache_.is_used(); }
  /// Keeps a text that this class has encoded.
  void keep(std::size_t text, const models::EncodedText& encoded,
            std::uint64_t weights_xxh3);

 private:
  [[nodiscard]] std::uint64_t key_of(const EncodingText& text) const;
  std::size_t take_from_cache(std::size_t encoder, EncodedTexts& found);
  void note_weights(std::size_t encoder, std::uint64_t weights_xxh3);

  EncodingRecord& record_;
  EncodingCache cache_;
  // Of each encoder:
  std::vector<std::uint64_t> identities_;
  std::vector<std::uint64_t> weights_xxh3_;  ///< 0: not known
};

/// Notes the hash of an encoder's weights. Errors: Errc::corrupt_file if a
/// different hash was noted: the cache has texts of other weights.
void note_hash(std::uint64_t& known, std::uint64_t weights_xxh3);

/// Encodes the texts that are not kept with the encoders of the record, which
/// are given in its order: reads one after another with all threads, and lets
/// each go before the next. `read` may mark texts of its encoder as kept.
/// Returns the hashes of their weights; 0: all texts of the encoder are kept,
/// and it was not read.
/// Errors: those of TextEncoder; Errc::interrupted; what `take` and `read`
/// throw.
[[nodiscard]] std::vector<std::uint64_t> encode_texts(
    ExecContext& ctx, const EncodingRecord& record, PromptEncoders encoders,
    const TextTaker& take, const WeightsTaker& read = {});

/// The weights' hashes of encoders that have a text to encode; the files are
/// read and not kept. 0 for other encoders and for random weights, which are
/// equal everywhere. Errors: those of TextEncoderDescription.
[[nodiscard]] std::vector<std::uint64_t> read_encoder_hashes(
    ExecContext& ctx, const EncodingRecord& record, PromptEncoders encoders);

/// Bytes while prompts are encoded.
struct EncodingMemory {
  std::uint64_t host = 0;
  std::uint64_t gpu = 0;  ///< of the GPU that encodes
  /// Of the host's: what is made of prompts.
  std::uint64_t prompts = 0;

  void add_prompts(std::uint64_t bytes) {
    host += bytes;
    prompts += bytes;
  }
};
/// "2.1 GiB, 256 MiB of it for encoded prompts"; these if they count.
[[nodiscard]] std::string needed_text(std::uint64_t bytes,
                                      std::uint64_t prompts);
/// The larger number of bytes, for host and GPU separately: encoders are in
/// memory one after another.
[[nodiscard]] EncodingMemory larger_of(const EncodingMemory& a,
                                       const EncodingMemory& b);

/// Of one encoder with a text of so many tokens, on `by`, in by.compute.
[[nodiscard]] EncodingMemory encoding_memory(
    const models::TextEncoderDescription& encoder, std::int64_t tokens,
    const JobDevice& by);
/// Of the record's encoders that have a text to encode.
[[nodiscard]] EncodingMemory encoding_memory(const EncodingRecord& record,
                                             PromptEncoders encoders,
                                             const JobDevice& by);

/// The execution class in which encoders with these weights compute on `by`.
/// Without hashes: the class of the device alone.
[[nodiscard]] std::string encoder_class_of(
    const JobDevice& by, std::span<const std::uint64_t> weights_xxh3 = {});

}  // namespace troupe::actors
