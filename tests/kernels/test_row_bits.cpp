#include <cstdlib>
#include <functional>
#include <string_view>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/row_cut.h"
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
  };
  for (const DType dtype : compute_types()) {
    for (const Heads h : {Heads{2, 32, 256}, Heads{1, 72, 333}, Heads{1, 8, 1},
                          Heads{1, 64, 2500}}) {
      SCOPED_TRACE(std::to_string(h.keys) + " keys of " +
                   std::to_string(h.dim) + " " + std::string(to_string(dtype)));
      const std::int64_t width = h.count * h.dim;
      const Tensor k = random_tensor({1, h.keys, width}, dtype, 9);
      const Tensor v = random_tensor({1, h.keys, width}, dtype, 10);
      for (const std::int64_t rows : kRows) {
        expect_shards_of_the_whole(
            [&](ExecContext& c, const Tensor& q, const RowRange&) {
              Tensor out({1, q.dim(1), width}, dtype);
              attention(c, {q, 0}, {k, 0}, {v, 0}, h.count, h.dim, out);
              return out;
            },
            random_tensor({1, rows, width}, dtype, 11, 4.0));
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
    const auto attend = [&](std::int64_t first, std::int64_t count) {
      const auto heads_of = [&](std::int64_t operand) {
        return HeadsView{qkv, (operand * kHeads + first) * kDim};
      };
      Tensor out({1, kTokens, count * kDim}, dtype);
      attention(ctx, heads_of(0), heads_of(1), heads_of(2), count, kDim, out);
      return out;
    };
    const Tensor whole = attend(0, kHeads);
    for (const auto& [first, count] : {std::pair{0, 1}, {1, 2}, {3, 3}}) {
      const Tensor part = attend(first, count);
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

TEST(RowBits, OfNormsAreThoseOfTheWhole) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t width : {37, 192}) {
      const Tensor modulation = random_tensor({1, 3 * width}, DType::f32, 13);
      const Tensor weight = random_tensor({width}, DType::f32, 14);
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
            add_gated_layer_norm_modulate(c, modulation, 0,
                                          rows_of(branch, shard), width,
                                          2 * width, 1e-6F, sum, out);
            return out;
          },
          x);
      expect_shards_of_the_whole(
          [&](ExecContext& c, const Tensor& rows, const RowRange&) {
            Tensor out(rows.shape(), dtype);
            rms_norm(c, rows, weight, 1e-6F, out);
            return out;
          },
          random_tensor({1, 300, width}, dtype, 17));
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
    for (const auto activation :
         {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf,
          Activation::mish, Activation::gelu_sigmoid}) {
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
  }
}

TEST(RowCut, JoinsBlocksOnlyWhereEveryHeightStandsAlone) {
  using cpu::cut_rows;
  const auto shape_of = [](const cpu::RowCut& cut) {
    return std::array{cut.num_blocks, cut.block_rows, cut.last_rows()};
  };
  const auto always = [](std::int64_t) { return true; };
  const auto never = [](std::int64_t) { return false; };
  using Cut = std::array<std::int64_t, 3>;
  EXPECT_EQ(shape_of(cut_rows(256, 256, always)), (Cut{1, 256, 256}));
  EXPECT_EQ(shape_of(cut_rows(300, 256, always)), (Cut{2, 150, 150}));
  EXPECT_EQ(shape_of(cut_rows(100, 64, always)), (Cut{2, 64, 36}));
  EXPECT_EQ(shape_of(cut_rows(256, 256, never)), (Cut{4, 64, 64}));
  EXPECT_EQ(shape_of(cut_rows(300, 256, never)), (Cut{5, 64, 44}));
  EXPECT_EQ(shape_of(cut_rows(kRowBlock, 256, never)), (Cut{1, 64, 64}));
  EXPECT_EQ(shape_of(cut_rows(3, 256, never)), (Cut{1, 3, 3}));
  // The blocks that define the bytes end with 44 rows: they count as well.
  for (const std::int64_t wrong : {150, 44}) {
    const auto all_but = [&](std::int64_t height) { return height != wrong; };
    EXPECT_EQ(shape_of(cut_rows(300, 256, all_but)), (Cut{5, 64, 44})) << wrong;
  }
}

/// Whether rows of products of `height` and of kRowBlock rows differ somewhere:
/// with numbers of its own, at every place.
bool differs(ExecContext& ctx, const cpu::MatmulShape& shape) {
  cpu::MatmulShape block = shape;
  block.m = kRowBlock;
  cpu::MatmulCache& cache = cpu::MatmulCache::of(ctx);
  cpu::Matmul& tall = cache.get(shape);
  cpu::Matmul& low = cache.get(block);
  const Tensor a =
      random_tensor({shape.m + kRowBlock, shape.k}, shape.dtype, 25);
  const Tensor b = random_tensor({shape.n, shape.k}, shape.dtype, 26);
  Tensor whole({shape.m, shape.n}, DType::f32);
  Tensor part({kRowBlock, shape.n}, DType::f32);
  const auto row_bytes =
      static_cast<std::size_t>(shape.k) * size_of(shape.dtype);
  std::byte* scratch =
      ctx.scratch(0, std::max(tall.scratch_bytes(), low.scratch_bytes()));
  const bool is_packed = shape.layout == cpu::Layout::packed;
  const dnnl::memory packed = is_packed ? cpu::pack_panel(b) : dnnl::memory();
  const auto multiply = [&](cpu::Matmul& product, const std::byte* rows,
                            Tensor& out) {
    if (is_packed) {
      product.run(0, rows, packed, out.data<float>(), scratch);
    } else {
      product.run(0, rows, b.bytes().data(), out.data<float>(), scratch);
    }
  };
  multiply(tall, a.bytes().data(), whole);
  for (std::int64_t first = 0; first < shape.m; ++first) {
    multiply(low,
             a.bytes().data() + static_cast<std::size_t>(first) * row_bytes,
             part);
    const std::int64_t rows = std::min(kRowBlock, shape.m - first);
    if (!bytes_equal(whole.slice(first, first + rows), part.slice(0, rows))) {
      return true;
    }
  }
  return false;
}

// The check draws one set of numbers and two offsets; here are all of them.
TEST(RowCut, FindsEveryHeightWhoseRowsDiffer) {
  ExecContext ctx;
  int found = 0;
  for (const DType dtype : compute_types()) {
    for (const std::int64_t height : {1, 7, 44, 63, 100, 150, 256}) {
      for (const auto& [n, k] :
           {std::pair<std::int64_t, std::int64_t>{192, 192},
            {97, 333},
            {256, 72},
            {40, 300},
            {8, 1}}) {
        for (const auto layout : {cpu::Layout::packed, cpu::Layout::rows,
                                  cpu::Layout::transposed}) {
          const cpu::MatmulShape shape{height, n, k, dtype, layout};
          if (differs(ctx, shape)) {
            ++found;
            EXPECT_FALSE(cpu::rows_stand_alone(ctx, shape))
                << height << " rows × " << n << " × " << k << " "
                << to_string(dtype);
          }
        }
      }
    }
  }
  std::printf("  %d shapes have rows that depend on the others\n", found);
  const char* isa = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (isa != nullptr && std::string_view(isa) == "AVX2") {
    EXPECT_GT(found, 0) << "the test has nothing to find";
  }
}

}  // namespace
}  // namespace troupe::kernels
