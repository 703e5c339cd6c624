// Prompts that a GPU encodes, and failures of the encoding.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "actors/cli/job_encoding.h"
#include "actors/cli/job_request.h"
#include "config/config.h"
#include "config/parse_value.h"
#include "kernels/core/error.h"
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/emulator/faults.h"
#include "tests/models/helpers.h"

namespace troupe::actors {
namespace {

class EncodingOnGpu : public testing::Test {
 protected:
  void TearDown() override { emulator::configure(emulator::default_config()); }

  static JobRequest request(
      const std::string& device,
      config::ComputeType compute = config::ComputeType::f32,
      const config::Recipe* recipe = nullptr) {
    config::Config config;
    config.random_weights = "tiny-sdxl";  // two encoders
    config.prompts = {"a red fox"};
    config.compute = compute;
    config.devices = config::parse_devices("--device", device);
    return make_request(config, recipe);
  }
  static JobConditions encoded(const JobRequest& job) {
    SignalWatch signals;
    StopFlag stop(signals);
    return encode(job.prompts, job.encoder.device, stop,
                  job.source.side_adder());
  }
  static void expect_near(const models::Condition& got,
                          const models::Condition& want, double bound) {
    ASSERT_EQ(got.tensors().size(), want.tensors().size());
    for (std::size_t i = 0; i < got.tensors().size(); ++i) {
      EXPECT_LE(models::relative_error(got.tensors()[i].tensor,
                                       want.tensors()[i].tensor),
                bound);
    }
  }
};

TEST_F(EncodingOnGpu, GivesTheConditionsOfTheCpu) {
  const JobRequest on_gpu = request("cuda:0");
  EXPECT_TRUE(on_gpu.encoder.device.is_gpu());
  EXPECT_GT(on_gpu.encoder.memory.gpu, 0U);
  const JobConditions gpu = encoded(on_gpu);
  const JobConditions cpu = encoded(request("cpu"));
  EXPECT_EQ(gpu.encoded_by.device, DeviceKind::cuda);
  EXPECT_EQ(cpu.encoded_by.device, DeviceKind::cpu);
  EXPECT_NE(gpu.encoded_by.execution_class, cpu.encoded_by.execution_class);
  expect_near(gpu.each.front().get(), cpu.each.front().get(), 1e-5);
  EXPECT_EQ(encoded(on_gpu).each.front().hash(), gpu.each.front().hash())
      << "run to run";
}

/// What it had encoded before counts no more: one class encodes all.
TEST_F(EncodingOnGpu, LeavesAllOfItToTheCpuIfItFails) {
  const JobConditions want = encoded(request("cpu"));
  for (const std::uint64_t after : {0, 20, 60}) {
    const JobRequest job = request("cuda:0");
    emulator::lose_device(0, after);
    const JobConditions got = encoded(job);
    EXPECT_EQ(got.encoded_by.device, DeviceKind::cpu) << after;
    EXPECT_EQ(got.encoded_by.execution_class, want.encoded_by.execution_class);
    EXPECT_EQ(got.each.front().hash(), want.each.front().hash()) << after;
    emulator::configure(emulator::default_config());
  }
  const JobRequest job = request("cuda:0");
  // What asks again once the queue is empty finds no memory either.
  for (int i = 0; i < 2; ++i) {
    emulator::fail_call("cudaMallocAsync", cudaErrorMemoryAllocation, 9);
  }
  EXPECT_EQ(encoded(job).each.front().hash(), want.each.front().hash());
}

TEST_F(EncodingOnGpu, IsForAGpuWithRoom) {
  const JobRequest job = request("cuda:0");
  const auto memory = [&job](const JobDevice& by) {
    return job.prompts.source->memory(by);
  };
  const auto chosen_with = [&](std::uint64_t free,
                               std::vector<std::string>& notes) {
    Gpus gpus;
    gpus.memory = [free](int) { return kernels::DeviceMemory{free, free}; };
    return choose_encoder_device({.gpus = {job.encoder.device}}, gpus, memory,
                                 notes);
  };
  const std::uint64_t enough = job.encoder.memory.gpu;
  std::vector<std::string> notes;
  EXPECT_TRUE(chosen_with(enough, notes).device.is_gpu());
  EXPECT_TRUE(notes.empty());
  const EncoderDevice chosen = chosen_with(enough - 1, notes);
  EXPECT_FALSE(chosen.device.is_gpu());
  EXPECT_EQ(chosen.memory.gpu, 0U);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(notes[0].starts_with("the text encoder does not fit on cuda:0"))
      << notes[0];
  EXPECT_TRUE(notes[0].ends_with(": the CPU encodes the prompts"));
}

TEST_F(EncodingOnGpu, IsNotInF16) {
  EXPECT_EQ(request("cuda:0", config::ComputeType::f16).encoder.device.compute,
            DType::bf16);
}

/// A recipe says the kind of device; older ones mean the CPU.
TEST_F(EncodingOnGpu, FollowsTheRecipe) {
  config::Recipe recipe;
  recipe.encoder_class = "0123456789abcdef";
  EXPECT_FALSE(request("cuda:0", config::ComputeType::f32, &recipe)
                   .encoder.device.is_gpu());
  recipe.encoder_device = DeviceKind::cuda;
  EXPECT_TRUE(request("cuda:0", config::ComputeType::f32, &recipe)
                  .encoder.device.is_gpu());
  EXPECT_FALSE(request("cpu", config::ComputeType::f32, &recipe)
                   .encoder.device.is_gpu());
}

}  // namespace
}  // namespace troupe::actors
