#include <memory>

#include "kernels/residual_stream.h"
#include "tests/cuda/emulator/blas.h"
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/emulator/faults.h"
#include "tests/cuda/linear_cases.h"

// How products are handed to the library: what only an emulated one can be
// made to do.

namespace troupe::kernels {
namespace {

using emulator::BlasAlgorithm;
using emulator::BlasCounters;

class LinearAlgorithms : public testing::Test {
 protected:
  ~LinearAlgorithms() override { emulator::set_blas_behaviour({}); }
};

/// A layer on a GPU, with its input and output there.
struct Layer {
  Layer(ExecContext& ctx, const Shape& x_shape, std::int64_t n,
        DType compute = DType::bf16, DType to = DType::bf16,
        bool has_bias = true)
      : values(x_shape, n, compute, 5, has_bias),
        packed(values.packed(ctx)),
        x(upload(ctx, values.x)),
        out(poisoned(ctx, values.out_shape(), to)) {}

  LinearCase values;
  PackedLinear packed;
  Tensor x;
  Tensor out;
};

/// What fn asked of the library.
template <typename Fn>
BlasCounters asked(const Fn& fn) {
  const BlasCounters before = emulator::blas_counters();
  fn();
  BlasCounters after = emulator::blas_counters();
  after.heuristics -= before.heuristics;
  after.checks -= before.checks;
  after.products -= before.products;
  after.strided_products -= before.strided_products;
  after.fused_products -= before.fused_products;
  return after;
}

TEST_F(LinearAlgorithms, AreChosenOncePerProblem) {
  ExecContext ctx(1, kGpu);
  const Layer layer(ctx, {3, 20, 64}, 48);
  Tensor out = layer.out;
  const auto run = [&] {
    linear(ctx, layer.x, layer.packed, Activation::gelu_tanh, out);
  };
  EXPECT_EQ(asked(run).heuristics, 1U);
  ctx.synchronize();
  const emulator::Counters before = emulator::counters(0);
  const BlasCounters again = asked(run);
  EXPECT_EQ(again.heuristics, 0U);
  EXPECT_EQ(again.checks, 0U);
  EXPECT_EQ(again.products, 1U);
  EXPECT_EQ(emulator::counters(0).host_waits, before.host_waits);
  EXPECT_EQ(emulator::counters(0).allocations, before.allocations);
  EXPECT_EQ(emulator::counters(0).operations, before.operations + 1);
  // Another batch: the same algorithm, checked again.
  const Tensor x = upload(ctx, layer.values.x.slice(0, 2));
  Tensor two = poisoned(ctx, {2, 20, 48}, DType::bf16);
  EXPECT_EQ(asked([&] {
              linear(ctx, x, layer.packed, Activation::gelu_tanh, two);
            }).heuristics,
            0U);
}

/// Items in a batch of 4 by an algorithm.
BlasCounters batch_of_four(BlasAlgorithm algorithm, std::int64_t rows,
                           DType to) {
  emulator::set_blas_behaviour({.order = {algorithm}});
  ExecContext ctx(1, kGpu);
  Layer layer(ctx, {4, rows, 200}, 24, DType::bf16, to);
  const auto run = [&] {
    linear(ctx, layer.x, layer.packed, Activation::none, layer.out);
  };
  run();
  const BlasCounters counters = asked(run);
  expect_items_alone(ctx, layer.values.x, layer.packed, Activation::none,
                     download(ctx, layer.out));
  return counters;
}

TEST_F(LinearAlgorithms, MergeABatchWhereTheBitsAreTheItems) {
  for (const DType to : {DType::f32, DType::bf16}) {
    for (const std::int64_t rows : {1, 7, 40}) {
      const BlasCounters counters =
          batch_of_four(BlasAlgorithm::steady, rows, to);
      EXPECT_EQ(counters.products, 1U);
      EXPECT_EQ(counters.last_columns, static_cast<std::uint64_t>(4 * rows));
      EXPECT_EQ(counters.last_batch, 1U);
    }
  }
}

TEST_F(LinearAlgorithms, FallBackToAStridedBatchWhenMergingChangesBits) {
  for (const DType to : {DType::f32, DType::bf16}) {
    for (const std::int64_t rows : {1, 7, 40}) {
      const BlasCounters counters =
          batch_of_four(BlasAlgorithm::by_columns, rows, to);
      EXPECT_EQ(counters.products, 1U);
      EXPECT_EQ(counters.last_columns, static_cast<std::uint64_t>(rows));
      EXPECT_EQ(counters.last_batch, 4U);
    }
  }
}

TEST_F(LinearAlgorithms, FallBackToItemsWhenABatchChangesBits) {
  for (const DType to : {DType::f32, DType::bf16}) {
    for (const std::int64_t rows : {1, 7, 40}) {
      const BlasCounters counters =
          batch_of_four(BlasAlgorithm::by_batch, rows, to);
      EXPECT_EQ(counters.products, 4U);
      EXPECT_EQ(counters.last_batch, 1U);
    }
  }
}

TEST_F(LinearAlgorithms, DoNotSplitSumsUnlessTheyMay) {
  emulator::set_blas_behaviour(
      {.order = {BlasAlgorithm::split_k_in_place, BlasAlgorithm::split_k,
                 BlasAlgorithm::steady}});
  for (const bool invariant : {true, false}) {
    ExecContext ctx(1, kGpu, {.batch_invariant = invariant});
    Layer layer(ctx, {4, 3, 200}, 24);
    linear(ctx, layer.x, layer.packed, Activation::none, layer.out);
    // Never in the output's type: that would lose bits.
    EXPECT_EQ(emulator::blas_counters().last_algorithm,
              invariant ? BlasAlgorithm::steady : BlasAlgorithm::split_k);
    EXPECT_EQ(emulator::blas_counters().last_columns, 12U);
    expect_close(download(ctx, layer.out),
                 layer.values.wanted(Activation::none), 2e-2);
  }
}

TEST_F(LinearAlgorithms, OfFreeModeSeeTheWholeBatch) {
  emulator::set_blas_behaviour({.order = {BlasAlgorithm::by_columns}});
  ExecContext ctx(1, kGpu, {.batch_invariant = false});
  Layer layer(ctx, {4, 7, 200}, 24, DType::f32, DType::f32);
  linear(ctx, layer.x, layer.packed, Activation::none, layer.out);
  EXPECT_EQ(emulator::blas_counters().last_columns, 28U);
  const Tensor all = download(ctx, layer.out);
  const Tensor alone = run_linear(ctx, layer.values.x.slice(0, 1), layer.packed,
                                  Activation::none, DType::f32);
  EXPECT_FALSE(bytes_equal(alone, all.slice(0, 1)));
}

TEST_F(LinearAlgorithms, ForOneRowAreNotThoseForAVector) {
  emulator::set_blas_behaviour(
      {.order = {BlasAlgorithm::vector, BlasAlgorithm::steady}});
  ExecContext ctx(1, kGpu);
  Layer layer(ctx, {6, 1, 64}, 48, DType::bf16, DType::f32);
  linear(ctx, layer.x, layer.packed, Activation::none, layer.out);
  EXPECT_EQ(emulator::blas_counters().last_algorithm, BlasAlgorithm::steady);
  EXPECT_EQ(emulator::blas_counters().last_columns, 6U);
}

TEST_F(LinearAlgorithms, AreNotCheckedWhileRecording) {
  emulator::set_blas_behaviour({.order = {BlasAlgorithm::steady}});
  ExecContext ctx(1, kGpu);
  Layer layer(ctx, {3, 8, 64}, 48);
  // The context has multiplied before, but not this.
  (void)run_linear(ctx, layer.values.x.slice(0, 1), layer.packed,
                   Activation::none, DType::bf16);
  const auto owner = std::make_shared<int>();
  const std::uint64_t key[] = {1};
  bool records = false;
  BlasCounters counters;
  for (int round = 0; round < 3; ++round) {
    ctx.replay(owner, key, [&] {
      if (records) {
        counters = asked([&] {
          linear(ctx, layer.x, layer.packed, Activation::none, layer.out);
        });
      }
      records = true;
    });
  }
  EXPECT_EQ(counters.products, 3U);
  const Tensor recorded = download(ctx, layer.out);
  expect_same_bits(recorded, run_linear(ctx, layer.values.x, layer.packed,
                                        Activation::none, DType::bf16));
  EXPECT_EQ(emulator::blas_counters().last_columns, 24U);
}

TEST_F(LinearAlgorithms, WithoutMemoryForTheCheckGoItemByItem) {
  emulator::set_blas_behaviour({.order = {BlasAlgorithm::steady}});
  ExecContext ctx(1, kGpu);
  Layer layer(ctx, {3, 8, 64}, 48);
  (void)run_linear(ctx, layer.values.x.slice(0, 1), layer.packed,
                   Activation::none, DType::bf16);
  // For the merged batch, then for the strided one.
  for (int i = 0; i < 4; ++i) {  // two ways, each asks twice
    emulator::fail_call("cudaMallocAsync", cudaErrorMemoryAllocation);
  }
  const BlasCounters counters = asked(
      [&] { linear(ctx, layer.x, layer.packed, Activation::none, layer.out); });
  EXPECT_EQ(counters.products, 3U);
  expect_close(download(ctx, layer.out), layer.values.wanted(Activation::none),
               2e-2);
}

TEST_F(LinearAlgorithms, FuseWhatTheLibraryCan) {
  ExecContext ctx(1, kGpu);
  Layer layer(ctx, {2, 8, 64}, 48);
  const auto fused = [&](Activation activation, Tensor out) {
    linear(ctx, layer.x, layer.packed, activation, out);
    return asked([&] {
             linear(ctx, layer.x, layer.packed, activation, out);
           }).fused_products > 0;
  };
  const Tensor wide = poisoned(ctx, layer.values.out_shape(), DType::f32);
  EXPECT_TRUE(fused(Activation::none, layer.out));
  EXPECT_TRUE(fused(Activation::none, wide));
  EXPECT_TRUE(fused(Activation::gelu_tanh, layer.out));
  EXPECT_FALSE(fused(Activation::gelu_tanh, wide));
  EXPECT_FALSE(fused(Activation::gelu_erf, layer.out));
  EXPECT_FALSE(fused(Activation::silu, layer.out));
}

TEST_F(LinearAlgorithms, LeaveToUsWhatTheLibraryRefuses) {
  for (const std::uint32_t refused :
       {CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_BIAS}) {
    emulator::set_blas_behaviour(
        {.order = {BlasAlgorithm::steady}, .refused_epilogues = refused});
    for (const DType compute : kComputeTypes) {
      ExecContext ctx(1, kGpu);
      Layer layer(ctx, {2, 8, 64}, 48, compute, compute);
      for (const Activation activation :
           {Activation::none, Activation::gelu_tanh}) {
        const auto run = [&] {
          linear(ctx, layer.x, layer.packed, activation, layer.out);
        };
        run();
        EXPECT_EQ(asked(run).heuristics, 0U);
        expect_close(download(ctx, layer.out), layer.values.wanted(activation),
                     tolerance_of(compute));
      }
    }
  }
}

TEST_F(LinearAlgorithms, GateTheSameSumsWhoeverAddsTheBias) {
  Tensor residuals[2];
  Tensor normed[2];
  for (const bool refuses : {false, true}) {
    emulator::set_blas_behaviour(
        {.order = {BlasAlgorithm::steady},
         .refused_epilogues =
             refuses ? std::uint32_t{CUBLASLT_EPILOGUE_BIAS} : 0U});
    ExecContext ctx(1, kGpu);
    const Layer layer(ctx, {2, 8, 64}, 48);
    const Tensor gate = upload(ctx, random({2, 48}, DType::f32, 1));
    Tensor residual =
        upload(ctx, random(layer.values.out_shape(), DType::f32, 2));
    linear_add_gated(ctx, layer.x, layer.packed, gate, 0, residual);
    residuals[refuses ? 1 : 0] = download(ctx, residual);
    Tensor out = layer.out;
    const Workspace::Scope scope(ctx.workspace());
    ResidualStream stream(ctx, residual, gate);
    stream.add_gated_linear(ctx, layer.x, layer.packed, 0);
    stream.layer_norm_modulate(ctx, 0, 0, 1e-5F, out);
    normed[refuses ? 1 : 0] = download(ctx, out);
  }
  expect_same_bits(residuals[0], residuals[1]);
  expect_same_bits(normed[0], normed[1]);
}

TEST_F(LinearAlgorithms, NormaliseInTheLaunchThatGates) {
  emulator::set_blas_behaviour({.order = {BlasAlgorithm::steady}});
  ExecContext ctx(1, kGpu);
  Layer layer(ctx, {2, 8, 64}, 48);
  const Tensor modulation = upload(ctx, random({2, 144}, DType::f32, 1));
  const Tensor residual =
      upload(ctx, random(layer.values.out_shape(), DType::f32, 2));
  const auto run = [&] {
    const Workspace::Scope scope(ctx.workspace());
    ResidualStream stream(ctx, residual, modulation);
    stream.add_gated_linear(ctx, layer.x, layer.packed, 0);
    stream.layer_norm_modulate(ctx, 48, 96, 1e-5F, layer.out);
  };
  run();
  const emulator::Counters before = emulator::counters(0);
  EXPECT_EQ(asked(run).fused_products, 1U);
  EXPECT_EQ(emulator::counters(0).operations, before.operations + 2);
  EXPECT_EQ(emulator::counters(0).allocations, before.allocations);
}

TEST_F(LinearAlgorithms, AreOursWhereTheLibraryHasNone) {
  emulator::set_blas_behaviour({.order = {BlasAlgorithm::vector}});
  for (const DType compute : kComputeTypes) {
    for (const DType to : {DType::f32, compute}) {
      ExecContext ctx(1, kGpu);
      Layer layer(ctx, {2, 4, 65}, 47, compute, to);
      for (const Activation activation :
           {Activation::none, Activation::gelu_tanh}) {
        EXPECT_EQ(asked([&] {
                    linear(ctx, layer.x, layer.packed, activation, layer.out);
                  }).products,
                  0U);
        expect_close(download(ctx, layer.out), layer.values.wanted(activation),
                     tolerance_of_product(compute, to));
      }
    }
  }
}

TEST_F(LinearAlgorithms, LeaveNothingBehind) {
  {
    ExecContext ctx(1, kGpu);
    Layer layer(ctx, {3, 8, 64}, 49);
    linear(ctx, layer.x, layer.packed, Activation::silu, layer.out);
    EXPECT_GT(emulator::blas_counters().live_objects, 0);
  }
  EXPECT_EQ(emulator::blas_counters().live_objects, 0);
}

}  // namespace
}  // namespace troupe::kernels
