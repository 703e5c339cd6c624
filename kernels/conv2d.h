#pragma once

#include <cstdint>
#include <memory>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "kernels/image_part.h"

namespace troupe::kernels {

/// Zeros around an image: rows at the top and bottom, columns at the left and
/// right.
struct Padding {
  std::int64_t top = 0;
  std::int64_t bottom = 0;
  std::int64_t left = 0;
  std::int64_t right = 0;

  /// As many on every side.
  [[nodiscard]] static constexpr Padding all(std::int64_t zeros) {
    return {zeros, zeros, zeros, zeros};
  }
  bool operator==(const Padding&) const = default;
};

/// Convolution weights [O, I, kh, kw] and bias [O], packed once. Immutable,
/// shared read-only.
class PackedConv2d {
 public:
  PackedConv2d();
  ~PackedConv2d();
  PackedConv2d(PackedConv2d&&) noexcept;
  PackedConv2d& operator=(PackedConv2d&&) noexcept;

  /// `stride` in both directions, `padding` around every image. weight and
  /// bias are on the host, f32, bf16 or f16. The packed weights lie on ctx's
  /// device; all its contexts may share them. compute is f32 or bf16, on a GPU
  /// also f16.
  /// Errors: Errc::shape_mismatch, Errc::invalid_argument; Errc::unsupported
  /// for a compute type that the device lacks.
  PackedConv2d(ExecContext& ctx, const Tensor& weight, const Tensor& bias,
               std::int64_t stride, const Padding& padding, DType compute);

  [[nodiscard]] std::int64_t in_channels() const noexcept;
  [[nodiscard]] std::int64_t out_channels() const noexcept;
  [[nodiscard]] std::size_t num_bytes() const noexcept;
  /// The pixels of an image with the sides of `from` that pixels `to` of its
  /// convolution are made of, or some more.
  [[nodiscard]] ImagePart read_for(const ImagePart& to,
                                   const ImagePart& from) const;

  struct Impl;
  [[nodiscard]] const Impl* impl() const noexcept { return impl_.get(); }

 private:
  std::unique_ptr<Impl> impl_;
};

/// out = conv2d(x) + bias.
///
/// Shapes: x [B, H, W, I], out [B, H', W', O], channels last, both in the
///         compute type (out may be f32); sums are f32.
///         H' = ⌊(top + H + bottom − kh) / stride⌋ + 1, W' likewise.
/// Bits:   an item's bits do not depend on batch or threads. CPU: the patches
///         of a block of output pixels are gathered into rows and multiplied
///         like a linear layer; the blocks follow from the image size alone.
///         GPU: see DeviceOptions::batch_invariant.
/// Memory: CPU: scratch for one block per thread. GPU: workspace, what the
///         library's engine asks for (at most 256 MiB); where opposite sides
///         are padded differently, a copy of x with zeros as well.
/// Errors: Errc::shape_mismatch, Errc::invalid_argument; on a GPU
///         Errc::unsupported when cuDNN has no engine for it.
void conv2d(ExecContext& ctx, const Tensor& x, const PackedConv2d& packed,
            Tensor& out);

/// The same for pixels `to` of the result, from pixels `from` of the image.
/// They have the bytes that they have in the whole if `to` begins at a multiple
/// of kRowBlock (row_blocks.h).
///
/// Shapes: x [B, pixels of `from`, I], out [B, pixels of `to`, O].
/// Memory: GPU: workspace for the input rows and the output rows of one item;
///         the first call with a part also takes memory for a whole image and
///         its result, to compare.
/// Errors: as above; Errc::shape_mismatch where `from` lacks pixels;
///         Errc::unsupported on a GPU where cuDNN computes a part with other
///         bits.
void conv2d(ExecContext& ctx, const Tensor& x, const ImagePart& from,
            const PackedConv2d& packed, Tensor& out, const ImagePart& to);

/// What one thread of the CPU takes in such a call, for kernels of so many
/// columns (I · kh · kw); without what the library asks for.
[[nodiscard]] std::size_t conv2d_thread_bytes(std::int64_t columns,
                                              DType compute);

/// Doubles both sides by nearest neighbour. If a side of out is one less than
/// that, its last row or column is left out: an odd side was rounded up when it
/// was halved.
/// Shapes: x [B, H, W, C], out [B, 2H or 2H − 1, 2W or 2W − 1, C].
void upsample_nearest2x(ExecContext& ctx, const Tensor& x, Tensor& out);
/// The same for pixels `to`, from rows of an image. Shapes and errors as
/// conv2d.
void upsample_nearest2x(ExecContext& ctx, const Tensor& x,
                        const ImagePart& from, Tensor& out,
                        const ImagePart& to);
/// The rows of an image with the sides of `from` that `to` is made of.
[[nodiscard]] ImagePart read_for_upsampling(const ImagePart& to,
                                            const ImagePart& from);

/// Puts the channels of b behind those of a, pixel by pixel.
/// Shapes: a [..., A], b [..., B], out [..., A + B], of one dtype; the other
///         axes are equal. out must not alias a or b.
void concat_channels(ExecContext& ctx, const Tensor& a, const Tensor& b,
                     Tensor& out);

}  // namespace troupe::kernels
