#include <functional>
#include <thread>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/conv2d.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/patchify.h"
#include "tests/kernels/reference.h"

// Threads, batch and position in the batch never change a bit.
namespace troupe::kernels {
namespace {

constexpr std::int64_t kItems = 5;

/// Runs an op from [B, …] to [B, …] on a fresh context.
using Op = std::function<Tensor(ExecContext&, const Tensor&)>;

/// x has kItems items; every grouping of them must give the same bytes.
void expect_same_bits(const Op& op, const Tensor& x) {
  ExecContext single(1);
  const Tensor expected = op(single, x);
  for (const int threads : {1, 2, 3, 4}) {
    ExecContext ctx(threads);
    EXPECT_TRUE(bytes_equal(op(ctx, x), expected)) << threads << " threads";
    for (std::int64_t item = 0; item < kItems; ++item) {
      // Alone, in memory of its own.
      const Tensor alone = x.slice(item, item + 1).clone();
      EXPECT_TRUE(bytes_equal(op(ctx, alone), expected.slice(item, item + 1)))
          << "item " << item << " alone, " << threads << " threads";
      // Among others, elsewhere, at another alignment.
      Guarded moved(x.shape(), x.dtype(), 1);
      for (std::int64_t i = 0; i < kItems; ++i) {
        const Tensor from =
            x.slice((i + item) % kItems, (i + item) % kItems + 1);
        std::memcpy(moved.tensor.slice(i, i + 1).bytes().data(),
                    from.bytes().data(), from.num_bytes());
      }
      const Tensor turned = op(ctx, moved.tensor);
      EXPECT_TRUE(
          bytes_equal(turned.slice(0, 1), expected.slice(item, item + 1)))
          << "item " << item << " first, " << threads << " threads";
    }
  }
}

void check_linear(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
  SCOPED_TRACE(std::string(to_string(dtype)) + " linear " + std::to_string(m) +
               " × " + std::to_string(n) + " × " + std::to_string(k));
  ExecContext ctx;
  const PackedLinear packed(ctx, random_tensor({n, k}, dtype, 1),
                            random_tensor({n}, DType::f32, 2), dtype);
  expect_same_bits(
      [&](ExecContext& c, const Tensor& x) {
        Tensor out({x.dim(0), m, n}, DType::f32);
        linear(c, x, packed, Activation::gelu_tanh, out);
        return out;
      },
      random_tensor({kItems, m, k}, dtype, 3));
}

TEST(Bits, OfLinearDependOnTheItemAlone) {
  for (const DType dtype : compute_types()) {
    check_linear(dtype, 1, 6 * 72, 72);
    check_linear(dtype, 1, 97, 193);
    check_linear(dtype, 3, 65, 31);
    check_linear(dtype, 16, 192, 192);
    check_linear(dtype, 64, 577, 192);
    check_linear(dtype, 77, 260, 333);
    check_linear(dtype, 300, 130, 64);
    check_linear(dtype, 45, 96, 2336);
  }
}

TEST(Bits, OfLinearAgreeBetweenWorkersThatShareTheWeights) {
  for (const DType dtype : compute_types()) {
    ExecContext ctx;
    const PackedLinear packed(ctx, random_tensor({200, 96}, dtype, 1), Tensor(),
                              dtype);
    const Tensor x = random_tensor({2, 40, 96}, dtype, 2);
    Tensor expected({2, 40, 200}, DType::f32);
    linear(ctx, x, packed, Activation::none, expected);
    std::vector<Tensor> results(3);
    {
      std::vector<std::jthread> workers;
      for (Tensor& result : results) {
        workers.emplace_back([&] {
          use_one_openmp_thread();
          ExecContext own(2);
          for (int repeat = 0; repeat < 20; ++repeat) {
            Tensor out({2, 40, 200}, DType::f32);
            linear(own, x, packed, Activation::none, out);
            if (repeat == 0 || !bytes_equal(out, expected)) {
              result = out;
            }
          }
        });
      }
    }
    for (const Tensor& result : results) {
      EXPECT_TRUE(bytes_equal(result, expected));
    }
  }
}

TEST(Bits, OfAttentionDependOnTheItemAlone) {
  struct Size {
    std::int64_t tokens, heads, head_dim;
    std::int64_t key_blocks = 1;
  };
  for (const DType dtype : compute_types()) {
    for (const Size s :
         {Size{64, 3, 64}, Size{77, 2, 72}, Size{1, 2, 8}, Size{333, 1, 40},
          Size{1100, 1, 32}, Size{333, 2, 40, 4}, Size{1100, 1, 32, 2}}) {
      SCOPED_TRACE(std::to_string(s.tokens) + " tokens");
      expect_same_bits(
          [&](ExecContext& c, const Tensor& x) {
            const std::int64_t width = s.heads * s.head_dim;
            Tensor out({x.dim(0), s.tokens, width}, dtype);
            attention(c, {x, 0}, {x, width}, {x, 2 * width}, s.heads,
                      s.head_dim, out, {}, {.key_blocks = s.key_blocks});
            return out;
          },
          random_tensor({kItems, s.tokens, 3 * s.heads * s.head_dim}, dtype,
                        4));
    }
  }
}

// Items of other lengths side by side. A length is drawn from its item, so
// lengths move with the items.
TEST(Bits, OfMaskedAttentionDependOnTheItemAlone) {
  constexpr std::int64_t kHeads = 2;
  struct Size {
    std::int64_t tokens, head_dim;
    bool causal, has_bias;
  };
  for (const DType dtype : compute_types()) {
    for (const Size s :
         {Size{77, 64, true, false}, Size{120, 24, false, true},
          Size{300, 72, false, false}, Size{130, 40, true, true}}) {
      SCOPED_TRACE(std::to_string(s.tokens) + " tokens");
      const std::int64_t width = kHeads * s.head_dim;
      const Tensor bias =
          s.has_bias
              ? random_tensor({kHeads, s.tokens, s.tokens}, DType::f32, 18, 4)
              : Tensor();
      expect_same_bits(
          [&](ExecContext& c, const Tensor& x) {
            std::vector<std::int64_t> lengths;
            for (std::int64_t b = 0; b < x.dim(0); ++b) {
              const double drawn = value_at(x, b * s.tokens * 3 * width);
              lengths.push_back(1 +
                                std::lround((drawn + 1) / 2 *
                                            static_cast<double>(s.tokens - 1)));
            }
            Tensor out({x.dim(0), s.tokens, width}, dtype);
            attention(c, {x, 0}, {x, width}, {x, 2 * width}, kHeads, s.head_dim,
                      out, {},
                      {.scale = 1.0F,
                       .causal = s.causal,
                       .key_lengths = lengths,
                       .bias = bias});
            return out;
          },
          random_tensor({kItems, s.tokens, 3 * width}, dtype, 19));
    }
  }
}

TEST(Bits, OfConv2dDependOnTheItemAlone) {
  struct Geometry {
    std::int64_t height, width, kernel, stride, padding;

    [[nodiscard]] std::int64_t out_side(std::int64_t side) const {
      return (side + 2 * padding - kernel) / stride + 1;
    }
  };
  for (const DType dtype : compute_types()) {
    for (const Geometry& g :
         {Geometry{17, 13, 3, 1, 1}, Geometry{33, 25, 3, 2, 1},
          Geometry{33, 26, 3, 2, 0}, Geometry{33, 25, 1, 2, 0}}) {
      SCOPED_TRACE("kernel " + std::to_string(g.kernel) + ", stride " +
                   std::to_string(g.stride) + ", padding " +
                   std::to_string(g.padding));
      ExecContext ctx;
      const PackedConv2d packed(
          ctx, random_tensor({70, 12, g.kernel, g.kernel}, dtype, 5),
          random_tensor({70}, DType::f32, 6), g.stride, Padding::all(g.padding),
          dtype);
      expect_same_bits(
          [&](ExecContext& c, const Tensor& x) {
            Tensor out(
                {x.dim(0), g.out_side(g.height), g.out_side(g.width), 70},
                dtype);
            conv2d(c, x, packed, out);
            return out;
          },
          random_tensor({kItems, g.height, g.width, 12}, dtype, 7));
    }
  }
}

TEST(Bits, OfGatedActivationsDependOnTheItemAlone) {
  for (const Activation activation : kActivations) {
    SCOPED_TRACE("activation " + std::to_string(static_cast<int>(activation)));
    for (const DType from : {DType::f32, DType::bf16}) {
      for (const DType to : {DType::f32, DType::bf16}) {
        expect_same_bits(
            [&](ExecContext& c, const Tensor& x) {
              Tensor out({x.dim(0), x.dim(1), x.dim(2) / 2}, to);
              activate_gated(c, x, activation, out);
              return out;
            },
            random_tensor({kItems, 19, 2 * 77}, from, 22, 4));
      }
    }
  }
}

TEST(Bits, OfNormsDependOnTheItemAlone) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor weight = random_tensor({36}, DType::f32, 8);
    const Tensor bias = random_tensor({36}, DType::f32, 9);
    expect_same_bits(
        [&](ExecContext& c, const Tensor& x) {
          Tensor out(x.shape(), x.dtype());
          group_norm(c, x, weight, bias, 4, 1e-6F, Activation::silu, out);
          return out;
        },
        random_tensor({kItems, 23, 29, 36}, dtype, 10));
    expect_same_bits(
        [&](ExecContext& c, const Tensor& x) {
          Tensor out(x.shape(), x.dtype());
          rms_norm(c, x, weight, 1e-6F, out);
          return out;
        },
        random_tensor({kItems, 21, 36}, dtype, 11));
    expect_same_bits(
        [&](ExecContext& c, const Tensor& x) {
          Tensor out(x.shape(), dtype);
          layer_norm(c, x, weight, bias, 1e-6F, out);
          return out;
        },
        random_tensor({kItems, 21, 36}, DType::f32, 20));
    expect_same_bits(
        [&](ExecContext& c, const Tensor& x) {
          Tensor out(x.shape(), dtype);
          rms_norm(c, x, weight, 1e-6F, out);
          return out;
        },
        random_tensor({kItems, 21, 36}, DType::f32, 21));
  }
  const Tensor one_row = random_tensor({1, 75}, DType::f32, 12);
  expect_same_bits(
      [&](ExecContext& c, const Tensor& x) {
        Tensor modulation({x.dim(0), 75}, DType::f32);
        for (std::int64_t b = 0; b < x.dim(0); ++b) {
          std::memcpy(modulation.slice(b, b + 1).bytes().data(),
                      one_row.bytes().data(), one_row.num_bytes());
        }
        Tensor out(x.shape(), DType::bf16);
        layer_norm_modulate(c, x, modulation, 38, 1, 1e-6F, out);
        return out;
      },
      random_tensor({kItems, 19, 37}, DType::f32, 13));
}

TEST(Bits, OfUpsampleDependOnTheItemAlone) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t cut : {0, 1}) {  // an odd result
      expect_same_bits(
          [cut](ExecContext& c, const Tensor& x) {
            Tensor out({x.dim(0), 2 * x.dim(1) - cut, 2 * x.dim(2), x.dim(3)},
                       x.dtype());
            upsample_nearest2x(c, x, out);
            return out;
          },
          random_tensor({kItems, 9, 7, 13}, dtype, 15));
    }
  }
}

TEST(Bits, OfPatchesDependOnTheItemAlone) {
  constexpr std::int64_t kChannels = 3;
  for (const std::int64_t p : {1, 2, 4}) {
    SCOPED_TRACE("patch " + std::to_string(p));
    for (const DType dtype : {DType::f32, DType::bf16}) {
      expect_same_bits(
          [&](ExecContext& c, const Tensor& x) {
            Tensor out({x.dim(0), (12 / p) * (20 / p), kChannels * p * p},
                       dtype);
            patchify(c, x, p, out);
            return out;
          },
          random_tensor({kItems, kChannels, 12, 20}, DType::f32, 16));
    }
    expect_same_bits(
        [&](ExecContext& c, const Tensor& x) {
          Tensor out({x.dim(0), kChannels, 12, 20}, DType::f32);
          unpatchify(c, x, p, out);
          return out;
        },
        random_tensor({kItems, (12 / p) * (20 / p), kChannels * p * p},
                      DType::f32, 17));
  }
}

}  // namespace
}  // namespace troupe::kernels
