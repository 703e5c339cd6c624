#include <array>
#include <thread>
#include <vector>

#include "tests/cuda/backend_support.h"

// What kernels/core/device_backend.h promises of memory and of contexts, on one
// GPU and between two.

namespace troupe::kernels {
namespace {

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

/// What `to` holds when columns of `from` were copied into it, on the host.
Tensor with_columns(const Tensor& from, std::int64_t from_first,
                    const Tensor& to, std::int64_t to_first,
                    std::int64_t count) {
  ExecContext cpu;
  Tensor made = to.clone();
  copy_columns(cpu, from, from_first, made, to_first, count);
  return made;
}

TEST_F(BackendTest, CopiesColumns) {
  ExecContext ctx(1, kGpu);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor from = random({9, 13}, dtype, 7);
    const Tensor to = random({9, 17}, dtype, 8);
    for (const auto& [from_first, to_first, count] :
         {std::array<std::int64_t, 3>{0, 4, 13},
          {5, 0, 3},
          {12, 16, 1},
          {3, 3, 0}}) {
      Tensor there = upload(ctx, to);
      copy_columns(ctx, upload(ctx, from), from_first, there, to_first, count);
      expect_same_bits(download(ctx, there),
                       with_columns(from, from_first, to, to_first, count));
    }
    Tensor there = upload(ctx, to);
    EXPECT_EQ(
        code_of([&] { copy_columns(ctx, upload(ctx, from), 1, there, 0, 13); }),
        Errc::shape_mismatch);
  }
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

TEST_F(BackendTest, AQueueWaitsForTheMarksOfAWatchedOne) {
  ExecContext first(1, kGpu);
  ExecContext second(1, kGpu);
  const auto watch = first.device_backend()->watch([] {});
  constexpr std::uint32_t kTimes = 20;
  std::vector<Tensor> results;
  for (std::uint32_t i = 0; i < kTimes; ++i) {
    const Tensor x = upload(first, filled(300001, static_cast<float>(i)));
    const Tensor made = first.empty(x.shape(), DType::f32);
    Tensor target = made;
    activate(first, x, Activation::none, target);
    second.device_backend()->wait_for(*first.device_backend()->mark());
    second.keep(made);
    results.push_back(second.empty(x.shape(), DType::f32));
    copy(second, made, results.back());
  }
  for (std::uint32_t i = 0; i < kTimes; ++i) {
    expect_same_bits(download(second, results[i]),
                     filled(300001, static_cast<float>(i)));
  }
  EXPECT_EQ(watch->marks_set(), kTimes);
  EXPECT_EQ(watch->marks_passed(), kTimes);
  first.device_backend()->watch({});
}

TEST_F(BackendTest, AWaitEndsWithWhatIsThrownMeanwhile) {
  ExecContext ctx(1, kGpu);
  int asked = 0;
  const auto watch = ctx.device_backend()->watch([&] {
    ++asked;
    throw Error(Errc::interrupted, "test", "no more");
  });
  Errc code = Errc::internal;
  for (int turn = 0; turn < 1000 && code != Errc::interrupted; ++turn) {
    const Tensor x = upload(ctx, filled(3'000'001, 1));
    try {
      ctx.synchronize();  // or it was done before anyone asked
    } catch (const Error& error) {
      code = error.code();
    }
  }
  EXPECT_EQ(code, Errc::interrupted);
  EXPECT_EQ(asked, 1);
  ctx.device_backend()->watch({});
  ctx.synchronize();
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
      Errc::device_full);
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

TEST_F(TwoGpusTest, ColumnsCross) {
  ExecContext a(1, kGpu);
  ExecContext b(1, kOther);
  const Tensor from = random({70, 24}, DType::bf16, 21);
  const Tensor to = random({70, 40}, DType::bf16, 22);
  const Tensor on_a = upload(a, from);
  a.synchronize();
  Tensor on_b = upload(b, to);
  copy_columns(b, on_a, 3, on_b, 11, 20);
  expect_same_bits(download(b, on_b), with_columns(from, 3, to, 11, 20));
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
