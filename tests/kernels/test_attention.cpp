#include "kernels/attention.h"
#include "kernels/core/error.h"
#include "tests/kernels/reference.h"

namespace troupe::kernels {
namespace {

struct HeadSize {
  std::int64_t b, queries, keys, heads, head_dim;
};

constexpr HeadSize kHeadSizes[] = {{0, 3, 3, 2, 4},    {1, 0, 3, 2, 4},
                                   {1, 1, 1, 1, 1},    {2, 5, 7, 3, 9},
                                   {1, 64, 77, 2, 72}, {2, 33, 256, 1, 40},
                                   {1, 300, 19, 1, 8}, {1, 70, 4100, 1, 16}};

std::vector<double> attended(const HeadsView& q, const HeadsView& k,
                             const HeadsView& v, std::int64_t heads,
                             std::int64_t head_dim) {
  const std::int64_t items = q.base.dim(0);
  const std::int64_t queries = q.base.dim(1);
  const std::int64_t keys = k.base.dim(1);
  const auto at = [&](const HeadsView& view, std::int64_t b, std::int64_t n,
                      std::int64_t h, std::int64_t d) {
    return value_at(view.base, (b * view.base.dim(1) + n) * view.base.dim(2) +
                                   view.column + h * head_dim + d);
  };
  std::vector<double> out(
      static_cast<std::size_t>(items * queries * heads * head_dim));
  std::vector<double> p(static_cast<std::size_t>(keys));
  for (std::int64_t b = 0; b < items; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < queries; ++i) {
        double total = 0;
        for (std::int64_t j = 0; j < keys; ++j) {
          double dot = 0;
          for (std::int64_t d = 0; d < head_dim; ++d) {
            dot += at(q, b, i, h, d) * at(k, b, j, h, d);
          }
          p[j] = std::exp(dot / std::sqrt(static_cast<double>(head_dim)));
          total += p[j];
        }
        for (std::int64_t d = 0; d < head_dim; ++d) {
          double sum = 0;
          for (std::int64_t j = 0; j < keys; ++j) {
            sum += p[j] / total * at(v, b, j, h, d);
          }
          out[((b * queries + i) * heads + h) * head_dim + d] = sum;
        }
      }
    }
  }
  return out;
}

TEST(Attention, MatchesADoubleReferenceForSeparateOperands) {
  for (const DType dtype : compute_types()) {
    for (const HeadSize& s : kHeadSizes) {
      ExecContext ctx(2);
      const std::int64_t width = s.heads * s.head_dim;
      const HeadsView q{random_tensor({s.b, s.queries, width}, dtype, 1, 2)};
      const HeadsView k{random_tensor({s.b, s.keys, width}, dtype, 2, 2)};
      const HeadsView v{random_tensor({s.b, s.keys, width}, dtype, 3)};
      Guarded out({s.b, s.queries, width}, dtype, 1);
      attention(ctx, q, k, v, s.heads, s.head_dim, out.tensor);
      EXPECT_TRUE(out.intact());
      expect_near(out.tensor, attended(q, k, v, s.heads, s.head_dim),
                  unit_of(dtype), dtype == DType::bf16 ? 4e-3 : 4e-6);
    }
  }
}

TEST(Attention, ReadsHeadsInPlaceFromAFusedProjection) {
  for (const DType dtype : compute_types()) {
    ExecContext ctx(3);
    const Tensor fused = random_tensor({2, 37, 3 * 2 * 24}, dtype, 4);
    const HeadsView q{fused, 0};
    const HeadsView k{fused, 48};
    const HeadsView v{fused, 96};
    Guarded out({2, 37, 48}, dtype);
    attention(ctx, q, k, v, 2, 24, out.tensor);
    EXPECT_TRUE(out.intact());
    expect_near(out.tensor, attended(q, k, v, 2, 24), unit_of(dtype),
                dtype == DType::bf16 ? 4e-3 : 2e-6);
  }
}

TEST(Attention, MergesBlocksOfKeys) {
  const HeadSize sizes[] = {{2, 5, 320, 3, 9},
                            {1, 64, 333, 2, 72},
                            {2, 33, 256, 1, 40},
                            {1, 70, 4100, 1, 16},
                            {1, 300, 130, 2, 8}};
  for (const DType dtype : compute_types()) {
    for (const HeadSize& s : sizes) {
      for (const std::int64_t blocks : {2, 3, 5}) {
        SCOPED_TRACE(std::to_string(s.keys) + " keys in " +
                     std::to_string(blocks) + " blocks");
        ExecContext ctx(2);
        const std::int64_t width = s.heads * s.head_dim;
        // Logits of some tens: their blocks have unlike tops.
        const Tensor qkv = random_tensor({s.b, s.keys, 3 * width}, dtype, 1, 6);
        const Tensor queries =
            random_tensor({s.b, s.queries, width}, dtype, 2, 6);
        Guarded out({s.b, s.queries, width}, dtype, 1);
        Guarded whole({s.b, s.queries, width}, dtype, 1);
        const HeadsView k{qkv, width};
        const HeadsView v{qkv, 2 * width};
        attention(ctx, {queries}, k, v, s.heads, s.head_dim, out.tensor, {},
                  {.key_blocks = blocks});
        attention(ctx, {queries}, k, v, s.heads, s.head_dim, whole.tensor);
        EXPECT_TRUE(out.intact());
        expect_near(out.tensor, attended({queries}, k, v, s.heads, s.head_dim),
                    unit_of(dtype), dtype == DType::bf16 ? 2e-2 : 1e-4);
        const bool is_cut = s.keys >= 64 * blocks;
        EXPECT_EQ(bytes_equal(out.tensor, whole.tensor), !is_cut);
      }
    }
  }
}

TEST(Attention, CutsKeysAtWholeRowBlocks) {
  const auto blocks_of = [](std::int64_t count, std::int64_t keys) {
    std::vector<RowRange> blocks;
    for (std::int64_t b = 0; b < count; ++b) {
      blocks.push_back(key_block(count, b, keys));
    }
    return blocks;
  };
  using Blocks = std::vector<RowRange>;
  EXPECT_EQ(blocks_of(1, 100), (Blocks{{0, 100}}));
  EXPECT_EQ(blocks_of(2, 127), (Blocks{{0, 127}, {0, 0}}));
  EXPECT_EQ(blocks_of(2, 128), (Blocks{{0, 64}, {64, 128}}));
  EXPECT_EQ(blocks_of(2, 129), (Blocks{{0, 128}, {128, 129}}));
  EXPECT_EQ(blocks_of(3, 300), (Blocks{{0, 128}, {128, 192}, {192, 300}}));
  for (std::int64_t count = 1; count <= 9; ++count) {
    for (std::int64_t keys = 64 * count; keys < 64 * count + 1000; ++keys) {
      std::int64_t end = 0;
      for (const RowRange& block : blocks_of(count, keys)) {
        ASSERT_EQ(block.begin, end);
        ASSERT_EQ(block.begin % kRowBlock, 0);
        ASSERT_GT(block.size(), 0);
        end = block.end;
      }
      ASSERT_EQ(end, keys);
    }
  }
}

TEST(Attention, SurvivesLogitsThatOverflowExp) {
  ExecContext ctx;
  for (const std::int64_t blocks : {1, 2}) {
    const Tensor q = random_tensor({1, 4, 8}, DType::f32, 5, 100);
    const Tensor k = random_tensor({1, 128, 8}, DType::f32, 6, 100);
    const Tensor v = random_tensor({1, 128, 8}, DType::f32, 7);
    Guarded out({1, 4, 8}, DType::f32);
    attention(ctx, {q}, {k}, {v}, 1, 8, out.tensor, {}, {.key_blocks = blocks});
    for (const double value : values_of(out.tensor)) {
      EXPECT_LE(std::abs(value), 1.0);
    }
  }
}

TEST(Attention, KeepsMemoryBelowAllLogitsOfALongHead) {
  ExecContext ctx;
  const Tensor x = random_tensor({1, 4096, 8}, DType::f32, 8);
  Guarded out({1, 4096, 8}, DType::f32);
  attention(ctx, {x}, {x}, {x}, 1, 8, out.tensor);
  EXPECT_LT(ctx.workspace().capacity_bytes(), std::size_t{4} << 20U);
}

TEST(Attention, PassesNanOn) {
  ExecContext ctx;
  Tensor q = random_tensor({1, 3, 4}, DType::f32, 9);
  q.data<float>()[5] = NAN;
  for (const std::int64_t blocks : {1, 3}) {
    Tensor k = random_tensor({1, 200, 4}, DType::f32, 10);
    Guarded out({1, 3, 4}, DType::f32);
    attention(ctx, {q}, {k}, {k}, 1, 4, out.tensor, {}, {.key_blocks = blocks});
    EXPECT_TRUE(std::isfinite(value_at(out.tensor, 0)));
    EXPECT_TRUE(std::isnan(value_at(out.tensor, 4)));
    k.data<float>()[4 * 150] = NAN;  // in one block alone
    attention(ctx, {q}, {k}, {k}, 1, 4, out.tensor, {}, {.key_blocks = blocks});
    EXPECT_TRUE(std::isnan(value_at(out.tensor, 0)));
  }
}

TEST(Attention, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  const Tensor x({1, 2, 8}, DType::f32);
  const auto code_of = [&](const HeadsView& q, const HeadsView& k,
                           const HeadsView& v, std::int64_t heads) {
    Tensor out({1, 2, 8}, DType::f32);
    try {
      attention(ctx, q, k, v, heads, 4, out);
    } catch (const Error& error) {
      return error.code();
    }
    return Errc::internal;
  };
  EXPECT_EQ(code_of({x}, {x}, {x}, 0), Errc::shape_mismatch);
  EXPECT_EQ(code_of({x}, {x}, {x}, 3), Errc::shape_mismatch);
  EXPECT_EQ(code_of({x}, {x, 1}, {x}, 2), Errc::shape_mismatch);
  EXPECT_EQ(code_of({x}, {Tensor({1, 0, 8}, DType::f32)},
                    {Tensor({1, 0, 8}, DType::f32)}, 2),
            Errc::shape_mismatch);
  EXPECT_EQ(code_of({x}, {Tensor({1, 3, 8}, DType::f32)}, {x}, 2),
            Errc::shape_mismatch);
  EXPECT_EQ(code_of({x}, {Tensor({1, 2, 8}, DType::bf16)}, {x}, 2),
            Errc::invalid_argument);
}

TEST(Attention, RefusesBlocksOfMaskedKeys) {
  ExecContext ctx;
  const Tensor x({1, 2, 8}, DType::f32);
  const std::int64_t lengths[] = {2};
  const Tensor bias({2, 2, 2}, DType::f32);
  Tensor out({1, 2, 8}, DType::f32);
  for (const AttentionMask& mask :
       {AttentionMask{.key_blocks = 0}, AttentionMask{.key_blocks = -1},
        AttentionMask{.causal = true, .key_blocks = 2},
        AttentionMask{.key_lengths = lengths, .key_blocks = 2},
        AttentionMask{.bias = bias, .key_blocks = 2}}) {
    try {
      attention(ctx, {x}, {x}, {x}, 2, 4, out, {}, mask);
      ADD_FAILURE() << "nothing was refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("key blocks"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace troupe::kernels
