#include "kernels/attention.h"
#include "tests/cuda/support.h"

namespace troupe::kernels {
namespace {

class AttentionOnGpu : public CudaTest {};

struct AttentionCase {
  std::int64_t items;
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t num_heads;
  std::int64_t head_dim;
};

/// q, k and v of their own, each in a wider tensor, from `column` on.
struct HeadOperands {
  Tensor q;
  Tensor k;
  Tensor v;

  HeadOperands(const AttentionCase& c, DType dtype, std::int64_t spare,
               std::uint64_t seed)
      : q(random({c.items, c.queries, c.num_heads * c.head_dim + spare}, dtype,
                 seed)),
        k(random({c.items, c.keys, c.num_heads * c.head_dim + 2 * spare}, dtype,
                 seed + 1)),
        v(random({c.items, c.keys, c.num_heads * c.head_dim + 3 * spare}, dtype,
                 seed + 2)) {}
};

/// What the CPU makes of the operands, in f32.
Tensor expected(const AttentionCase& c, const HeadOperands& x,
                std::int64_t spare) {
  ExecContext cpu;
  Tensor want({c.items, c.queries, c.num_heads * c.head_dim}, DType::f32);
  attention(cpu, {as(x.q, DType::f32), spare}, {as(x.k, DType::f32), 2 * spare},
            {as(x.v, DType::f32), 0}, c.num_heads, c.head_dim, want);
  return want;
}

Tensor on_gpu(ExecContext& ctx, const AttentionCase& c, const HeadOperands& x,
              std::int64_t spare) {
  Tensor out = poisoned(ctx, {c.items, c.queries, c.num_heads * c.head_dim},
                        x.q.dtype());
  attention(ctx, {upload(ctx, x.q), spare}, {upload(ctx, x.k), 2 * spare},
            {upload(ctx, x.v), 0}, c.num_heads, c.head_dim, out);
  return download(ctx, out);
}

constexpr AttentionCase kReadable[] = {{1, 1, 1, 1, 8},    {2, 5, 7, 3, 16},
                                       {1, 16, 16, 6, 32}, {3, 33, 20, 2, 72},
                                       {2, 20, 41, 1, 64}, {1, 9, 130, 2, 128}};

TEST_F(AttentionOnGpu, FlashAgreesWithTheCpu) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 10;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const AttentionCase& c : kReadable) {
      for (const std::int64_t spare : {0, 24}) {
        const HeadOperands x(c, dtype, spare, ++seed);
        expect_close(on_gpu(ctx, c, x, spare), expected(c, x, spare),
                     tolerance_of(dtype));
      }
    }
  }
}

// Heads or columns that flash attention cannot read, and f32.
TEST_F(AttentionOnGpu, ProductsAgreeWithTheCpu) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 100;
  const AttentionCase odd[] = {
      {1, 1, 1, 1, 1}, {2, 5, 7, 3, 5}, {1, 40, 33, 2, 12}};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const AttentionCase& c : odd) {
      for (const std::int64_t spare : {0, 3}) {
        const HeadOperands x(c, dtype, spare, ++seed);
        expect_close(on_gpu(ctx, c, x, spare), expected(c, x, spare),
                     tolerance_of(dtype));
      }
    }
    for (const AttentionCase& c : kReadable) {
      const HeadOperands x(c, dtype, 1, ++seed);
      expect_close(on_gpu(ctx, c, x, 1), expected(c, x, 1),
                   tolerance_of(dtype));
    }
  }
}

TEST_F(AttentionOnGpu, ReadsHeadsInPlaceFromAFusedProjection) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    const std::int64_t width = 4 * 24;
    const Tensor qkv = random({2, 19, 3 * width}, dtype, 7);
    const Tensor wide = as(qkv, DType::f32);
    Tensor want({2, 19, width}, DType::f32);
    attention(cpu, {wide, 0}, {wide, width}, {wide, 2 * width}, 4, 24, want);
    const Tensor there = upload(ctx, qkv);
    Tensor out = poisoned(ctx, want.shape(), dtype);
    attention(ctx, {there, 0}, {there, width}, {there, 2 * width}, 4, 24, out);
    expect_close(download(ctx, out), want, tolerance_of(dtype));
  }
}

TEST_F(AttentionOnGpu, SurvivesLogitsThatOverflowExp) {
  ExecContext ctx(1, kGpu);
  const AttentionCase c{1, 12, 30, 2, 16};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    HeadOperands x(c, dtype, 0, 3);
    x.q = random(x.q.shape(), dtype, 4, 60);
    x.k = random(x.k.shape(), dtype, 5, 60);
    expect_close(on_gpu(ctx, c, x, 0), expected(c, x, 0),
                 dtype == DType::f32 ? 1e-3 : tolerance_of(dtype));
  }
}

TEST_F(AttentionOnGpu, BitsOfAnItemDoNotDependOnTheBatch) {
  ExecContext ctx(1, kGpu);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::int64_t head_dim : {40, 11}) {
      const AttentionCase all{5, 21, 35, 3, head_dim};
      AttentionCase one = all;
      one.items = 1;
      const HeadOperands x(all, dtype, 0, 77);
      const Tensor together = on_gpu(ctx, all, x, 0);
      for (std::int64_t item = 0; item < all.items; ++item) {
        HeadOperands alone(one, dtype, 0, 1);
        alone.q = x.q.slice(item, item + 1);
        alone.k = x.k.slice(item, item + 1);
        alone.v = x.v.slice(item, item + 1);
        expect_same_bits(on_gpu(ctx, one, alone, 0),
                         together.slice(item, item + 1));
      }
      expect_same_bits(on_gpu(ctx, all, x, 0), together);
    }
  }
}

TEST_F(AttentionOnGpu, AgreesWithTheCpuInFreeMode) {
  ExecContext ctx(1, kGpu, {.batch_invariant = false, .tf32 = false});
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const AttentionCase c{3, 10, 12, 2, 24};
    const HeadOperands x(c, dtype, 0, 8);
    expect_close(on_gpu(ctx, c, x, 0), expected(c, x, 0), tolerance_of(dtype));
  }
}

TEST_F(AttentionOnGpu, IsPlayedBackWithNewNumbers) {
  ExecContext ctx(1, kGpu);
  const AttentionCase c{2, 17, 23, 3, 16};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto owner = std::make_shared<int>();
    const std::uint64_t key[] = {static_cast<std::uint64_t>(dtype)};
    HeadOperands x(c, dtype, 0, 1);
    Tensor q = upload(ctx, x.q);
    const Tensor k = upload(ctx, x.k);
    const Tensor v = upload(ctx, x.v);
    Tensor out = poisoned(ctx, {2, 17, 48}, dtype);
    for (std::uint64_t round = 0; round < 5; ++round) {
      x.q = random(x.q.shape(), dtype, 50 + round);
      copy(ctx, x.q, q);
      ctx.replay(owner, key, [&] {
        attention(ctx, {q, 0}, {k, 0}, {v, 0}, c.num_heads, c.head_dim, out);
      });
      expect_close(download(ctx, out), expected(c, x, 0), tolerance_of(dtype));
    }
  }
}

TEST_F(AttentionOnGpu, DoesNothingForNoQueriesOrNoItems) {
  ExecContext ctx(1, kGpu);
  for (const AttentionCase& c :
       {AttentionCase{0, 3, 4, 2, 8}, AttentionCase{2, 0, 4, 2, 8}}) {
    const HeadOperands x(c, DType::bf16, 0, 1);
    EXPECT_TRUE(on_gpu(ctx, c, x, 0).empty());
  }
}

}  // namespace
}  // namespace troupe::kernels
