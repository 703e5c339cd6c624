#include "kernels/cuda/dnn_problems.cuh"

namespace troupe::kernels::cuda {
namespace {

/// Heads of `head_dim` columns inside rows of `row` elements.
DnnTensor heads(DnnId id, const AttentionProblem& problem, std::int64_t items,
                std::int64_t tokens, std::int64_t row) {
  return {.id = id,
          .dtype = problem.dtype,
          .dims = {items, problem.num_heads, tokens, problem.head_dim},
          .strides = {tokens * row, problem.head_dim, row, 1}};
}

/// Axes as the library names them (N, C, H, W), channels last in memory.
DnnTensor channels_last(std::int64_t id, DType dtype, std::int64_t items,
                        std::int64_t height, std::int64_t width,
                        std::int64_t channels) {
  return {
      .id = id,
      .dtype = dtype,
      .dims = {items, channels, height, width},
      .strides = {height * width * channels, 1, width * channels, channels}};
}

}  // namespace

DnnGraph attention_graph(const DnnTarget& target,
                         const AttentionProblem& problem, std::int64_t items) {
  const DnnTensor scale{.id = kScale,
                        .dtype = DType::f32,
                        .dims = {1, 1, 1, 1},
                        .strides = {1, 1, 1, 1},
                        .alignment = sizeof(float),
                        .kind = DnnTensor::Kind::number};
  DnnGraph graph(target);
  graph.attend(
      heads(kFirstInput, problem, items, problem.queries, problem.q_row),
      heads(kSecondInput, problem, items, problem.keys, problem.k_row),
      heads(kThirdInput, problem, items, problem.keys, problem.v_row), scale,
      heads(kOutput, problem, items, problem.queries, problem.out_row));
  return graph;
}

DnnGraph conv_graph(const DnnTarget& target, const ConvProblem& problem,
                    std::int64_t items) {
  DnnTensor x =
      channels_last(kFirstInput, problem.compute, items, problem.height,
                    problem.width, problem.in_channels);
  x.alignment = problem.x_alignment;
  const DnnTensor filters = channels_last(
      kSecondInput, problem.compute, problem.out_channels,
      problem.kernel_height, problem.kernel_width, problem.in_channels);
  const DnnTensor bias =
      channels_last(kThirdInput, DType::f32, 1, 1, 1, problem.out_channels);
  DnnTensor out =
      channels_last(kOutput, problem.out, items, problem.out_height(),
                    problem.out_width(), problem.out_channels);
  DnnTensor sums = out;
  sums.id = kBetween;
  sums.dtype = DType::f32;
  sums.kind = DnnTensor::Kind::between;
  DnnTensor biased = sums;
  biased.id = kBetween + 1;
  out.alignment = problem.out_alignment;

  DnnGraph graph(target);
  graph.convolve(x, filters, sums, problem.stride, problem.padding_y,
                 problem.padding_x);
  if (problem.out == problem.compute) {
    graph.add(sums, bias, out);
    return graph;
  }
  // Between types the library (9.19) takes "convolution, bias" for one of its
  // fixed patterns, which want equal types, and refuses. With a conversion
  // behind the bias, the library compiles the graph as written.
  graph.add(sums, bias, biased);
  graph.convert(biased, out);
  return graph;
}

}  // namespace troupe::kernels::cuda
