#include "kernels/norm.h"
#include "tests/cuda/row_support.h"

namespace troupe::kernels {
namespace {

struct GroupCase {
  std::int64_t b, h, w, c, groups;
};

// One pixel; odd channels; more pixels than one partial sum holds; groups that
// share a unit; channels that need several tiles, with groups across them.
constexpr GroupCase kGroupCases[] = {
    {1, 1, 1, 1, 1},    {2, 3, 5, 6, 3},     {1, 17, 31, 20, 4},
    {2, 4, 4, 7, 7},    {1, 16, 16, 33, 1},  {1, 1, 2, 4, 4},
    {2, 8, 8, 64, 32},  {1, 9, 8, 128, 32},  {1, 97, 90, 8, 2},
    {1, 2, 3, 320, 32}, {2, 2, 2, 2100, 10}, {1, 3, 2, 4104, 3}};

Tensor input(const GroupCase& g, DType dtype, std::uint64_t seed) {
  Tensor x = random({g.b, g.h, g.w, g.c}, DType::f32, seed, 2);
  // Groups whose mean is large beside their deviation.
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    x.data<float>()[i] += static_cast<float>(i % g.c % 5) * 3 - 4;
  }
  return as(x, dtype);
}

class GroupNormOnGpu : public CudaTest {};

TEST_F(GroupNormOnGpu, AgreesWithTheCpuInPlaceAndIgnoresAlignment) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 1;
  for (const GroupCase& g : kGroupCases) {
    const Tensor weight = random({g.c}, DType::f32, ++seed);
    const Tensor bias = random({g.c}, DType::f32, ++seed);
    for (const DType dtype : kFloatTypes) {
      for (const Activation activation : {Activation::none, Activation::silu}) {
        const Tensor x = input(g, dtype, ++seed);
        Tensor want(x.shape(), DType::f32);
        group_norm(cpu, as(x, DType::f32), weight, bias, g.groups, 1e-5F,
                   activation, want);
        Tensor out = poisoned(ctx, x.shape(), dtype);
        group_norm(ctx, upload(ctx, x), upload(ctx, weight), upload(ctx, bias),
                   g.groups, 1e-5F, activation, out);
        const Tensor got = download(ctx, out);
        expect_close(got, want, rounding_of(dtype));
        Tensor inout = upload_at(ctx, x, 1);
        group_norm(ctx, inout, upload(ctx, weight), upload_at(ctx, bias, 1),
                   g.groups, 1e-5F, activation, inout);
        expect_same_bits(download(ctx, inout), got);
      }
    }
  }
}

TEST_F(GroupNormOnGpu, AnItemsBitsDoNotDependOnTheItemsBesideIt) {
  ExecContext ctx(1, kGpu);
  const GroupCase g{5, 33, 17, 40, 8};
  const Tensor weight = upload(ctx, random({g.c}, DType::f32, 1));
  const Tensor bias = upload(ctx, random({g.c}, DType::f32, 2));
  const Tensor x = input(g, DType::bf16, 3);
  Tensor all = upload(ctx, x);
  group_norm(ctx, all, weight, bias, g.groups, 1e-6F, Activation::silu, all);
  const Tensor together = download(ctx, all);
  for (const std::int64_t item : {0, 3}) {
    Tensor one = upload(ctx, x.slice(item, item + 1));
    group_norm(ctx, one, weight, bias, g.groups, 1e-6F, Activation::silu, one);
    expect_same_bits(download(ctx, one), together.slice(item, item + 1));
  }
}

TEST_F(GroupNormOnGpu, AMeanFarFromZeroCostsNoPrecision) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  Tensor x = random({1, 40, 40, 16}, DType::f32, 1);
  for (float& value : x.span<float>()) {
    value += 1000;
  }
  const Tensor ones =
      as(Tensor::from<float>(std::vector<float>(16, 1), {16}), DType::f32);
  const Tensor none = Tensor::zeros({16}, DType::f32);
  Tensor want(x.shape(), DType::f32);
  group_norm(cpu, x, ones, none, 4, 1e-6F, Activation::none, want);
  Tensor out = upload(ctx, x);
  group_norm(ctx, out, upload(ctx, ones), upload(ctx, none), 4, 1e-6F,
             Activation::none, out);
  // x · factor + offset: both are rounded near 1000, on the CPU as well.
  expect_close(download(ctx, out), want, 2e-4);
}

}  // namespace
}  // namespace troupe::kernels
