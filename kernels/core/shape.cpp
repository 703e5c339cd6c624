#include "kernels/core/shape.h"

#include <algorithm>
#include <vector>

#include "kernels/core/error.h"

namespace troupe {

Shape::Shape(std::initializer_list<std::int64_t> extents)
    : Shape(std::span(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const std::int64_t> extents) : rank_(extents.size()) {
  if (rank_ > kMaxRank) {
    throw Error(Errc::shape_mismatch, "shape",
                "too many axes: got " + std::to_string(rank_) +
                    ", expected at most " + std::to_string(kMaxRank));
  }
  std::copy(extents.begin(), extents.end(), extents_.begin());
  bool is_empty = false;
  for (const std::int64_t extent : extents) {
    if (extent < 0) {
      throw Error(Errc::shape_mismatch, "shape",
                  "negative extent: got " + std::to_string(extent));
    }
    // A zero does not excuse the others: strides multiply them.
    if (extent == 0) {
      is_empty = true;
    } else if (__builtin_mul_overflow(num_elements_, extent, &num_elements_)) {
      throw Error(Errc::shape_mismatch, "shape",
                  "more elements than 63 bits can count");
    }
  }
  if (is_empty) {
    num_elements_ = 0;
  }
}

std::int64_t Shape::stride(std::size_t axis) const noexcept {
  std::int64_t product = 1;
  for (std::size_t i = axis; i < rank_; ++i) {
    product *= extents_[i];
  }
  return product;
}

Shape with_channels(const Shape& shape, std::int64_t channels) {
  std::vector<std::int64_t> extents(shape.extents().begin(),
                                    shape.extents().end());
  extents.front() = channels;
  return Shape(extents);
}

Shape with_rows(std::int64_t rows, const Shape& shape) {
  std::vector<std::int64_t> extents = {rows};
  extents.insert(extents.end(), shape.extents().begin(), shape.extents().end());
  return Shape(extents);
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace troupe
