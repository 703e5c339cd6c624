#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/core/device.h"
#include "kernels/core/dtype.h"
#include "kernels/core/shape.h"

namespace troupe {

template <typename T>
struct dtype_of;
template <>
struct dtype_of<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct dtype_of<bfloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct dtype_of<float16> {
  static constexpr DType value = DType::f16;
};
template <>
struct dtype_of<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct dtype_of<std::uint8_t> {
  static constexpr DType value = DType::u8;
};

/// Element types a tensor can hold.
template <typename T>
concept Element = requires {
  dtype_of<T>::value;
};

/// A contiguous row-major view (offset, shape) of a shared buffer. Copying a
/// Tensor copies the view, never the elements, and never allocates.
///
/// A `const Tensor` gives read-only elements; a copy of it gives writable ones.
/// On a GPU, `data` and `bytes` give addresses that the host may not touch.
/// Thread: distinct Tensor objects may be used at once; nothing guards the
/// elements. A buffer starts at a multiple of 64 bytes.
class Tensor {
 public:
  /// No buffer, shape [0].
  Tensor() = default;
  /// Allocates; elements are uninitialised.
  /// Errors: Errc::out_of_memory, Errc::unsupported (a device without backend).
  Tensor(Shape shape, DType dtype, Device device = {});
  /// Views `shape` elements from `bytes` on; `owner` keeps them alive.
  Tensor(std::shared_ptr<std::byte> bytes, Shape shape, DType dtype,
         Device device = {});

  [[nodiscard]] static Tensor zeros(const Shape& shape, DType dtype);
  /// Copies host values; shape.num_elements() must equal values.size().
  template <Element T>
  [[nodiscard]] static Tensor from(std::span<const T> values,
                                   const Shape& shape) {
    return from_bytes(std::as_bytes(values), shape, dtype_of<T>::value);
  }

  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] std::int64_t num_elements() const noexcept {
    return bytes_ ? shape_.num_elements() : 0;
  }
  [[nodiscard]] std::size_t num_bytes() const noexcept {
    return static_cast<std::size_t>(num_elements()) * size_of(dtype_);
  }
  [[nodiscard]] bool empty() const noexcept { return num_elements() == 0; }
  [[nodiscard]] std::int64_t dim(std::size_t axis) const noexcept {
    return shape_[axis];
  }

  /// Elements as T. Errors: Errc::internal when T is not the dtype.
  template <Element T>
  [[nodiscard]] T* data() {
    check_dtype(dtype_of<T>::value);
    return reinterpret_cast<T*>(bytes_.get());
  }
  template <Element T>
  [[nodiscard]] const T* data() const {
    check_dtype(dtype_of<T>::value);
    return reinterpret_cast<const T*>(bytes_.get());
  }
  template <Element T>
  [[nodiscard]] std::span<T> span() {
    return {data<T>(), static_cast<std::size_t>(num_elements())};
  }
  template <Element T>
  [[nodiscard]] std::span<const T> span() const {
    return {data<T>(), static_cast<std::size_t>(num_elements())};
  }
  [[nodiscard]] std::span<std::byte> bytes() noexcept {
    return {bytes_.get(), num_bytes()};
  }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {bytes_.get(), num_bytes()};
  }

  /// The pointer that keeps the elements alive; it points at the first one.
  [[nodiscard]] const std::shared_ptr<std::byte>& owner() const noexcept {
    return bytes_;
  }

  /// The elements under another shape of equal size. Shares elements.
  [[nodiscard]] Tensor reshape(const Shape& shape) const;
  /// Items [begin, end) of the outermost axis. Shares elements.
  [[nodiscard]] Tensor slice(std::int64_t begin, std::int64_t end) const;
  /// Item `index` of the outermost axis, that axis removed. Shares elements.
  [[nodiscard]] Tensor item(std::int64_t index) const;
  /// A deep copy of host memory; see kernels/copy.h for devices.
  [[nodiscard]] Tensor clone() const;
  /// Errors: Errc::internal when the elements are not in host memory.
  void check_on_host(std::string_view place) const;

 private:
  static Tensor from_bytes(std::span<const std::byte> bytes, const Shape& shape,
                           DType dtype);
  void check_dtype(DType wanted) const;

  std::shared_ptr<std::byte> bytes_;
  Shape shape_{0};
  DType dtype_ = DType::f32;
  Device device_;
};

/// A tensor in flight between threads: shared, never written again.
using TensorPtr = std::shared_ptr<const Tensor>;

/// Whether shape, dtype and every byte agree (so a NaN equals the same NaN, and
/// 0.0 differs from -0.0). Host tensors only.
[[nodiscard]] bool bytes_equal(const Tensor& a, const Tensor& b);

}  // namespace troupe
