#include "actors/device_evaluators.h"

#include <gtest/gtest.h>

#include "kernels/core/error.h"
#include "tests/actors/toy_evaluator.h"

namespace troupe::actors {
namespace {

TEST(DeviceEvaluators, CallsTheOneOfTheContextsDevice) {
  DeviceEvaluators all;
  auto host = std::make_unique<ToyEvaluator>(2);
  int calls = 0;
  host->before_forward = [&calls](ExecContext&) { ++calls; };
  all.add({}, std::move(host));
  auto other = std::make_unique<ToyEvaluator>(2);
  other->before_forward = [](ExecContext&) { FAIL() << "the GPU's"; };
  all.add({DeviceKind::cuda, 0}, std::move(other));
  EXPECT_EQ(all.num_segments(), 2);
  EXPECT_EQ(all.latent_shape(), (Shape{3, 4, 4}));
  ExecContext ctx;
  samplers::EvaluateRow row;
  row.latents = Tensor::zeros({3, 4, 4}, DType::f32);
  row.output = Tensor({3, 4, 4}, DType::f32);
  all.evaluate(ctx, {&row, 1});
  EXPECT_EQ(calls, 1);
}

TEST(DeviceEvaluators, SaysWhereTheModelIsMissing) {
  DeviceEvaluators nobody;
  EXPECT_THROW((void)nobody.latent_shape(), Error);
  DeviceEvaluators all;
  all.add({DeviceKind::cuda, 1}, std::make_unique<ToyEvaluator>());
  ExecContext ctx;
  Tensor pixels;
  try {
    all.decode(ctx, Tensor::zeros({3, 4, 4}, DType::f32), pixels);
    FAIL() << "decoded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::internal);
    EXPECT_EQ(error.place(), "cpu");
  }
}

}  // namespace
}  // namespace troupe::actors
