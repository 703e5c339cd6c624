#pragma once

#include <cstdint>
#include <functional>

#include "kernels/activation.h"
#include "kernels/conv2d.h"
#include "kernels/core/context.h"
#include "kernels/core/shard_context.h"
#include "kernels/image_part.h"
#include "kernels/row_blocks.h"
#include "models/layers/norm_weights.h"
#include "models/layers/ping_pong.h"

namespace troupe::models {

/// A group norm and the activation behind it.
struct GroupNormStyle {
  std::int64_t num_groups = 32;
  float eps = 1e-6F;
  kernels::Activation activation = kernels::Activation::silu;
};

/// Layers over images whose pixels may be divided among ranks. A tensor
/// [B, n, C] holds this rank's pixels of an image. What a layer reads of other
/// ranks travels in one exchange for each layer here. Where several ranks
/// divide an image, B is 1.
///
/// An image with fewer than kLeastPixels pixels for each rank is not divided:
/// every rank has and computes all of it. Thread: that of the context.
class ImagePass {
 public:
  /// With fewer, ranks would wait longer than they compute.
  static constexpr std::int64_t kLeastPixels = 128;

  ImagePass(ExecContext& ctx, ShardContext& shard) noexcept
      : ctx_(ctx), shard_(shard) {}
  /// For one rank.
  explicit ImagePass(ExecContext& ctx) noexcept;

  [[nodiscard]] ExecContext& ctx() noexcept { return ctx_; }
  /// Whether this is rank 0, which gets the picture that all ranks made.
  [[nodiscard]] bool is_first() const { return shard_.rank() == 0; }
  /// A rank's pixels of an image of so many.
  [[nodiscard]] static RowRange pixels_of(const ShardContext& shard, int rank,
                                          std::int64_t pixels);
  /// Whether ranks divide an image of so many pixels.
  [[nodiscard]] static bool divides(const ShardContext& shard,
                                    std::int64_t pixels);
  [[nodiscard]] bool divides(const kernels::ImagePart& image) const {
    return divides(shard_, image.height * image.width);
  }
  /// This rank's part of an image with the sides of `image`.
  [[nodiscard]] kernels::ImagePart own(const kernels::ImagePart& image) const {
    return part_of(shard_.rank(), image);
  }
  /// The whole that a product over this rank's pixels belongs to (WholeItem).
  /// Empty where they are all.
  [[nodiscard]] kernels::WholeItem whole(
      const kernels::ImagePart& image) const {
    if (!divides(image)) {
      return {};
    }
    return {.rows = image.height * image.width,
            .first_row = own(image).pixels.begin};
  }
  /// out = layer(x). Of `from` and `to` the sides alone count.
  /// Shapes: x [B, n, I] and out [B, n', O], this rank's part of each.
  void conv(const Tensor& x, const kernels::ImagePart& from,
            const kernels::PackedConv2d& layer, const kernels::ImagePart& to,
            Tensor& out);
  /// out = activation(norm(x)). out may alias x.
  void norm(const Tensor& x, const kernels::ImagePart& image,
            const NormWeights& weights, const GroupNormStyle& style,
            Tensor& out);
  /// out = layer(activation(norm(x))), of the same sides. x is lost.
  void norm_conv_over(Tensor& x, const kernels::ImagePart& image,
                      const NormWeights& weights, const GroupNormStyle& style,
                      const kernels::PackedConv2d& layer, Tensor& out);
  /// The same; x stays. Memory: workspace, as x and some rows.
  void norm_conv(const Tensor& x, const kernels::ImagePart& image,
                 const NormWeights& weights, const GroupNormStyle& style,
                 const kernels::PackedConv2d& layer, Tensor& out);
  /// Doubles both sides of hidden.now() by nearest neighbour, to the sides of
  /// `to`, and then convolves it.
  void upsample_conv(PingPong& hidden, const kernels::ImagePart& from,
                     const kernels::PackedConv2d& layer,
                     const kernels::ImagePart& to);

  /// An image that ranks write together.
  struct Shared {
    Tensor own;  ///< [B, n, C], this rank's pixels
    Tensor all;  ///< [B, pixels, C], to be read after `meet`
  };
  /// Memory for them; without ranks from the workspace. `meet` must follow
  /// before any other layer here. Every rank gets channels `read` of all
  /// pixels.
  [[nodiscard]] Shared share(std::int64_t items,
                             const kernels::ImagePart& image,
                             std::int64_t channels, DType dtype, RowRange read);
  void meet(const kernels::ImagePart& image);
  /// All pixels [B, pixels, C] of own [B, n, C] on rank 0; an empty tensor on
  /// other ranks. To be read before the next layer here.
  [[nodiscard]] Tensor gather(const Tensor& own,
                              const kernels::ImagePart& image);

 private:
  using ReadBy = std::function<kernels::ImagePart(int rank)>;

  /// The pixels of an image with the sides of `from` that `layer` reads for
  /// this rank's part of `to`.
  [[nodiscard]] kernels::ImagePart read_for(
      const kernels::PackedConv2d& layer, const kernels::ImagePart& to,
      const kernels::ImagePart& from) const {
    return layer.read_for(own(to), from);
  }
  [[nodiscard]] kernels::ImagePart part_of(
      int rank, const kernels::ImagePart& image) const {
    return {image.height, image.width,
            pixels_of(shard_, rank, image.height * image.width)};
  }
  /// Shared memory [pixels, C] with what other ranks read of x.
  [[nodiscard]] Tensor offer(const Tensor& x, const kernels::ImagePart& image,
                             const ReadBy& read_by);
  /// The pixels of x that this rank reads, as `read_by` says: [B, n, C]. If
  /// every rank has the pixels that it reads, nothing is exchanged.
  [[nodiscard]] Tensor fetch(const Tensor& x, const kernels::ImagePart& image,
                             const ReadBy& read_by);
  /// Shared moments of all blocks, of which this rank's are filled.
  [[nodiscard]] Tensor offer_moments(const Tensor& x,
                                     const kernels::ImagePart& image,
                                     std::int64_t num_groups);

  ExecContext& ctx_;
  ShardContext& shard_;
};

}  // namespace troupe::models
