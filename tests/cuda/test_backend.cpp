#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "kernels/activation.h"
#include "tests/cuda/support.h"

// What kernels/core/device_backend.h promises, on one GPU and between two.

namespace troupe::kernels {
namespace {

using Key = std::array<std::uint64_t, 1>;

Tensor random_bytes(std::int64_t count, std::uint64_t seed) {
  Tensor host({count}, DType::u8);
  std::mt19937_64 bits(seed);
  for (std::int64_t i = 0; i < count; ++i) {
    host.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(bits());
  }
  return host;
}

Tensor filled(std::int64_t count, float value) {
  Tensor host({count}, DType::f32);
  std::ranges::fill(host.span<float>(), value);
  return host;
}

Errc code_of(const std::function<void()>& fn, std::string* text = nullptr) {
  try {
    fn();
  } catch (const Error& error) {
    if (text != nullptr) {
      *text = error.what();
    }
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return Errc::internal;
}

/// Queues x ← silu(x) through `scratch`.
void step(ExecContext& ctx, Tensor& x, Tensor& scratch) {
  activate(ctx, x, Activation::silu, scratch);
  copy(ctx, scratch, x);
}

/// What `steps` of them give.
Tensor after_steps(const Tensor& start, int steps) {
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, start);
  Tensor scratch = ctx.empty(x.shape(), x.dtype());
  for (int i = 0; i < steps; ++i) {
    step(ctx, x, scratch);
  }
  return download(ctx, x);
}

class BackendTest : public CudaTest {};

TEST_F(BackendTest, CopiesEverySizeInEveryDirection) {
  ExecContext ctx(1, kGpu);
  // The last needs more than all of the pinned memory that copies go through.
  for (const std::int64_t count : {0, 1, 3, 255, 256, 257, 65537, (4 << 20) - 1,
                                   (4 << 20) + 1, (21 << 20) + 13}) {
    const Tensor host = random_bytes(count, 5);
    const Tensor there = upload(ctx, host);
    Tensor again = poisoned(ctx, host.shape(), DType::u8);
    copy(ctx, there, again);
    expect_same_bits(download(ctx, again), host);
  }
}

TEST_F(BackendTest, CopiesPartsOfATensor) {
  ExecContext ctx(1, kGpu);
  const Tensor host = random({7, 5}, DType::f32, 6);
  Tensor there = poisoned(ctx, {7, 5}, DType::f32);
  for (const std::int64_t row : {3, 0, 6, 1, 5, 2, 4}) {
    Tensor target = there.item(row);
    copy(ctx, host.item(row), target);
  }
  expect_same_bits(download(ctx, there.slice(2, 6)), host.slice(2, 6));
}

TEST_F(BackendTest, AHostSourceMayBeReusedAtOnce) {
  ExecContext ctx(1, kGpu);
  constexpr std::int64_t kTimes = 40;
  constexpr std::int64_t kCount = 300001;
  Tensor there = ctx.empty({kTimes, kCount}, DType::f32);
  Tensor host({kCount}, DType::f32);
  for (std::int64_t i = 0; i < kTimes; ++i) {
    std::ranges::fill(host.span<float>(), static_cast<float>(i));
    Tensor target = there.item(i);
    copy(ctx, host, target);
  }
  std::ranges::fill(host.span<float>(), -1.0F);
  for (std::int64_t i = 0; i < kTimes; ++i) {
    expect_same_bits(download(ctx, there.item(i)),
                     filled(kCount, static_cast<float>(i)));
  }
}

TEST_F(BackendTest, WorkInTheQueueKeepsUsingReleasedMemory) {
  ExecContext ctx(1, kGpu);
  std::vector<Tensor> results;
  for (int i = 0; i < 30; ++i) {
    Tensor x = upload(ctx, filled(1000 + i, static_cast<float>(i)));
    Tensor out = ctx.empty(x.shape(), DType::f32);
    activate(ctx, x, Activation::none, out);
    x = {};  // the next tensor may take its memory
    results.push_back(out);
  }
  for (int i = 0; i < 30; ++i) {
    expect_same_bits(download(ctx, results[static_cast<std::size_t>(i)]),
                     filled(1000 + i, static_cast<float>(i)));
  }
}

TEST_F(BackendTest, MemoryOutlivesItsContext) {
  auto first = std::make_unique<ExecContext>(1, kGpu);
  const Tensor host = random({333}, DType::f32, 7);
  const Tensor there = upload(*first, host);
  first->synchronize();
  first.reset();
  ExecContext second(1, kGpu);
  expect_same_bits(download(second, there), host);
}

TEST_F(BackendTest, ReleasesMemoryOnAnyThread) {
  ExecContext ctx(1, kGpu);
  const Tensor host = random({333}, DType::f32, 8);
  for (int i = 0; i < 10; ++i) {
    Tensor there = upload(ctx, host);
    Tensor out = ctx.empty(host.shape(), DType::f32);
    activate(ctx, there, Activation::none, out);
    std::thread([let_go = std::move(there)] {}).join();
    expect_same_bits(download(ctx, out), host);
  }
}

TEST_F(BackendTest, ReplayCallsTwiceAndThenPlays) {
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

TEST_F(BackendTest, ReplayCountsTicksEachTime) {
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

TEST_F(BackendTest, KeysAreReplayedApart) {
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

TEST_F(BackendTest, WhatThrowsWhileItIsRecordedLeavesNothingBehind) {
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

TEST_F(BackendTest, RefusesWhatCannotBeRecorded) {
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

TEST_F(BackendTest, AReplayInARecordingBelongsToIt) {
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

TEST_F(BackendTest, ScratchOfAReplayMayGrowForAnother) {
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

TEST_F(BackendTest, ScratchMayGrowAroundAReplayInAReplay) {
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

TEST_F(BackendTest, AReplayDoesNotWriteToScratchThatIsTaken) {
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

TEST_F(BackendTest, MemoryMayBeReleasedWhileWorkIsRecorded) {
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

TEST_F(BackendTest, AnotherThreadsAllocationWaitsForTheRecording) {
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

TEST_F(BackendTest, ContextsOfOneGpuExchangeCompleteTensors) {
  ExecContext a(1, kGpu);
  ExecContext b(1, kGpu);
  for (int i = 0; i < 20; ++i) {
    const Tensor host = random({513}, DType::f32, 100 + i);
    Tensor in = upload(a, host);
    Tensor from_a = a.empty(host.shape(), DType::f32);
    activate(a, in, Activation::none, from_a);
    a.synchronize();
    Tensor from_b = b.empty(host.shape(), DType::f32);
    activate(b, from_a, Activation::none, from_b);
    b.keep(from_a);
    from_a = {};
    expect_same_bits(download(b, from_b), host);
  }
}

TEST_F(BackendTest, KeepHoldsMemoryUntilTheNextSynchronize) {
  ExecContext ctx(1, kGpu);
  const Tensor tensor = ctx.empty({8}, DType::f32);
  EXPECT_EQ(tensor.owner().use_count(), 1);
  ctx.keep(tensor);
  ctx.keep(tensor.slice(2, 4));
  EXPECT_EQ(tensor.owner().use_count(), 3);
  ctx.synchronize();
  EXPECT_EQ(tensor.owner().use_count(), 1);
}

TEST_F(BackendTest, AContextThatGoesHoldsWhatItsQueueStillReads) {
  ExecContext a(1, kGpu);
  const Tensor host = random({4096}, DType::f32, 21);
  for (int life = 0; life < 8; ++life) {
    Tensor from_a = upload(a, host);
    a.synchronize();
    ExecContext b(1, kGpu);
    Tensor copied = clone(b, from_a);
    b.keep(from_a);
    from_a = {};
  }  // b ends with work in its queue: read-after-free faults
  a.synchronize();
}

TEST_F(BackendTest, ThreadsWithContextsOfTheirOwnDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  std::vector<Tensor> results(3);
  for (std::size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([t, &results] {
      for (int life = 0; life < 3; ++life) {
        ExecContext ctx(1, kGpu);
        Tensor x = upload(ctx, random({200}, DType::f32, t));
        Tensor scratch = ctx.empty(x.shape(), x.dtype());
        for (std::uint64_t i = 0; i < 12; ++i) {
          ctx.replay(nullptr, Key{i % 3}, [&] { step(ctx, x, scratch); });
          const Tensor passing = upload(ctx, filled(64, 1));
        }
        results[t] = download(ctx, x);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t t = 0; t < results.size(); ++t) {
    expect_same_bits(results[t], after_steps(random({200}, DType::f32, t), 12));
  }
}

TEST_F(BackendTest, SaysHowMuchMemoryThereIsWhenItIsNotEnough) {
  ExecContext ctx(1, kGpu);
  const Tensor before = upload(ctx, filled(10, 1));
  std::string text;
  EXPECT_EQ(
      code_of([&] { (void)ctx.empty({std::int64_t{1} << 44}, DType::u8); },
              &text),
      Errc::out_of_memory);
  EXPECT_NE(text.find("17592186044416 bytes"), std::string::npos) << text;
  EXPECT_NE(text.find("are free"), std::string::npos) << text;
  // It is no reason to give up.
  expect_same_bits(download(ctx, before), filled(10, 1));
  (void)ctx.empty({1024}, DType::f32);
}

TEST_F(BackendTest, RefusesAGpuThatIsNotThere) {
  std::string text;
  EXPECT_EQ(code_of(
                [] {
                  ExecContext ctx(1, {DeviceKind::cuda, 99});
                },
                &text),
            Errc::unsupported);
  EXPECT_NE(text.find("cuda:99"), std::string::npos) << text;
  EXPECT_EQ(code_of([] {
              ExecContext ctx(1, {DeviceKind::cuda, -1});
            }),
            Errc::unsupported);
}

TEST_F(BackendTest, AContextOfTheCpuDoesNotReachIt) {
  ExecContext gpu(1, kGpu);
  ExecContext cpu;
  Tensor there = upload(gpu, filled(4, 1));
  Tensor host({4}, DType::f32);
  EXPECT_EQ(code_of([&] { copy(cpu, there, host); }), Errc::internal);
  EXPECT_EQ(code_of([&] { copy(cpu, host, there); }), Errc::internal);
}

class TwoGpusTest : public CudaTest {
 protected:
  TwoGpusTest() : CudaTest(2) {}
  static constexpr Device kOther{DeviceKind::cuda, 1};
};

TEST_F(TwoGpusTest, TensorsCrossWhenTheyAreComplete) {
  ExecContext a(1, kGpu);
  ExecContext b(1, kOther);
  for (const std::int64_t count : {1, 257, (5 << 20) + 3}) {
    const Tensor host = random({count}, DType::f32, 20);
    Tensor from_a = upload(a, host);
    a.synchronize();
    // Either side may ask for the copy.
    Tensor on_b = clone(b, from_a);
    Tensor out = b.empty(host.shape(), DType::f32);
    activate(b, on_b, Activation::none, out);
    b.keep(from_a);
    from_a = {};
    b.synchronize();
    Tensor back = poisoned(a, host.shape(), DType::f32);
    copy(a, out, back);
    expect_same_bits(download(a, back), host);
  }
}

TEST_F(TwoGpusTest, AContextDoesNotWorkForOthers) {
  ExecContext a(1, kGpu);
  ExecContext b(1, kOther);
  Tensor on_b = b.empty({4}, DType::f32);
  const Tensor host = filled(4, 1);
  b.synchronize();
  EXPECT_EQ(code_of([&] { copy(a, host, on_b); }), Errc::internal);
  EXPECT_EQ(code_of([&] { activate(a, on_b, Activation::silu, on_b); }),
            Errc::invalid_argument);
}

TEST_F(TwoGpusTest, OneThreadMayServeBoth) {
  ExecContext a(1, kGpu);
  ExecContext b(1, kOther);
  Tensor on_a = upload(a, filled(40, 1));
  Tensor on_b = upload(b, filled(40, 2));
  Tensor scratch_a = a.empty({40}, DType::f32);
  Tensor scratch_b = b.empty({40}, DType::f32);
  for (int i = 0; i < 4; ++i) {
    a.replay(nullptr, Key{1}, [&] { step(a, on_a, scratch_a); });
    const Tensor passing = upload(b, filled(9, 1));
    b.replay(nullptr, Key{1}, [&] { step(b, on_b, scratch_b); });
  }
  expect_same_bits(download(a, on_a), after_steps(filled(40, 1), 4));
  expect_same_bits(download(b, on_b), after_steps(filled(40, 2), 4));
}

}  // namespace
}  // namespace troupe::kernels
