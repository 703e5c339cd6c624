#include <functional>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/residual_stream.h"
#include "kernels/rope.h"
#include "kernels/row_blocks.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/row_ranges.h"

// A shard of an item's rows has the bytes of the whole item.
namespace troupe::kernels {
namespace {

/// From rows [1, n, W] of a stream, which begin at `shard.begin`, to rows
/// [1, n, W'].
using RowsOp = std::function<Tensor(ExecContext&, const Tensor& rows,
                                    const RowRange& shard)>;

// Even, with an end that is a block of its own, shorter than a block, and with
// a last block of a single row.
constexpr std::int64_t kRows[] = {256, 300, 40, 100, 4 * kRowBlock + 1};

Tensor rows_of(const Tensor& x, const RowRange& shard) {
  const Shape row = x.shape();
  return x.reshape({row[1], row[2]})
      .slice(shard.begin, shard.end)
      .reshape({1, shard.end - shard.begin, row[2]});
}

/// x: [1, N, W]. Every shard, at two alignments, alone and on several threads.
void expect_shards_of_the_whole(const RowsOp& op, const Tensor& x) {
  ExecContext single(1);
  ExecContext pool(3);
  const std::int64_t rows = x.dim(1);
  const Tensor whole = op(single, x, {0, rows});
  for (const RowRange& shard : row_ranges(rows)) {
    const Tensor expected = rows_of(whole, shard);
    const Tensor part = rows_of(x, shard);
    for (const std::int64_t shift : {0, 1}) {
      Guarded moved(part.shape(), part.dtype(), shift);
      std::memcpy(moved.tensor.bytes().data(), part.bytes().data(),
                  part.num_bytes());
      for (ExecContext* ctx : {&single, &pool}) {
        EXPECT_TRUE(bytes_equal(op(*ctx, moved.tensor, shard), expected))
            << "rows " << shard.begin << " to " << shard.end << " of " << rows
            << ", " << shift << " elements off, " << ctx->num_threads()
            << " threads";
      }
    }
  }
}

struct Weights {
  std::int64_t out_features;
  std::int64_t in_features;
};

// The demo model's, DiT-XL/2's width, and sides that fit nothing.
constexpr Weights kWeights[] = {{576, 192}, {192, 768}, {200, 1152}, {97, 333}};

TEST(RowBits, OfLinearAreThoseOfTheWhole) {
  for (const DType dtype : compute_types()) {
    for (const Weights& w : kWeights) {
      SCOPED_TRACE(std::to_string(w.in_features) + " → " +
                   std::to_string(w.out_features) + " " +
                   std::string(to_string(dtype)));
      ExecContext ctx;
      const PackedLinear packed(
          ctx, random_tensor({w.out_features, w.in_features}, dtype, 1),
          random_tensor({w.out_features}, DType::f32, 2), dtype);
      for (const std::int64_t rows : kRows) {
        for (const DType out_type : {DType::f32, dtype}) {
          expect_shards_of_the_whole(
              [&](ExecContext& c, const Tensor& x, const RowRange&) {
                Tensor out({1, x.dim(1), w.out_features}, out_type);
                linear(c, x, packed, Activation::gelu_tanh, out);
                return out;
              },
              random_tensor({1, rows, w.in_features}, dtype, 3));
        }
      }
    }
  }
}

// From a branch's last product to the next branch's input.
TEST(RowBits, OfAGatedProductAndANormAreThoseOfTheWhole) {
  constexpr std::int64_t kWidth = 192;
  const Tensor modulation = random_tensor({1, 3 * kWidth}, DType::f32, 4);
  const Tensor residuals = random_tensor({1, 300, kWidth}, DType::f32, 5);
  for (const DType dtype : compute_types()) {
    ExecContext ctx;
    const PackedLinear packed(ctx, random_tensor({kWidth, 768}, dtype, 6),
                              random_tensor({kWidth}, DType::f32, 7), dtype);
    expect_shards_of_the_whole(
        [&](ExecContext& c, const Tensor& x, const RowRange& shard) {
          Tensor residual = rows_of(residuals, shard).clone();
          Tensor out({1, x.dim(1), kWidth}, dtype);
          ResidualStream stream(c, residual, modulation);
          stream.add_gated_linear(c, x, packed, 0);
          stream.layer_norm_modulate(c, kWidth, 2 * kWidth, 1e-6F, out);
          // Both results in one.
          Tensor both({1, x.dim(1), 2 * kWidth}, DType::f32);
          for (std::int64_t row = 0; row < x.dim(1); ++row) {
            for (std::int64_t i = 0; i < kWidth; ++i) {
              set_value(both, row * 2 * kWidth + i,
                        value_at(residual, row * kWidth + i));
              set_value(both, (row * 2 + 1) * kWidth + i,
                        value_at(out, row * kWidth + i));
            }
          }
          return both;
        },
        random_tensor({1, 300, 768}, dtype, 8));
  }
}

// A rank has queries of its own and all keys and values.
TEST(RowBits, OfAttentionAreThoseOfTheWhole) {
  struct Heads {
    std::int64_t count;
    std::int64_t dim;
    std::int64_t keys;
    std::int64_t blocks = 1;
  };
  for (const DType dtype : compute_types()) {
    for (const Heads h : {Heads{2, 32, 256}, Heads{1, 72, 333}, Heads{1, 8, 1},
                          Heads{1, 64, 2500}, Heads{2, 32, 256, 4},
                          Heads{1, 72, 333, 3}, Heads{1, 64, 2500, 2}}) {
      SCOPED_TRACE(std::to_string(h.keys) + " keys of " +
                   std::to_string(h.dim) + " " + std::string(to_string(dtype)));
      const std::int64_t width = h.count * h.dim;
      const Tensor k = random_tensor({1, h.keys, width}, dtype, 9);
      const Tensor v = random_tensor({1, h.keys, width}, dtype, 10);
      for (const std::int64_t rows : kRows) {
        expect_shards_of_the_whole(
            [&](ExecContext& c, const Tensor& q, const RowRange&) {
              Tensor out({1, q.dim(1), width}, dtype);
              attention(c, {q, 0}, {k, 0}, {v, 0}, h.count, h.dim, out, {},
                        {.key_blocks = h.blocks});
              return out;
            },
            random_tensor({1, rows, width}, dtype, 11, 4.0));
      }
    }
  }
}

/// Rows [shard) of every head's bias [heads, N, keys].
Tensor bias_rows(const Tensor& bias, const RowRange& shard) {
  const std::int64_t rows = shard.end - shard.begin;
  Tensor part({bias.dim(0), rows, bias.dim(2)}, DType::f32);
  for (std::int64_t head = 0; head < bias.dim(0); ++head) {
    const Tensor from = bias.item(head).slice(shard.begin, shard.end);
    std::memcpy(part.data<float>() + head * rows * bias.dim(2),
                from.bytes().data(), from.num_bytes());
  }
  return part;
}

// The tokens of an image are divided; a prompt of some length is with everyone.
TEST(RowBits, OfMaskedAttentionAreThoseOfTheWhole) {
  constexpr std::int64_t kHeads = 2;
  struct Keys {
    std::int64_t dim, all, valid;
  };
  for (const DType dtype : compute_types()) {
    for (const Keys& keys : {Keys{32, 77, 77}, Keys{72, 300, 77},
                             Keys{64, 120, 1}, Keys{40, 120, 9}}) {
      SCOPED_TRACE(std::to_string(keys.valid) + " keys of " +
                   std::to_string(keys.dim) + " " +
                   std::string(to_string(dtype)));
      const std::int64_t width = kHeads * keys.dim;
      const Tensor k = random_tensor({1, keys.all, width}, dtype, 27);
      const Tensor v = random_tensor({1, keys.all, width}, dtype, 28);
      const std::int64_t lengths[] = {keys.valid};
      for (const std::int64_t rows : kRows) {
        const Tensor bias =
            random_tensor({kHeads, rows, keys.all}, DType::f32, 29, 3);
        for (const bool has_bias : {false, true}) {
          expect_shards_of_the_whole(
              [&](ExecContext& c, const Tensor& q, const RowRange& shard) {
                Tensor out({1, q.dim(1), width}, dtype);
                attention(
                    c, {q, 0}, {k, 0}, {v, 0}, kHeads, keys.dim, out,
                    {.rows = rows},
                    {.key_lengths = lengths,
                     .bias = has_bias ? bias_rows(bias, shard) : Tensor()});
                return out;
              },
              random_tensor({1, rows, width}, dtype, 30, 4.0));
        }
      }
    }
  }
}

// A rank of Ulysses has all tokens and heads of its own.
TEST(RowBits, OfSomeHeadsAreThoseOfAll) {
  constexpr std::int64_t kHeads = 6;
  constexpr std::int64_t kDim = 40;
  constexpr std::int64_t kTokens = 300;
  for (const DType dtype : compute_types()) {
    ExecContext ctx(2);
    const Tensor qkv =
        random_tensor({1, kTokens, 3 * kHeads * kDim}, dtype, 12);
    const auto attend = [&](std::int64_t first, std::int64_t count,
                            std::int64_t blocks) {
      const auto heads_of = [&](std::int64_t operand) {
        return HeadsView{qkv, (operand * kHeads + first) * kDim};
      };
      Tensor out({1, kTokens, count * kDim}, dtype);
      attention(ctx, heads_of(0), heads_of(1), heads_of(2), count, kDim, out,
                {}, {.key_blocks = blocks});
      return out;
    };
    for (const std::int64_t blocks : {1, 3}) {
      const Tensor whole = attend(0, kHeads, blocks);
      for (const auto& [first, count] : {std::pair{0, 1}, {1, 2}, {3, 3}}) {
        const Tensor part = attend(first, count, blocks);
        for (std::int64_t token = 0; token < kTokens; ++token) {
          for (std::int64_t i = 0; i < count * kDim; ++i) {
            ASSERT_EQ(value_at(part, token * count * kDim + i),
                      value_at(whole, (token * kHeads + first) * kDim + i))
                << "head " << first + i / kDim << ", token " << token;
          }
        }
      }
    }
  }
}

TEST(RowBits, OfNormsAreThoseOfTheWhole) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t width : {37, 192}) {
      const Tensor modulation = random_tensor({1, 3 * width}, DType::f32, 13);
      const Tensor weight = random_tensor({width}, DType::f32, 14);
      const Tensor bias = random_tensor({width}, DType::f32, 31);
      const Tensor branch = random_tensor({1, 300, width}, dtype, 15);
      const Tensor x = random_tensor({1, 300, width}, DType::f32, 16);
      expect_shards_of_the_whole(
          [&](ExecContext& c, const Tensor& rows, const RowRange&) {
            Tensor out(rows.shape(), dtype);
            layer_norm_modulate(c, rows, modulation, width, 1, 1e-6F, out);
            return out;
          },
          x);
      expect_shards_of_the_whole(
          [&](ExecContext& c, const Tensor& rows, const RowRange& shard) {
            Tensor sum = rows.clone();
            Tensor out(rows.shape(), dtype);
            add_layer_norm_modulate(c, modulation, 0, rows_of(branch, shard),
                                    width, 2 * width, 1e-6F, sum, out);
            return out;
          },
          x);
      expect_shards_of_the_whole(
          [&](ExecContext& c, const Tensor& rows, const RowRange&) {
            Tensor out(rows.shape(), dtype);
            layer_norm(c, rows, weight, bias, 1e-6F, out);
            return out;
          },
          x);
      for (const DType from : {DType::f32, DType::bf16}) {
        expect_shards_of_the_whole(
            [&](ExecContext& c, const Tensor& rows, const RowRange&) {
              Tensor out(rows.shape(), dtype);
              rms_norm(c, rows, weight, 1e-6F, out);
              return out;
            },
            random_tensor({1, 300, width}, from, 17));
      }
    }
  }
}

TEST(RowBits, OfRotationsAreThoseOfTheWhole) {
  constexpr std::int64_t kHeads = 3;
  constexpr std::int64_t kDim = 20;
  constexpr std::int64_t kTokens = 300;
  const Tensor weight = random_tensor({kDim}, DType::f32, 18);
  const Tensor cosines = random_tensor({kTokens, kDim / 2}, DType::f32, 19);
  const Tensor sines = random_tensor({kTokens, kDim / 2}, DType::f32, 20);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    expect_shards_of_the_whole(
        [&](ExecContext& c, const Tensor& rows, const RowRange& shard) {
          HeadsView x{rows.clone(), 0};
          rms_norm_rope(c, weight, cosines.slice(shard.begin, shard.end),
                        sines.slice(shard.begin, shard.end), kHeads, kDim,
                        1e-6F, x);
          return x.base;
        },
        random_tensor({1, kTokens, kHeads * kDim}, dtype, 21));
  }
}

TEST(RowBits, OfElementsAreThoseOfTheWhole) {
  constexpr std::int64_t kWidth = 74;
  const Tensor modulation = random_tensor({1, kWidth}, DType::f32, 22);
  const Tensor positions = random_tensor({1, 300, kWidth}, DType::f32, 23);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = random_tensor({1, 300, kWidth}, dtype, 24, 5.0);
    for (const Activation activation : kActivations) {
      expect_shards_of_the_whole(
          [&](ExecContext& c, const Tensor& rows, const RowRange&) {
            Tensor out(rows.shape(), dtype);
            activate(c, rows, activation, out);
            return out;
          },
          x);
      expect_shards_of_the_whole(
          [&](ExecContext& c, const Tensor& rows, const RowRange&) {
            Tensor out({1, rows.dim(1), kWidth / 2}, dtype);
            activate_gated(c, rows, activation, out);
            return out;
          },
          x);
    }
    expect_shards_of_the_whole(
        [&](ExecContext& c, const Tensor& rows, const RowRange& shard) {
          Tensor sum = rows_of(positions, shard).clone();
          add_gated(c, modulation, 0, rows, sum);
          return sum;
        },
        x);
    expect_shards_of_the_whole(
        [&](ExecContext& c, const Tensor& rows, const RowRange& shard) {
          Tensor sum = rows_of(positions, shard).clone();
          add(c, rows, sum);
          return sum;
        },
        x);
    expect_shards_of_the_whole(
        [&](ExecContext& c, const Tensor& rows, const RowRange&) {
          Tensor sum = rows.clone();
          add_channels(c, modulation, 0, sum);
          return sum;
        },
        x);
  }
}

}  // namespace
}  // namespace troupe::kernels
