#include <optional>
#include <vector>

#include "kernels/attention.h"
#include "tests/cuda/shard_cases.h"

namespace troupe::kernels {
namespace {

class MaskedAttentionOnGpu : public CudaTest {};

struct MaskedCase {
  std::int64_t items, queries, keys, num_heads, head_dim;

  [[nodiscard]] std::int64_t width() const { return num_heads * head_dim; }
};

/// Operands and a mask on the host.
struct Masked {
  MaskedCase c;
  Tensor q, k, v;
  std::optional<float> scale;
  bool causal = false;
  std::vector<std::int64_t> lengths;
  Tensor bias;

  Masked(const MaskedCase& size, DType dtype, std::uint64_t seed)
      : c(size),
        q(random({c.items, c.queries, c.width()}, dtype, seed)),
        k(random({c.items, c.keys, c.width()}, dtype, seed + 1)),
        v(random({c.items, c.keys, c.width()}, dtype, seed + 2)) {}

  /// Every second key counts in the second item, one in the third, and so on.
  void set_lengths() {
    for (std::int64_t item = 0; item < c.items; ++item) {
      lengths.push_back((c.keys + item) / (item + 1));
    }
  }
  void set_bias(std::uint64_t seed) {
    bias = random({c.num_heads, c.queries, c.keys}, DType::f32, seed, 3);
  }
  [[nodiscard]] AttentionMask mask(const Tensor& bias_there) const {
    return {.scale = scale,
            .causal = causal,
            .key_lengths = lengths,
            .bias = bias_there};
  }
};

Tensor on_gpu(ExecContext& ctx, const Masked& m) {
  Tensor out = poisoned(ctx, m.q.shape(), m.q.dtype());
  const Tensor bias = m.bias.empty() ? Tensor() : upload(ctx, m.bias);
  attention(ctx, {upload(ctx, m.q)}, {upload(ctx, m.k)}, {upload(ctx, m.v)},
            m.c.num_heads, m.c.head_dim, out, {}, m.mask(bias));
  return download(ctx, out);
}

/// What the CPU makes of the operands, in f32.
Tensor expected(const Masked& m) {
  ExecContext cpu;
  Tensor want(m.q.shape(), DType::f32);
  attention(cpu, {as(m.q, DType::f32)}, {as(m.k, DType::f32)},
            {as(m.v, DType::f32)}, m.c.num_heads, m.c.head_dim, want, {},
            m.mask(m.bias));
  return want;
}

TEST_F(MaskedAttentionOnGpu, AgreesWithTheCpu) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 10;
  constexpr MaskedCase kCases[] = {{1, 1, 1, 1, 8},
                                   {3, 20, 20, 2, 16},
                                   {2, 33, 21, 3, 11},
                                   {4, 9, 40, 1, 8}};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const MaskedCase& c : kCases) {
      for (int parts = 0; parts < 16; ++parts) {
        Masked m(c, dtype, ++seed * 8);
        if ((parts & 1) != 0) {
          m.scale = 0.5F;
        }
        m.causal = (parts & 2) != 0;
        if ((parts & 4) != 0) {
          m.set_lengths();
        }
        if ((parts & 8) != 0) {
          m.set_bias(seed);
        }
        if (m.causal && c.queries != c.keys) {
          continue;
        }
        SCOPED_TRACE(std::string(to_string(dtype)) + ", " +
                     std::to_string(c.keys) + " keys, mask " +
                     std::to_string(parts));
        expect_close(on_gpu(ctx, m), expected(m), tolerance_of(dtype));
      }
    }
  }
}

// So many logits that the rows are cut: the mask goes on where a block begins.
TEST_F(MaskedAttentionOnGpu, GoesOnInTheNextBlockOfRows) {
  constexpr std::int64_t kBlockBytes = std::int64_t{64} << 20U;
  ExecContext ctx(1, kGpu);
  Masked m({1, 300, 300, 200, 1}, DType::f32, 40);
  ASSERT_GT(m.c.num_heads * m.c.queries * m.c.keys *
                static_cast<std::int64_t>(sizeof(float)),
            kBlockBytes);
  m.causal = true;
  m.set_bias(41);
  expect_close(on_gpu(ctx, m), expected(m), tolerance_of(DType::f32));
}

/// Item `item` of `m` alone, without the padding that it has there.
Masked cut(const Masked& m, std::int64_t item) {
  Masked one = m;
  one.c.items = 1;
  one.c.keys = m.lengths.at(static_cast<std::size_t>(item));
  const auto first = [&](const Tensor& x, std::int64_t tokens) {
    return x.item(item).slice(0, tokens).reshape({1, tokens, x.dim(2)});
  };
  one.q = m.q.slice(item, item + 1);
  one.k = first(m.k, one.c.keys);
  one.v = first(m.v, one.c.keys);
  one.lengths.clear();
  if (!m.bias.empty()) {
    one.bias = Tensor({m.c.num_heads, m.c.queries, one.c.keys}, DType::f32);
    for (std::int64_t row = 0; row < m.c.num_heads * m.c.queries; ++row) {
      std::memcpy(one.bias.data<float>() + row * one.c.keys,
                  m.bias.data<float>() + row * m.c.keys,
                  static_cast<std::size_t>(one.c.keys) * sizeof(float));
    }
  }
  return one;
}

// With flash attention and by products; NaN lies behind the keys that count.
TEST_F(MaskedAttentionOnGpu, BitsOfAnItemDependOnNeitherBatchNorPadding) {
  ExecContext ctx(1, kGpu);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::int64_t head_dim : {16, 11}) {
      for (const bool has_bias : {false, true}) {
        Masked m({5, 12, 35, 2, head_dim}, dtype, 50);
        m.lengths = {35, 35, 1, 20, 35};
        if (has_bias) {
          m.set_bias(60);
        }
        for (std::int64_t item = 0; item < m.c.items; ++item) {
          for (Tensor* tensor : {&m.k, &m.v}) {
            const std::int64_t length =
                m.lengths[static_cast<std::size_t>(item)];
            Tensor padding = tensor->item(item).slice(length, m.c.keys);
            if (!padding.empty()) {
              std::memset(padding.bytes().data(), 0xff, padding.num_bytes());
            }
          }
        }
        const Tensor together = on_gpu(ctx, m);
        for (std::int64_t item = 0; item < m.c.items; ++item) {
          expect_same_bits(on_gpu(ctx, cut(m, item)),
                           together.slice(item, item + 1));
        }
      }
    }
  }
}

TEST_F(MaskedAttentionOnGpu, ThatMasksNothingHasTheBytesOfThePlainOne) {
  ExecContext ctx(1, kGpu);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Masked m({3, 10, 17, 2, 16}, dtype, 70);
    const Tensor plain = on_gpu(ctx, m);
    m.lengths = {17, 17, 17};
    m.scale = 0.25F;
    expect_same_bits(on_gpu(ctx, m), plain);
  }
}

// What a recording holds of the mask is in its key.
TEST_F(MaskedAttentionOnGpu, IsPlayedBackWithTheMaskOfItsKey) {
  ExecContext ctx(1, kGpu);
  const auto owner = std::make_shared<int>();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Masked m({2, 17, 23, 3, 16}, dtype, 80);
    Tensor q = upload(ctx, m.q);
    const Tensor k = upload(ctx, m.k);
    const Tensor v = upload(ctx, m.v);
    m.set_bias(81);
    Tensor bias = upload(ctx, m.bias);
    Tensor out = poisoned(ctx, m.q.shape(), dtype);
    for (std::uint64_t round = 0; round < 12; ++round) {
      m.lengths = {1 + static_cast<std::int64_t>(round % 3) * 11, 20};
      m.q = random(m.q.shape(), dtype, 100 + round);
      copy(ctx, m.q, q);
      m.set_bias(200 + round);
      copy(ctx, m.bias, bias);
      const std::uint64_t key[] = {
          static_cast<std::uint64_t>(dtype),
          static_cast<std::uint64_t>(m.lengths[0]),
          static_cast<std::uint64_t>(m.lengths[1]),
          reinterpret_cast<std::uintptr_t>(bias.bytes().data())};
      ctx.replay(owner, key, [&] {
        attention(ctx, {q}, {k}, {v}, m.c.num_heads, m.c.head_dim, out, {},
                  m.mask(bias));
      });
      expect_close(download(ctx, out), expected(m), tolerance_of(dtype));
    }
  }
}

// The tokens of an image are divided among GPUs; each has the prompt's keys.
TEST_F(MaskedAttentionOnGpu, OfSomeRowsHasTheBytesOfTheWholeOrIsRefused) {
  constexpr std::int64_t kRows = 150;
  ExecContext ctx(1, kGpu);
  int num_served = 0;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Masked m({2, kRows, 40, 2, 16}, dtype, 90);
    m.lengths = {40, 9};
    const Tensor k = upload(ctx, m.k);
    const Tensor v = upload(ctx, m.v);
    const Tensor whole = on_gpu(ctx, m);
    for (const RowRange& range : row_ranges(kRows)) {
      const Tensor q = upload(ctx, rows_of(m.q, range));
      Tensor out = poisoned(ctx, q.shape(), dtype);
      try {
        attention(ctx, {q}, {k}, {v}, 2, 16, out,
                  {.rows = kRows, .num_heads = 2, .row_width = m.c.width()},
                  m.mask({}));
        expect_same_bits(download(ctx, out), rows_of(whole, range));
        ++num_served;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::unsupported) << error.what();
      }
    }
    // A bias has no flash kernel.
    const RowRange first{0, kRowBlock};
    const Tensor q = upload(ctx, rows_of(m.q, first));
    Tensor out = poisoned(ctx, q.shape(), dtype);
    const Tensor bias = upload(ctx, random({2, kRowBlock, 40}, DType::f32, 1));
    try {
      attention(ctx, {q}, {k}, {v}, 2, 16, out,
                {.rows = kRows, .num_heads = 2, .row_width = m.c.width()},
                m.mask(bias));
      FAIL() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::unsupported);
    }
  }
  EXPECT_GE(num_served, 2);
}

TEST_F(MaskedAttentionOnGpu, ServesShardsWithABiasInFreeMode) {
  ExecContext free(1, kGpu, {.batch_invariant = false});
  Masked m({1, 64, 40, 2, 16}, DType::bf16, 95);
  m.set_bias(96);
  Tensor out = poisoned(free, m.q.shape(), DType::bf16);
  attention(free, {upload(free, m.q)}, {upload(free, m.k)}, {upload(free, m.v)},
            2, 16, out, {.rows = 150}, m.mask(upload(free, m.bias)));
  expect_close(download(free, out), expected(m), tolerance_of(DType::bf16));
}

}  // namespace
}  // namespace troupe::kernels
