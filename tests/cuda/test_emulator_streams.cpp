#include <cmath>
#include <functional>
#include <set>
#include <thread>

#include "kernels/activation.h"
#include "kernels/cuda/backend.cuh"
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/emulator/streams.h"
#include "tests/cuda/support.h"

// The emulator reports missing order between pieces of work.

namespace troupe::kernels::cuda {
namespace {

class EmulatorStreams : public testing::Test {
 protected:
  void TearDown() override { emulator::configure(emulator::default_config()); }
};

/// Whether b's copy of what a computes is right, when b starts behind an event
/// of a or at once.
bool crosses(std::uint64_t seed, bool waits) {
  emulator::configure({.seed = seed});
  ExecContext a(1, kGpu);
  ExecContext b(1, kGpu);
  const Tensor host = random({100}, DType::f32, 1);
  const Tensor in = upload(a, host);
  Tensor between = poisoned(a, {100}, DType::f32);
  a.synchronize();
  Tensor out = b.empty({100}, DType::f32);
  activate(a, in, Activation::none, between);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
  check(cudaEventRecord(event, Backend::of(a).stream()), "event");
  if (waits) {
    check(cudaStreamWaitEvent(Backend::of(b).stream(), event, 0), "event");
  }
  check(cudaEventDestroy(event), "event");
  activate(b, between, Activation::none, out);
  const bool is_right = bytes_equal(download(b, out), host);
  a.synchronize();
  return is_right;
}

TEST_F(EmulatorStreams, ShowsAForgottenWaitBetweenStreams) {
  std::set<bool> is_right;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    is_right.insert(crosses(seed, false));
    EXPECT_TRUE(crosses(seed, true));
  }
  EXPECT_TRUE(is_right.contains(false));
}

TEST_F(EmulatorStreams, NothingRunsBeforeSomebodyWaits) {
  ExecContext ctx(1, kGpu);
  bool has_run = false;
  check(emulator::enqueue(Backend::of(ctx).stream(), "a probe",
                          [&] { has_run = true; }),
        "probe");
  EXPECT_FALSE(has_run);
  ctx.synchronize();
  EXPECT_TRUE(has_run);
}

TEST_F(EmulatorStreams, PinnedMemoryIsReadLateAndOtherMemoryAtOnce) {
  ExecContext ctx(1, kGpu);
  void* memory = nullptr;
  check(cudaMallocHost(&memory, sizeof(float)), "pinned");
  auto* pinned = static_cast<float*>(memory);
  float pageable = 1;
  *pinned = 1;
  Tensor out = ctx.empty({2}, DType::f32);
  const auto stream = Backend::of(ctx).stream();
  check(cudaMemcpyAsync(out.data<float>(), pinned, sizeof(float),
                        cudaMemcpyHostToDevice, stream),
        "copy");
  check(cudaMemcpyAsync(out.data<float>() + 1, &pageable, sizeof(float),
                        cudaMemcpyHostToDevice, stream),
        "copy");
  *pinned = pageable = 2;
  const Tensor host = download(ctx, out);
  EXPECT_EQ(host.data<float>()[0], 2);
  EXPECT_EQ(host.data<float>()[1], 1);
  // A copy to pinned memory does not make the host wait, which sees NaN there.
  check(cudaMemcpyAsync(pinned, out.data<float>() + 1, sizeof(float),
                        cudaMemcpyDeviceToHost, stream),
        "copy");
  EXPECT_TRUE(std::isnan(*pinned));
  ctx.synchronize();
  EXPECT_EQ(*pinned, 1);
  check(cudaFreeHost(memory), "pinned");
}

TEST_F(EmulatorStreams, PollingComesToAnEnd) {
  ExecContext ctx(1, kGpu);
  Tensor x = upload(ctx, random({10}, DType::f32, 1));
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "event");
  check(cudaEventRecord(event, Backend::of(ctx).stream()), "event");
  int polls = 0;
  while (cudaEventQuery(event) == cudaErrorNotReady) {
    ++polls;
  }
  EXPECT_GT(polls, 0);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  (void)cudaGetLastError();
  check(cudaEventDestroy(event), "event");
}

TEST_F(EmulatorStreams, RefusesInACaptureWhatCudaRefuses) {
  ExecContext ctx(1, kGpu);
  const auto stream = Backend::of(ctx).stream();
  Tensor x = upload(ctx, random({4}, DType::f32, 1));
  ctx.synchronize();
  float host = 0;
  void* memory = nullptr;
  cudaGraph_t graph = nullptr;
  const std::function<cudaError_t()> refused[] = {
      [&] { return cudaStreamSynchronize(stream); },
      [&] { return cudaDeviceSynchronize(); },
      [&] { return cudaMalloc(&memory, 4); },
      [&] { return cudaMallocHost(&memory, 4); },
      [&] { return cudaMallocAsync(&memory, 4, stream); },
      [&] {
        return cudaMemcpyAsync(x.data<float>(), &host, 4,
                               cudaMemcpyHostToDevice, stream);
      },
      [&] {
        return cudaMemcpyAsync(&host, x.data<float>(), 4,
                               cudaMemcpyDeviceToHost, stream);
      }};
  for (const auto& call : refused) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
          "capture");
    EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaMemsetAsync(x.data<float>(), 0, 4, stream),
              cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph),
              cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
  }
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
        "capture");
  EXPECT_EQ(cudaFreeAsync(x.data<float>(), stream), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph),
            cudaErrorStreamCaptureInvalidated);
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
        "capture");
  std::thread([&] {
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph),
              cudaErrorStreamCaptureWrongThread);
  }).join();
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph),
            cudaErrorStreamCaptureInvalidated);
  (void)cudaGetLastError();
}

}  // namespace
}  // namespace troupe::kernels::cuda
