#include "kernels/attention.h"
#include "kernels/bench_cases.h"
#include "tests/probes/gpu_bench.h"

// The smallest of these take about as long as a launch.
namespace troupe {
namespace {

using kernels::AttentionCase;
using kernels::BetweenCase;
using kernels::ConvCase;

void attention(Bench& bench, AttentionCase c) {
  c.queries = bench.scaled(c.queries);
  c.keys = bench.scaled(c.keys);
  c.length = bench.scaled(c.length);
  const Tensor q = bench.random({1, c.queries, c.width()}, DType::bf16);
  const Tensor k = bench.random({1, c.keys, c.width()}, DType::bf16);
  const Tensor v = bench.random({1, c.keys, c.width()}, DType::bf16);
  Tensor bias;
  if (c.has_bias) {
    bias = bench.random({c.heads, c.queries, c.keys}, DType::f32);
  }
  Tensor out = bench.ctx.empty(q.shape(), DType::bf16);
  const kernels::AttentionMask mask{
      .causal = c.causal, .key_lengths = {&c.length, 1}, .bias = bias};
  bench.print_flops(c.name, c.flops(), [&] {
    kernels::attention(bench.ctx, {q}, {k}, {v}, c.heads, c.head_dim, out, {},
                       mask);
  });
}

void convolution(Bench& bench, ConvCase c) {
  c.height = c.stride * bench.scaled(c.height / c.stride);
  Tensor weight(Shape{c.out, c.in, 3, 3}, DType::f32);
  fill_normal({.seed = 7}, weight);
  Tensor bias(Shape{c.out}, DType::f32);
  fill_normal({.seed = 8}, bias);
  const kernels::PackedConv2d packed(bench.ctx, weight, bias, c.stride,
                                     kernels::Padding::all(1), DType::bf16);
  const Tensor x = bench.random(c.in_shape(), DType::bf16);
  Tensor out = bench.ctx.empty(c.out_shape(), DType::bf16);
  bench.print_flops(c.name, c.flops(),
                    [&] { kernels::conv2d(bench.ctx, x, packed, out); });
}

void between(Bench& bench, BetweenCase c) {
  c.height = bench.scaled(c.height);
  const Tensor x = bench.random(c.in_shape(), DType::bf16);
  const Tensor weights = bench.random({c.in}, DType::f32);
  Tensor out = bench.ctx.empty(c.out_shape(), DType::bf16);
  bench.print_bytes(c.name, bytes_of(x) + bytes_of(out),
                    [&] { c.run(bench.ctx, x, weights, out); });
}

/// Those of `cases` that were asked for.
template <typename Cases, typename Run>
void each(Bench& bench, const Cases& cases, const Run& run) {
  for (const auto& c : cases) {
    if (bench.wants(c.name)) {
      run(bench, c);
    }
  }
}

}  // namespace

void bench_prompted(Bench& bench) {
  each(bench, kernels::kAttentionCases, attention);
  each(bench, kernels::kConvCases, convolution);
  each(bench, kernels::kBetweenCases, between);
}

}  // namespace troupe
