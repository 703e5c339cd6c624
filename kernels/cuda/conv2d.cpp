#include <algorithm>
#include <array>

#include "kernels/core/error.h"
#include "kernels/cpu/ops.h"
#include "kernels/cuda/aligned.cuh"
#include "kernels/cuda/dnn_problems.cuh"
#include "kernels/cuda/dnn_shards.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pad.cuh"
#include "kernels/cuda/product_check.cuh"
#include "kernels/cuda/upload.cuh"

namespace troupe::kernels::cuda {
namespace {

constexpr std::uintptr_t kConvReadBytes = 16;

/// The plans of one context.
struct ConvPlans : DnnShards<ConvProblem> {
  explicit ConvPlans(Backend& /*backend*/) : DnnShards(conv_graph) {}
};

/// What `bits` and a read have in common.
std::int64_t alignment_of(std::uintptr_t bits) {
  bits |= kConvReadBytes;
  return static_cast<std::int64_t>(bits & (~bits + 1));
}

/// How every item of a batch is aligned.
std::int64_t alignment_of(const Tensor& batch) {
  return alignment_of(reinterpret_cast<std::uintptr_t>(batch.bytes().data()) |
                      batch.num_bytes() /
                          static_cast<std::size_t>(batch.dim(0)));
}

/// The zeros that cuDNN is not asked for, because opposite sides differ.
///
/// Its graphs can name a padding before and one after each axis. Which engines
/// take unequal ones is not documented. cuDNN 9.19 does not offer them engine
/// 11, which it takes for f32 with equal padding on an A100. TensorFlow and XLA
/// (conv_padding_legalization) copy such images for cuDNN, too.
Padding own_padding(const Padding& padding) {
  const std::int64_t y = std::min(padding.top, padding.bottom);
  const std::int64_t x = std::min(padding.left, padding.right);
  return {padding.top - y, padding.bottom - y, padding.left - x,
          padding.right - x};
}

/// Of an image of these sides, which has the zeros of own_padding.
ConvProblem problem_of(std::int64_t height, std::int64_t width,
                       const ConvWeights& weights, DType out) {
  const Tensor& filters = weights.filters;
  return {.height = height,
          .width = width,
          .in_channels = filters.dim(3),
          .out_channels = filters.dim(0),
          .kernel_height = filters.dim(1),
          .kernel_width = filters.dim(2),
          .stride = weights.stride,
          .padding_y = std::min(weights.padding.top, weights.padding.bottom),
          .padding_x = std::min(weights.padding.left, weights.padding.right),
          .compute = filters.dtype(),
          .out = out};
}

/// Errors: Errc::unsupported.
[[noreturn]] void refuse(const Shape& image, const ConvWeights& weights,
                         const std::string& why) {
  throw Error(Errc::unsupported, "conv2d",
              "cuDNN cannot convolve " + to_string(image) + " by " +
                  to_string(weights.filters.shape()) + " in " +
                  std::string(to_string(weights.filters.dtype())) +
                  " on this GPU: " + why,
              "use a newer cuDNN 9, or run on the CPU (--device cpu)");
}

DnnRules rules_of(const Backend& backend, const ConvProblem& problem) {
  return {.tensor_cores =
              problem.compute != DType::f32 || backend.options().tf32};
}

DnnOperand operand(DnnId id, DnnOperand::Role role, const Tensor& tensor,
                   std::int64_t items) {
  return {.id = id,
          .role = role,
          .dtype = tensor.dtype(),
          .elements = tensor.num_elements() / items,
          // Nothing is written through an input.
          .address = const_cast<std::byte*>(tensor.bytes().data())};
}

std::array<DnnOperand, 4> operands_of(const Tensor& image,
                                      const Tensor& filters, const Tensor& bias,
                                      const Tensor& out) {
  using Role = DnnOperand::Role;
  return {operand(kFirstInput, Role::input, image, image.dim(0)),
          operand(kSecondInput, Role::shared, filters, 1),
          operand(kThirdInput, Role::shared, bias, 1),
          operand(kOutput, Role::output, out, out.dim(0))};
}

// A part of a convolution is computed as whole rows of its result: those that
// have pixels of the part. The image is then a band of rows that holds
// everything these rows read, so cuDNN pads no rows. Where the band leaves the
// image, at its true borders, it holds zeros. At an inner edge it holds the
// neighbours' rows. Both are terms of the sums as in the whole, in the same
// places, and the whole's engine and knobs add them in the same order. Columns
// are padded as in the whole: a band is as wide. What the rows have beyond the
// part is computed and left out.
//
// A convolution of single pixels without zeros has no rows: its band is one row
// of these pixels.

bool is_pointwise(const ConvWeights& weights) {
  return weights.filters.dim(1) == 1 && weights.filters.dim(2) == 1 &&
         weights.stride == 1 && weights.padding == Padding{};
}

/// The convolution of the whole, with the alignment that its operands have in
/// memory of their own.
ConvProblem whole_problem(const ImagePart& from, const ConvWeights& weights,
                          const Tensor& out) {
  const Padding own = own_padding(weights.padding);
  ConvProblem problem =
      problem_of(own.top + from.height + own.bottom,
                 own.left + from.width + own.right, weights, out.dtype());
  const auto bytes = [](std::int64_t elements, DType dtype) {
    return static_cast<std::uintptr_t>(elements) * size_of(dtype);
  };
  problem.x_alignment = alignment_of(bytes(
      problem.height * problem.width * problem.in_channels, problem.compute));
  problem.out_alignment = alignment_of(
      bytes(problem.out_height() * problem.out_width() * problem.out_channels,
            problem.out));
  return problem;
}

/// So many rows of the whole's result; of a pointwise one, so many pixels.
ConvProblem band_problem(const ConvProblem& whole, bool is_pointwise,
                         std::int64_t rows) {
  ConvProblem band = whole;
  band.padding_y = 0;
  band.height = (rows - 1) * whole.stride + whole.kernel_height;
  if (is_pointwise) {
    band.height = 1;
    band.width = rows;
  }
  return band;
}

/// Rows [first, first + rows) of an image of so many rows, of which x [1, h, W,
/// C] has those from `at` on; zeros around it. A view of x where it is aligned
/// and has no zeros, otherwise a copy in the workspace.
Tensor band_of(ExecContext& ctx, const Tensor& x, std::int64_t at,
               std::int64_t height, std::int64_t first, std::int64_t rows,
               const Padding& own, std::int64_t alignment) {
  const std::int64_t begin = std::clamp<std::int64_t>(first, 0, height);
  const std::int64_t end =
      std::clamp<std::int64_t>(first + rows, begin, height);
  const Tensor there = x.item(0).slice(begin - at, end - at);
  const Tensor image = there.reshape({1, end - begin, x.dim(2), x.dim(3)});
  const Padding zeros{begin - first, first + rows - end, own.left, own.right};
  return zeros == Padding{} &&
                 is_aligned(image, static_cast<std::size_t>(alignment))
             ? image
             : padded_copy(ctx, image, zeros);
}

/// Whether plans of a band give the bytes that those of the whole give for
/// these rows: at the begin of the image and at its end. Waits for the queue.
bool band_agrees(ExecContext& ctx, bool is_pointwise, const ConvProblem& whole,
                 DnnPlans& whole_plans, const ConvProblem& band,
                 DnnPlans& band_plans) {
  Backend& backend = Backend::of(ctx);
  const auto numbers = [&](const Shape& shape, DType dtype, float large,
                           bool cancels, std::uint32_t seed) {
    Tensor made = ctx.empty(shape, dtype);
    fill_for_sums(backend, made, shape[shape.rank() - 1], large, cancels, seed);
    return made;
  };
  // A row of a pointwise convolution is a pixel.
  const std::int64_t row_pixels = is_pointwise ? 1 : whole.width;
  const std::int64_t height = whole.height * whole.width / row_pixels;
  const Tensor image = numbers({1, height, row_pixels, whole.in_channels},
                               whole.compute, kLargeTerm, true, 1);
  const Tensor filters = numbers({whole.out_channels, whole.kernel_height,
                                  whole.kernel_width, whole.in_channels},
                                 whole.compute, 1.0F, false, 2);
  const Tensor bias = numbers({whole.out_channels}, DType::f32, 1.0F, false, 3);
  const Tensor all =
      ctx.empty({1, is_pointwise ? height : whole.out_height(),
                 is_pointwise ? 1 : whole.out_width(), whole.out_channels},
                whole.out);
  const std::int64_t rows = is_pointwise ? band.width : band.out_height();
  const Tensor part =
      ctx.empty({1, rows, all.dim(2), whole.out_channels}, whole.out);
  if (!whole_plans.run(ctx, 1, operands_of(image, filters, bias, all))) {
    return false;
  }
  const std::int64_t read = is_pointwise ? rows : band.height;
  for (const std::int64_t first : {std::int64_t{0}, all.dim(1) - rows}) {
    const Workspace::Scope scope(ctx.workspace());
    const Tensor slab =
        band_of(ctx, image, 0, height, first * whole.stride - whole.padding_y,
                read, {}, whole.x_alignment);
    if (!band_plans.run(ctx, 1, operands_of(slab, filters, bias, part)) ||
        !same_bytes(backend, part.item(0),
                    all.item(0).slice(first, first + rows))) {
      return false;
    }
  }
  return true;
}

/// The plans of a band, whose bytes are those of the whole. Errors:
/// Errc::unsupported where they are others.
DnnPlans& plans_of_band(ExecContext& ctx, const ConvWeights& weights,
                        const ConvProblem& whole, const ConvProblem& band) {
  Backend& backend = Backend::of(ctx);
  auto& known = backend.state<ConvPlans>();
  const DnnRules rules = rules_of(backend, whole);
  if (!backend.options().batch_invariant) {
    return known.of(backend, band, rules);
  }
  const bool pointwise = is_pointwise(weights);
  ConvPlans::Shard* const found =
      known.shard_of(backend, whole, band, rules, "conv2d",
                     [&](DnnPlans& whole_plans, DnnPlans& band_plans) {
                       return band_agrees(ctx, pointwise, whole, whole_plans,
                                          band, band_plans);
                     });
  if (found == nullptr) {
    refuse({whole.height, whole.width, whole.in_channels}, weights,
           known.of(backend, whole, rules).refusal());
  }
  if (!*found->agrees) {
    throw Error(Errc::unsupported, "conv2d",
                "cuDNN computes other bits for " +
                    (pointwise ? std::to_string(band.width) + " pixels"
                               : std::to_string(band.out_height()) + " rows") +
                    " alone than for all of an image of " +
                    std::to_string(whole.height) + " × " +
                    std::to_string(whole.width) + " pixels of " +
                    std::to_string(whole.in_channels) + " channels",
                "give each GPU whole items");
  }
  return found->plans;
}

}  // namespace

ConvWeights pack_conv2d(ExecContext& ctx, const Tensor& weight,
                        const Tensor& bias, std::int64_t stride,
                        const Padding& padding, DType compute) {
  weight.check_on_host("weights");
  const Tensor filters =
      upload(ctx, cpu::channels_last_weights(weight), compute);
  // Without a bias zeros are added: the same graph for all.
  const Tensor offsets =
      bias.empty() ? Tensor::zeros({weight.dim(0)}, DType::f32) : bias;
  return {.filters = filters.reshape(
              {weight.dim(0), weight.dim(2), weight.dim(3), weight.dim(1)}),
          .bias = upload(ctx, offsets, DType::f32),
          .stride = stride,
          .padding = padding};
}

void conv2d(ExecContext& ctx, const Tensor& x, const ConvWeights& weights,
            Tensor& out) {
  Backend& backend = Backend::of(ctx);
  if (out.empty()) {
    return;
  }
  const Workspace::Scope scope(ctx.workspace());
  const Padding own = own_padding(weights.padding);
  const Tensor image = own == Padding{} ? x : padded_copy(ctx, x, own);
  ConvProblem problem =
      problem_of(image.dim(1), image.dim(2), weights, out.dtype());
  problem.x_alignment = alignment_of(image);
  problem.out_alignment = alignment_of(out);
  DnnPlans& plans = backend.state<ConvPlans>().of(backend, problem,
                                                  rules_of(backend, problem));
  if (!plans.run(ctx, x.dim(0),
                 operands_of(image, weights.filters, weights.bias, out))) {
    refuse(x.shape(), weights, plans.refusal());
  }
}

void conv2d_part(ExecContext& ctx, const Tensor& x, const ImagePart& from,
                 const ConvWeights& weights, Tensor& out, const ImagePart& to) {
  Backend& backend = Backend::of(ctx);
  if (out.empty()) {
    return;
  }
  const bool pointwise = is_pointwise(weights);
  // Rows of the result, or pixels.
  const std::int64_t width = pointwise ? 1 : to.width;
  const std::int64_t first = to.pixels.begin / width;
  const std::int64_t rows = (to.pixels.end - 1) / width + 1 - first;
  const ConvProblem whole = whole_problem(from, weights, out);
  const ConvProblem band = band_problem(whole, pointwise, rows);
  DnnPlans& plans = plans_of_band(ctx, weights, whole, band);
  const std::int64_t row_pixels = pointwise ? 1 : from.width;
  // Rows that x begins and ends inside of are not read.
  const std::int64_t at = (from.pixels.begin + row_pixels - 1) / row_pixels;
  const std::int64_t end = from.pixels.end / row_pixels;
  const Padding own = own_padding(weights.padding);
  for (std::int64_t item = 0; item < x.dim(0); ++item) {
    const Workspace::Scope scope(ctx.workspace());
    const Tensor lines = x.item(item)
                             .slice(at * row_pixels - from.pixels.begin,
                                    end * row_pixels - from.pixels.begin)
                             .reshape({1, end - at, row_pixels, x.dim(2)});
    const Tensor image =
        band_of(ctx, lines, at, from.height * from.width / row_pixels,
                first * weights.stride - weights.padding.top,
                pointwise ? rows : band.height, own, whole.x_alignment);
    Tensor part = out.item(item);
    const bool is_direct =
        rows * width == to.pixels.size() &&
        is_aligned(part, static_cast<std::size_t>(whole.out_alignment));
    const Tensor made =
        is_direct
            ? part
            : ctx.workspace().take({rows * width, out.dim(2)}, out.dtype());
    const Tensor result = made.reshape({1, rows, width, out.dim(2)});
    if (!plans.run(ctx, 1,
                   operands_of(image, weights.filters, weights.bias, result))) {
      refuse({from.height, from.width, x.dim(2)}, weights, plans.refusal());
    }
    if (!is_direct) {
      const std::int64_t skipped = to.pixels.begin - first * width;
      backend.copy(made.slice(skipped, skipped + to.pixels.size()), part);
    }
  }
}

}  // namespace troupe::kernels::cuda
