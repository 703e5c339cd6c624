#include <optional>

#include "kernels/attention.h"
#include "kernels/core/error.h"
#include "kernels/cpu/onednn.h"
#include "tests/kernels/reference.h"

namespace troupe::kernels {
namespace {

struct Operands {
  Tensor q, k, v;
  std::int64_t heads;
  std::int64_t head_dim;
};

Operands operands(std::int64_t items, std::int64_t queries, std::int64_t keys,
                  std::int64_t heads, std::int64_t head_dim, DType dtype) {
  const std::int64_t width = heads * head_dim;
  return {random_tensor({items, queries, width}, dtype, 1, 2),
          random_tensor({items, keys, width}, dtype, 2, 2),
          random_tensor({items, keys, width}, dtype, 3), heads, head_dim};
}

/// Attention by its definition, in double.
std::vector<double> masked_reference(const Operands& x,
                                     const AttentionMask& mask) {
  const std::int64_t queries = x.q.dim(1);
  const std::int64_t keys = x.k.dim(1);
  const std::int64_t width = x.heads * x.head_dim;
  const double scale = mask.scale
                           ? static_cast<double>(*mask.scale)
                           : 1 / std::sqrt(static_cast<double>(x.head_dim));
  const std::vector<double> q = values_of(x.q);
  const std::vector<double> k = values_of(x.k);
  const std::vector<double> v = values_of(x.v);
  std::vector<double> out(q.size());
  for (std::int64_t b = 0; b < x.q.dim(0); ++b) {
    const std::int64_t length =
        mask.key_lengths.empty()
            ? keys
            : mask.key_lengths[static_cast<std::size_t>(b)];
    for (std::int64_t h = 0; h < x.heads; ++h) {
      for (std::int64_t i = 0; i < queries; ++i) {
        const std::int64_t row = (b * queries + i) * width + h * x.head_dim;
        const auto key_row = [&](std::int64_t j) {
          return (b * keys + j) * width + h * x.head_dim;
        };
        std::vector<double> logits;
        for (std::int64_t j = 0; j < length && !(mask.causal && j > i); ++j) {
          double dot = 0;
          for (std::int64_t d = 0; d < x.head_dim; ++d) {
            dot += q[row + d] * k[key_row(j) + d];
          }
          dot *= scale;
          if (!mask.bias.empty()) {
            dot += value_at(mask.bias, (h * queries + i) * keys + j);
          }
          logits.push_back(dot);
        }
        const double top = *std::max_element(logits.begin(), logits.end());
        double total = 0;
        for (double& logit : logits) {
          logit = std::exp(logit - top);
          total += logit;
        }
        for (std::size_t j = 0; j < logits.size(); ++j) {
          const std::int64_t key = key_row(static_cast<std::int64_t>(j));
          const double weight = logits[j] / total;
          for (std::int64_t d = 0; d < x.head_dim; ++d) {
            out[row + d] += weight * v[key + d];
          }
        }
      }
    }
  }
  return out;
}

Tensor attend(ExecContext& ctx, const Operands& x, const AttentionMask& mask) {
  Tensor out(x.q.shape(), x.q.dtype());
  attention(ctx, {x.q}, {x.k}, {x.v}, x.heads, x.head_dim, out, {}, mask);
  return out;
}

TEST(MaskedAttention, MatchesADoubleReference) {
  struct Size {
    std::int64_t queries, keys, heads, head_dim;
  };
  ExecContext ctx(2);
  for (const DType dtype : compute_types()) {
    for (const Size s :
         {Size{1, 1, 1, 1}, Size{77, 77, 2, 64}, Size{5, 19, 3, 9},
          Size{300, 120, 2, 72}, Size{130, 130, 1, 16}, Size{35, 63, 2, 72},
          Size{6, 63, 1, 80}}) {
      const Operands x =
          operands(3, s.queries, s.keys, s.heads, s.head_dim, dtype);
      const Tensor bias =
          random_tensor({s.heads, s.queries, s.keys}, DType::f32, 4, 6);
      const std::int64_t lengths[] = {s.keys, 1, (s.keys + 1) / 2};
      for (int parts = 0; parts < 16; ++parts) {
        AttentionMask mask;
        if ((parts & 1) != 0) {
          mask.scale = 0.25F;
        }
        mask.causal = (parts & 2) != 0;
        if ((parts & 4) != 0) {
          mask.key_lengths = lengths;
        }
        if ((parts & 8) != 0) {
          mask.bias = bias;
        }
        if (mask.causal && s.queries != s.keys) {
          continue;
        }
        SCOPED_TRACE(std::to_string(s.keys) + " keys, mask " +
                     std::to_string(parts));
        Guarded out(x.q.shape(), dtype, 1);
        attention(ctx, {x.q}, {x.k}, {x.v}, s.heads, s.head_dim, out.tensor, {},
                  mask);
        EXPECT_TRUE(out.intact());
        expect_near(out.tensor, masked_reference(x, mask), unit_of(dtype),
                    dtype == DType::bf16 ? 4e-3 : 6e-6);
      }
    }
  }
}

TEST(MaskedAttention, ThatMasksNothingHasTheBytesOfThePlainOne) {
  for (const DType dtype : compute_types()) {
    for (const std::int64_t keys : {1, 33, 500}) {
      ExecContext ctx(2);
      const Operands x = operands(2, 100, keys, 2, 40, dtype);
      const std::int64_t all[] = {keys, keys};
      const Tensor plain = attend(ctx, x, {});
      EXPECT_TRUE(bytes_equal(
          attend(ctx, x,
                 {.scale = 1.0F / std::sqrt(40.0F), .key_lengths = all}),
          plain));
      // A bias of zeros rounds as the product with the scale does.
      const std::vector<double> expected = values_of(plain);
      expect_near(
          attend(ctx, x, {.bias = Tensor::zeros({2, 100, keys}, DType::f32)}),
          expected, 2 * unit_of(dtype), dtype == DType::bf16 ? 2e-3 : 1e-6);
    }
  }
}

// T5 sees a prompt of 9 tokens in 120 places as in 512, or alone.
TEST(MaskedAttention, ForgetsPaddingWhateverItHolds) {
  constexpr std::int64_t kQueries = 70;
  for (const DType dtype : compute_types()) {
    for (const std::int64_t valid : {1, 9, 64, 77}) {
      SCOPED_TRACE(std::to_string(valid) + " valid keys");
      ExecContext ctx(2);
      const Operands alone = operands(1, kQueries, valid, 2, 24, dtype);
      const Tensor bias = random_tensor({2, kQueries, valid}, DType::f32, 5, 3);
      const Tensor expected = attend(ctx, alone, {});
      const Tensor with_bias = attend(ctx, alone, {.bias = bias});
      for (const std::int64_t keys : {valid + 1, 120L, 512L}) {
        Operands x = operands(1, kQueries, keys, 2, 24, dtype);
        for (const auto& [to, from] :
             {std::pair{&x.k, &alone.k}, std::pair{&x.v, &alone.v}}) {
          std::memset(to->bytes().data(), 0xff, to->num_bytes());  // NaN
          std::memcpy(to->bytes().data(), from->bytes().data(),
                      from->num_bytes());
        }
        Tensor wide_bias({2, kQueries, keys}, DType::f32);
        std::memset(wide_bias.bytes().data(), 0xff, wide_bias.num_bytes());
        for (std::int64_t row = 0; row < 2 * kQueries; ++row) {
          std::memcpy(wide_bias.data<float>() + row * keys,
                      bias.data<float>() + row * valid,
                      static_cast<std::size_t>(valid) * sizeof(float));
        }
        const std::int64_t lengths[] = {valid};
        EXPECT_TRUE(
            bytes_equal(attend(ctx, x, {.key_lengths = lengths}), expected));
        EXPECT_TRUE(bytes_equal(
            attend(ctx, x, {.key_lengths = lengths, .bias = wide_bias}),
            with_bias));
      }
    }
  }
}

TEST(MaskedAttention, HidesLaterKeysFromEarlierQueries) {
  for (const DType dtype : compute_types()) {
    ExecContext ctx(2);
    const Operands x = operands(1, 77, 77, 2, 64, dtype);
    const Tensor before = attend(ctx, x, {.causal = true});
    Operands later = x;
    later.k = x.k.clone();
    later.v = x.v.clone();
    for (std::int64_t i = 40 * 128; i < 77 * 128; ++i) {
      set_value(later.k, i, -value_at(x.k, i));
      set_value(later.v, i, 100);
    }
    const Tensor after = attend(ctx, later, {.causal = true});
    const auto rows = [](const Tensor& t, std::int64_t begin,
                         std::int64_t end) {
      return t.reshape({77, 128}).slice(begin, end);
    };
    EXPECT_TRUE(bytes_equal(rows(before, 0, 40), rows(after, 0, 40)));
    EXPECT_FALSE(bytes_equal(rows(before, 40, 77), rows(after, 40, 77)));
  }
}

TEST(MaskedAttention, SurvivesAStrongBias) {
  for (const DType dtype : compute_types()) {
    ExecContext ctx;
    const Operands x = operands(1, 33, 65, 1, 16, dtype);
    const AttentionMask mask{
        .scale = 1.0F, .bias = random_tensor({1, 33, 65}, DType::f32, 6, 3000)};
    expect_near(attend(ctx, x, mask), masked_reference(x, mask), unit_of(dtype),
                dtype == DType::bf16 ? 6e-3 : 1e-3);
  }
}

TEST(MaskedAttention, KeepsMemoryWithinBlocksOfALongItem) {
  constexpr std::int64_t kTokens = 16384;
  constexpr std::size_t kMost = std::size_t{256} << 20U;
  // A wide head as a VAE has, and a narrow one with all queries.
  struct Size {
    std::int64_t queries, head_dim;
    int threads;
  };
  for (const DType dtype : compute_types()) {
    for (const Size& s : {Size{130, 512, 2}, Size{1030, 512, 16},
                          Size{kTokens, 8, 16}, Size{kTokens, 8, 64}}) {
      ExecContext ctx(s.threads);
      const Operands x = operands(1, s.queries, kTokens, 1, s.head_dim, dtype);
      const std::int64_t lengths[] = {kTokens - 5};
      const Tensor out =
          attend(ctx, x, {.scale = 0.5F, .key_lengths = lengths});
      EXPECT_TRUE(std::isfinite(value_at(out, out.num_elements() - 1)));
      const std::size_t held =
          ctx.workspace().capacity_bytes() + ctx.scratch_bytes();
      EXPECT_GT(held, 0U);
      EXPECT_LE(held, kMost) << s.queries << " queries " << to_string(dtype)
                             << ' ' << s.threads << " threads";
      std::printf("  %lld queries, head of %lld, %s: %.1f MiB, %d threads\n",
                  static_cast<long long>(s.queries),
                  static_cast<long long>(s.head_dim),
                  std::string(to_string(dtype)).c_str(),
                  static_cast<double>(held) / 0x1p20, s.threads);
    }
  }
}

// Threads that share copies, of all heads or of some at a time, and fewer of
// them than the pool has.
TEST(MaskedAttention, HasTheSameBitsWhoeverCopiesKeysAndValues) {
  struct Size {
    std::int64_t items, queries, keys, heads, head_dim;
    int threads;
  };
  for (const DType dtype : compute_types()) {
    for (const Size& s :
         {Size{1, 1030, 6000, 1, 512, 16}, Size{2, 70, 9000, 3, 512, 16},
          Size{2, 600, 70000, 1, 16, 24}}) {
      SCOPED_TRACE(std::to_string(s.keys) + " keys " +
                   std::string(to_string(dtype)));
      const Operands x =
          operands(s.items, s.queries, s.keys, s.heads, s.head_dim, dtype);
      const std::int64_t lengths[] = {s.keys - 5, 600};
      for (const AttentionMask& mask :
           {AttentionMask{
                .key_lengths = {lengths, static_cast<std::size_t>(s.items)}},
            AttentionMask{.key_blocks = 3}}) {
        ExecContext one;
        ExecContext many(s.threads);
        const Tensor expected = attend(one, x, mask);
        EXPECT_EQ(one.workspace().capacity_bytes(), 0U);
        const Tensor out = attend(many, x, mask);
        EXPECT_GT(many.workspace().capacity_bytes(), 0U)
            << "nothing was shared";
        EXPECT_TRUE(bytes_equal(out, expected));
      }
    }
  }
}

// Every length has its own products.
TEST(MaskedAttention, KeepsNoProductsOfAllLengthsThatItMet) {
  constexpr std::int64_t kKeys = 400;
  constexpr std::size_t kPerLength = 2;
  ExecContext ctx;
  const Operands x = operands(1, 3, kKeys, 1, 4, DType::f32);
  const std::int64_t first[] = {7};
  const Tensor before = attend(ctx, x, {.key_lengths = first});
  for (std::int64_t length = 1; length <= kKeys; ++length) {
    const std::int64_t lengths[] = {length};
    (void)attend(ctx, x, {.key_lengths = lengths});
    EXPECT_LE(cpu::MatmulCache::of(ctx).size(),
              cpu::MatmulCache::kMostProducts + kPerLength);
  }
  EXPECT_TRUE(bytes_equal(attend(ctx, x, {.key_lengths = first}), before));
}

TEST(MaskedAttention, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  const Operands x = operands(2, 6, 6, 2, 4, DType::f32);
  const auto code_of = [&](const AttentionMask& mask,
                           const WholeItem& whole = {},
                           std::int64_t queries = 6) {
    const Tensor q({2, queries, 8}, DType::f32);
    Tensor out(q.shape(), DType::f32);
    try {
      attention(ctx, {q}, {x.k}, {x.v}, 2, 4, out, whole, mask);
    } catch (const Error& error) {
      return error.code();
    }
    return Errc::internal;
  };
  for (const float scale : {0.0F, -1.0F, NAN, INFINITY}) {
    EXPECT_EQ(code_of({.scale = scale}), Errc::invalid_argument) << scale;
  }
  EXPECT_EQ(code_of({.causal = true}, {}, 5), Errc::shape_mismatch);
  EXPECT_EQ(code_of({.causal = true}, {.rows = 12}), Errc::shape_mismatch);
  const std::int64_t lengths[] = {6, 6, 6};
  EXPECT_EQ(code_of({.key_lengths = lengths}), Errc::shape_mismatch);
  for (const std::int64_t wrong : {0, 7, -1}) {
    const std::int64_t pair[] = {3, wrong};
    EXPECT_EQ(code_of({.key_lengths = pair}), Errc::invalid_argument);
  }
  for (const Shape& shape : {Shape{2, 6, 5}, Shape{1, 6, 6}, Shape{2, 36}}) {
    EXPECT_EQ(code_of({.bias = Tensor(shape, DType::f32)}),
              Errc::shape_mismatch);
  }
  EXPECT_EQ(code_of({.bias = Tensor({2, 6, 6}, DType::bf16)}),
            Errc::invalid_argument);
}

}  // namespace
}  // namespace troupe::kernels
