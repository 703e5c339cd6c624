#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "kernels/reduction.h"
#include "tests/cuda/backend_support.h"

// What a host reads while the queue goes on: read_back, marks, Readings::send.

namespace troupe::kernels {
namespace {

class ReadBackTest : public CudaTest {};

TEST_F(ReadBackTest, IsCompleteWhenAMarkHasPassed) {
  ExecContext ctx(1, kGpu);
  for (const std::int64_t count :
       {0, 1, 3, 4095, 4096, 4097, 65537, (5 << 20) + 13}) {
    const Tensor host = random_bytes(count, 5);
    const Tensor there = upload(ctx, host);
    const Tensor read = read_back(ctx, there);
    QueueMark mark = ctx.mark();
    EXPECT_EQ(read.device(), Device{});
    mark.wait();
    EXPECT_TRUE(mark.has_passed());
    expect_same_bits(read, host);
  }
}

TEST_F(ReadBackTest, KeepsShapeAndTypeAndReadsParts) {
  ExecContext ctx(1, kGpu);
  const Tensor host = random({7, 5}, DType::bf16, 6);
  const Tensor there = upload(ctx, host);
  const Tensor rows = read_back(ctx, there.slice(2, 6));
  const Tensor row = read_back(ctx, there.item(6));
  const Tensor none = read_back(ctx, there.slice(3, 3));
  ctx.mark().wait();
  expect_same_bits(rows, host.slice(2, 6));
  expect_same_bits(row, host.item(6));
  expect_same_bits(none, host.slice(3, 3));
}

TEST_F(ReadBackTest, AHostTensorIsThereAlready) {
  ExecContext ctx(1, kGpu);
  ExecContext cpu;
  const Tensor host = filled(10, 1);
  EXPECT_EQ(read_back(ctx, host).owner(), host.owner());
  EXPECT_EQ(read_back(cpu, host).owner(), host.owner());
}

TEST_F(ReadBackTest, MarksPassInAnyOrderOfTheAsking) {
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, random({3000}, DType::f32, 7));
  Tensor scratch = ctx.empty(x.shape(), x.dtype());
  std::vector<Tensor> reads;
  std::vector<QueueMark> marks;
  for (int i = 0; i < 5; ++i) {
    step(ctx, x, scratch);
    reads.push_back(read_back(ctx, x));
    marks.push_back(ctx.mark());
  }
  for (const std::size_t i : {2, 0, 4, 3, 1}) {
    marks[i].wait();
    expect_same_bits(reads[i], after_steps(random({3000}, DType::f32, 7),
                                           static_cast<int>(i) + 1));
  }
}

TEST_F(ReadBackTest, PollingComesToAnEnd) {
  ExecContext ctx(1, kGpu);
  const Tensor host = random({3000}, DType::f32, 8);
  Tensor x = upload(ctx, host);
  const Tensor read = read_back(ctx, x);
  QueueMark mark = ctx.mark();
  while (!mark.has_passed()) {
    // What a poll was answered is no error of what comes next.
    activate(ctx, x, Activation::none, x);
    std::this_thread::yield();
  }
  expect_same_bits(read, host);
}

TEST_F(ReadBackTest, TheTensorMayBeLetGoAtOnce) {
  ExecContext ctx(1, kGpu);
  std::vector<Tensor> reads;
  for (int i = 0; i < 20; ++i) {
    Tensor x = upload(ctx, filled(1000 + i, static_cast<float>(i)));
    reads.push_back(read_back(ctx, x));
    x = {};  // the next tensor may take its memory
  }
  ctx.mark().wait();
  for (int i = 0; i < 20; ++i) {
    expect_same_bits(reads[static_cast<std::size_t>(i)],
                     filled(1000 + i, static_cast<float>(i)));
  }
}

TEST_F(ReadBackTest, WhatIsLetGoBeforeItIsThereDisturbsNobody) {
  ExecContext a(1, kGpu);
  ExecContext b(1, kGpu);
  const Tensor on_a = upload(a, filled(1000, 1));
  const Tensor on_b = upload(b, filled(1000, 2));
  Tensor also_on_a = upload(a, filled(1000, 3));
  for (int i = 0; i < 20; ++i) {
    Tensor lost = read_back(a, on_a);
    std::thread([let_go = std::move(lost)] {}).join();
    (void)read_back(b, on_b);
    const Tensor from_b = read_back(b, on_b);
    QueueMark behind_b = b.mark();
    const Tensor from_a = read_back(a, also_on_a);
    QueueMark behind_a = a.mark();
    behind_b.wait();
    expect_same_bits(from_b, filled(1000, 2));
    behind_a.wait();
    expect_same_bits(from_a, filled(1000, 3));
    expect_same_bits(from_b, filled(1000, 2));
  }
}

TEST_F(ReadBackTest, HostTensorsAndMarksOutliveTheirContext) {
  const Tensor host = random({333}, DType::f32, 9);
  Tensor read;
  QueueMark mark;
  {
    ExecContext ctx(1, kGpu);
    read = read_back(ctx, upload(ctx, host));
    ctx.keep(host);
    mark = ctx.mark();
  }
  EXPECT_TRUE(mark.has_passed());
  expect_same_bits(read, host);
  EXPECT_EQ(host.owner().use_count(), 1);
  std::thread([let_go = std::move(read)] {}).join();
}

TEST_F(ReadBackTest, AMarkHoldsWhatWasKeptBeforeIt) {
  ExecContext ctx(1, kGpu);
  const Tensor first = ctx.empty({8}, DType::f32);
  const Tensor second = ctx.empty({8}, DType::f32);
  ctx.keep(first);
  ctx.keep(first.slice(2, 4));
  QueueMark mark = ctx.mark();
  ctx.keep(second);
  QueueMark later = ctx.mark();
  mark.wait();
  EXPECT_EQ(first.owner().use_count(), 1);
  EXPECT_EQ(second.owner().use_count(), 2);
  ctx.keep(first);
  ctx.synchronize();
  EXPECT_EQ(first.owner().use_count(), 1);
  EXPECT_EQ(second.owner().use_count(), 2);
  EXPECT_TRUE(later.has_passed());
  EXPECT_EQ(second.owner().use_count(), 1);
}

TEST_F(ReadBackTest, AMarkHoldsWhatAnotherContextLetsGo) {
  ExecContext a(1, kGpu);
  ExecContext b(1, kGpu);
  for (int i = 0; i < 20; ++i) {
    const Tensor host = random({513}, DType::f32, 100 + i);
    Tensor from_a = upload(a, host);
    a.synchronize();
    const Tensor read = read_back(b, from_a);
    b.keep(from_a);
    QueueMark mark = b.mark();
    from_a = {};
    const Tensor next = upload(a, filled(513, -1));  // may take its memory
    a.synchronize();
    mark.wait();
    expect_same_bits(read, host);
  }
}

TEST_F(ReadBackTest, NeedsTheTensorsDevice) {
  ExecContext gpu(1, kGpu);
  ExecContext cpu;
  const Tensor there = upload(gpu, filled(4, 1));
  EXPECT_EQ(code_of([&] { (void)read_back(cpu, there); }),
            Errc::invalid_argument);
}

TEST_F(ReadBackTest, IsRefusedWhileWorkIsRecorded) {
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, filled(16, 1));
  Tensor scratch = ctx.empty(x.shape(), x.dtype());
  QueueMark earlier = ctx.mark();
  int calls = 0;
  const auto work = [&] {
    step(ctx, x, scratch);
    if (++calls == 2) {
      EXPECT_EQ(code_of([&] { (void)read_back(ctx, x); }), Errc::internal);
      EXPECT_EQ(code_of([&] { (void)ctx.mark(); }), Errc::internal);
      EXPECT_EQ(code_of([&] { (void)earlier.has_passed(); }), Errc::internal);
      EXPECT_EQ(code_of([&] { earlier.wait(); }), Errc::internal);
    }
  };
  for (int i = 0; i < 3; ++i) {
    ctx.replay(nullptr, Key{1}, work);
  }
  EXPECT_EQ(calls, 2);
  const Tensor read = read_back(ctx, x);
  ctx.mark().wait();
  EXPECT_TRUE(earlier.has_passed());
  expect_same_bits(read, after_steps(filled(16, 1), 3));
}

TEST_F(ReadBackTest, AnotherThreadsRecordingHoldsUpOnlyNewMemory) {
  ExecContext ctx(1, kGpu);
  ExecContext other(1, kGpu);
  Tensor x = upload(ctx, filled(16, 1));
  Tensor scratch = ctx.empty(x.shape(), x.dtype());
  const Tensor small = upload(other, filled(16, 2));
  const Tensor large = upload(other, filled(70000, 3));
  Tensor earlier = read_back(other, small);
  Tensor held = read_back(other, small);
  earlier = {};  // one that is free
  std::future<Tensor> reused;
  std::future<Tensor> fresh;
  int calls = 0;
  const auto work = [&] {
    step(ctx, x, scratch);
    if (++calls == 2) {
      reused = std::async(std::launch::async,
                          [&] { return read_back(other, small); });
      EXPECT_EQ(reused.wait_for(std::chrono::seconds(10)),
                std::future_status::ready);
      fresh = std::async(std::launch::async,
                         [&] { return read_back(other, large); });
      EXPECT_EQ(fresh.wait_for(std::chrono::milliseconds(20)),
                std::future_status::timeout);
      held = {};  // neither waits for the other
    }
  };
  for (int i = 0; i < 3; ++i) {
    ctx.replay(nullptr, Key{1}, work);
  }
  const Tensor again = reused.get();
  const Tensor more = fresh.get();
  other.mark().wait();
  expect_same_bits(again, filled(16, 2));
  expect_same_bits(more, filled(70000, 3));
  expect_same_bits(download(ctx, x), after_steps(filled(16, 1), 3));
}

TEST_F(ReadBackTest, ReadingsComeWithAMark) {
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, filled(300, 2));
  Tensor scratch = ctx.empty(x.shape(), x.dtype());
  Readings readings(ctx, 3);
  readings.send();
  EXPECT_EQ(readings.values().size(), 0U);
  readings.sum_squares(x);
  readings.all_finite(x);
  EXPECT_EQ(code_of([&] { (void)readings.values(); }), Errc::internal);
  readings.send();
  QueueMark mark = ctx.mark();
  step(ctx, x, scratch);
  mark.wait();
  ASSERT_EQ(readings.values().size(), 2U);
  EXPECT_EQ(readings.values()[0], 1200.0);
  EXPECT_EQ(readings.values()[1], 1.0);
  // More of them, all waited for.
  readings.bytes_equal(x, x);
  const auto all = readings.wait();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0], 1200.0);
  EXPECT_EQ(all[2], 1.0);
}

class TwoGpusReadBackTest : public CudaTest {
 protected:
  TwoGpusReadBackTest() : CudaTest(2) {}
};

TEST_F(TwoGpusReadBackTest, EachReadsItsOwn) {
  ExecContext a(1, kGpu);
  ExecContext b(1, {DeviceKind::cuda, 1});
  const Tensor on_a = upload(a, filled(40, 1));
  const Tensor on_b = upload(b, filled(40, 2));
  const Tensor from_a = read_back(a, on_a);
  const Tensor from_b = read_back(b, on_b);
  QueueMark behind_a = a.mark();
  QueueMark behind_b = b.mark();
  behind_a.wait();  // b's device is current
  expect_same_bits(from_a, filled(40, 1));
  while (!behind_b.has_passed()) {
    std::this_thread::yield();
  }
  expect_same_bits(from_b, filled(40, 2));
  EXPECT_EQ(code_of([&] { (void)read_back(a, on_b); }), Errc::invalid_argument);
}

}  // namespace
}  // namespace troupe::kernels
