#include "kernels/conv2d.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <variant>
#include <vector>

#include "kernels/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cuda/ops.h"
#include "kernels/linear.h"

namespace troupe::kernels {
namespace {

/// Of a meter.
struct MeteredFilters {
  std::size_t num_bytes = 0;
};

}  // namespace

/// The weights where they will be used, and what the checks look at.
struct PackedConv2d::Impl {
  std::variant<cpu::ConvWeights, cuda::ConvWeights, MeteredFilters> weights;
  DType compute;
  std::int64_t in_channels;
  std::int64_t out_channels;
  std::int64_t kernel_height;
  std::int64_t kernel_width;
  std::int64_t stride;
  Padding padding;
};

namespace {

std::string to_string(const Padding& padding) {
  return std::to_string(padding.top) + " (top), " +
         std::to_string(padding.bottom) + " (bottom), " +
         std::to_string(padding.left) + " (left), " +
         std::to_string(padding.right) + " (right)";
}

cpu::ConvWeights pack_on_cpu(ExecContext& ctx, const Tensor& weight,
                             const Tensor& bias, std::int64_t stride,
                             const Padding& padding, DType compute) {
  if (!supports(compute)) {
    throw Error(Errc::unsupported, "conv2d",
                "this CPU cannot multiply " + std::string(to_string(compute)) +
                    " matrices",
                "use --dtype f32");
  }
  return {.matrix = cpu::PackedMatrix(ctx, cpu::channels_last_weights(weight),
                                      bias, compute),
          .in_channels = weight.dim(1),
          .kernel_height = weight.dim(2),
          .kernel_width = weight.dim(3),
          .stride = stride,
          .padding = padding};
}

/// The sides of a convolution of the image, and all its pixels.
ImagePart convolved(const PackedConv2d::Impl& conv, const ImagePart& image) {
  const Padding& padding = conv.padding;
  const std::int64_t room_y =
      padding.top + image.height + padding.bottom - conv.kernel_height;
  const std::int64_t room_x =
      padding.left + image.width + padding.right - conv.kernel_width;
  if (room_y < 0 || room_x < 0) {
    throw Error(Errc::shape_mismatch, "conv2d",
                "image smaller than the kernel: got " +
                    std::to_string(image.height) + " × " +
                    std::to_string(image.width) + ", expected at least " +
                    std::to_string(conv.kernel_height) + " × " +
                    std::to_string(conv.kernel_width) + " with padding " +
                    to_string(padding));
  }
  return ImagePart::whole(room_y / conv.stride + 1, room_x / conv.stride + 1);
}

const PackedConv2d::Impl& checked_weights(const PackedConv2d& packed,
                                          const Tensor& x, const Tensor& out) {
  require(packed.impl() != nullptr, Errc::invalid_argument, "conv2d",
          "the weights are empty");
  check_dtype("conv2d", "x", x, {packed.impl()->compute});
  check_dtype("conv2d", "out", out, {DType::f32, packed.impl()->compute});
  return *packed.impl();
}

/// Errors: Errc::shape_mismatch unless pixels `to` lie in an image with the
/// sides of `whole`, and `from` has the pixels of `read`.
void check_parts(std::string_view place, const ImagePart& from,
                 const ImagePart& read, const ImagePart& to,
                 const ImagePart& whole) {
  require(
      to.height == whole.height && to.width == whole.width &&
          0 <= to.pixels.begin && to.pixels.end <= whole.pixels.end &&
          0 <= from.pixels.begin && from.pixels.begin <= read.pixels.begin &&
          read.pixels.end <= from.pixels.end &&
          from.pixels.end <= from.height * from.width,
      Errc::shape_mismatch, place,
      "got pixels " + std::to_string(from.pixels.begin) + " to " +
          std::to_string(from.pixels.end) + " for pixels " +
          std::to_string(to.pixels.begin) + " to " +
          std::to_string(to.pixels.end) + " of " + std::to_string(to.height) +
          " × " + std::to_string(to.width) + ", expected pixels " +
          std::to_string(read.pixels.begin) + " to " +
          std::to_string(read.pixels.end) + " and sides " +
          std::to_string(whole.height) + " × " + std::to_string(whole.width));
}

Tensor as_image(const Tensor& pixels, const ImagePart& part) {
  return pixels.reshape(
      {pixels.dim(0), part.height, part.width, pixels.dim(2)});
}

Tensor as_pixels(const Tensor& image) {
  return image.reshape(
      {image.dim(0), image.dim(1) * image.dim(2), image.dim(3)});
}

[[noreturn]] void refuse_weights(const ExecContext& ctx) {
  throw Error(Errc::invalid_argument, "conv2d",
              "the weights were packed for another device than " +
                  to_string(ctx.device()));
}

void add_convolution(ExecContext& ctx, const PackedConv2d::Impl& conv,
                     const Tensor& out) {
  const std::int64_t patch =
      conv.kernel_height * conv.kernel_width * conv.in_channels;
  ctx.meter().add_flops(2.0 * static_cast<double>(out.num_elements()) *
                        static_cast<double>(patch));
  if (ctx.kind() == DeviceKind::cpu) {
    ctx.meter().note_convolution(conv2d_thread_bytes(patch, conv.compute));
  }
}

void meter_conv2d(ExecContext& ctx, const PackedConv2d::Impl& conv,
                  const Tensor& x, const Tensor& out) {
  add_convolution(ctx, conv, out);
  if (ctx.kind() == DeviceKind::cpu) {
    return;
  }
  // The GPU's copy with zeros.
  const std::int64_t rows = std::abs(conv.padding.top - conv.padding.bottom);
  const std::int64_t columns = std::abs(conv.padding.left - conv.padding.right);
  if (rows + columns > 0) {
    const Workspace::Scope scope(ctx.workspace());
    (void)ctx.workspace().take(
        {x.dim(0), x.dim(1) + rows, x.dim(2) + columns, x.dim(3)}, x.dtype());
  }
}

void meter_part(ExecContext& ctx, const PackedConv2d::Impl& conv,
                const Tensor& x, const Tensor& out, std::int64_t rows_around) {
  add_convolution(ctx, conv, out);
  if (ctx.kind() == DeviceKind::cpu) {
    return;
  }
  // The GPU's copy of an item with zeros, and the rows that it computes.
  const Workspace::Scope scope(ctx.workspace());
  (void)ctx.workspace().take({x.dim(1) + rows_around, x.dim(2)}, x.dtype());
  (void)ctx.workspace().take({out.dim(1) + rows_around, out.dim(2)},
                             out.dtype());
}

}  // namespace

PackedConv2d::PackedConv2d() = default;
PackedConv2d::~PackedConv2d() = default;
PackedConv2d::PackedConv2d(PackedConv2d&&) noexcept = default;
PackedConv2d& PackedConv2d::operator=(PackedConv2d&&) noexcept = default;

PackedConv2d::PackedConv2d(ExecContext& ctx, const Tensor& weight,
                           const Tensor& bias, std::int64_t stride,
                           const Padding& padding, DType compute) {
  check_rank("conv2d", "weight", weight, 4);
  check_dtype("conv2d", "weight", weight,
              {DType::f32, DType::bf16, DType::f16});
  if (weight.empty()) {
    throw Error(Errc::shape_mismatch, "conv2d",
                "empty weights: got " + to_string(weight.shape()) +
                    ", expected at least [1, 1, 1, 1]");
  }
  if (!bias.empty()) {
    check_shape("conv2d", "bias", bias.shape(), {weight.dim(0)});
    check_dtype("conv2d", "bias", bias, {DType::f32, DType::bf16, DType::f16});
  }
  if (stride < 1 || std::min({padding.top, padding.bottom, padding.left,
                              padding.right}) < 0) {
    throw Error(Errc::invalid_argument, "conv2d",
                "impossible geometry: got stride " + std::to_string(stride) +
                    ", padding " + to_string(padding) +
                    ", expected at least 1 and 0");
  }
  if (compute != DType::f32 && compute != DType::bf16 &&
      compute != DType::f16) {
    throw Error(Errc::invalid_argument, "conv2d",
                "wrong compute type: got " + std::string(to_string(compute)) +
                    ", expected f32 or bf16 or f16");
  }
  Impl impl{.weights = {},
            .compute = compute,
            .in_channels = weight.dim(1),
            .out_channels = weight.dim(0),
            .kernel_height = weight.dim(2),
            .kernel_width = weight.dim(3),
            .stride = stride,
            .padding = padding};
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      impl.weights = pack_on_cpu(ctx, weight, bias, stride, padding, compute);
      break;
    case DeviceKind::cuda:
      impl.weights =
          cuda::pack_conv2d(ctx, weight, bias, stride, padding, compute);
      break;
    case DeviceKind::meter:
      impl.weights = MeteredFilters{static_cast<std::size_t>(
          weight.num_elements() * static_cast<std::int64_t>(size_of(compute)) +
          bias.num_elements() * static_cast<std::int64_t>(sizeof(float)))};
      break;
  }
  impl_ = std::make_unique<Impl>(std::move(impl));
}

std::int64_t PackedConv2d::in_channels() const noexcept {
  return impl_ ? impl_->in_channels : 0;
}

std::int64_t PackedConv2d::out_channels() const noexcept {
  return impl_ ? impl_->out_channels : 0;
}

std::size_t PackedConv2d::num_bytes() const noexcept {
  if (!impl_) {
    return 0;
  }
  if (const auto* conv = std::get_if<cpu::ConvWeights>(&impl_->weights)) {
    return conv->matrix.num_bytes();
  }
  if (const auto* metered = std::get_if<MeteredFilters>(&impl_->weights)) {
    return metered->num_bytes;
  }
  const auto& conv = std::get<cuda::ConvWeights>(impl_->weights);
  return conv.filters.num_bytes() + conv.bias.num_bytes();
}

void conv2d(ExecContext& ctx, const Tensor& x, const PackedConv2d& packed,
            Tensor& out) {
  const PackedConv2d::Impl& conv = checked_weights(packed, x, out);
  check_rank("conv2d", "x", x, 4);
  check_shape("conv2d", "x", x.shape(),
              {x.dim(0), x.dim(1), x.dim(2), conv.in_channels});
  const ImagePart from = ImagePart::whole(x.dim(1), x.dim(2));
  const ImagePart to = convolved(conv, from);
  check_shape("conv2d", "out", out.shape(),
              {x.dim(0), to.height, to.width, conv.out_channels});
  Tensor pixels = as_pixels(out);
  conv2d(ctx, as_pixels(x), from, packed, pixels, to);
}

ImagePart PackedConv2d::read_for(const ImagePart& to,
                                 const ImagePart& from) const {
  const Impl& conv = *impl_;
  if (to.pixels.size() == 0) {
    return from.rows(0, 0);
  }
  if (conv.kernel_height == 1 && conv.kernel_width == 1 && conv.stride == 1 &&
      conv.padding == Padding{}) {
    return {from.height, from.width, to.pixels};
  }
  const std::int64_t first = to.pixels.begin / to.width * conv.stride;
  const std::int64_t last = (to.pixels.end - 1) / to.width * conv.stride;
  return from.rows(first - conv.padding.top,
                   last - conv.padding.top + conv.kernel_height);
}

void conv2d(ExecContext& ctx, const Tensor& x, const ImagePart& from,
            const PackedConv2d& packed, Tensor& out, const ImagePart& to) {
  check_device("conv2d", ctx.device(), {&x, &out});
  const PackedConv2d::Impl& conv = checked_weights(packed, x, out);
  check_rank("conv2d", "x", x, 3);
  check_shape("conv2d", "x", x.shape(),
              {x.dim(0), from.pixels.size(), conv.in_channels});
  check_shape("conv2d", "out", out.shape(),
              {x.dim(0), to.pixels.size(), conv.out_channels});
  check_parts("conv2d", from, packed.read_for(to, from), to,
              convolved(conv, from));
  const bool is_whole = from.is_whole() && to.is_whole();
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      if (const auto* on_cpu = std::get_if<cpu::ConvWeights>(&conv.weights)) {
        return cpu::conv2d(ctx, x, from, *on_cpu, out, to);
      }
      break;
    case DeviceKind::cuda:
      if (const auto* on_gpu = std::get_if<cuda::ConvWeights>(&conv.weights)) {
        if (!is_whole) {
          return cuda::conv2d_part(ctx, x, from, *on_gpu, out, to);
        }
        Tensor image = as_image(out, to);
        return cuda::conv2d(ctx, as_image(x, from), *on_gpu, image);
      }
      break;
    case DeviceKind::meter:
      if (std::holds_alternative<MeteredFilters>(conv.weights)) {
        return is_whole ? meter_conv2d(ctx, conv, as_image(x, from), out)
                        : meter_part(ctx, conv, x, out,
                                     conv.kernel_height *
                                         std::max(from.width, to.width));
      }
      break;
  }
  refuse_weights(ctx);
}

ImagePart read_for_upsampling(const ImagePart& to, const ImagePart& from) {
  if (to.pixels.size() == 0) {
    return from.rows(0, 0);
  }
  return from.rows(to.pixels.begin / to.width / 2,
                   (to.pixels.end - 1) / to.width / 2 + 1);
}

void upsample_nearest2x(ExecContext& ctx, const Tensor& x,
                        const ImagePart& from, Tensor& out,
                        const ImagePart& to) {
  check_device("upsample", ctx.device(), {&x, &out});
  check_rank("upsample", "x", x, 3);
  check_dtype("upsample", "out", out, {x.dtype()});
  check_shape("upsample", "x", x.shape(),
              {x.dim(0), from.pixels.size(), x.dim(2)});
  check_shape("upsample", "out", out.shape(),
              {x.dim(0), to.pixels.size(), x.dim(2)});
  const auto doubled = [](std::int64_t side, std::int64_t got) {
    return 2 * side - (side > 0 && got == 2 * side - 1 ? 1 : 0);
  };
  check_parts("upsample", from, read_for_upsampling(to, from), to,
              ImagePart::whole(doubled(from.height, to.height),
                               doubled(from.width, to.width)));
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::upsample_nearest2x(ctx, x, from, out, to);
    case DeviceKind::cuda:
      if (from.is_whole() && to.is_whole()) {
        Tensor image = as_image(out, to);
        return cuda::upsample_nearest2x(ctx, as_image(x, from), image);
      }
      return cuda::upsample_part(ctx, x, from, out, to);
    case DeviceKind::meter:
      return;
  }
}

void upsample_nearest2x(ExecContext& ctx, const Tensor& x, Tensor& out) {
  check_rank("upsample", "x", x, 4);
  check_rank("upsample", "out", out, 4);
  Tensor pixels = as_pixels(out);
  upsample_nearest2x(ctx, as_pixels(x), ImagePart::whole(x.dim(1), x.dim(2)),
                     pixels, ImagePart::whole(out.dim(1), out.dim(2)));
}

void concat_channels(ExecContext& ctx, const Tensor& a, const Tensor& b,
                     Tensor& out) {
  check_device("concat", ctx.device(), {&a, &b, &out});
  const std::size_t rank = a.shape().rank();
  require(rank > 0 && b.shape().rank() == rank, Errc::shape_mismatch, "concat",
          "b: got rank " + std::to_string(b.shape().rank()) + ", expected " +
              std::to_string(rank) + ", at least 1");
  const auto with_last = [&](std::int64_t last) {
    std::vector<std::int64_t> extents(a.shape().extents().begin(),
                                      a.shape().extents().end());
    extents.back() = last;
    return Shape(extents);
  };
  check_shape("concat", "b", b.shape(), with_last(b.dim(rank - 1)));
  check_dtype("concat", "b", b, {a.dtype()});
  check_dtype("concat", "out", out, {a.dtype()});
  check_shape("concat", "out", out.shape(),
              with_last(a.dim(rank - 1) + b.dim(rank - 1)));
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::concat_channels(ctx, a, b, out);
    case DeviceKind::cuda:
      return cuda::concat_channels(ctx, a, b, out);
    case DeviceKind::meter:
      return;
  }
}

std::size_t conv2d_thread_bytes(std::int64_t columns, DType compute) {
  return cpu::conv2d_thread_bytes(columns, compute);
}

}  // namespace troupe::kernels
