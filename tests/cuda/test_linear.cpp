#include <array>
#include <memory>

#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/residual_stream.h"
#include "tests/cuda/linear_cases.h"

namespace troupe::kernels {
namespace {

struct LinearSize {
  std::int64_t b, m, n, k;
};
constexpr LinearSize kLinearSizes[] = {
    {0, 3, 5, 7},     {2, 0, 5, 7},       {1, 1, 1, 1},     {2, 1, 17, 33},
    {3, 7, 1, 5},     {1, 5, 9, 1},       {2, 31, 65, 63},  {1, 130, 97, 40},
    {4, 16, 200, 65}, {1, 17, 385, 1153}, {3, 1, 768, 128}, {2, 64, 192, 256}};
constexpr Activation kFusedActivations[] = {Activation::none, Activation::silu,
                                            Activation::gelu_tanh,
                                            Activation::gelu_erf};

class LinearOnGpu : public CudaTest {};

TEST_F(LinearOnGpu, AgreesWithTheCpuForEverySizeAndType) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 1;
  for (const DType compute : kComputeTypes) {
    for (const LinearSize& s : kLinearSizes) {
      for (const bool has_bias : {true, false}) {
        const LinearCase layer({s.b, s.m, s.k}, s.n, compute, seed += 3,
                               has_bias);
        const PackedLinear packed = layer.packed(ctx);
        const Tensor want = layer.wanted(Activation::none);
        for (const DType to : {DType::f32, compute}) {
          expect_close(run_linear(ctx, layer.x, packed, Activation::none, to),
                       want, tolerance_of_product(compute, to));
        }
      }
    }
  }
}

TEST_F(LinearOnGpu, AppliesEveryActivationBehindTheBias) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 100;
  for (const DType compute : kComputeTypes) {
    for (const Activation activation : kFusedActivations) {
      for (const std::int64_t n : {70, 128, 129}) {
        for (const bool has_bias : {true, false}) {
          const LinearCase layer({2, 19, 33}, n, compute, seed += 3, has_bias);
          const PackedLinear packed = layer.packed(ctx);
          const Tensor want = layer.wanted(activation);
          for (const DType to : {DType::f32, compute}) {
            expect_close(run_linear(ctx, layer.x, packed, activation, to), want,
                         tolerance_of_product(compute, to));
          }
        }
      }
    }
  }
}

// What an item's bits are does not depend on what is beside it.
TEST_F(LinearOnGpu, GivesAnItemTheSameBitsInEveryBatch) {
  std::uint64_t seed = 500;
  for (const DType compute : kComputeTypes) {
    for (const LinearSize& s :
         {LinearSize{9, 5, 33, 130}, LinearSize{9, 16, 64, 256},
          LinearSize{9, 1, 97, 200}, LinearSize{9, 33, 96, 144}}) {
      const LinearCase layer({s.b, s.m, s.k}, s.n, compute, seed += 3);
      ExecContext ctx(1, kGpu);
      ExecContext other(1, kGpu);
      const PackedLinear packed = layer.packed(ctx);
      const PackedLinear packed_there = layer.packed(other);
      for (const Activation activation :
           {Activation::none, Activation::gelu_tanh, Activation::silu}) {
        for (const DType to : {DType::f32, compute}) {
          const Tensor all = run_linear(ctx, layer.x, packed, activation, to);
          expect_items_alone(other, layer.x, packed_there, activation, all);
          for (std::int64_t items = 1; items < s.b; ++items) {
            const Tensor some = run_linear(ctx, layer.x.slice(0, items), packed,
                                           activation, to);
            EXPECT_TRUE(bytes_equal(some, all.slice(0, items)))
                << items << " of " << to_string(all.shape());
          }
        }
      }
    }
  }
}

TEST_F(LinearOnGpu, MayJoinItemsInFreeModeAndStaysRight) {
  ExecContext ctx(1, kGpu, {.batch_invariant = false});
  std::uint64_t seed = 900;
  for (const DType compute : kComputeTypes) {
    for (const LinearSize& s : kLinearSizes) {
      const LinearCase layer({s.b, s.m, s.k}, s.n, compute, seed += 3);
      const PackedLinear packed = layer.packed(ctx);
      const Tensor want = layer.wanted(Activation::gelu_tanh);
      for (const DType to : {DType::f32, compute}) {
        const Tensor got =
            run_linear(ctx, layer.x, packed, Activation::gelu_tanh, to);
        expect_close(got, want, tolerance_of_product(compute, to));
        ExecContext again(1, kGpu, {.batch_invariant = false});
        EXPECT_TRUE(
            bytes_equal(got, run_linear(again, layer.x, layer.packed(again),
                                        Activation::gelu_tanh, to)));
      }
    }
  }
}

TEST_F(LinearOnGpu, GatedFormHasTheBitsOfLinearThenAddGated) {
  ExecContext cpu;
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 1200;
  for (const DType compute : kComputeTypes) {
    for (const std::int64_t n : {211, 216}) {
      for (const std::int64_t column : {3, 16}) {
        for (const bool has_bias : {true, false}) {
          const LinearCase layer({3, 33, 40}, n, compute, seed += 3, has_bias);
          const PackedLinear packed = layer.packed(ctx);
          const Tensor modulation = random({3, 2 * n + 60}, DType::f32, seed);
          const Tensor start = random(layer.out_shape(), DType::f32, seed + 9);
          Tensor want = start.clone();
          add_gated(
              cpu, modulation, column,
              run_linear(ctx, layer.x, packed, Activation::none, DType::f32),
              want);
          Tensor residual = upload(ctx, start);
          linear_add_gated(ctx, upload(ctx, layer.x), packed,
                           upload(ctx, modulation), column, residual);
          expect_same_bits(download(ctx, residual), want);
          add(cpu,
              run_linear(ctx, layer.x, packed, Activation::none, DType::f32),
              want);
          linear_add(ctx, upload(ctx, layer.x), packed, residual);
          expect_same_bits(download(ctx, residual), want);
        }
      }
    }
  }
}

// 63 columns: what the library may refuse, and rows that are not moved by
// units.
TEST_F(LinearOnGpu, AResidualStreamHasTheBitsOfItsOperationsApart) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 1600;
  for (const DType compute : kComputeTypes) {
    for (const std::int64_t n : {63, 64}) {
      for (const bool has_bias : {true, false}) {
        // Square, so that the norm may be written over x.
        const LinearCase layer({3, 33, n}, n, compute, seed += 3, has_bias);
        const PackedLinear packed = layer.packed(ctx);
        const Tensor modulation =
            upload(ctx, random({3, 3 * n + 8}, DType::f32, seed));
        const Tensor start = random(layer.out_shape(), DType::f32, seed + 9);
        Tensor want = upload(ctx, start);
        Tensor want_normed = poisoned(ctx, layer.out_shape(), compute);
        linear_add_gated(ctx, upload(ctx, layer.x), packed, modulation, 4,
                         want);
        layer_norm_modulate(ctx, want, modulation, n + 4, 2 * n + 4, 1e-5F,
                            want_normed);
        const Workspace::Scope scope(ctx.workspace());
        const Tensor got = upload(ctx, start);
        Tensor inout = upload(ctx, layer.x);
        ResidualStream stream(ctx, got, modulation);
        stream.add_gated_linear(ctx, inout, packed, 4);
        stream.layer_norm_modulate(ctx, n + 4, 2 * n + 4, 1e-5F, inout);
        expect_same_bits(download(ctx, got), download(ctx, want));
        expect_same_bits(download(ctx, inout), download(ctx, want_normed));

        // Two additions without a norm between them, and none behind.
        const Tensor x = upload(ctx, layer.x);
        for (const std::int64_t gate : {4, 5}) {
          stream.add_gated_linear(ctx, x, packed, gate);
          linear_add_gated(ctx, x, packed, modulation, gate, want);
        }
        stream.settle(ctx);
        expect_same_bits(download(ctx, got), download(ctx, want));
        stream.settle(ctx);
        expect_same_bits(download(ctx, got), download(ctx, want));

        // Without a gate: before a norm, and alone.
        stream.add_linear(ctx, x, packed);
        stream.layer_norm_modulate(ctx, n + 4, 2 * n + 4, 1e-5F, inout);
        linear_add(ctx, x, packed, want);
        layer_norm_modulate(ctx, want, modulation, n + 4, 2 * n + 4, 1e-5F,
                            want_normed);
        expect_same_bits(download(ctx, got), download(ctx, want));
        expect_same_bits(download(ctx, inout), download(ctx, want_normed));
        stream.add_linear(ctx, x, packed);
        stream.settle(ctx);
        linear_add(ctx, x, packed, want);
        expect_same_bits(download(ctx, got), download(ctx, want));
        EXPECT_THROW(stream.add_gated_linear(ctx, x, packed, 2 * n + 9), Error);
      }
    }
  }
}

TEST_F(LinearOnGpu, ConvertsWeightsOfOtherTypesInPieces) {
  ExecContext ctx(2, kGpu);
  ExecContext cpu;
  // More than one piece; not a multiple of one.
  const Tensor x = random({1, 2, 1031}, DType::f32, 1);
  for (const DType from : kComputeTypes) {
    const Tensor weight = random({1201, 1031}, from, 2, 1.0F / 32);
    const Tensor bias = random({1201}, from, 3);
    for (const DType compute : kComputeTypes) {
      const PackedLinear packed(ctx, weight, bias, compute);
      EXPECT_EQ(packed.in_features(), 1031);
      EXPECT_EQ(packed.out_features(), 1201);
      EXPECT_EQ(packed.compute(), compute);
      EXPECT_EQ(packed.num_bytes(),
                std::size_t{1201} * 1031 * size_of(compute) +
                    1201 * (compute == DType::f32 ? 4 : 6));
      // Rounded to nearest once, on the way to the compute type.
      const PackedLinear wanted(cpu, as(as(weight, compute), DType::f32),
                                as(bias, DType::f32), DType::f32);
      Tensor want({1, 2, 1201}, DType::f32);
      linear(cpu, as(as(x, compute), DType::f32), wanted, Activation::none,
             want);
      expect_close(
          run_linear(ctx, as(x, compute), packed, Activation::none, DType::f32),
          want, tolerance_of_product(compute, DType::f32));
    }
  }
}

TEST_F(LinearOnGpu, PlaysBackWhatItRecorded) {
  for (const DType compute : kComputeTypes) {
    const LinearCase layer({3, 17, 72}, 136, compute, 7);
    ExecContext ctx(1, kGpu);
    const PackedLinear packed = layer.packed(ctx);
    Tensor x = poisoned(ctx, layer.x.shape(), compute);
    Tensor out = poisoned(ctx, layer.out_shape(), compute);
    Tensor residual = ctx.empty(layer.out_shape(), DType::f32);
    const Tensor modulation = upload(ctx, random({3, 136}, DType::f32, 8));
    const auto owner = std::make_shared<int>();
    const std::array<std::uint64_t, 1> key{1};
    for (std::uint64_t round = 0; round < 4; ++round) {
      const Tensor host = random(layer.x.shape(), compute, 20 + round);
      copy(ctx, host, x);
      copy(ctx, Tensor::zeros(layer.out_shape(), DType::f32), residual);
      ctx.replay(owner, key, [&] {
        linear(ctx, x, packed, Activation::silu, out);
        linear_add_gated(ctx, x, packed, modulation, 0, residual);
      });
      ExecContext fresh(1, kGpu);
      const PackedLinear again = layer.packed(fresh);
      expect_same_bits(
          download(ctx, out),
          run_linear(fresh, host, again, Activation::silu, compute));
      Tensor want = upload(fresh, Tensor::zeros(layer.out_shape(), DType::f32));
      linear_add_gated(fresh, upload(fresh, host), again,
                       upload(fresh, download(ctx, modulation)), 0, want);
      expect_same_bits(download(ctx, residual), download(fresh, want));
    }
  }
}

/// A copy of `host` whose elements begin one element into its buffer.
Tensor shifted(ExecContext& ctx, const Tensor& host) {
  const std::int64_t count = host.num_elements();
  Tensor wide = poisoned(ctx, {count + 1}, host.dtype());
  Tensor place = wide.slice(1, count + 1).reshape(host.shape());
  copy(ctx, host, place);
  return place;
}

TEST_F(LinearOnGpu, KeepsItsBitsWhereOperandsLieBadly) {
  ExecContext ctx(1, kGpu);
  for (const DType compute : kComputeTypes) {
    for (const Activation activation :
         {Activation::none, Activation::gelu_tanh, Activation::silu}) {
      const LinearCase layer({2, 9, 128}, 64, compute, 31);
      const PackedLinear packed = layer.packed(ctx);
      for (const DType to : {DType::f32, compute}) {
        Tensor out = shifted(ctx, Tensor(layer.out_shape(), to));
        linear(ctx, shifted(ctx, layer.x), packed, activation, out);
        expect_same_bits(download(ctx, out),
                         run_linear(ctx, layer.x, packed, activation, to));
      }
    }
    const LinearCase layer({2, 9, 128}, 64, compute, 32);
    const PackedLinear packed = layer.packed(ctx);
    const Tensor start = random(layer.out_shape(), DType::f32, 33);
    const Tensor modulation = random({2, 64}, DType::f32, 34);
    Tensor want = upload(ctx, start);
    linear_add_gated(ctx, upload(ctx, layer.x), packed, upload(ctx, modulation),
                     0, want);
    Tensor got = shifted(ctx, start);
    linear_add_gated(ctx, shifted(ctx, layer.x), packed,
                     shifted(ctx, modulation), 0, got);
    expect_same_bits(download(ctx, got), download(ctx, want));
  }
}

TEST_F(LinearOnGpu, RoundsToTf32OnlyWhenAsked) {
  const LinearCase layer({2, 20, 600}, 96, DType::f32, 41);
  const Tensor want = layer.wanted(Activation::none);
  ExecContext exact(1, kGpu);
  const Tensor full = run_linear(exact, layer.x, layer.packed(exact),
                                 Activation::none, DType::f32);
  expect_close(full, want, 1e-5);
  ExecContext fast(1, kGpu, {.tf32 = true});
  const Tensor rounded = run_linear(fast, layer.x, layer.packed(fast),
                                    Activation::none, DType::f32);
  expect_close(rounded, want, 5e-3);
  EXPECT_FALSE(bytes_equal(full, rounded));
}

TEST_F(LinearOnGpu, SharesWeightsBetweenContexts) {
  const LinearCase layer({2, 5, 24}, 40, DType::bf16, 51);
  ExecContext first(1, kGpu);
  const PackedLinear packed = layer.packed(first);
  first.synchronize();
  const Tensor here =
      run_linear(first, layer.x, packed, Activation::gelu_tanh, DType::bf16);
  ExecContext second(1, kGpu);
  expect_same_bits(
      run_linear(second, layer.x, packed, Activation::gelu_tanh, DType::bf16),
      here);
  second.synchronize();
}

TEST_F(LinearOnGpu, SaysWhatItSupportsAndRefuses) {
  ExecContext ctx(1, kGpu);
  for (const DType compute : kComputeTypes) {
    EXPECT_TRUE(supports(ctx, compute));
  }
  EXPECT_FALSE(supports(ctx, DType::i64));
  const LinearCase layer({1, 2, 3}, 4, DType::f32, 61);
  const auto code_of = [](const auto& fn) {
    try {
      fn();
    } catch (const Error& error) {
      return error.code();
    }
    return Errc::internal;
  };
  EXPECT_EQ(code_of([&] {
              const PackedLinear packed(ctx, layer.weight, Tensor(),
                                        DType::i64);
            }),
            Errc::unsupported);
  const PackedLinear packed = layer.packed(ctx);
  Tensor out = poisoned(ctx, layer.out_shape(), DType::f32);
  EXPECT_EQ(
      code_of([&] { linear(ctx, layer.x, packed, Activation::none, out); }),
      Errc::invalid_argument);
  ExecContext cpu;
  const PackedLinear on_cpu = layer.packed(cpu);
  EXPECT_EQ(code_of([&] {
              linear(ctx, upload(ctx, layer.x), on_cpu, Activation::none, out);
            }),
            Errc::invalid_argument);
  Tensor host(layer.out_shape(), DType::f32);
  EXPECT_EQ(
      code_of([&] { linear(cpu, layer.x, packed, Activation::none, host); }),
      Errc::invalid_argument);
}

}  // namespace
}  // namespace troupe::kernels
