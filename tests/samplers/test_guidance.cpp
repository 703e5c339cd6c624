#include <gtest/gtest.h>

#include <vector>

#include "kernels/core/error.h"
#include "kernels/elementwise.h"

namespace troupe::samplers {
namespace {

Tensor ramp(float start, float step) {
  std::vector<float> values(24);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = start + step * static_cast<float>(i);
  }
  return Tensor::from<float>(values, {4, 2, 3});
}

TEST(Guidance, PushesGuidedChannelsAndKeepsTheConditionalRest) {
  ExecContext ctx;
  const Tensor cond = ramp(0.5F, 0.25F);
  const Tensor uncond = ramp(-1.0F, 0.125F);
  Tensor out({4, 2, 3}, DType::f32);
  kernels::guide(ctx, cond, uncond, 4.0, 3, out);
  for (std::size_t i = 0; i < 24; ++i) {
    const float c = cond.span<float>()[i];
    const float u = uncond.span<float>()[i];
    EXPECT_EQ(out.span<float>()[i], i < 18 ? u + 4.0F * (c - u) : c);
  }
}

TEST(Guidance, MayWriteOverEitherInput) {
  ExecContext ctx;
  const Tensor cond = ramp(0.3F, 0.7F);
  const Tensor uncond = ramp(0.9F, -0.2F);
  Tensor fresh({4, 2, 3}, DType::f32);
  kernels::guide(ctx, cond, uncond, 1.7, 4, fresh);
  Tensor over_cond = cond.clone();
  kernels::guide(ctx, over_cond, uncond, 1.7, 4, over_cond);
  Tensor over_uncond = uncond.clone();
  kernels::guide(ctx, cond, over_uncond, 1.7, 4, over_uncond);
  EXPECT_TRUE(bytes_equal(fresh, over_cond));
  EXPECT_TRUE(bytes_equal(fresh, over_uncond));
}

TEST(Guidance, RefusesShapesThatDiffer) {
  ExecContext ctx;
  const Tensor cond = ramp(0.0F, 1.0F);
  const Tensor other = Tensor::zeros({2, 4, 3}, DType::f32);
  Tensor out({4, 2, 3}, DType::f32);
  EXPECT_THROW(kernels::guide(ctx, cond, other, 1.0, 4, out), Error);
  EXPECT_THROW(kernels::guide(ctx, cond, cond, 1.0, 5, out), Error);
}

}  // namespace
}  // namespace troupe::samplers
