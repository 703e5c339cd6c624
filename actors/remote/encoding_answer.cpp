#include "actors/remote/encoding_answer.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

void expect_of_it(bool holds, const char* otherwise) {
  require(holds, Errc::corrupt_file, "encoded prompt", otherwise);
}

void check_vectors(const Tensor& tensor, const Shape& expected) {
  expect_of_it(tensor.dtype() == DType::f32 && tensor.shape() == expected,
               "its vectors have another shape or dtype than the encoder's");
  const std::span<const float> numbers(tensor.data<float>(),
                                       expected.num_elements());
  expect_of_it(
      std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); }),
      "a NaN or an infinity is in it");
}

}  // namespace

EncodingAnswer::EncodingAnswer(const EncodingRecord& record,
                               const std::vector<EncoderShape>& shapes)
    : record_(record), shapes_(shapes), texts_(record) {}

void EncodingAnswer::take(TextEncoded text) {
  expect_of_it(text.text < texts_.size(), "a text that was not requested");
  const EncodingText& asked = record_.texts[text.text];
  expect_of_it(!texts_.has(text.text), "a text that came before");
  const EncoderShape& shape = shapes_[static_cast<std::size_t>(asked.encoder)];
  check_vectors(text.encoded.hidden,
                {static_cast<std::int64_t>(asked.ids.size()), shape.width});
  if (shape.pooled_width > 0) {
    check_vectors(text.encoded.pooled, {shape.pooled_width});
  } else {
    expect_of_it(text.encoded.pooled.empty(),
                 "a pooled vector of an encoder that makes none");
  }
  texts_.put(text.text, text.encoded);
}

EncodedElsewhere EncodingAnswer::finish(const EncodingDone& done) {
  expect_of_it(done.weights_xxh3.size() == record_.encoders.size(),
               "weights of another number of encoders");
  const bool is_same = done.execution_class == record_.execution_class;
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const EncodingText& asked = record_.texts[i];
    const bool is_needed = !asked.is_kept || !is_same;
    expect_of_it(
        !is_needed ||
            (texts_.has(i) &&
             done.weights_xxh3[static_cast<std::size_t>(asked.encoder)] != 0),
        "it ends before all texts are encoded");
  }
  texts_.weights_xxh3 = done.weights_xxh3;
  return {std::move(texts_), done.execution_class, done.encoder_class,
          done.device};
}

}  // namespace troupe::actors
