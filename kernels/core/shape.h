#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace troupe {

/// Extents of a row-major tensor, outermost first. At most kMaxRank of them,
/// stored in place: copying a shape never allocates.
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 6;

  Shape() = default;
  /// Errors: Errc::shape_mismatch for a negative extent, more than kMaxRank
  /// extents, or a product of the non-zero extents that overflows 63 bits.
  Shape(std::initializer_list<std::int64_t> extents);
  explicit Shape(std::span<const std::int64_t> extents);

  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::int64_t operator[](std::size_t axis) const noexcept {
    return extents_[axis];
  }
  /// Product of the extents; 1 for rank 0.
  [[nodiscard]] std::int64_t num_elements() const noexcept {
    return num_elements_;
  }
  /// Product of the extents from `axis` on: the size of one item there.
  [[nodiscard]] std::int64_t stride(std::size_t axis) const noexcept;
  [[nodiscard]] std::span<const std::int64_t> extents() const noexcept {
    return {extents_.data(), rank_};
  }

  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    return a.rank_ == b.rank_ && a.extents_ == b.extents_;
  }

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  std::size_t rank_ = 0;
  std::int64_t num_elements_ = 1;
};

/// `shape` with its first extent replaced: [C, …] → [channels, …].
[[nodiscard]] Shape with_channels(const Shape& shape, std::int64_t channels);
/// `shape` with an extent in front: […] → [rows, …].
[[nodiscard]] Shape with_rows(std::int64_t rows, const Shape& shape);

/// "[2, 3, 4]".
[[nodiscard]] std::string to_string(const Shape& shape);

}  // namespace troupe
