// Times operations on a GPU, for scripts/gpu_check.sh. Prints one JSON line per
// case: median milliseconds, and GB/s (bytes read and written) or TFLOP/s.
//   gpu_probe [cuda:N [invariant|free [SCALE [CASE]]]]
// SCALE shrinks every case (a tenth of the rows at 0.1); CASE names one. The
// peers' times of the same cases: scripts/bench/pytorch_gpu.py.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "config/bundled_models.h"
#include "kernels/attention.h"
#include "kernels/copy.h"
#include "kernels/core/context.h"
#include "kernels/core/error.h"
#include "kernels/core/noise.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/residual_stream.h"
#include "kernels/rope.h"
#include "models/files/weight_source.h"
#include "models/vae/autoencoder_kl.h"
#include "tests/probes/gpu_bench.h"

namespace {

using namespace troupe;  // NOLINT(google-build-using-namespace)
using kernels::Activation;

/// Own kernels on tensors of at least 256 MiB, beside a plain copy.
void bandwidth(Bench& bench) {
  ExecContext& ctx = bench.ctx;
  const std::int64_t rows = bench.scaled(65536);
  constexpr std::int64_t kWidth = 1152;
  Tensor x = bench.random({1, rows, kWidth}, DType::f32);  // 302 MB
  Tensor out_f32 = ctx.empty(x.shape(), DType::f32);
  Tensor y = bench.random(x.shape(), DType::bf16);
  Tensor out = ctx.empty(x.shape(), DType::bf16);
  const Tensor modulation = bench.random({1, 6 * kWidth}, DType::f32);
  if (bench.wants("copy")) {
    bench.print_bytes("copy", 2 * bytes_of(x),
                      [&] { kernels::copy(ctx, x, out_f32); });
  }
  if (bench.wants("adaln")) {
    bench.print_bytes("adaln", bytes_of(x) + bytes_of(out), [&] {
      kernels::layer_norm_modulate(ctx, x, modulation, 0, kWidth, 1e-6F, out);
    });
  }
  if (bench.wants("gate-residual")) {
    bench.print_bytes("gate-residual", 2 * bytes_of(x) + bytes_of(y), [&] {
      kernels::add_gated(ctx, modulation, 2 * kWidth, y, x);
    });
  }
  if (bench.wants("gate-residual-adaln")) {
    bench.print_bytes("gate-residual-adaln",
                      2 * bytes_of(x) + bytes_of(y) + bytes_of(out), [&] {
                        kernels::add_layer_norm_modulate(
                            ctx, modulation, 2 * kWidth, y, 3 * kWidth,
                            4 * kWidth, 1e-6F, x, out);
                      });
  }
  const Tensor weight = bench.random({kWidth}, DType::f32);
  if (bench.wants("layer-norm")) {
    bench.print_bytes("layer-norm", bytes_of(x) + bytes_of(out), [&] {
      kernels::layer_norm(ctx, x, weight, weight, 1e-5F, out);
    });
  }
  if (bench.wants("rms-norm")) {
    bench.print_bytes("rms-norm", bytes_of(x) + bytes_of(out),
                      [&] { kernels::rms_norm(ctx, x, weight, 1e-6F, out); });
  }
  if (bench.wants("qk-norm-rope")) {
    const std::int64_t tokens = bench.scaled(46080);
    Tensor q = bench.random({1, tokens, 3072}, DType::bf16);  // 283 MB
    const Tensor of_head = bench.random({128}, DType::f32);
    const Tensor cosines = bench.random({tokens, 64}, DType::f32);
    const Tensor sines = bench.random({tokens, 64}, DType::f32);
    kernels::HeadsView view{q, 0};
    bench.print_bytes("qk-norm-rope", 2 * bytes_of(q) + 2 * bytes_of(cosines),
                      [&] {
                        kernels::rms_norm_rope(ctx, of_head, cosines, sines, 24,
                                               128, 1e-6F, view);
                      });
  }
}

/// The bf16 matrix rate that shares are taken of: one large product.
void matmul(Bench& bench) {
  if (!bench.wants("matmul")) {
    return;
  }
  const std::int64_t n = bench.scaled(8192);
  Tensor weight(Shape{n, n}, DType::f32);
  fill_normal({.seed = 7}, weight);
  const kernels::PackedLinear packed(bench.ctx, weight, {}, DType::bf16);
  const Tensor x = bench.random({1, n, n}, DType::bf16);
  Tensor out = bench.ctx.empty({1, n, n}, DType::bf16);
  bench.print_flops(
      "matmul", 2.0 * static_cast<double>(n * n) * static_cast<double>(n),
      [&] { kernels::linear(bench.ctx, x, packed, Activation::none, out); });
}

/// Blocks of FLUX's widths: adaLN, QK norm and rotary embedding, attention,
/// MLP; the residual stream is f32.
class FluxStack {
 public:
  static constexpr std::int64_t kWidth = 3072;
  static constexpr std::int64_t kHeads = 24;
  static constexpr std::int64_t kHeadDim = kWidth / kHeads;
  static constexpr int kBlocks = 8;

  FluxStack(Bench& bench, std::int64_t tokens)
      : ctx_(bench.ctx),
        tokens_(tokens),
        x_(bench.random({1, tokens, kWidth}, DType::f32)),
        modulation_(bench.random({1, 6 * kWidth}, DType::f32)),
        cosines_(bench.random({tokens, kHeadDim / 2}, DType::f32)),
        sines_(bench.random({tokens, kHeadDim / 2}, DType::f32)),
        norm_weight_(bench.random({kHeadDim}, DType::f32)),
        normed_(ctx_.empty({1, tokens, kWidth}, DType::bf16)),
        qkv_(ctx_.empty({1, tokens, 3 * kWidth}, DType::bf16)),
        mlp_(ctx_.empty({1, tokens, 4 * kWidth}, DType::bf16)) {
    for (int i = 0; i < kBlocks; ++i) {
      blocks_.push_back({weights(3 * kWidth, kWidth), weights(kWidth, kWidth),
                         weights(4 * kWidth, kWidth),
                         weights(kWidth, 4 * kWidth)});
    }
  }

  [[nodiscard]] double flops() const {
    const auto d = static_cast<double>(kWidth);
    const auto n = static_cast<double>(tokens_);
    return kBlocks * (2.0 * n * d * d * 12.0 + 4.0 * n * n * d);
  }

  void operator()() {
    ctx_.replay(identity_, {}, [this] {
      const Workspace::Scope scope(ctx_.workspace());
      kernels::ResidualStream stream(ctx_, x_, modulation_);
      for (const Block& block : blocks_) {
        run(block, stream);
      }
      stream.settle(ctx_);
    });
  }

 private:
  struct Block {
    kernels::PackedLinear qkv, out, up, down;
  };

  [[nodiscard]] kernels::PackedLinear weights(std::int64_t out,
                                              std::int64_t in) {
    Tensor weight(Shape{out, in}, DType::f32);
    fill_normal({.seed = ++seed_}, weight);
    for (float& value : weight.span<float>()) {
      value *= 0.01F;
    }
    return {ctx_, weight, Tensor::zeros({out}, DType::f32), DType::bf16};
  }

  void run(const Block& block, kernels::ResidualStream& stream) {
    stream.layer_norm_modulate(ctx_, 0, kWidth, 1e-6F, normed_);
    kernels::linear(ctx_, normed_, block.qkv, Activation::none, qkv_);
    for (const std::int64_t column : {std::int64_t{0}, kWidth}) {
      kernels::HeadsView view{qkv_, column};
      kernels::rms_norm_rope(ctx_, norm_weight_, cosines_, sines_, kHeads,
                             kHeadDim, 1e-6F, view);
    }
    kernels::attention(ctx_, {qkv_, 0}, {qkv_, kWidth}, {qkv_, 2 * kWidth},
                       kHeads, kHeadDim, normed_);
    stream.add_gated_linear(ctx_, normed_, block.out, 2 * kWidth);
    stream.layer_norm_modulate(ctx_, 3 * kWidth, 4 * kWidth, 1e-6F, normed_);
    kernels::linear(ctx_, normed_, block.up, Activation::gelu_tanh, mlp_);
    stream.add_gated_linear(ctx_, mlp_, block.down, 5 * kWidth);
  }

  ExecContext& ctx_;
  std::int64_t tokens_;
  Tensor x_, modulation_, cosines_, sines_, norm_weight_;
  Tensor normed_, qkv_, mlp_;
  std::vector<Block> blocks_;
  std::uint64_t seed_ = 100;
  std::shared_ptr<const int> identity_ = std::make_shared<const int>(0);
};

void flux_stack(Bench& bench) {
  if (bench.wants("flux-stack")) {
    FluxStack stack(bench, bench.scaled(4608));
    bench.print_flops("flux-stack", stack.flops(), [&] { stack(); });
  }
}

/// A picture of 512² by Stable Diffusion's decoder with random weights.
void vae(Bench& bench) {
  if (!bench.wants("vae-512")) {
    return;
  }
  const models::AutoencoderKlConfig config =
      models::parse_autoencoder_kl_config(models::Json::parse(
          config::find_bundled_model("dit-xl-2-256").vae, "vae"));
  models::RandomWeights source(bench.ctx, 0);
  const models::AutoencoderKl decoder(bench.ctx, config, DType::bf16, source);
  const std::int64_t side = bench.scaled(64);
  const Tensor latents = bench.random({4, side, side}, DType::f32);
  Tensor picture = bench.ctx.empty({3, 8 * side, 8 * side}, DType::f32);
  bench.print_flops(
      "vae-512",
      models::autoencoder_kl_costs(config, DType::bf16, side, side).flops,
      [&] { decoder.decode(bench.ctx, latents, picture); });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string device = argc > 1 ? argv[1] : "cuda:0";
    const DeviceOptions options{
        .batch_invariant = argc <= 2 || std::string(argv[2]) != "free"};
    ExecContext ctx(1, Device{DeviceKind::cuda, std::atoi(device.c_str() + 5)},
                    options);
    Bench bench{.ctx = ctx,
                .scale = argc > 3 ? std::atof(argv[3]) : 1.0,
                .only = argc > 4 ? argv[4] : ""};
    bandwidth(bench);
    matmul(bench);
    bench_prompted(bench);
    flux_stack(bench);
    vae(bench);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "gpu_probe: %s\n", error.what());
    return exit_code(error.code());
  }
}
