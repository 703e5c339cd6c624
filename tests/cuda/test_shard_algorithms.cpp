#include <functional>

#include "kernels/conv2d.h"
#include "tests/cuda/emulator/blas.h"
#include "tests/cuda/emulator/dnn.h"
#include "tests/cuda/emulator/faults.h"
#include "tests/cuda/shard_cases.h"

// Shards under libraries whose bits depend on what a call is given: only
// emulated ones can be made to.

namespace troupe::kernels {
namespace {

using emulator::BlasAlgorithm;

class ShardAlgorithms : public CudaTest {
 protected:
  void TearDown() override {
    emulator::set_blas_behaviour({});
    emulator::set_dnn_behaviour({});
  }
};

Errc code_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.code();
  }
  return Errc::internal;
}

TEST_F(ShardAlgorithms, OfProductsAreThoseOfTheWhole) {
  // Steady for the whole, by what a call has for fewer rows: the library would
  // choose another algorithm for a shard.
  emulator::set_blas_behaviour({.order = {BlasAlgorithm::steady}});
  ExecContext ctx(1, kGpu);
  const LinearShards shards(ctx, 150, 48, 64, DType::bf16);
  emulator::set_blas_behaviour({.order = {BlasAlgorithm::by_columns}});
  for (const RowRange& range : shards.ranges()) {
    shards.expect_same(ctx, range);
    EXPECT_EQ(emulator::blas_counters().last_algorithm, BlasAlgorithm::steady);
  }
}

TEST_F(ShardAlgorithms, AreRefusedWhereRowsAloneHaveOtherBits) {
  for (const BlasAlgorithm algorithm :
       {BlasAlgorithm::by_columns, BlasAlgorithm::by_batch}) {
    emulator::set_blas_behaviour({.order = {algorithm}});
    ExecContext ctx(1, kGpu);
    const LinearShards shards(ctx, 150, 48, 200, DType::bf16);
    shards.expect_same(ctx, {0, 150});
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(code_of([&] {
                  shards.expect_same(ctx, {0, kRowBlock});
                }),
                Errc::unsupported);
    }
  }
}

TEST_F(ShardAlgorithms, AreCheckedOnce) {
  emulator::set_blas_behaviour({.order = {BlasAlgorithm::steady}});
  ExecContext ctx(1, kGpu);
  const LinearShards shards(ctx, 150, 48, 64, DType::bf16);
  const RowRange range{kRowBlock, 2 * kRowBlock};
  shards.expect_same(ctx, range);
  const auto before = emulator::blas_counters();
  shards.expect_same(ctx, range);
  EXPECT_EQ(emulator::blas_counters().checks, before.checks);
  EXPECT_EQ(emulator::blas_counters().heuristics, before.heuristics);
  EXPECT_EQ(emulator::blas_counters().products, before.products + 2);
}

TEST_F(ShardAlgorithms, OfAttentionAreThoseOfTheWhole) {
  ExecContext ctx(1, kGpu);
  const AttentionShards shards(ctx, 150, 4, 16, DType::bf16);
  for (const AttentionPart& part : shards.parts()) {
    shards.expect_same(ctx, part);
  }
}

TEST_F(ShardAlgorithms, OfAttentionAreRefusedWithoutTheEngineOfTheWhole) {
  emulator::set_dnn_behaviour({.engines_depend_on_queries = true});
  ExecContext ctx(1, kGpu);
  const AttentionShards shards(ctx, 150, 4, 16, DType::bf16);
  const AttentionPart part{{0, kRowBlock}, 0, 4};
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(code_of([&] { shards.expect_same(ctx, part); }),
              Errc::unsupported);
  }
  shards.expect_same(ctx, {{0, 150}, 1, 2});
}

TEST_F(ShardAlgorithms, OfAttentionAreRefusedWhereTheirBitsAreOthers) {
  emulator::set_dnn_behaviour({.bits_depend_on_queries = true});
  ExecContext ctx(1, kGpu);
  const AttentionShards shards(ctx, 150, 4, 16, DType::bf16);
  EXPECT_EQ(code_of([&] {
              shards.expect_same(ctx, {{0, kRowBlock}, 0, 4});
            }),
            Errc::unsupported);
}

/// The first 50 pixels of a convolution over 12 × 10.
void convolve_part() {
  ExecContext ctx(1, kGpu);
  const PackedConv2d packed(ctx, random({8, 16, 3, 3}, DType::f32, 1), {}, 1,
                            Padding::all(1), DType::bf16);
  const Tensor x = upload(ctx, random({1, 12, 10, 16}, DType::bf16, 2));
  Tensor whole = poisoned(ctx, {1, 12, 10, 8}, DType::bf16);
  conv2d(ctx, x, packed, whole);
  const ImagePart to{12, 10, {0, 50}};
  const ImagePart from = packed.read_for(to, to);
  Tensor part = poisoned(ctx, {1, 50, 8}, DType::bf16);
  const Tensor read = x.reshape({120, 16}).slice(0, from.pixels.end);
  conv2d(ctx, read.reshape({1, from.pixels.size(), 16}), from, packed, part,
         to);
  EXPECT_TRUE(bytes_equal(download(ctx, part.item(0)),
                          download(ctx, whole.reshape({120, 8}).slice(0, 50))));
}

TEST_F(ShardAlgorithms, OfConvolutionsAreThoseOfTheWholeOrRefused) {
  convolve_part();
  emulator::set_dnn_behaviour({.engines_depend_on_height = true});
  EXPECT_EQ(code_of(convolve_part), Errc::unsupported);
  emulator::set_dnn_behaviour({.bits_depend_on_height = true});
  EXPECT_EQ(code_of(convolve_part), Errc::unsupported);
}

// The whole's layout is unknown, or impossible.
TEST_F(ShardAlgorithms, OfAttentionNeedTheRowsOfTheWhole) {
  ExecContext ctx(1, kGpu);
  const Tensor x = upload(ctx, random({1, 90, 32}, DType::bf16, 1));
  Tensor out = poisoned(ctx, {1, 90, 32}, DType::bf16);
  const auto attend = [&](const WholeItem& whole) {
    attention(ctx, {x, 0}, {x, 0}, {x, 0}, 2, 16, out, whole);
  };
  EXPECT_EQ(code_of([&] { attend({.num_heads = 4}); }), Errc::unsupported);
  EXPECT_EQ(code_of([&] { attend({.num_heads = 4, .row_width = 63}); }),
            Errc::shape_mismatch);
  // All rows and heads, but gathered out of a fused tensor: checked as well.
  emulator::set_dnn_behaviour({.bits_depend_on_queries = true});
  attend({.row_width = 3 * 32});
}

// A recording cannot wait for a check.
TEST_F(ShardAlgorithms, AreRefusedInARecordingUnlessTheyRanBefore) {
  emulator::set_blas_behaviour({.order = {BlasAlgorithm::steady}});
  ExecContext ctx(1, kGpu);
  const LinearCase values({2, 64, 64}, 48, DType::bf16, 5);
  const PackedLinear packed = values.packed(ctx);
  const Tensor x = upload(ctx, values.x);
  Tensor out = poisoned(ctx, values.out_shape(), DType::bf16);
  const auto run = [&](std::int64_t items, std::int64_t whole_rows) {
    Tensor to = out.slice(0, items);
    linear(ctx, x.slice(0, items), packed, Activation::none, to,
           {.rows = whole_rows});
  };
  run(1, 150);
  run(2, 64);  // whole items: their algorithm is known
  const auto owner = std::make_shared<int>();
  const std::uint64_t key[] = {1};
  bool records = false;
  const auto step = [&] {
    if (records) {
      run(2, 150);  // another batch of rows that were compared
      EXPECT_EQ(code_of([&] { run(1, 151); }), Errc::unsupported);
    }
    records = true;
  };
  ctx.replay(owner, key, step);
  ctx.replay(owner, key, step);
}

// Too little memory for the check says nothing of the bits.
TEST_F(ShardAlgorithms, OfAttentionAreCheckedAgainWhenThereIsMemory) {
  ExecContext ctx(1, kGpu);
  const AttentionShards shards(ctx, 150, 4, 16, DType::bf16);
  const AttentionPart part{{0, kRowBlock}, 0, 4};
  const Tensor q = upload(ctx, random({1, kRowBlock, 64}, DType::bf16, 1));
  const Tensor kv = upload(ctx, random({1, 150, 64}, DType::bf16, 2));
  Tensor out = poisoned(ctx, q.shape(), DType::bf16);
  for (int i = 0; i < 2; ++i) {  // an allocation asks twice
    emulator::fail_call("cudaMallocAsync", cudaErrorMemoryAllocation, 1);
  }
  EXPECT_EQ(code_of([&] {
              attention(ctx, {q, 0}, {kv, 0}, {kv, 0}, 4, 16, out,
                        {.rows = 150, .num_heads = 4, .row_width = 192});
            }),
            Errc::device_full);
  shards.expect_same(ctx, part);
}

// In f32, and for heads that flash attention cannot read, there are products.
// The bits of this algorithm follow from the number of rows in a call.
TEST_F(ShardAlgorithms, OfAttentionByProductsAreThoseOfTheWhole) {
  emulator::set_blas_behaviour({.order = {BlasAlgorithm::by_columns}});
  for (const auto& [dtype, head_dim] :
       {std::pair(DType::f32, 16), std::pair(DType::bf16, 11)}) {
    ExecContext ctx(1, kGpu);
    const FusedAttention values(ctx, 150, 4, head_dim, dtype);
    for (const RowRange& rows :
         {RowRange{0, 64}, RowRange{64, 150}, RowRange{64, 128}}) {
      values.expect_same(ctx, rows);
    }
    const WholeItem item{
        .rows = 150, .num_heads = 4, .row_width = values.x.dim(2)};
    EXPECT_EQ(code_of([&] { (void)values.attend(ctx, values.x, 2, item); }),
              Errc::unsupported);
    // The whole's column of what would be copied is not known.
    WholeItem wider = item;
    wider.row_width += 8;
    EXPECT_EQ(code_of([&] { (void)values.attend(ctx, values.x, 4, wider); }),
              Errc::unsupported);
    // Without a promise of bits anything is computed.
    ExecContext free(1, kGpu, {.batch_invariant = false});
    (void)values.attend(free, values.x, 2, item);
  }
}

// Blocks of rows, of which a shard has all or some.
TEST_F(ShardAlgorithms, OfAttentionByProductsCutTheRowsOfTheWhole) {
  emulator::set_blas_behaviour({.order = {BlasAlgorithm::by_columns}});
  ExecContext ctx(1, kGpu);
  constexpr std::int64_t kTokens = 3392;
  ASSERT_EQ(product_rows(2, kTokens, kTokens), kTokens / 2);
  const FusedAttention values(ctx, kTokens, 2, 1, DType::f32);
  values.expect_same(ctx, {1024, kTokens});
}

// What the whole has from flash attention, a shard has from nothing else.
TEST_F(ShardAlgorithms, OfAttentionThatFlashCannotReadAreRefused) {
  ExecContext ctx(1, kGpu);
  const Tensor x = upload(ctx, random({1, 128, 20}, DType::bf16, 5));
  Tensor out = poisoned(ctx, {1, 128, 8}, DType::bf16);
  EXPECT_EQ(code_of([&] {
              attention(ctx, {x, 0}, {x, 8}, {x, 12}, 1, 8, out,
                        {.rows = 256, .row_width = 24});
            }),
            Errc::unsupported);
}

TEST_F(ShardAlgorithms, OfAttentionNeverSplitSums) {
  emulator::set_blas_behaviour(
      {.order = {BlasAlgorithm::split_k, BlasAlgorithm::split_k_in_place,
                 BlasAlgorithm::steady},
       .ignores_schemes = true});
  ExecContext ctx(1, kGpu);
  const Tensor x = upload(ctx, random({1, 20, 3 * 32}, DType::f32, 3));
  Tensor out = poisoned(ctx, {1, 20, 32}, DType::f32);
  attention(ctx, {x, 0}, {x, 32}, {x, 64}, 2, 16, out);
  EXPECT_EQ(emulator::blas_counters().last_algorithm, BlasAlgorithm::steady);
}

}  // namespace
}  // namespace troupe::kernels
