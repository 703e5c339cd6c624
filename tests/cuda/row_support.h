#pragma once

#include <cstring>
#include <vector>

#include "tests/cuda/support.h"

// What the tests of row kernels share besides support.h.

namespace troupe::kernels {

inline constexpr DType kFloatTypes[] = {DType::f32, DType::bf16, DType::f16};

/// A copy on ctx's device whose first element lies `shift` elements behind an
/// aligned address, between guards that are not written.
[[nodiscard]] inline Tensor upload_at(ExecContext& ctx, const Tensor& host,
                                      std::int64_t shift) {
  Tensor padded({host.num_elements() + shift}, host.dtype());
  std::memset(padded.bytes().data(), 0xff, padded.num_bytes());
  const std::size_t skipped =
      static_cast<std::size_t>(shift) * size_of(host.dtype());
  if (!host.empty()) {
    std::memcpy(padded.bytes().data() + skipped, host.bytes().data(),
                host.num_bytes());
  }
  Tensor all = upload(ctx, padded);
  return {std::shared_ptr<std::byte>(all.owner(), all.bytes().data() + skipped),
          host.shape(), host.dtype(), all.device()};
}

[[nodiscard]] inline Tensor poisoned_at(ExecContext& ctx, const Shape& shape,
                                        DType dtype, std::int64_t shift) {
  Tensor host(shape, dtype);
  std::memset(host.bytes().data(), 0xff, host.num_bytes());
  return upload_at(ctx, host, shift);
}

/// Error of one rounding to `dtype` and of the f32 arithmetic before it.
[[nodiscard]] inline double rounding_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 4e-6;
    case DType::f16:
      return 0x1p-11 + 4e-6;
    default:
      return 0x1p-8 + 4e-6;
  }
}

}  // namespace troupe::kernels
