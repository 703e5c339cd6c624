#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/condition_store.h"
#include "kernels/core/device.h"
#include "kernels/core/dtype.h"
#include "kernels/core/isa_level.h"
#include "models/text/text_encoder.h"

// Encoding prompts is a job of its own. It ends before the sampling job begins,
// because the sampling job's record names conditions by their hashes.

namespace troupe::actors {

/// The identity of a text encoder. A worker compares this record with its own
/// encoder.
struct EncoderRecord {
  std::string name;        ///< of its folder: "text_encoder"
  std::string class_name;  ///< "T5EncoderModel"
  std::string config;      ///< its config.json, canonical
};

/// A text that one encoder is to make vectors of.
struct EncodingText {
  int encoder = 0;  ///< a place in EncodingRecord::encoders
  std::vector<std::int32_t> ids;
  models::HiddenState wanted;
  /// The asking process has it already, encoded by
  /// EncodingRecord::execution_class.
  bool is_kept = false;
  /// Attention sees so many of the ids, the first; 0: all.
  std::int64_t key_length = 0;
};

/// All that a process needs to encode the prompts of a job with the same bytes,
/// beside the encoders themselves. It holds no path, host or prompt: prompts
/// are ids here.
struct EncodingRecord {
  std::string model;  ///< the folder's name, or that of a bundled model
  bool random_weights = false;
  DType dtype = DType::f32;
  std::optional<IsaLevel> isa;  ///< of who asks
  /// The kind of device that is to encode, if a process has one with room;
  /// unset: a GPU.
  std::optional<DeviceKind> device;
  /// The class of the asking process, without weights.
  std::string execution_class;
  std::vector<EncoderRecord> encoders;
  std::vector<EncodingText> texts;  ///< each once
};

/// The most texts of a record: a message has no more entries.
inline constexpr std::size_t kMostEncodingTexts = 60000;

/// What encoders made of a record's texts. Thread: one.
class EncodedTexts {
 public:
  EncodedTexts() = default;
  /// None yet.
  explicit EncodedTexts(const EncodingRecord& record)
      : weights_xxh3(record.encoders.size()), places_(record.texts.size()) {}

  /// In place of what was put there before.
  void put(std::size_t text, const models::EncodedText& made) {
    places_.at(text) = store_->keep({made.hidden, made.pooled});
  }
  [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }
  [[nodiscard]] bool has(std::size_t text) const {
    return places_.at(text).has_value();
  }
  [[nodiscard]] models::EncodedText get(std::size_t text) const {
    return from(*store_, place(text));
  }
  /// Where one lies, for whoever reads it later.
  [[nodiscard]] std::size_t place(std::size_t text) const {
    return places_.at(text).value();
  }
  [[nodiscard]] const std::shared_ptr<TensorStore>& store() const noexcept {
    return store_;
  }
  [[nodiscard]] static models::EncodedText from(const TensorStore& store,
                                                std::size_t place) {
    std::vector<Tensor> tensors = store.get(place);
    return {std::move(tensors[0]), std::move(tensors[1])};
  }

  std::vector<std::uint64_t> weights_xxh3;  ///< of each encoder; 0: not known

 private:
  std::vector<std::optional<std::size_t>> places_;  ///< in the store
  std::shared_ptr<TensorStore> store_ = std::make_shared<TensorStore>();
};

/// Texts that another process encoded: all that are not kept, and the kept ones
/// too if that process has another class than the record.
struct EncodedElsewhere {
  EncodedTexts encoded;
  /// The class of that process without weights, and with the encoders' weights.
  std::string execution_class;
  std::string encoder_class;
  DeviceKind device = DeviceKind::cpu;  ///< that encoded
  double seconds = 0;                   ///< since it was asked
};

/// Errors: Errc::corrupt_file for a record that no process makes. Whether the
/// encoders exist and know the ids is checked where they are. Thread: any.
void check(const EncodingRecord& record);

}  // namespace troupe::actors
