#include "actors/remote/encoding_answer.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "actors/remote/link_values.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

void expect_of_it(bool holds, const std::string& otherwise) {
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
    : record_(record),
      shapes_(shapes),
      texts_(record),
      is_named_(record.texts.size()) {}

std::size_t EncodingAnswer::name(const TextEncoded& text) {
  expect_of_it(text.text < texts_.size(), "a text that was not requested");
  expect_of_it(!is_named_[text.text], "a text that came before");
  is_named_[text.text] = true;
  ++num_to_come_;
  const EncodingText& asked = record_.texts[text.text];
  const EncoderShape& shape = shapes_[static_cast<std::size_t>(asked.encoder)];
  const auto ids = static_cast<std::int64_t>(asked.ids.size());
  return kMostOutlineBytes +
         sizeof(float) *
             static_cast<std::size_t>(ids * shape.width + shape.pooled_width);
}

void EncodingAnswer::take(std::uint64_t text, const net::Fetched& fetched) {
  expect_of_it(fetched.status == net::FetchStatus::found, fetched.what);
  const Parcel parcel = from_link(fetched.value);
  expect_of_it(parcel.size() == 2, "it is no pair of tensors");
  const models::EncodedText its{parcel[0].tensor, parcel[1].tensor};
  const EncodingText& asked = record_.texts[text];
  const EncoderShape& shape = shapes_[static_cast<std::size_t>(asked.encoder)];
  check_vectors(its.hidden,
                {static_cast<std::int64_t>(asked.ids.size()), shape.width});
  if (shape.pooled_width > 0) {
    check_vectors(its.pooled, {shape.pooled_width});
  } else {
    expect_of_it(its.pooled.empty(),
                 "a pooled vector of an encoder that makes none");
  }
  texts_.put(text, its);
  --num_to_come_;
}

std::optional<EncodedElsewhere> EncodingAnswer::finish() {
  if (!done_ || num_to_come_ > 0) {
    return std::nullopt;
  }
  const EncodingDone& done = *done_;
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
  return EncodedElsewhere{std::move(texts_), done.execution_class,
                          done.encoder_class, done.device};
}

}  // namespace troupe::actors
