#include "kernels/core/error.h"
#include "kernels/patchify.h"
#include "tests/cuda/views.h"

namespace troupe::kernels {
namespace {

class PatchifyOnGpu : public CudaTest {};

struct PatchSize {
  std::int64_t b, c, h, w, p;
};

constexpr PatchSize kPatchSizes[] = {
    {0, 2, 4, 4, 2}, {1, 1, 1, 1, 1}, {2, 3, 4, 6, 2},   {1, 4, 9, 3, 3},
    {2, 1, 5, 7, 1}, {1, 3, 8, 8, 4}, {2, 4, 32, 32, 2}, {3, 5, 6, 20, 2}};

TEST_F(PatchifyOnGpu, CutsAsTheCpuDoes) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 0;
  for (const PatchSize& s : kPatchSizes) {
    const Tensor x = random({s.b, s.c, s.h, s.w}, DType::f32, ++seed);
    const Shape tokens{s.b, s.h / s.p * (s.w / s.p), s.c * s.p * s.p};
    Tensor want(tokens, DType::f32);
    patchify(cpu, x, s.p, want);
    for (const DType dtype : kFloats) {
      GuardedOutput out(ctx, tokens, dtype, 1);
      patchify(ctx, upload(ctx, x), s.p, out.tensor);
      expect_same_bits(download(ctx, out.tensor), as(want, dtype));
      EXPECT_TRUE(out.intact(ctx));
    }
  }
}

TEST_F(PatchifyOnGpu, JoinsAsTheCpuDoes) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 100;
  for (const PatchSize& s : kPatchSizes) {
    const Tensor tokens = random(
        {s.b, s.h / s.p * (s.w / s.p), s.c * s.p * s.p}, DType::f32, ++seed);
    const Shape image{s.b, s.c, s.h, s.w};
    Tensor want(image, DType::f32);
    unpatchify(cpu, tokens, s.p, want);
    GuardedOutput out(ctx, image, DType::f32, 1);
    unpatchify(ctx, upload(ctx, tokens), s.p, out.tensor);
    expect_same_bits(download(ctx, out.tensor), want);
    EXPECT_TRUE(out.intact(ctx));
  }
}

TEST_F(PatchifyOnGpu, RefusesWhatTheCpuRefuses) {
  ExecContext ctx(1, kGpu);
  const Tensor x = upload(ctx, random({1, 1, 4, 5}, DType::f32, 1));
  Tensor out = poisoned(ctx, {1, 4, 4}, DType::f32);
  EXPECT_THROW(patchify(ctx, x, 2, out), Error);
  Tensor host({1, 20, 1}, DType::f32);
  EXPECT_THROW(patchify(ctx, x, 1, host), Error);
}

// Channels below, at and above a tile's width, pixels beside its length.
constexpr PatchSize kLayouts[] = {
    {1, 3, 5, 7, 0},   {2, 4, 32, 32, 0},  {1, 1, 1, 1, 0},
    {2, 1, 33, 32, 0}, {1, 31, 6, 11, 0},  {2, 32, 4, 8, 0},
    {1, 33, 4, 8, 0},  {2, 96, 3, 11, 0},  {3, 65, 1, 32, 0},
    {0, 4, 8, 8, 0},   {1, 512, 2, 17, 0}, {1, 3, 40, 41, 0}};

TEST_F(PatchifyOnGpu, ChannelsGoLastAsOnTheCpu) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 200;
  for (const PatchSize& s : kLayouts) {
    const Tensor x = random({s.b, s.c, s.h, s.w}, DType::f32, ++seed);
    const Shape last{s.b, s.h, s.w, s.c};
    Tensor want(last, DType::f32);
    to_channels_last(cpu, x, want);
    for (const DType dtype : kFloats) {
      GuardedOutput out(ctx, last, dtype, 1);
      to_channels_last(ctx, upload(ctx, x), out.tensor);
      expect_same_bits(download(ctx, out.tensor), as(want, dtype));
      EXPECT_TRUE(out.intact(ctx));
    }
  }
}

TEST_F(PatchifyOnGpu, ChannelsGoFirstAsOnTheCpu) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 300;
  for (const PatchSize& s : kLayouts) {
    for (const DType dtype : kFloats) {
      const Tensor x = random({s.b, s.h, s.w, s.c}, dtype, ++seed);
      const Shape first{s.b, s.c, s.h, s.w};
      Tensor want(first, DType::f32);
      to_channels_first(cpu, as(x, DType::f32), want);
      GuardedOutput out(ctx, first, DType::f32, 1);
      to_channels_first(ctx, upload(ctx, x), out.tensor);
      expect_same_bits(download(ctx, out.tensor), want);
      EXPECT_TRUE(out.intact(ctx));
    }
  }
}

}  // namespace
}  // namespace troupe::kernels
