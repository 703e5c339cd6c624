#pragma once

#include <cstdint>
#include <vector>

#include "actors/encoding_record.h"
#include "actors/session.h"
#include "kernels/core/tensor.h"

// Two encoders and four texts, for tests.

namespace troupe::actors {

/// The second text of the first encoder is kept.
inline EncodingRecord some_encoding() {
  EncodingRecord record{.model = "model",
                        .random_weights = true,
                        .dtype = DType::bf16,
                        .isa = IsaLevel::avx512,
                        .device = DeviceKind::cpu,
                        .execution_class = "0123456789abcdef"};
  record.encoders = {{"text_encoder", "CLIPTextModel", R"({"a":1})"},
                     {"text_encoder_2", "T5EncoderModel", "{}"}};
  record.texts = {{0, {1, 2, 3}, {1, false}},
                  {0, {4}, {0, true}, true},
                  {1, {1, 2}, {2, false}, false, 1},
                  {1, {9}, {2, true}}};
  return record;
}

inline Tensor zeros_of(const Shape& shape) {
  return Tensor::from<float>(
      std::vector<float>(static_cast<std::size_t>(shape.num_elements())),
      shape);
}

/// What these encoders make of a text of `ids` ids: vectors of 2 numbers, the
/// second also a pooled one of 3.
inline models::EncodedText some_vectors(std::int64_t ids, int encoder) {
  return {zeros_of({ids, 2}), encoder == 1 ? zeros_of({3}) : Tensor()};
}

struct SomeText {
  std::uint64_t text = 0;
  models::EncodedText encoded;
};

/// Of every text that is not kept, or of all.
inline std::vector<SomeText> some_texts(bool all = false) {
  std::vector<SomeText> texts;
  const EncodingRecord record = some_encoding();
  for (std::size_t i = 0; i < record.texts.size(); ++i) {
    const EncodingText& text = record.texts[i];
    if (all || !text.is_kept) {
      texts.push_back(
          {i, some_vectors(static_cast<std::int64_t>(text.ids.size()),
                           text.encoder)});
    }
  }
  return texts;
}

inline EncodingDone some_end() {
  return {"0123456789abcdef", "fedcba9876543210", {5, 6}, DeviceKind::cuda};
}

}  // namespace troupe::actors
