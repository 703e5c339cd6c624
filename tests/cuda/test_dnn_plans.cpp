#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <string>

#include "kernels/core/error.h"
#include "kernels/cuda/dnn_problems.cuh"

// The graphs that Troupe gives cuDNN, given to the real library on a machine
// that may have no GPU: plans are made for described devices, down to compiled
// kernels (see no_driver.c), and never run.

namespace troupe::kernels::cuda {
namespace {

constexpr std::size_t kVersionWithDevices = 90800;
constexpr std::size_t kVersionWithAttention = 91301;

struct DescribedGpu {
  const char* name;
  const char* json;
};

// What the library reads is not documented; the names are those that 9.19 asks
// for. The numbers are those that the CUDA runtime reports for such a card.
#define TROUPE_COMMON_PROPERTIES                                            \
  "\"cudaDeviceId\":0,\"driverVer\":13000,"                                 \
  "\"maxGridSize\":[2147483647,65535,65535],"                               \
  "\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,\"warpSize\":32," \
  "\"maxSharedMemoryPerBlock\":49152,"                                      \
  "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,"      \
  "\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"                        \
  "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"           \
  "\"supportCoopLaunch\":1,\"totalGlobalMem\":85000000000,"

constexpr DescribedGpu kGpus[] = {
    {"A100", "{" TROUPE_COMMON_PROPERTIES
             "\"deviceName\":\"NVIDIA A100-SXM4-80GB\",\"deviceVer\":800,"
             "\"multiProcessorCount\":108,"
             "\"maxSharedMemoryPerBlockOptin\":166912,"
             "\"smClockRateKHz\":1410000,\"memClockRateKHz\":1593000,"
             "\"l2CacheSize\":41943040}"},
    {"H100", "{" TROUPE_COMMON_PROPERTIES
             "\"deviceName\":\"NVIDIA H100 80GB HBM3\",\"deviceVer\":900,"
             "\"multiProcessorCount\":132,"
             "\"maxSharedMemoryPerBlockOptin\":232448,"
             "\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,"
             "\"l2CacheSize\":52428800}"}};

class DnnPlansFor : public testing::TestWithParam<DescribedGpu> {
 protected:
  void SetUp() override {
    try {
      libraries_ = load_libraries();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    const std::size_t version = dnn().version();
    if (version < kVersionWithDevices) {
      GTEST_SKIP() << "cuDNN " << version << " makes no plans without a GPU";
    }
    DnnDescriptor device(dnn(), CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    const std::string json = GetParam().json;
    device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
               static_cast<std::int64_t>(json.size()), json.data());
    try {
      device.finalize();
    } catch (const Error& error) {
      GTEST_SKIP() << "cuDNN " << version
                   << " describes devices otherwise: " << error.what();
    }
    device_ = std::move(device);
  }

  [[nodiscard]] const Dnn& dnn() const { return libraries_->dnn; }
  [[nodiscard]] DnnTarget target() const { return {dnn(), nullptr, &device_}; }
  /// Reports the engine; a failure when there is none.
  void expect_plan(const std::string& what, DnnGraph graph,
                   const DnnRules& rules = {}) {
    std::string why;
    const std::optional<DnnPlan> plan =
        DnnPlan::find(std::move(graph), rules, &why);
    ASSERT_TRUE(plan) << what << ": " << why;
    std::string knobs;
    for (const auto& [type, value] : plan->engine().knobs) {
      knobs += " " + std::to_string(type) + "=" + std::to_string(value);
    }
    std::printf("  %-4s %-58s engine %3lld%s, workspace %lld\n",
                GetParam().name, what.c_str(),
                static_cast<long long>(plan->engine().index), knobs.c_str(),
                static_cast<long long>(plan->workspace_bytes()));
  }

 private:
  std::optional<Libraries> libraries_;
  DnnDescriptor device_;
};

struct AttentionCase {
  const char* model;
  std::int64_t num_heads;
  std::int64_t head_dim;
  std::int64_t queries;
  std::int64_t keys;
  bool is_fused = true;  ///< q, k and v are columns of one tensor
};

constexpr AttentionCase kAttention[] = {
    {"demo", 6, 32, 256, 256},
    {"DiT-S/2-256", 6, 64, 256, 256},
    {"DiT-XL/2-256", 16, 72, 256, 256},
    {"DiT-XL/2-512", 16, 72, 1024, 1024},
    {"SD3 1024", 24, 64, 4429, 4429},
    {"FLUX 1024", 24, 128, 4608, 4608},
    {"SD VAE 512, middle", 1, 512, 4096, 4096},
    {"odd tokens", 16, 72, 77, 333, false},
    {"a shard of the tokens", 16, 72, 85, 256, false},
    {"one token", 3, 8, 1, 1},
    // Cross attention is cut to the keys that count, so any number may come.
    {"PixArt 1024, whole prompt", 16, 72, 4096, 300, false},
    {"PixArt 1024, short prompt", 16, 72, 4096, 41, false},
    {"PixArt 1024, empty prompt", 16, 72, 4096, 1, false},
    {"SD 512, prompt", 8, 40, 4096, 77, false},
    {"SD 512, deepest", 8, 160, 64, 77, false},
};

std::string name_of(const AttentionCase& c, DType dtype, std::int64_t items) {
  return std::string(c.model) + " " + std::string(to_string(dtype)) + " × " +
         std::to_string(items);
}

AttentionProblem problem_of(const AttentionCase& c, DType dtype) {
  const std::int64_t width = c.num_heads * c.head_dim;
  const std::int64_t row = c.is_fused ? 3 * width : width;
  return {.queries = c.queries,
          .keys = c.keys,
          .num_heads = c.num_heads,
          .head_dim = c.head_dim,
          .q_row = row,
          .k_row = row,
          .v_row = row,
          .out_row = width,
          .dtype = dtype};
}

// A plan takes a second or so: the library compiles its kernel.
TEST_P(DnnPlansFor, FlashAttentionOfEveryModel) {
  if (dnn().version() < kVersionWithAttention) {
    GTEST_SKIP() << "cuDNN " << dnn().version() << " has no such operation";
  }
  for (const AttentionCase& c : kAttention) {
    expect_plan(name_of(c, DType::bf16, 1),
                attention_graph(target(), problem_of(c, DType::bf16), 1));
  }
  for (const AttentionCase& c : {kAttention[0], kAttention[2], kAttention[5]}) {
    expect_plan(name_of(c, DType::f16, 3),
                attention_graph(target(), problem_of(c, DType::f16), 3));
  }
}

struct ConvCase {
  std::int64_t in_channels;
  std::int64_t out_channels;
  std::int64_t size;
  std::int64_t kernel;
  std::int64_t stride = 1;
  std::int64_t padding_y = kernel / 2;
  std::int64_t padding_x = kernel / 2;
};

// The decoder of SD's VAE for 512 × 512 pixels, then shapes that fit nothing,
// and a halving of SD's UNet.
constexpr ConvCase kDecoder[] = {
    {4, 4, 64, 1},       {4, 512, 64, 3},    {512, 512, 64, 3},
    {512, 512, 128, 3},  {512, 512, 256, 3}, {512, 256, 256, 3},
    {512, 256, 256, 1},  {256, 256, 256, 3}, {256, 256, 512, 3},
    {256, 128, 512, 3},  {256, 128, 512, 1}, {128, 128, 512, 3},
    {128, 3, 512, 3},    {16, 512, 128, 3},  {3, 5, 7, 3},
    {5, 7, 33, 3},       {1, 1, 8, 1},       {9, 8, 6, 5, 2},
    {320, 320, 64, 3, 2}};

ConvProblem problem_of(const ConvCase& c, DType compute, DType out) {
  ConvProblem problem{.height = c.size,
                      .width = c.size,
                      .in_channels = c.in_channels,
                      .out_channels = c.out_channels,
                      .kernel_height = c.kernel,
                      .kernel_width = c.kernel,
                      .stride = c.stride,
                      .padding_y = c.padding_y,
                      .padding_x = c.padding_x,
                      .compute = compute,
                      .out = out};
  const auto alignment = [](std::int64_t elements, DType dtype) {
    const std::int64_t bits =
        elements * static_cast<std::int64_t>(size_of(dtype)) | 16;
    return bits & -bits;
  };
  problem.x_alignment = alignment(c.size * c.size * c.in_channels, compute);
  problem.out_alignment = alignment(
      problem.out_height() * problem.out_width() * c.out_channels, out);
  return problem;
}

std::string name_of(const ConvCase& c, DType compute, DType out) {
  return std::to_string(c.in_channels) + "→" + std::to_string(c.out_channels) +
         " " + std::to_string(c.kernel) + "×" + std::to_string(c.kernel) +
         " at " + std::to_string(c.size) + "² " +
         std::string(to_string(compute)) + "→" + std::string(to_string(out));
}

TEST_P(DnnPlansFor, EveryConvolutionOfTheDecoderInHalfPrecision) {
  for (const ConvCase& c : kDecoder) {
    expect_plan(
        name_of(c, DType::bf16, DType::bf16),
        conv_graph(target(), problem_of(c, DType::bf16, DType::bf16), 1));
  }
  const ConvCase one{512, 512, 64, 3};
  expect_plan(name_of(one, DType::f16, DType::f16),
              conv_graph(target(), problem_of(one, DType::f16, DType::f16), 1));
}

TEST_P(DnnPlansFor, ConvolutionsThatWidenTheirResult) {
  for (const DType compute : {DType::bf16, DType::f16}) {
    for (const ConvCase& c :
         {ConvCase{128, 3, 512, 3}, ConvCase{512, 512, 64, 3},
          ConvCase{5, 7, 33, 3}}) {
      expect_plan(name_of(c, compute, DType::f32),
                  conv_graph(target(), problem_of(c, compute, DType::f32), 1));
    }
  }
}

TEST_P(DnnPlansFor, EveryConvolutionOfTheDecoderInExactF32) {
  for (const ConvCase& c : kDecoder) {
    expect_plan(name_of(c, DType::f32, DType::f32),
                conv_graph(target(), problem_of(c, DType::f32, DType::f32), 1),
                {.tensor_cores = false});
  }
}

// The halvings of the encoder of SD's VAE for 512 × 512 pixels, whose images
// hold the zeros at the bottom and right; then shards of rows: one from the
// middle, and the first, whose image holds the zeros at the top.
TEST_P(DnnPlansFor, ConvolutionsWithLessPadding) {
  for (const ConvCase& c :
       {ConvCase{128, 128, 513, 3, 2, 0, 0},
        ConvCase{256, 256, 257, 3, 2, 0, 0},
        ConvCase{512, 512, 129, 3, 2, 0, 0}, ConvCase{512, 512, 64, 3, 1, 0, 1},
        ConvCase{512, 512, 65, 3, 1, 0, 1}}) {
    for (const DType compute : {DType::f32, DType::bf16}) {
      expect_plan(name_of(c, compute, compute),
                  conv_graph(target(), problem_of(c, compute, compute), 1),
                  {.tensor_cores = compute != DType::f32});
    }
  }
}

TEST_P(DnnPlansFor, ABatchOnTheEngineOfOneItem) {
  const ConvProblem problem =
      problem_of({512, 512, 64, 3}, DType::bf16, DType::bf16);
  std::string why;
  const std::optional<DnnPlan> item =
      DnnPlan::find(conv_graph(target(), problem, 1), {}, &why);
  ASSERT_TRUE(item) << why;
  expect_plan("two images on the engine of one",
              conv_graph(target(), problem, 2), {.only = &item->engine()});
}

// Half of the rows, as a rank has them: conv2d.cpp pads no rows.
TEST_P(DnnPlansFor, RowsOfAConvolutionOnTheEngineOfTheWhole) {
  for (const ConvCase& c : kDecoder) {
    const ConvProblem whole = problem_of(c, DType::bf16, DType::bf16);
    std::string why;
    const std::optional<DnnPlan> all =
        DnnPlan::find(conv_graph(target(), whole, 1), {}, &why);
    ASSERT_TRUE(all) << why;
    ConvProblem band = whole;
    band.padding_y = 0;
    band.height = (whole.out_height() / 2 - 1) * c.stride + c.kernel;
    expect_plan(name_of(c, DType::bf16, DType::bf16) + ", half",
                conv_graph(target(), band, 1), {.only = &all->engine()});
  }
}

TEST_P(DnnPlansFor, WhatNoEngineCanDoIsRefusedWithAReason) {
  const ConvProblem problem =
      problem_of({512, 512, 64, 3}, DType::f32, DType::f32);
  std::string why;
  const DnnEngine none{.index = 1 << 20, .knobs = {}};
  EXPECT_FALSE(
      DnnPlan::find(conv_graph(target(), problem, 1), {.only = &none}, &why));
  EXPECT_FALSE(why.empty());
}

INSTANTIATE_TEST_SUITE_P(Gpus, DnnPlansFor, testing::ValuesIn(kGpus),
                         [](const auto& gpu) { return gpu.param.name; });

}  // namespace
}  // namespace troupe::kernels::cuda
