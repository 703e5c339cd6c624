#include "kernels/cpu/ops.h"

namespace troupe::kernels::cpu {
namespace {

void put(float value, float& to) { to = value; }
void put(float value, bfloat16& to) { to = bfloat16::from_float(value); }
float get(float value) { return value; }
float get(bfloat16 value) { return value.to_float(); }

// Images in latent space hold some ten thousand values: the loops below take
// microseconds, so no pool.
template <typename Out>
void cut_patches(const Tensor& x, std::int64_t p, Out* to) {
  const std::int64_t channels = x.dim(1);
  const std::int64_t height = x.dim(2);
  const std::int64_t width = x.dim(3);
  const auto* from = x.data<float>();
  for (std::int64_t b = 0; b < x.dim(0); ++b) {
    for (std::int64_t top = 0; top < height; top += p) {
      for (std::int64_t left = 0; left < width; left += p) {
        for (std::int64_t c = 0; c < channels; ++c) {
          for (std::int64_t y = top; y < top + p; ++y) {
            const float* row = from + ((b * channels + c) * height + y) * width;
            for (std::int64_t column = left; column < left + p; ++column) {
              put(row[column], *to++);
            }
          }
        }
      }
    }
  }
}

template <typename Out>
void pixels_last(ExecContext& ctx, const Tensor& x, Out* to) {
  const std::int64_t channels = x.dim(1);
  const std::int64_t width = x.dim(3);
  const std::int64_t pixels = x.dim(2) * width;
  const auto* from = x.data<float>();
  ctx.pool().run(x.dim(0) * x.dim(2), [&](std::int64_t row, int /*thread*/) {
    const std::int64_t item = row / x.dim(2);
    const std::int64_t begin = row % x.dim(2) * width;
    for (std::int64_t pixel = begin; pixel < begin + width; ++pixel) {
      for (std::int64_t c = 0; c < channels; ++c) {
        put(from[(item * channels + c) * pixels + pixel],
            to[(item * pixels + pixel) * channels + c]);
      }
    }
  });
}

template <typename In>
void pixels_first(ExecContext& ctx, const In* from, Tensor& out) {
  const std::int64_t channels = out.dim(1);
  const std::int64_t width = out.dim(3);
  const std::int64_t pixels = out.dim(2) * width;
  auto* to = out.data<float>();
  ctx.pool().run(
      out.dim(0) * out.dim(2), [&](std::int64_t row, int /*thread*/) {
        const std::int64_t item = row / out.dim(2);
        const std::int64_t begin = row % out.dim(2) * width;
        for (std::int64_t c = 0; c < channels; ++c) {
          for (std::int64_t pixel = begin; pixel < begin + width; ++pixel) {
            to[(item * channels + c) * pixels + pixel] =
                get(from[(item * pixels + pixel) * channels + c]);
          }
        }
      });
}

}  // namespace

void patchify(const Tensor& x, std::int64_t patch_size, Tensor& out) {
  if (x.empty()) {
    return;
  }
  if (out.dtype() == DType::bf16) {
    cut_patches(x, patch_size, out.data<bfloat16>());
  } else {
    cut_patches(x, patch_size, out.data<float>());
  }
}

void unpatchify(const Tensor& x, std::int64_t patch_size, Tensor& out) {
  if (x.empty()) {
    return;
  }
  const std::int64_t p = patch_size;
  const std::int64_t channels = out.dim(1);
  const std::int64_t height = out.dim(2);
  const std::int64_t width = out.dim(3);
  const auto* from = x.data<float>();
  auto* to = out.data<float>();
  for (std::int64_t b = 0; b < out.dim(0); ++b) {
    for (std::int64_t top = 0; top < height; top += p) {
      for (std::int64_t left = 0; left < width; left += p) {
        for (std::int64_t y = top; y < top + p; ++y) {
          for (std::int64_t column = left; column < left + p; ++column) {
            for (std::int64_t c = 0; c < channels; ++c) {
              to[((b * channels + c) * height + y) * width + column] = *from++;
            }
          }
        }
      }
    }
  }
}

void to_channels_last(ExecContext& ctx, const Tensor& x, Tensor& out) {
  if (x.empty()) {
    return;
  }
  if (out.dtype() == DType::bf16) {
    pixels_last(ctx, x, out.data<bfloat16>());
  } else {
    pixels_last(ctx, x, out.data<float>());
  }
}

void to_channels_first(ExecContext& ctx, const Tensor& x, Tensor& out) {
  if (x.empty()) {
    return;
  }
  if (x.dtype() == DType::bf16) {
    pixels_first(ctx, x.data<bfloat16>(), out);
  } else {
    pixels_first(ctx, x.data<float>(), out);
  }
}

}  // namespace troupe::kernels::cpu
