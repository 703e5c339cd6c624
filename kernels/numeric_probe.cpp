#include "kernels/numeric_probe.h"

#include <array>
#include <cmath>
#include <exception>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/conv2d.h"
#include "kernels/copy.h"
#include "kernels/core/context.h"
#include "kernels/core/hash.h"
#include "kernels/core/pool.h"
#include "kernels/core/varied.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/rope.h"

namespace troupe::kernels {
namespace {

// The seed is part of every execution class: a change makes new classes.
constexpr std::uint64_t kSeed = 0x70726f6265;  // "probe"

class Probe {
 public:
  Probe(ExecContext& ctx, DType compute) : ctx_(ctx), compute_(compute) {}

  std::uint64_t run() {
    products();
    attend();
    attend_masked();
    convolve();
    normalise();
    activate_all();
    rotate();
    if (ctx_.device().kind == DeviceKind::cpu) {
      make_tables();
      call_library();
    }
    return hash_.digest();
  }

 private:
  /// Other numbers each time, on the host.
  Tensor drawn(const Shape& shape) {
    Tensor tensor(shape, DType::f32);
    fill_varied(kSeed + draws_++, tensor);
    return tensor;
  }
  /// The numbers on the device of the computation.
  Tensor operand(const Shape& shape) { return on_device(ctx_, drawn(shape)); }
  Tensor operand(const Shape& shape, DType dtype) {
    return converted(operand(shape), dtype);
  }
  Tensor converted(const Tensor& numbers, DType dtype) {
    Tensor tensor = ctx_.empty(numbers.shape(), dtype);
    convert(ctx_, numbers, tensor);
    return tensor;
  }
  void take(const Tensor& result) {
    hash_.update(on_host(ctx_, result).bytes());
  }

  /// One row, a part of a block, several blocks; sides that the tile unit takes
  /// and sides that it does not.
  void products() {
    struct Side {
      std::int64_t in;
      std::int64_t out;
    };
    for (const Side side : {Side{192, 576}, Side{70, 33}, Side{768, 192}}) {
      const PackedLinear packed(ctx_, drawn({side.out, side.in}),
                                drawn({side.out}), compute_);
      for (const std::int64_t rows : {1, 64, 77, 256}) {
        Tensor out = ctx_.empty({1, rows, side.out}, DType::f32);
        linear(ctx_, operand({1, rows, side.in}, compute_), packed,
               Activation::gelu_tanh, out);
        take(out);
      }
    }
  }

  void attend() {
    struct Heads {
      std::int64_t count;
      std::int64_t width;
      std::int64_t tokens;
    };
    for (const Heads heads : {Heads{3, 64, 256}, Heads{2, 72, 77}}) {
      const std::int64_t columns = heads.count * heads.width;
      const Tensor qkv = operand({1, heads.tokens, 3 * columns}, compute_);
      Tensor out = ctx_.empty({1, heads.tokens, columns}, compute_);
      attention(ctx_, {qkv, 0}, {qkv, columns}, {qkv, 2 * columns}, heads.count,
                heads.width, out);
      take(out);
    }
  }

  /// As CLIP (causal), T5 (a bias, another scale) and a cross attention (keys
  /// that count) do.
  void attend_masked() {
    constexpr std::int64_t kTokens = 77;
    constexpr std::int64_t kHeads = 2;
    constexpr std::int64_t kColumns = kHeads * 64;
    constexpr std::array<std::int64_t, 1> kLengths = {41};
    const Tensor qkv = operand({1, kTokens, 3 * kColumns}, compute_);
    for (const AttentionMask& mask :
         {AttentionMask{.causal = true},
          AttentionMask{.scale = 1.0F,
          .bias = operand({kHeads, kTokens, kTokens})},
          AttentionMask{.key_lengths = kLengths}}) {
      Tensor out = ctx_.empty({1, kTokens, kColumns}, compute_);
      attention(ctx_, {qkv, 0}, {qkv, kColumns}, {qkv, 2 * kColumns}, kHeads,
                64, out, {}, mask);
      take(out);
    }
  }

  void convolve() {
    for (const std::int64_t channels : {32, 6}) {
      const PackedConv2d packed(ctx_, drawn({channels, channels, 3, 3}),
                                drawn({channels}), 1, Padding::all(1),
                                compute_);
      Tensor out = ctx_.empty({1, 13, 16, channels}, compute_);
      conv2d(ctx_, operand({1, 13, 16, channels}, compute_), packed, out);
      take(out);
    }
  }

  void normalise() {
    constexpr std::int64_t kWidth = 197;  // no multiple of a vector
    constexpr float kEps = 1e-6F;
    const Tensor x = operand({2, 5, kWidth});
    Tensor out = ctx_.empty({2, 5, kWidth}, DType::f32);
    layer_norm_modulate(ctx_, x, operand({2, 2 * kWidth}), 0, kWidth, kEps,
                        out);
    take(out);
    layer_norm(ctx_, x, operand({kWidth}), operand({kWidth}), kEps, out);
    take(out);
    rms_norm(ctx_, x, operand({kWidth}), kEps, out);
    take(out);
    Tensor narrow = ctx_.empty(x.shape(), compute_);
    rms_norm(ctx_, x, operand({kWidth}), kEps, narrow);
    take(narrow);
    Tensor pixels = ctx_.empty({1, 7, 9, 32}, DType::f32);
    group_norm(ctx_, operand(pixels.shape()), operand({32}), operand({32}), 8,
               kEps, Activation::silu, pixels);
    take(pixels);
  }

  void activate_all() {
    Tensor wide = drawn({1031});
    for (float& value : wide.span<float>()) {
      value *= 4.0F;  // to where they are nearly flat
    }
    const Tensor x = converted(on_device(ctx_, wide), compute_);
    for (const Activation activation :
         {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf,
          Activation::mish, Activation::gelu_sigmoid}) {
      Tensor out = ctx_.empty(x.shape(), compute_);
      activate(ctx_, x, activation, out);
      take(out);
    }
  }

  void rotate() {
    constexpr std::int64_t kTokens = 9;
    Tensor heads = operand({1, kTokens, 4 * 64}, compute_);
    HeadsView view{heads, 0};
    rms_norm_rope(ctx_, operand({64}), operand({kTokens, 32}),
                  operand({kTokens, 32}), 4, 64, 1e-6F, view);
    take(heads);
  }

  void make_tables() {
    constexpr std::array kTimesteps = {0.0, 1.0, 333.25, 999.0};
    Tensor out({4, 256}, DType::f32);
    timestep_embedding(ctx_, kTimesteps, 1.0, 10000.0, out);
    take(out);
    take(sincos_2d(64, 7, 5, 16, 1.0));
  }

  /// In doubles and floats, over the values that noise levels have.
  void call_library() {
    std::vector<double> doubles;
    std::vector<float> floats;
    const volatile double first = 1e-4;  // so that no compiler calls them
    for (double x = first; x < 200; x *= 1.37) {
      const auto f = static_cast<float>(x);
      doubles.insert(
          doubles.end(),
          {std::exp(-x), std::log(x), std::pow(x, 1.0 / 7.0), std::expm1(-x),
           std::log1p(x), std::sin(x), std::cos(x), std::tanh(x)});
      floats.insert(floats.end(),
                    {std::exp(-f), std::log(f), std::pow(f, 1.0F / 7.0F),
                     std::sin(f), std::cos(f)});
    }
    hash_.update(std::as_bytes(std::span(doubles)));
    hash_.update(std::as_bytes(std::span(floats)));
  }

  ExecContext& ctx_;
  DType compute_;
  Xxh3Stream hash_;
  std::uint64_t draws_ = 0;
};

}  // namespace

std::uint64_t numeric_probe(DType compute, Device device,
                            const DeviceOptions& options) {
  std::uint64_t hash = 0;
  std::exception_ptr error;
  const auto run = [&] {
    try {
      use_one_openmp_thread();
      ExecContext ctx(1, device, options);
      hash = Probe(ctx, compute).run();
    } catch (...) {
      error = std::current_exception();
    }
  };
  try {
    std::thread(run).join();
  } catch (const std::system_error& refusal) {
    throw thread_refusal(0, 1, refusal);
  }
  if (error) {
    std::rethrow_exception(error);
  }
  return hash;
}

}  // namespace troupe::kernels
