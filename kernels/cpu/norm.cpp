#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/rows.h"
#include "kernels/row_blocks.h"

namespace troupe::kernels::cpu {
namespace {

// Rows of one piece of work: some microseconds at common widths.
constexpr std::int64_t kPieceRows = 16;
// Pixels of one partial sum of moments: a group's sum is that of its blocks in
// order, so a shard of the pixels (row_blocks.h) makes the whole's partial
// sums.
constexpr std::int64_t kBlockPixels = kRowBlock;

/// Calls fn(row) for rows of [0, count) in pieces.
template <typename Fn>
void for_rows(ExecContext& ctx, std::int64_t count, const Fn& fn) {
  ctx.pool().run((count + kPieceRows - 1) / kPieceRows, [&](std::int64_t piece,
                                                            int /*thread*/) {
    const std::int64_t end = std::min(count, (piece + 1) * kPieceRows);
    for (std::int64_t r = piece * kPieceRows; r < end; ++r) {
      fn(r);
    }
  });
}

/// What group_norm needs to know of its input, or of a part of it.
struct Grouping {
  Grouping(std::int64_t items, std::int64_t pixels, std::int64_t channels,
           std::int64_t groups)
      : items(items),
        pixels(pixels),
        channels(channels),
        groups(groups),
        blocks((pixels + kBlockPixels - 1) / kBlockPixels) {}

  std::int64_t items;
  std::int64_t pixels;
  std::int64_t channels;
  std::int64_t groups;
  std::int64_t blocks;
};

/// Sums and sums of squares of every group over one block of pixels.
struct Moments {
  double sum = 0;
  double squares = 0;
};

/// moments: [item, block, group].
void block_moments(ExecContext& ctx, const Tensor& x, const Grouping& g,
                   Moments* moments) {
  const std::int64_t width = g.channels / g.groups;
  ctx.pool().run(g.items * g.blocks, [&](std::int64_t piece, int thread) {
    const std::int64_t begin = piece % g.blocks * kBlockPixels;
    const std::int64_t rows = std::min(kBlockPixels, g.pixels - begin);
    auto* const sums = reinterpret_cast<double*>(ctx.scratch(
        thread, static_cast<std::size_t>(2 * g.channels) * sizeof(double)));
    double* const squares = sums + g.channels;
    std::fill_n(sums, 2 * g.channels, 0.0);
    add_moments(
        Source(x).at((piece / g.blocks * g.pixels + begin) * g.channels), rows,
        g.channels, sums, squares);
    Moments* to = moments + piece * g.groups;
    for (std::int64_t group = 0; group < g.groups; ++group) {
      Moments partial;
      for (std::int64_t c = group * width; c < (group + 1) * width; ++c) {
        partial.sum += sums[c];
        partial.squares += squares[c];
      }
      to[group] = partial;
    }
  });
}

/// Turns the moments of one item into a factor and an offset per channel.
void fold_item(const Grouping& g, const Moments* moments, const Tensor& weight,
               const Tensor& bias, float eps, float* factor, float* offset) {
  const std::int64_t width = g.channels / g.groups;
  const double count = static_cast<double>(g.pixels * width);
  for (std::int64_t group = 0; group < g.groups; ++group) {
    double sum = 0;
    double squares = 0;
    for (std::int64_t block = 0; block < g.blocks; ++block) {
      sum += moments[block * g.groups + group].sum;
      squares += moments[block * g.groups + group].squares;
    }
    const double mean = sum / count;
    const double variance = std::max(0.0, squares / count - mean * mean);
    const double inverse = 1.0 / std::sqrt(variance + static_cast<double>(eps));
    for (std::int64_t c = group * width; c < (group + 1) * width; ++c) {
      const double scaled =
          static_cast<double>(weight.data<float>()[c]) * inverse;
      factor[c] = static_cast<float>(scaled);
      offset[c] = static_cast<float>(
          static_cast<double>(bias.data<float>()[c]) - mean * scaled);
    }
  }
}

Moments* moments_in(Tensor& memory) {
  return reinterpret_cast<Moments*>(memory.bytes().data());
}

/// out = activation(normalised x · weight + bias), for the pixels of `here`
/// with the moments of `whole`.
void scale_shift(ExecContext& ctx, const Tensor& x, const Grouping& here,
                 const Moments* moments, const Grouping& whole,
                 const Tensor& weight, const Tensor& bias, float eps,
                 Activation activation, Tensor& out) {
  const std::int64_t channels = here.channels;
  Tensor folded = ctx.workspace().take({here.items, 2, channels}, DType::f32);
  auto* factors = folded.data<float>();
  for (std::int64_t item = 0; item < here.items; ++item) {
    float* factor = factors + item * 2 * channels;
    fold_item(whole, moments + item * whole.blocks * whole.groups, weight, bias,
              eps, factor, factor + channels);
  }
  ctx.pool().run(here.items * here.blocks, [&](std::int64_t piece,
                                               int /*thread*/) {
    const std::int64_t begin = piece % here.blocks * kBlockPixels;
    const std::int64_t at =
        (piece / here.blocks * here.pixels + begin) * channels;
    const float* factor = factors + piece / here.blocks * 2 * channels;
    scale_shift_rows(Source(x).at(at),
                     std::min(kBlockPixels, here.pixels - begin), channels,
                     factor, factor + channels, activation, Target(out).at(at));
  });
}

}  // namespace

void layer_norm_modulate(ExecContext& ctx, const Tensor& x,
                         const Tensor& modulation, std::int64_t shift_column,
                         std::int64_t scale_column, float eps, Tensor& out) {
  const std::int64_t rows = x.dim(1);
  const std::int64_t width = x.dim(2);
  if (x.empty()) {
    return;
  }
  const auto* from = x.data<float>();
  for_rows(ctx, x.dim(0) * rows, [&](std::int64_t row) {
    const float* item =
        modulation.data<float>() + row / rows * modulation.dim(1);
    layer_norm_row(from + row * width, item + shift_column, item + scale_column,
                   true, width, eps, Target(out).at(row * width));
  });
}

void layer_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
                const Tensor& bias, float eps, Tensor& out) {
  if (x.empty()) {
    return;
  }
  const std::int64_t width = weight.dim(0);
  for_rows(ctx, x.num_elements() / width, [&](std::int64_t row) {
    layer_norm_row(x.data<float>() + row * width, bias.data<float>(),
                   weight.data<float>(), false, width, eps,
                   Target(out).at(row * width));
  });
}

void rms_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
              float eps, Tensor& out) {
  if (x.empty()) {
    return;
  }
  const std::int64_t width = weight.dim(0);
  for_rows(ctx, x.num_elements() / width, [&](std::int64_t row) {
    rms_norm_row(Source(x).at(row * width), weight.data<float>(), width, eps,
                 Target(out).at(row * width));
  });
}

std::int64_t group_norm_bytes(const Shape& x, std::int64_t num_groups) {
  const std::int64_t blocks = (x[1] * x[2] + kBlockPixels - 1) / kBlockPixels;
  return x[0] *
         (blocks * num_groups * static_cast<std::int64_t>(sizeof(Moments)) +
          2 * x[3] * static_cast<std::int64_t>(sizeof(float)));
}

void group_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
                const Tensor& bias, std::int64_t num_groups, float eps,
                Activation activation, Tensor& out) {
  if (x.empty()) {
    return;
  }
  const Grouping g(x.dim(0), x.dim(1) * x.dim(2), x.dim(3), num_groups);
  const Workspace::Scope scope(ctx.workspace());
  Tensor moments = ctx.workspace().take(
      {g.items, g.blocks, group_moments_width(num_groups)}, DType::u8);
  block_moments(ctx, x, g, moments_in(moments));
  scale_shift(ctx, x, g, moments_in(moments), g, weight, bias, eps, activation,
              out);
}

std::int64_t group_moments_width(std::int64_t num_groups) {
  return num_groups * static_cast<std::int64_t>(sizeof(Moments));
}

void group_moments(ExecContext& ctx, const Tensor& x, std::int64_t num_groups,
                   Tensor& moments) {
  block_moments(ctx, x, Grouping(1, x.dim(0), x.dim(1), num_groups),
                moments_in(moments));
}

void group_normalise(ExecContext& ctx, const Tensor& x, const Tensor& moments,
                     std::int64_t pixels, const Tensor& weight,
                     const Tensor& bias, std::int64_t num_groups, float eps,
                     Activation activation, Tensor& out) {
  if (x.empty()) {
    return;
  }
  const Workspace::Scope scope(ctx.workspace());
  scale_shift(ctx, x, Grouping(1, x.dim(0), x.dim(1), num_groups),
              reinterpret_cast<const Moments*>(moments.bytes().data()),
              Grouping(1, pixels, x.dim(1), num_groups), weight, bias, eps,
              activation, out);
}

}  // namespace troupe::kernels::cpu
