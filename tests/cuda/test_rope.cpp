#include "kernels/rope.h"
#include "tests/cuda/row_support.h"

namespace troupe::kernels {
namespace {

struct RopeCase {
  std::int64_t items, tokens, heads, head_dim;
};

// Heads of one unit and of several; of a width that is no multiple of a unit;
// more heads than a block takes at once; wider than a warp's units.
constexpr RopeCase kRopeCases[] = {
    {1, 1, 1, 2},   {2, 3, 2, 8},   {1, 5, 3, 6},   {2, 7, 24, 128},
    {1, 4, 38, 64}, {1, 3, 5, 72},  {1, 2, 40, 16}, {1, 3, 2, 264},
    {1, 2, 3, 258}, {1, 2, 2, 2056}};

struct RopeOperands {
  Tensor qkv;      // [B, N, pad + 2 · width]
  Tensor cosines;  // [N, head_dim / 2]
  Tensor sines;
};

RopeOperands make_operands(const RopeCase& c, DType dtype, std::int64_t pad,
                           std::uint64_t seed) {
  const Shape table{c.tokens, c.head_dim / 2};
  RopeOperands made{random({c.items, c.tokens, pad + 2 * c.heads * c.head_dim},
                           dtype, seed, 2),
                    Tensor(table, DType::f32), Tensor(table, DType::f32)};
  const Tensor angles = random(table, DType::f32, seed + 1, 3);
  for (std::int64_t i = 0; i < angles.num_elements(); ++i) {
    made.cosines.data<float>()[i] = std::cos(value_of(angles, i));
    made.sines.data<float>()[i] = std::sin(value_of(angles, i));
  }
  return made;
}

/// The whole matrix after the op on the second of two heads' ranges.
Tensor turn(ExecContext& ctx, const RopeCase& c, const RopeOperands& operands,
            const Tensor& weight, bool rotates, std::int64_t move = 0) {
  const std::int64_t column = operands.qkv.dim(2) - c.heads * c.head_dim;
  HeadsView view{upload_at(ctx, operands.qkv, move), column};
  const Tensor empty({0}, DType::f32);
  rms_norm_rope(
      ctx, upload_at(ctx, weight, move),
      rotates ? upload_at(ctx, operands.cosines, move) : upload(ctx, empty),
      rotates ? upload(ctx, operands.sines) : upload(ctx, empty), c.heads,
      c.head_dim, 1e-6F, view);
  return download(ctx, view.base);
}

class RopeOnGpu : public CudaTest {};

TEST_F(RopeOnGpu, AgreesWithTheCpuAndIgnoresAlignment) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 1;
  for (const RopeCase& c : kRopeCases) {
    for (const DType dtype : kFloatTypes) {
      for (const bool across : {false, true}) {
        const RopeOperands operands = make_operands(c, dtype, 8, seed += 2);
        const Tensor weight =
            random({c.head_dim * (across ? c.heads : 1)}, DType::f32, ++seed);
        const bool rotates = seed % 4 != 0;
        RopeOperands exact = operands;
        exact.qkv = as(operands.qkv, DType::f32);
        const Tensor want = turn(cpu, c, exact, weight, rotates);
        const Tensor got = turn(ctx, c, operands, weight, rotates);
        expect_close(got, want, rounding_of(dtype), 2);
        expect_same_bits(turn(ctx, c, operands, weight, rotates, 1), got);
      }
    }
  }
}

TEST_F(RopeOnGpu, LeavesTheOtherColumnsAlone) {
  ExecContext ctx(1, kGpu);
  const RopeCase c{2, 6, 3, 32};
  for (const std::int64_t pad : {8, 3}) {
    const RopeOperands operands = make_operands(c, DType::bf16, pad, 1);
    const Tensor weight = random({32}, DType::f32, 2);
    const Tensor got = turn(ctx, c, operands, weight, true);
    const std::int64_t row = operands.qkv.dim(2);
    for (std::int64_t i = 0; i < got.num_elements(); ++i) {
      if (i % row < row - c.heads * c.head_dim) {
        ASSERT_EQ(value_of(got, i), value_of(operands.qkv, i)) << i;
      }
    }
  }
}

TEST_F(RopeOnGpu, ATokensBitsDoNotDependOnTheItemsBesideIt) {
  ExecContext ctx(1, kGpu);
  const RopeCase c{3, 5, 4, 64};
  for (const bool across : {false, true}) {
    const RopeOperands operands = make_operands(c, DType::bf16, 8, 1);
    const Tensor weight = random({across ? 4 * 64 : 64}, DType::f32, 2);
    const Tensor together = turn(ctx, c, operands, weight, true);
    RopeOperands one = operands;
    one.qkv = operands.qkv.slice(1, 2);
    expect_same_bits(turn(ctx, {1, 5, 4, 64}, one, weight, true),
                     together.slice(1, 2));
  }
}

}  // namespace
}  // namespace troupe::kernels
