#include <vector>

#include "kernels/attention.h"
#include "kernels/conv2d.h"
#include "tests/cuda/emulator/dnn.h"
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/support.h"

// What only an emulated cuDNN can be made to do.

namespace troupe::kernels {
namespace {

using emulator::dnn_counters;
using emulator::DnnBehaviour;
using emulator::set_dnn_behaviour;

class DnnBatch : public CudaTest {
 protected:
  void TearDown() override { set_dnn_behaviour({}); }
};

/// Graphs queued by one more attention over a batch that is known, and whether
/// each item's bytes are those it has alone.
struct Outcome {
  std::uint64_t executions = 0;
  bool is_invariant = true;
};

Outcome attend(const DeviceOptions& options) {
  ExecContext ctx(1, kGpu, options);
  const Tensor qkv = random({4, 130, 3 * 32}, DType::bf16, 3);
  const auto run = [&](const Tensor& host) {
    const Tensor x = upload(ctx, host);
    Tensor out = poisoned(ctx, {host.dim(0), 130, 32}, DType::bf16);
    attention(ctx, {x, 0}, {x, 32}, {x, 64}, 2, 16, out);
    return download(ctx, out);
  };
  const Tensor together = run(qkv);
  const std::uint64_t before = dnn_counters().executions;
  (void)run(qkv);
  Outcome outcome{.executions = dnn_counters().executions - before};
  for (std::int64_t item = 0; item < 4; ++item) {
    outcome.is_invariant =
        outcome.is_invariant && bytes_equal(run(qkv.slice(item, item + 1)),
                                            together.slice(item, item + 1));
  }
  return outcome;
}

TEST_F(DnnBatch, IsOneGraphWhereTheBytesAgree) {
  const Outcome outcome = attend({});
  EXPECT_EQ(outcome.executions, 1U);
  EXPECT_TRUE(outcome.is_invariant);
}

TEST_F(DnnBatch, GoesItemByItemWhereTheyDoNot) {
  set_dnn_behaviour({.bits_depend_on_batch = true});
  const Outcome outcome = attend({});
  EXPECT_EQ(outcome.executions, 4U);
  EXPECT_TRUE(outcome.is_invariant);
}

TEST_F(DnnBatch, GoesItemByItemWhereTheEngineIsAnother) {
  set_dnn_behaviour({.engines_depend_on_batch = true});
  const Outcome outcome = attend({});
  EXPECT_EQ(outcome.executions, 4U);
  EXPECT_TRUE(outcome.is_invariant);
}

TEST_F(DnnBatch, IsOneGraphInFreeMode) {
  set_dnn_behaviour(
      {.bits_depend_on_batch = true, .engines_depend_on_batch = true});
  const Outcome outcome = attend({.batch_invariant = false, .tf32 = false});
  EXPECT_EQ(outcome.executions, 1U);
  EXPECT_FALSE(outcome.is_invariant);
}

TEST_F(DnnBatch, QueuesItemByItemWhatIsFirstSeenInARecording) {
  ExecContext ctx(1, kGpu);
  const auto run = [&](const Tensor& x, Tensor& out) {
    attention(ctx, {x, 0}, {x, 16}, {x, 32}, 1, 16, out);
  };
  const Tensor one = upload(ctx, random({1, 9, 48}, DType::bf16, 3));
  const Tensor two = upload(ctx, random({2, 9, 48}, DType::bf16, 4));
  Tensor out_one = poisoned(ctx, {1, 9, 16}, DType::bf16);
  Tensor out_two = poisoned(ctx, {2, 9, 16}, DType::bf16);
  Tensor again = poisoned(ctx, {2, 9, 16}, DType::bf16);
  bool is_first = true;
  const auto owner = std::make_shared<int>();
  const std::uint64_t key[] = {1};
  const auto step = [&] {
    run(one, out_one);
    if (!is_first) {
      run(two, out_two);  // never seen outside the recording
    }
    is_first = false;
  };
  ctx.replay(owner, key, step);
  ctx.replay(owner, key, step);
  run(two, again);
  expect_same_bits(download(ctx, out_two), download(ctx, again));
}

TEST_F(DnnBatch, MakesPlansOnceAndNothingInAStep) {
  ExecContext ctx(1, kGpu);
  const Tensor x = upload(ctx, random({3, 9, 48}, DType::bf16, 3));
  Tensor out = poisoned(ctx, {3, 9, 16}, DType::bf16);
  const auto step = [&] {
    attention(ctx, {x, 0}, {x, 16}, {x, 32}, 1, 16, out);
  };
  step();
  step();
  ctx.synchronize();
  const std::uint64_t plans = dnn_counters().plans;
  const auto before = emulator::counters(0);
  const std::int64_t objects = emulator::live_dnn_objects();
  step();
  const auto after = emulator::counters(0);
  EXPECT_EQ(dnn_counters().plans, plans);
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.host_waits, before.host_waits);
  EXPECT_EQ(after.operations, before.operations + 1);
  EXPECT_EQ(emulator::live_dnn_objects(), objects);
}

TEST_F(DnnBatch, LeavesNoDescriptorBehind) {
  const std::int64_t before = emulator::live_dnn_objects();
  (void)attend({});
  EXPECT_EQ(emulator::live_dnn_objects(), before);
}

TEST_F(DnnBatch, RoundsToTf32OnlyWhenAsked) {
  const Tensor weight = random({4, 6, 3, 3}, DType::f32, 1);
  const Tensor x = random({1, 6, 6, 6}, DType::f32, 2);
  std::vector<Tensor> results;
  for (const bool tf32 : {false, true}) {
    ExecContext ctx(1, kGpu, {.batch_invariant = true, .tf32 = tf32});
    const PackedConv2d conv(ctx, weight, {}, 1, Padding::all(1), DType::f32);
    Tensor out = poisoned(ctx, {1, 6, 6, 4}, DType::f32);
    conv2d(ctx, upload(ctx, x), conv, out);
    results.push_back(download(ctx, out));
  }
  EXPECT_FALSE(bytes_equal(results[0], results[1]));
  expect_close(results[1], results[0], 5e-3);
}

TEST_F(DnnBatch, SaysWhyAConvolutionCannotBe) {
  set_dnn_behaviour({.refuses_everything = true});
  ExecContext ctx(1, kGpu);
  const PackedConv2d conv(ctx, random({4, 6, 3, 3}, DType::f32, 1), {}, 1,
                          Padding::all(1), DType::f32);
  const Tensor x = upload(ctx, random({1, 6, 6, 6}, DType::f32, 2));
  Tensor out = poisoned(ctx, {1, 6, 6, 4}, DType::f32);
  try {
    conv2d(ctx, x, conv, out);
    FAIL() << "it was";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unsupported);
    EXPECT_NE(std::string(error.what()).find("no engine"), std::string::npos);
  }
}

}  // namespace
}  // namespace troupe::kernels
