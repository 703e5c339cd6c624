// Speed of the operations of DiT-XL/2, of UNets and of text encoders, against
// the best large library product of the same run, or against a copy. Prints
// ratios: absolute figures mean little on a busy machine.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/bench_cases.h"
#include "kernels/conv2d.h"
#include "kernels/cpu/onednn.h"
#include "kernels/elementwise.h"
#include "kernels/isa.h"
#include "kernels/linear.h"
#include "kernels/norm.h"

namespace troupe::kernels {
namespace {

constexpr std::int64_t kTokens = 256;
constexpr std::int64_t kWidth = 1152;
constexpr std::int64_t kHeads = 16;

Tensor filled(const Shape& shape, DType dtype) {
  Tensor tensor(shape, dtype);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    const float value = static_cast<float>(i % 61 - 30) * 0.01F;
    if (dtype == DType::bf16) {
      tensor.data<bfloat16>()[i] = bfloat16::from_float(value);
    } else {
      tensor.data<float>()[i] = value;
    }
  }
  return tensor;
}

/// Seconds of the fastest of several calls, over about half a second.
template <typename Fn>
double fastest(const Fn& fn) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  const auto begin = Clock::now();
  for (int call = 0;
       call < 5 || Clock::now() - begin < std::chrono::milliseconds(500);
       ++call) {
    const auto start = Clock::now();
    fn();
    best = std::min(
        best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

/// GFLOP/s of bare library products of one size, one per thread at once:
/// twice the rate of one thread is not what two threads can reach.
double library_rate(std::int64_t size, DType dtype, int threads) {
  ExecContext ctx(threads);
  cpu::Matmul& product = cpu::MatmulCache::of(ctx).get(
      {.m = size, .n = size, .k = size, .dtype = dtype});
  const Tensor a = filled({size, size}, dtype);
  Tensor out({threads, size, size}, DType::f32);
  dnnl::memory b(cpu::packed_weights(size, size, dtype), cpu::engine());
  std::memset(b.get_data_handle(), 0, b.get_desc().get_size());
  for (int thread = 0; thread < threads; ++thread) {
    (void)ctx.scratch(thread, product.scratch_bytes());
  }
  const double seconds = fastest([&] {
    ctx.pool().run(threads, [&](std::int64_t piece, int thread) {
      product.run(thread, a.bytes().data(), b,
                  out.data<float>() + piece * size * size,
                  ctx.scratch(thread, product.scratch_bytes()));
    });
  });
  const auto n = static_cast<double>(size);
  const double rate = threads * 2 * n * n * n / seconds / 1e9;
  std::printf("  library %s %4lld³ x %d %-24s %8.1f GFLOP/s\n",
              std::string(to_string(dtype)).c_str(),
              static_cast<long long>(size), threads, product.implementation(),
              rate);
  return rate;
}

/// The best over the large products. 512³ is printed, too, but does not count:
/// its operands stay in a core's L2, unlike the operands of real layers.
double library_rate(DType dtype, int threads) {
  (void)library_rate(512, dtype, threads);
  return std::max(library_rate(1024, dtype, threads),
                  library_rate(2048, dtype, threads));
}

/// `work` in floating-point operations, `best` in GFLOP/s.
void print_rate(const char* name, double work, double seconds, double best) {
  const double rate = work / seconds / 1e9;
  std::printf("  %-26s %9.1f us %8.1f GFLOP/s  %5.1f %% of the library\n", name,
              seconds * 1e6, rate, rate / best * 100);
}

/// The operations of one DiT block, with their operands.
class Block {
 public:
  Block(std::int64_t items, DType dtype, ExecContext& ctx)
      : items_(items),
        x_(filled({items, kTokens, kWidth}, dtype)),
        wide_(filled({items, kTokens, 4 * kWidth}, dtype)),
        qkv_out_({items, kTokens, 3 * kWidth}, dtype),
        attended_({items, kTokens, kWidth}, dtype),
        residual_(filled({items, kTokens, kWidth}, DType::f32)),
        modulation_(filled({items, 6 * kWidth}, DType::f32)),
        embedding_(filled({items, 1, kWidth}, dtype)),
        modulation_out_({items, 1, 6 * kWidth}, DType::f32),
        qkv_(weights(ctx, 3 * kWidth, kWidth, dtype)),
        projection_(weights(ctx, kWidth, kWidth, dtype)),
        up_(weights(ctx, 4 * kWidth, kWidth, dtype)),
        down_(weights(ctx, kWidth, 4 * kWidth, dtype)),
        ada_(weights(ctx, 6 * kWidth, kWidth, dtype)) {}

  void modulate(ExecContext& ctx) {
    linear(ctx, embedding_, ada_, Activation::none, modulation_out_);
  }
  void norm(ExecContext& ctx) {
    layer_norm_modulate(ctx, residual_, modulation_, 0, kWidth, 1e-6F, x_);
  }
  void qkv(ExecContext& ctx) {
    linear(ctx, x_, qkv_, Activation::none, qkv_out_);
  }
  void attend(ExecContext& ctx) {
    attention(ctx, {qkv_out_, 0}, {qkv_out_, kWidth}, {qkv_out_, 2 * kWidth},
              kHeads, kWidth / kHeads, attended_);
  }
  void project(ExecContext& ctx) {
    linear_add_gated(ctx, attended_, projection_, modulation_, 2 * kWidth,
                     residual_);
  }
  void up(ExecContext& ctx) {
    linear(ctx, x_, up_, Activation::gelu_tanh, wide_);
  }
  void down(ExecContext& ctx) {
    linear_add_gated(ctx, wide_, down_, modulation_, 5 * kWidth, residual_);
  }
  void all(ExecContext& ctx) {
    modulate(ctx);
    norm(ctx);
    qkv(ctx);
    attend(ctx);
    project(ctx);
    norm(ctx);
    up(ctx);
    down(ctx);
  }

  /// Floating-point operations of a linear layer with `n` × `k` weights.
  [[nodiscard]] double linear_work(double n, double k) const {
    return 2.0 * static_cast<double>(items_ * kTokens) * n * k;
  }
  [[nodiscard]] double attention_work() const {
    return 4.0 * static_cast<double>(items_ * kTokens * kTokens * kWidth);
  }
  [[nodiscard]] double modulation_bytes() const {
    return static_cast<double>(ada_.num_bytes());
  }

 private:
  static PackedLinear weights(ExecContext& ctx, std::int64_t n, std::int64_t k,
                              DType dtype) {
    return {ctx, filled({n, k}, dtype), filled({n}, DType::f32), dtype};
  }

  std::int64_t items_;
  Tensor x_, wide_, qkv_out_, attended_, residual_, modulation_, embedding_,
      modulation_out_;
  PackedLinear qkv_, projection_, up_, down_, ada_;
};

void bench_block(DType dtype, int threads, std::int64_t items, double best) {
  ExecContext ctx(threads);
  Block block(items, dtype, ctx);
  std::printf("DiT-XL/2 block, %s, %lld × 256 tokens, %d thread(s)\n",
              std::string(to_string(dtype)).c_str(),
              static_cast<long long>(items), threads);
  const auto report = [&](const char* name, double work, double seconds) {
    print_rate(name, work, seconds, best);
  };
  constexpr auto kD = static_cast<double>(kWidth);
  report("qkv", block.linear_work(3 * kD, kD),
         fastest([&] { block.qkv(ctx); }));
  report("attention", block.attention_work(),
         fastest([&] { block.attend(ctx); }));
  report("projection + gate", block.linear_work(kD, kD),
         fastest([&] { block.project(ctx); }));
  report("up + gelu", block.linear_work(4 * kD, kD),
         fastest([&] { block.up(ctx); }));
  report("down + gate", block.linear_work(kD, 4 * kD),
         fastest([&] { block.down(ctx); }));
  const double modulate = fastest([&] { block.modulate(ctx); });
  std::printf("  %-26s %9.1f us %8.1f GB/s of weights\n", "modulation (M = 1)",
              modulate * 1e6, block.modulation_bytes() / modulate / 1e9);
  std::printf("  %-26s %9.1f us\n", "layer norm + modulate",
              fastest([&] { block.norm(ctx); }) * 1e6);
  report("whole block", block.linear_work(12 * kD, kD) + block.attention_work(),
         fastest([&] { block.all(ctx); }));
}

void bench_masked_attention(DType dtype, int threads, double best) {
  ExecContext ctx(threads);
  std::printf("Attention, %s, 1 item, %d thread(s)\n",
              std::string(to_string(dtype)).c_str(), threads);
  for (const AttentionCase& c : kAttentionCases) {
    const Tensor q = filled({1, c.queries, c.width()}, dtype);
    const Tensor k = filled({1, c.keys, c.width()}, dtype);
    const Tensor v = filled({1, c.keys, c.width()}, dtype);
    const Tensor bias = c.has_bias
                            ? filled({c.heads, c.queries, c.keys}, DType::f32)
                            : Tensor();
    Tensor out({1, c.queries, c.width()}, dtype);
    const AttentionMask mask{
        .causal = c.causal, .key_lengths = {&c.length, 1}, .bias = bias};
    const double seconds = fastest([&] {
      attention(ctx, {q}, {k}, {v}, c.heads, c.head_dim, out, {}, mask);
    });
    print_rate(c.name, c.flops(), seconds, best);
  }
}

void bench_conv2d(DType dtype, int threads, double best) {
  ExecContext ctx(threads);
  std::printf("Convolution 3 x 3, %s, 1 item, %d thread(s)\n",
              std::string(to_string(dtype)).c_str(), threads);
  for (const ConvCase& c : kConvCases) {
    const Tensor x = filled(c.in_shape(), dtype);
    Tensor out(c.out_shape(), dtype);
    const PackedConv2d packed(ctx, filled({c.out, c.in, 3, 3}, dtype),
                              filled({c.out}, DType::f32), c.stride,
                              Padding::all(1), dtype);
    print_rate(c.name, c.flops(), fastest([&] { conv2d(ctx, x, packed, out); }),
               best);
  }
}

/// Bytes per second of a copy of 36 MiB.
double copy_rate() {
  const Tensor from = filled({2, 4096, kWidth}, DType::f32);
  Tensor to(from.shape(), DType::f32);
  return 2 * static_cast<double>(from.num_bytes()) / fastest([&] {
           std::memcpy(to.bytes().data(), from.bytes().data(),
                       from.num_bytes());
         });
}

/// Smaller operands may stay in a cache, so more than the copy is no mistake.
void bench_between_products(DType dtype, int threads) {
  ExecContext ctx(threads);
  const double copy = copy_rate();
  std::printf("Between products, %s, 1 item, %d thread(s); copy %.1f GB/s\n",
              std::string(to_string(dtype)).c_str(), threads, copy / 1e9);
  for (const BetweenCase& c : kBetweenCases) {
    const Tensor x = filled(c.in_shape(), dtype);
    const Tensor weights = filled({c.in}, DType::f32);
    Tensor result(c.out_shape(), dtype);
    const double seconds = fastest([&] { c.run(ctx, x, weights, result); });
    const double rate =
        static_cast<double>(x.num_bytes() + result.num_bytes()) / seconds;
    std::printf("  %-26s %9.1f us %8.1f GB/s  %5.1f %% of copy\n", c.name,
                seconds * 1e6, rate / 1e9, rate / copy * 100);
  }
}

void bench_elementwise(int threads) {
  ExecContext ctx(threads);
  const Shape shape{2, 4096, kWidth};
  const Tensor modulation = filled({2, kWidth}, DType::f32);
  const Tensor y = filled(shape, DType::f32);
  Tensor x = filled(shape, DType::f32);
  Tensor narrow(shape, DType::bf16);
  const auto bytes = static_cast<double>(x.num_bytes());
  const double copy = copy_rate();
  std::printf("Element-wise, 2 × 4096 × 1152, %d thread(s); copy %.1f GB/s\n",
              threads, copy / 1e9);
  const auto report = [&](const char* name, double moved, double seconds) {
    std::printf("  %-26s %8.1f GB/s  %5.1f %% of copy\n", name,
                moved / seconds / 1e9, moved / seconds / copy * 100);
  };
  report("add_gated", 3 * bytes,
         fastest([&] { add_gated(ctx, modulation, 0, y, x); }));
  report("convert to bf16", 1.5 * bytes,
         fastest([&] { convert(ctx, y, narrow); }));
  report("gelu_tanh", 2 * bytes,
         fastest([&] { activate(ctx, y, Activation::gelu_tanh, x); }));
  const Tensor weight = filled({kWidth}, DType::f32);
  report("layer_norm", 2 * bytes,
         fastest([&] { layer_norm(ctx, y, weight, weight, 1e-5F, x); }));
  report("rms_norm to bf16", 1.5 * bytes,
         fastest([&] { rms_norm(ctx, y, weight, 1e-6F, narrow); }));
  report("add_channels", 2 * bytes,
         fastest([&] { add_channels(ctx, modulation, 0, x); }));
  Tensor both({x.dim(0), x.dim(1), 2 * kWidth}, DType::f32);
  report("concat_channels", 4 * bytes,
         fastest([&] { concat_channels(ctx, x, y, both); }));
  const Term terms[] = {{0.5, &y}, {0.25, &x}};
  report("combine, 2 terms", 3 * bytes,
         fastest([&] { combine(ctx, terms, x); }));
}

void run() {
  std::printf("instruction set: %s\n", cpu_isa());
  for (const DType dtype : {DType::bf16, DType::f32}) {
    if (!supports(dtype)) {
      continue;
    }
    for (const int threads : {1, 2}) {
      const double rate = library_rate(dtype, threads);
      for (const std::int64_t items : {1, 2}) {
        bench_block(dtype, threads, items, rate);
      }
      bench_masked_attention(dtype, threads, rate);
      bench_conv2d(dtype, threads, rate);
      bench_between_products(dtype, threads);
    }
  }
  bench_elementwise(1);
  bench_elementwise(2);
}

}  // namespace
}  // namespace troupe::kernels

int main() {
  try {
    troupe::use_one_openmp_thread();
    troupe::kernels::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_kernels: %s\n", error.what());
    return 1;
  }
}
