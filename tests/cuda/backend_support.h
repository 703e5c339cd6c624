#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <string>

#include "kernels/activation.h"
#include "tests/cuda/support.h"

// What test_backend.cpp and test_recording.cpp share.

namespace troupe::kernels {

using Key = std::array<std::uint64_t, 1>;

inline Tensor random_bytes(std::int64_t count, std::uint64_t seed) {
  Tensor host({count}, DType::u8);
  std::mt19937_64 bits(seed);
  for (std::int64_t i = 0; i < count; ++i) {
    host.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(bits());
  }
  return host;
}

inline Tensor filled(std::int64_t count, float value) {
  Tensor host({count}, DType::f32);
  std::ranges::fill(host.span<float>(), value);
  return host;
}

inline Errc code_of(const std::function<void()>& fn,
                    std::string* text = nullptr) {
  try {
    fn();
  } catch (const Error& error) {
    if (text != nullptr) {
      *text = error.what();
    }
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return Errc::internal;
}

/// Queues x ← silu(x) through `scratch`.
inline void step(ExecContext& ctx, Tensor& x, Tensor& scratch) {
  activate(ctx, x, Activation::silu, scratch);
  copy(ctx, scratch, x);
}

/// What `steps` of them give.
inline Tensor after_steps(const Tensor& start, int steps) {
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, start);
  Tensor scratch = ctx.empty(x.shape(), x.dtype());
  for (int i = 0; i < steps; ++i) {
    step(ctx, x, scratch);
  }
  return download(ctx, x);
}

}  // namespace troupe::kernels
