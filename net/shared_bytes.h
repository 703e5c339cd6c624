#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/core/tensor.h"

namespace troupe::net {

/// Bytes of the host that several threads may hold and that nobody writes any
/// more. Copying one copies a pointer.
struct SharedBytes {
  std::shared_ptr<std::byte> data;  ///< the first byte, and what keeps it alive
  std::size_t size = 0;             ///< bytes

  [[nodiscard]] std::span<const std::byte> span() const noexcept {
    return {data.get(), size};
  }
  [[nodiscard]] bool empty() const noexcept { return size == 0; }
};

/// The characters of a text, not copied.
[[nodiscard]] inline std::span<const std::byte> bytes_of(
    std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// The elements of a host tensor, not copied.
[[nodiscard]] inline SharedBytes share(const Tensor& tensor) {
  return {tensor.owner(), tensor.num_bytes()};
}

/// The characters of a string, moved.
[[nodiscard]] inline SharedBytes share(std::string text) {
  auto owner = std::make_shared<std::string>(std::move(text));
  auto* first = reinterpret_cast<std::byte*>(owner->data());
  const std::size_t size = owner->size();
  return {std::shared_ptr<std::byte>(std::move(owner), first), size};
}

}  // namespace troupe::net
