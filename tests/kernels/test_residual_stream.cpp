#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "kernels/residual_stream.h"
#include "tests/kernels/reference.h"

namespace troupe::kernels {
namespace {

constexpr std::int64_t kWidth = 64;
const Shape kShape{3, 33, kWidth};

/// A stream and a layer whose products are added to it.
struct StreamCase {
  explicit StreamCase(DType compute)
      : packed(ctx, random_tensor({kWidth, kWidth}, compute, 22),
               random_tensor({kWidth}, DType::f32, 23), compute),
        x(random_tensor(kShape, DType::f32, 25)),
        modulation(random_tensor({3, 200}, DType::f32, 24)),
        branch(random_tensor(kShape, compute, 21)) {}

  /// What the three operations apart make of x.
  Tensor added(const Tensor& to, std::int64_t gate) {
    Tensor product(kShape, DType::f32);
    linear(ctx, branch, packed, Activation::none, product);
    Tensor sum = to.clone();
    add_gated(ctx, modulation, gate, product, sum);
    return sum;
  }
  Tensor normed(const Tensor& sum) {
    Tensor out(kShape, branch.dtype());
    layer_norm_modulate(ctx, sum, modulation, 66, 130, 1e-5F, out);
    return out;
  }

  ExecContext ctx{2};
  PackedLinear packed;
  Tensor x;
  Tensor modulation;
  Tensor branch;
};

TEST(ResidualStream, HasTheBitsOfItsOperationsApart) {
  for (const DType compute : compute_types()) {
    StreamCase c(compute);
    const Tensor once = c.added(c.x, 1);
    const Tensor twice = c.added(c.added(once, 2), 3);
    Tensor x = c.x.clone();
    Tensor out(kShape, compute);
    ResidualStream stream(c.ctx, x, c.modulation);
    stream.layer_norm_modulate(c.ctx, 66, 130, 1e-5F, out);
    EXPECT_TRUE(bytes_equal(out, c.normed(c.x)));

    // The norm may be written over what was added.
    Tensor inout = c.branch.clone();
    stream.add_gated_linear(c.ctx, inout, c.packed, 1);
    stream.layer_norm_modulate(c.ctx, 66, 130, 1e-5F, inout);
    EXPECT_TRUE(bytes_equal(inout, c.normed(once)));

    stream.add_gated_linear(c.ctx, c.branch, c.packed, 2);
    stream.add_gated_linear(c.ctx, c.branch, c.packed, 3);
    stream.settle(c.ctx);
    EXPECT_TRUE(bytes_equal(x, twice));
    stream.settle(c.ctx);
    EXPECT_TRUE(bytes_equal(x, twice));

    Tensor product(kShape, DType::f32);
    linear(c.ctx, c.branch, c.packed, Activation::none, product);
    Tensor sum = twice.clone();
    add(c.ctx, product, sum);
    stream.add_linear(c.ctx, c.branch, c.packed);
    stream.layer_norm_modulate(c.ctx, 66, 130, 1e-5F, out);
    EXPECT_TRUE(bytes_equal(out, c.normed(sum)));
    EXPECT_TRUE(bytes_equal(x, sum));
  }
}

TEST(ResidualStream, RefusesWhatDoesNotFit) {
  StreamCase c(DType::f32);
  Tensor x = c.x.clone();
  Tensor out(kShape, DType::f32);
  EXPECT_THROW(ResidualStream(c.ctx, c.branch.item(0), c.modulation), Error);
  EXPECT_THROW(ResidualStream(c.ctx, x, random_tensor({2, 200}, DType::f32, 1)),
               Error);
  EXPECT_THROW(ResidualStream(c.ctx, Tensor(kShape, DType::u8), c.modulation),
               Error);
  ResidualStream stream(c.ctx, x, c.modulation);
  EXPECT_THROW(stream.add_gated_linear(c.ctx, c.branch, c.packed, 137), Error);
  EXPECT_THROW(stream.layer_norm_modulate(c.ctx, 66, 137, 1e-5F, out), Error);
  EXPECT_THROW(stream.add_gated_linear(c.ctx, Tensor({3, 33, 5}, DType::f32),
                                       c.packed, 1),
               Error);
  EXPECT_TRUE(bytes_equal(x, c.x));
}

}  // namespace
}  // namespace troupe::kernels
