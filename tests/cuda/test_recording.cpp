#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "tests/cuda/backend_support.h"

// What kernels/core/device_backend.h promises of work that is recorded and
// played back.

namespace troupe::kernels {
namespace {

class RecordingTest : public CudaTest {};

TEST_F(RecordingTest, ReplayCallsTwiceAndThenPlays) {
  const Tensor start = random({1023}, DType::f32, 9);
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, start);
  Tensor scratch = ctx.empty(x.shape(), x.dtype());
  int calls = 0;
  for (int i = 1; i <= 6; ++i) {
    ctx.replay(nullptr, Key{1}, [&] {
      ++calls;
      step(ctx, x, scratch);
    });
    EXPECT_EQ(calls, std::min(i, 2));
    expect_same_bits(download(ctx, x), after_steps(start, i));
  }
}

TEST_F(RecordingTest, ReplayCountsTicksEachTime) {
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, filled(10, 1));
  Tensor scratch = ctx.empty(x.shape(), x.dtype());
  for (std::uint64_t i = 1; i <= 5; ++i) {
    ctx.replay(nullptr, Key{1}, [&] {
      step(ctx, x, scratch);
      ctx.tick(2);
      ctx.tick(5);
    });
    EXPECT_EQ(ctx.ticks(), 7 * i);
  }
  ctx.request_stop();
  EXPECT_EQ(code_of([&] { ctx.replay(nullptr, Key{1}, [] {}); }),
            Errc::interrupted);
}

TEST_F(RecordingTest, KeysAreReplayedApart) {
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, filled(64, 3));
  std::array<Tensor, 3> outs;
  for (Tensor& out : outs) {
    out = poisoned(ctx, {64}, DType::f32);
  }
  const Activation activations[] = {Activation::none, Activation::silu,
                                    Activation::gelu_erf};
  for (int round = 0; round < 4; ++round) {
    for (std::size_t i = 0; i < outs.size(); ++i) {
      ctx.replay(nullptr, Key{i},
                 [&] { activate(ctx, x, activations[i], outs[i]); });
    }
  }
  ExecContext cpu;
  for (std::size_t i = 0; i < outs.size(); ++i) {
    Tensor want({64}, DType::f32);
    activate(cpu, filled(64, 3), activations[i], want);
    expect_close(download(ctx, outs[i]), want, tolerance_of(DType::f32));
  }
}

TEST_F(RecordingTest, OfTooManyKeysAllAreForgotten) {
  const Tensor start = random({33}, DType::f32, 12);
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, start);
  Tensor scratch = ctx.empty(x.shape(), x.dtype());
  int calls = 0;
  int steps = 0;
  const auto replay = [&](std::uint64_t key) {
    ++steps;
    ctx.replay(nullptr, Key{key}, [&] {
      ++calls;
      step(ctx, x, scratch);
    });
  };
  for (int i = 0; i < 3; ++i) {
    replay(0);
  }
  EXPECT_EQ(calls, 2);
  for (std::uint64_t key = 1; key < ExecContext::kMostReplayed; ++key) {
    replay(key);
  }
  const int all = 1 + static_cast<int>(ExecContext::kMostReplayed);
  EXPECT_EQ(calls, all);
  replay(0);  // is still known
  EXPECT_EQ(calls, all);
  replay(ExecContext::kMostReplayed);  // one too many
  for (int i = 0; i < 3; ++i) {
    replay(0);
  }
  EXPECT_EQ(calls, all + 3);
  expect_same_bits(download(ctx, x), after_steps(start, steps));
}

TEST_F(RecordingTest, WhatThrowsWhileItIsRecordedLeavesNothingBehind) {
  const Tensor start = random({77}, DType::f32, 10);
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, start);
  Tensor scratch = ctx.empty(x.shape(), x.dtype());
  int calls = 0;
  const auto work = [&] {
    step(ctx, x, scratch);
    if (++calls == 2 || calls == 3) {
      throw std::runtime_error("in the middle");
    }
  };
  ctx.replay(nullptr, Key{1}, work);
  EXPECT_THROW(ctx.replay(nullptr, Key{1}, work), std::runtime_error);
  EXPECT_THROW(ctx.replay(nullptr, Key{1}, work), std::runtime_error);
  // What was recorded before it threw has not run.
  expect_same_bits(download(ctx, x), after_steps(start, 1));
  step(ctx, x, scratch);
  ctx.replay(nullptr, Key{1}, work);
  ctx.replay(nullptr, Key{1}, work);
  EXPECT_EQ(calls, 4);
  expect_same_bits(download(ctx, x), after_steps(start, 4));
}

TEST_F(RecordingTest, RefusesWhatCannotBeRecorded) {
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, filled(8, 1));
  Tensor host({8}, DType::f32);
  const std::function<void()> refused[] = {
      [&] { (void)ctx.empty({8}, DType::f32); },
      [&] { copy(ctx, host, x); },
      [&] { copy(ctx, x, host); },
      [&] { ctx.synchronize(); },
  };
  for (std::uint64_t i = 0; i < std::size(refused); ++i) {
    ctx.replay(nullptr, Key{i}, refused[i]);
    EXPECT_EQ(code_of([&] { ctx.replay(nullptr, Key{i}, refused[i]); }),
              Errc::internal);
    ctx.synchronize();
  }
}

TEST_F(RecordingTest, AReplayInARecordingBelongsToIt) {
  const Tensor start = random({50}, DType::f32, 11);
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, start);
  Tensor scratch = ctx.empty(x.shape(), x.dtype());
  const auto inner = [&] { step(ctx, x, scratch); };
  const auto outer = [&] {
    ctx.replay(nullptr, Key{2}, inner);
    step(ctx, x, scratch);
    ctx.replay(nullptr, Key{2}, inner);
  };
  int steps = 0;
  for (int i = 0; i < 5; ++i) {
    ctx.replay(nullptr, Key{1}, outer);
    steps += 3;
    expect_same_bits(download(ctx, x), after_steps(start, steps));
    ctx.replay(nullptr, Key{2}, inner);
    steps += 1;
    expect_same_bits(download(ctx, x), after_steps(start, steps));
  }
}

TEST_F(RecordingTest, ScratchOfAReplayMayGrowForAnother) {
  const Tensor start = random({100}, DType::f32, 12);
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, start);
  const auto with_scratch = [&](std::int64_t more) {
    const Workspace::Scope scope(ctx.workspace());
    Tensor wide = ctx.workspace().take({more}, DType::f32);
    Tensor scratch = ctx.workspace().take(x.shape(), DType::f32);
    step(ctx, x, scratch);
  };
  int steps = 0;
  for (const std::int64_t more : {1, 1 << 19, 1 << 21, 1 << 22}) {
    for (int i = 0; i < 5; ++i) {
      ctx.replay(nullptr, Key{1}, [&] { with_scratch(1); });
      ctx.replay(nullptr, Key{static_cast<std::uint64_t>(more) + 1},
                 [&] { with_scratch(more); });
      steps += 2;
    }
  }
  expect_same_bits(download(ctx, x), after_steps(start, steps));
}

TEST_F(RecordingTest, ScratchMayGrowAroundAReplayInAReplay) {
  const Tensor start = random({100}, DType::f32, 14);
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, start);
  const auto work = [&](std::int64_t more) {
    const Workspace::Scope scope(ctx.workspace());
    Tensor scratch = ctx.workspace().take({more}, DType::f32).slice(0, 100);
    step(ctx, x, scratch);
    ctx.replay(nullptr, Key{2}, [&] {
      const Workspace::Scope inner(ctx.workspace());
      Tensor wide = ctx.workspace().take({more}, DType::f32).slice(0, 100);
      step(ctx, x, wide);
    });
  };
  int steps = 0;
  for (const std::int64_t more : {100, 1 << 19, 1 << 21}) {
    for (int i = 0; i < 6; ++i) {
      ctx.replay(nullptr, Key{static_cast<std::uint64_t>(more)},
                 [&] { work(more); });
      steps += 2;
    }
  }
  expect_same_bits(download(ctx, x), after_steps(start, steps));
}

TEST_F(RecordingTest, AReplayDoesNotWriteToScratchThatIsTaken) {
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, filled(1000, 2));
  const auto work = [&] {
    const Workspace::Scope scope(ctx.workspace());
    Tensor scratch = ctx.workspace().take({1000}, DType::f32);
    step(ctx, x, scratch);
  };
  for (int i = 0; i < 4; ++i) {
    ctx.replay(nullptr, Key{1}, work);
  }
  const Tensor mine = random({1000}, DType::f32, 13);
  for (int i = 0; i < 4; ++i) {
    const Workspace::Scope scope(ctx.workspace());
    Tensor taken = ctx.workspace().take({1000}, DType::f32);
    copy(ctx, mine, taken);
    ctx.replay(nullptr, Key{1}, work);
    expect_same_bits(download(ctx, taken), mine);
  }
}

TEST_F(RecordingTest, MemoryMayBeReleasedWhileWorkIsRecorded) {
  ExecContext ctx(1, kGpu);
  ExecContext other(1, kGpu);
  Tensor x = upload(ctx, filled(16, 1));
  Tensor scratch = ctx.empty(x.shape(), x.dtype());
  for (std::uint64_t key = 0; key < 4; ++key) {
    Tensor mine = upload(ctx, filled(99, 1));
    Tensor others = upload(other, filled(99, 1));
    Tensor on_a_thread = upload(ctx, filled(99, 1));
    int calls = 0;
    const auto work = [&] {
      step(ctx, x, scratch);
      if (++calls == 2) {
        mine = {};
        others = {};
        std::thread([let_go = std::move(on_a_thread)] {}).join();
      }
      step(ctx, x, scratch);
    };
    for (int i = 0; i < 3; ++i) {
      ctx.replay(nullptr, Key{key}, work);
    }
  }
  expect_same_bits(download(ctx, x), after_steps(filled(16, 1), 24));
}

TEST_F(RecordingTest, AnotherThreadsAllocationWaitsForTheRecording) {
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, filled(16, 1));
  Tensor scratch = ctx.empty(x.shape(), x.dtype());
  std::future<Tensor> allocated;
  std::atomic<bool> is_recorded = false;
  int calls = 0;
  const auto work = [&] {
    step(ctx, x, scratch);
    if (++calls == 2) {
      allocated = std::async(std::launch::async, [&] {
        Tensor memory = ctx.device_backend() == nullptr
                            ? Tensor()
                            : ctx.empty({5}, DType::f32);
        EXPECT_TRUE(is_recorded);
        return memory;
      });
      EXPECT_EQ(allocated.wait_for(std::chrono::milliseconds(20)),
                std::future_status::timeout);
      is_recorded = true;
    }
  };
  ctx.replay(nullptr, Key{1}, work);
  ctx.replay(nullptr, Key{1}, work);
  Tensor memory = allocated.get();
  copy(ctx, filled(5, 4), memory);
  expect_same_bits(download(ctx, memory), filled(5, 4));
}

}  // namespace
}  // namespace troupe::kernels
