#pragma once

#include <compare>
#include <cstdint>

#include "kernels/cuda/dnn_graph.cuh"

// The graphs that Troupe gives to cuDNN, for `items` items of a batch that lie
// one after the other. A problem describes one item, which decides the bits.

namespace troupe::kernels::cuda {

/// Names of the tensors in a plan; addresses are bound to them.
enum DnnId : std::int64_t {
  kFirstInput = 1,   ///< q, or the image
  kSecondInput = 2,  ///< k, or the filters
  kThirdInput = 3,   ///< v, or the bias
  kScale = 4,
  kOutput = 5,
  kBetween = 6,  ///< 6 and above: results between operations, never bound
};

/// Attention of one item whose heads lie inside wider rows. All elements of one
/// type, bf16 or f16.
struct AttentionProblem {
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t q_row = 0;  ///< elements from one row of q to the next
  std::int64_t k_row = 0;
  std::int64_t v_row = 0;
  std::int64_t out_row = 0;
  DType dtype = DType::bf16;

  auto operator<=>(const AttentionProblem&) const = default;
};

/// Errors: Errc::unsupported.
[[nodiscard]] DnnGraph attention_graph(const DnnTarget& target,
                                       const AttentionProblem& problem,
                                       std::int64_t items);

/// A convolution over one image, channels last, with an f32 bias.
struct ConvProblem {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t kernel_height = 0;
  std::int64_t kernel_width = 0;
  std::int64_t stride = 1;
  std::int64_t padding_y = 0;  ///< rows above, and as many below
  std::int64_t padding_x = 0;  ///< columns on the left, and on the right
  DType compute = DType::f32;  ///< of images and filters
  DType out = DType::f32;      ///< f32 or the compute type
  std::int64_t x_alignment = 16;
  std::int64_t out_alignment = 16;

  [[nodiscard]] std::int64_t out_height() const {
    return (height + 2 * padding_y - kernel_height) / stride + 1;
  }
  [[nodiscard]] std::int64_t out_width() const {
    return (width + 2 * padding_x - kernel_width) / stride + 1;
  }
  auto operator<=>(const ConvProblem&) const = default;
};

/// x [items, H, W, I], filters [O, kh, kw, I], bias [O],
/// out [items, H', W', O]. Errors: Errc::unsupported.
[[nodiscard]] DnnGraph conv_graph(const DnnTarget& target,
                                  const ConvProblem& problem,
                                  std::int64_t items);

}  // namespace troupe::kernels::cuda
