#include "models/network/image_pass.h"

#include <algorithm>

#include "kernels/copy.h"
#include "kernels/norm.h"
#include "kernels/row_blocks.h"

// B rows of a batch, N pixels of an image, n of them on this rank, C channels.

namespace troupe::models {
namespace {

using kernels::ImagePart;
using kernels::PackedConv2d;

static_assert(ImagePass::kLeastPixels % kernels::kRowBlock == 0);

/// Rows `range` of a tensor that holds rows from `first` on.
Tensor rows_of(const Tensor& rows, RowRange range, std::int64_t first) {
  return rows.slice(range.begin - first, range.end - first);
}

Tensor as_image(const Tensor& x, const ImagePart& image) {
  return x.reshape({x.dim(0), image.height, image.width, x.dim(2)});
}

/// The blocks of moments that a rank's pixels of so many have.
RowRange blocks_of(RowRange pixels, std::int64_t all) {
  const std::int64_t block = kernels::shard_block(all);
  return {(pixels.begin + block - 1) / block, (pixels.end + block - 1) / block};
}

/// Calls fn(their rows, which pixels) for pixels `wanted`, piece by piece:
/// `own` from x, and what is before and behind from `shared`.
template <typename Fn>
void for_sources(const Tensor& x, RowRange own, const Tensor& shared,
                 RowRange wanted, const Fn& fn) {
  const auto visit = [&](const Tensor& from, RowRange range,
                         std::int64_t first) {
    const RowRange rows = intersection(range, wanted);
    if (rows.size() > 0) {
      fn(rows_of(from, rows, first), rows);
    }
  };
  visit(shared, {0, own.begin}, 0);
  if (own.size() > 0) {
    visit(x.item(0), own, own.begin);
  }
  visit(shared, {own.end, shared.dim(0)}, 0);
}

/// Blocks of whole rows, of `width` elements.
SharedBlocks exchanged(RowRange written, RowRange read, std::int64_t width) {
  return {.written = {{written, {0, width}}}, .read = {{read, {0, width}}}};
}

}  // namespace

ImagePass::ImagePass(ExecContext& ctx) noexcept
    : ctx_(ctx), shard_([]() -> ShardContext& {
        static ShardContext one;  // has no state
        return one;
      }()) {}

bool ImagePass::divides(const ShardContext& shard, std::int64_t pixels) {
  return shard.world_size() > 1 && pixels >= kLeastPixels * shard.world_size();
}

RowRange ImagePass::pixels_of(const ShardContext& shard, int rank,
                              std::int64_t pixels) {
  return divides(shard, pixels) ? shard.rows_of(rank, pixels)
                                : RowRange{0, pixels};
}

Tensor ImagePass::offer(const Tensor& x, const ImagePart& image,
                        const ReadBy& read_by) {
  const RowRange own = this->own(image).pixels;
  Tensor shared = shard_.share(
      {image.height * image.width, x.dim(2)}, x.dtype(), [&](int rank) {
        return exchanged(part_of(rank, image).pixels, read_by(rank).pixels,
                         x.dim(2));
      });
  for (int rank = 0; rank < shard_.world_size(); ++rank) {
    const RowRange read = intersection(own, read_by(rank).pixels);
    if (rank != shard_.rank() && read.size() > 0) {
      Tensor target = rows_of(shared, read, 0);
      kernels::copy(ctx_, rows_of(x.item(0), read, own.begin), target);
    }
  }
  return shared;
}

Tensor ImagePass::fetch(const Tensor& x, const ImagePart& image,
                        const ReadBy& read_by) {
  const RowRange wanted = read_by(shard_.rank()).pixels;
  bool has_all = true;
  for (int rank = 0; rank < shard_.world_size(); ++rank) {
    const RowRange read = read_by(rank).pixels;
    has_all &= intersection(read, part_of(rank, image).pixels) == read;
  }
  if (has_all) {
    return wanted.size() == x.dim(1)
               ? x
               : rows_of(x.item(0), wanted, own(image).pixels.begin)
                     .reshape({1, wanted.size(), x.dim(2)});
  }
  Tensor all = ctx_.workspace().take({1, wanted.size(), x.dim(2)}, x.dtype());
  const Tensor shared = offer(x, image, read_by);
  shard_.meet();
  for_sources(x, own(image).pixels, shared, wanted,
              [&](const Tensor& from, RowRange rows) {
                Tensor to = rows_of(all.item(0), rows, wanted.begin);
                kernels::copy(ctx_, from, to);
              });
  return all;
}

void ImagePass::conv(const Tensor& x, const ImagePart& from,
                     const PackedConv2d& layer, const ImagePart& to,
                     Tensor& out) {
  const Workspace::Scope scope(ctx_.workspace());
  const Tensor all = fetch(x, from, [&](int rank) {
    return layer.read_for(part_of(rank, to), from);
  });
  kernels::conv2d(ctx_, all, read_for(layer, to, from), layer, out, own(to));
}

Tensor ImagePass::offer_moments(const Tensor& x, const ImagePart& image,
                                std::int64_t num_groups) {
  const std::int64_t pixels = image.height * image.width;
  const RowRange all = blocks_of({0, pixels}, pixels);
  const std::int64_t width =
      kernels::group_moments_width(ctx_, pixels, num_groups);
  const Tensor shared =
      shard_.share({all.size(), width}, DType::u8, [&](int rank) {
        return exchanged(blocks_of(part_of(rank, image).pixels, pixels), all,
                         width);
      });
  const RowRange blocks = blocks_of(own(image).pixels, pixels);
  Tensor moments = rows_of(shared, blocks, 0);
  kernels::group_moments(ctx_, x.item(0), pixels, num_groups, moments);
  return shared;
}

void ImagePass::norm(const Tensor& x, const ImagePart& image,
                     const NormWeights& weights, const GroupNormStyle& style,
                     Tensor& out) {
  if (!divides(image)) {
    Tensor to = as_image(out, image);
    return kernels::group_norm(ctx_, as_image(x, image), weights.weight,
                               weights.bias, style.num_groups, style.eps,
                               style.activation, to);
  }
  const Tensor moments = offer_moments(x, image, style.num_groups);
  shard_.meet();
  Tensor to = out.item(0);
  kernels::group_normalise(ctx_, x.item(0), moments, image.height * image.width,
                           weights.weight, weights.bias, style.num_groups,
                           style.eps, style.activation, to);
}

void ImagePass::norm_conv_over(Tensor& x, const ImagePart& image,
                               const NormWeights& weights,
                               const GroupNormStyle& style,
                               const PackedConv2d& layer, Tensor& out) {
  if (divides(image)) {
    return norm_conv(x, image, weights, style, layer, out);
  }
  norm(x, image, weights, style, x);
  kernels::conv2d(ctx_, x, own(image), layer, out, own(image));
}

void ImagePass::norm_conv(const Tensor& x, const ImagePart& image,
                          const NormWeights& weights,
                          const GroupNormStyle& style,
                          const PackedConv2d& layer, Tensor& out) {
  const Workspace::Scope scope(ctx_.workspace());
  const ImagePart read = read_for(layer, image, image);
  Tensor normed = ctx_.workspace().take(
      {x.dim(0), read.pixels.size(), x.dim(2)}, x.dtype());
  if (!divides(image)) {
    norm(x, image, weights, style, normed);
  } else {
    const Tensor moments = offer_moments(x, image, style.num_groups);
    const Tensor shared = offer(x, image, [&](int rank) {
      return layer.read_for(part_of(rank, image), image);
    });
    shard_.meet();
    for_sources(x, own(image).pixels, shared, read.pixels,
                [&](const Tensor& from, RowRange rows) {
                  Tensor to = rows_of(normed.item(0), rows, read.pixels.begin);
                  kernels::group_normalise(
                      ctx_, from, moments, image.height * image.width,
                      weights.weight, weights.bias, style.num_groups, style.eps,
                      style.activation, to);
                });
  }
  kernels::conv2d(ctx_, normed, read, layer, out, own(image));
}

void ImagePass::upsample_conv(PingPong& hidden, const ImagePart& from,
                              const PackedConv2d& layer, const ImagePart& to) {
  const ImagePart read = read_for(layer, to, to);
  const std::int64_t items = hidden.now().dim(0);
  hidden.apply({items, read.pixels.size(), layer.in_channels()},
               [&](const Tensor& x, Tensor& out) {
                 const Workspace::Scope scope(ctx_.workspace());
                 const auto read_by = [&](int rank) {
                   return kernels::read_for_upsampling(
                       layer.read_for(part_of(rank, to), to), from);
                 };
                 const Tensor small = fetch(x, from, read_by);
                 kernels::upsample_nearest2x(ctx_, small,
                                             read_by(shard_.rank()), out, read);
               });
  hidden.apply({items, own(to).pixels.size(), layer.out_channels()},
               [&](const Tensor& x, Tensor& out) {
                 kernels::conv2d(ctx_, x, read, layer, out, own(to));
               });
}

ImagePass::Shared ImagePass::share(std::int64_t items, const ImagePart& image,
                                   std::int64_t channels, DType dtype,
                                   RowRange read) {
  const std::int64_t pixels = image.height * image.width;
  if (!divides(image)) {
    const Tensor all = ctx_.workspace().take({items, pixels, channels}, dtype);
    return {all, all};
  }
  const Tensor all = shard_.share({pixels, channels}, dtype, [&](int rank) {
    return SharedBlocks{
        .written = {{part_of(rank, image).pixels, {0, channels}}},
        .read = {{{0, pixels}, read}}};
  });
  const Tensor own = rows_of(all, this->own(image).pixels, 0);
  return {own.reshape({1, own.dim(0), channels}),
          all.reshape({1, pixels, channels})};
}

void ImagePass::meet(const ImagePart& image) {
  if (divides(image)) {
    shard_.meet();
  }
}

Tensor ImagePass::gather(const Tensor& own, const ImagePart& image) {
  if (!divides(image)) {
    return shard_.rank() == 0 ? own : Tensor();
  }
  const std::int64_t pixels = image.height * image.width;
  const Tensor all =
      shard_.share({pixels, own.dim(2)}, own.dtype(), [&](int rank) {
        return exchanged(part_of(rank, image).pixels,
                         {0, rank == 0 ? pixels : 0}, own.dim(2));
      });
  if (!own.empty()) {
    Tensor target = rows_of(all, this->own(image).pixels, 0);
    kernels::copy(ctx_, own.item(0), target);
  }
  shard_.meet();
  return shard_.rank() == 0 ? all.reshape({1, pixels, own.dim(2)}) : Tensor();
}

}  // namespace troupe::models
