#include <string>

#include "kernels/cuda/ops.h"
#include "tests/kernels/reference.h"

// What a build without CUDA answers.

namespace troupe::kernels {
namespace {

template <typename Function>
void expect_no_kernels(const std::string& op, Function&& call) {
  try {
    call();
    FAIL() << op;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unsupported);
    EXPECT_EQ(std::string(error.what()), "[" + op + "] no kernels for cpu");
    EXPECT_EQ(error.hint(), "run on the CPU (--device cpu)");
  }
}

TEST(NoCuda, OperationsSayThatThereAreNoKernels) {
  ExecContext ctx;
  Tensor x({2}, DType::f32);
  expect_no_kernels("add", [&] { cuda::add(ctx, x, x); });
  expect_no_kernels("can_multiply", [&] {
    static_cast<void>(cuda::can_multiply(ctx, DType::f32));
  });
  expect_no_kernels("pack_conv2d", [&] {
    static_cast<void>(cuda::pack_conv2d(ctx, x, x, 1, {}, DType::f32));
  });
}

TEST(NoCuda, ContextsSayThatThereIsNoDeviceLayer) {
  try {
    const ExecContext ctx(1, {DeviceKind::cuda, 0});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unsupported);
    EXPECT_EQ(std::string(error.what()),
              "[cuda:0] this build has no CUDA device layer");
    EXPECT_FALSE(error.hint().empty());
  }
}

}  // namespace
}  // namespace troupe::kernels
