#include "kernels/attention.h"
#include "kernels/row_blocks.h"
#include "tests/cuda/linear_cases.h"
#include "tests/cuda/shard_cases.h"

// A shard of an item's rows or heads has the bytes of the whole item, or is
// refused.

namespace troupe::kernels {
namespace {

class ShardsOnGpu : public CudaTest {};

/// Counts what the device did not refuse.
template <typename Fn>
void expect_whole_or_refusal(const Fn& fn, int* num_served) {
  try {
    fn();
    ++*num_served;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unsupported) << error.what();
  }
}

TEST_F(ShardsOnGpu, OfProductsAreThoseOfTheWhole) {
  ExecContext ctx(1, kGpu);
  int num_served = 0;
  for (const DType compute : kComputeTypes) {
    const LinearShards shards(ctx, 300, 48, 64, compute);
    for (const RowRange& range : shards.ranges()) {
      expect_whole_or_refusal([&] { shards.expect_same(ctx, range); },
                              &num_served);
    }
  }
  // Each whole item is among the ranges.
  EXPECT_GE(num_served, static_cast<int>(std::size(kComputeTypes)));
  std::printf("  %d ranges of rows were served\n", num_served);
}

TEST_F(ShardsOnGpu, OfAttentionAreThoseOfTheWhole) {
  ExecContext ctx(1, kGpu);
  int num_served = 0;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const AttentionShards shards(ctx, 150, 4, 16, dtype);
    for (const AttentionPart& part : shards.parts()) {
      expect_whole_or_refusal([&] { shards.expect_same(ctx, part); },
                              &num_served);
    }
  }
  EXPECT_GE(num_served, 2);
  std::printf("  %d shards of attention were served\n", num_served);
}

// In f32, for heads that flash attention cannot read, and in a decoder.
TEST_F(ShardsOnGpu, OfAttentionByProductsAreThoseOfTheWhole) {
  ExecContext ctx(1, kGpu);
  const FusedAttention f32(ctx, 150, 4, 16, DType::f32);
  const FusedAttention odd(ctx, 150, 4, 11, DType::bf16);
  const FusedAttention decoder(ctx, 150, 1, 512, DType::bf16);
  for (const FusedAttention* values : {&f32, &odd, &decoder}) {
    for (const RowRange& rows :
         {RowRange{0, 64}, RowRange{64, 150}, RowRange{64, 128}}) {
      values->expect_same(ctx, rows);
    }
  }
}

// The path and its algorithm follow from shapes, never from an address.
TEST_F(ShardsOnGpu, HaveOneWayOfAttendingAtEveryAlignment) {
  ExecContext ctx(1, kGpu);
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    for (const std::int64_t head_dim : {16, 11}) {
      const std::int64_t width = 3 * head_dim;
      const Tensor host = random({1, 40, 3 * width}, dtype, 7);
      const auto attend = [&](std::int64_t shift) {
        Tensor wide = ctx.empty({host.num_elements() + shift}, dtype);
        Tensor x = wide.slice(shift, host.num_elements() + shift)
                       .reshape(host.shape());
        copy(ctx, host, x);
        Tensor room = ctx.empty({40 * width + shift}, dtype);
        Tensor out =
            room.slice(shift, 40 * width + shift).reshape({1, 40, width});
        attention(ctx, {x, 0}, {x, width}, {x, 2 * width}, 3, head_dim, out);
        return download(ctx, out);
      };
      const Tensor expected = attend(0);
      for (const std::int64_t shift : {1, 3, 8}) {
        expect_same_bits(attend(shift), expected);
      }
    }
  }
}

TEST_F(ShardsOnGpu, CannotBeLargerThanTheirItem) {
  ExecContext ctx(1, kGpu);
  const LinearCase values({1, 70, 64}, 48, DType::bf16, 5);
  const PackedLinear packed = values.packed(ctx);
  Tensor out = poisoned(ctx, {1, 70, 48}, DType::bf16);
  try {
    linear(ctx, upload(ctx, values.x), packed, Activation::none, out,
           {.rows = 69});
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::shape_mismatch);
    EXPECT_NE(std::string(error.what()).find("70 rows of 69"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace troupe::kernels
