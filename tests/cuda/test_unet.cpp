#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/files/checkpoint.h"
#include "tests/cuda/support.h"
#include "tests/models/helpers.h"
#include "tests/models/loading.h"
#include "tests/models/unet_fixtures.h"

// The UNet on a GPU against the CPU and against diffusers, and the promises of
// models/network/denoiser.h there.

namespace troupe::models {
namespace {

using kernels::CudaTest;
using kernels::kGpu;

struct UNetOnGpuCase {
  std::string name;
  DType compute;
  bool with_sizes;
  double tolerance;  ///< ‖gpu − cpu‖ / ‖cpu‖, the CPU in f32
};

class UNetOnGpu : public CudaTest,
                  public testing::WithParamInterface<UNetOnGpuCase> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped()) {
      gpu_.emplace(1, kGpu);
    }
  }
  [[nodiscard]] ExecContext& gpu() { return *gpu_; }
  [[nodiscard]] static UNetConfig config() {
    return small_unet_config(GetParam().with_sizes, 16);
  }
  [[nodiscard]] std::unique_ptr<Denoiser> unet() {
    return small_unet(gpu(), config(), GetParam().compute);
  }
  [[nodiscard]] Rows rows_for(const Denoiser& unet, int count,
                              const Shape& shape = {4, 8, 8}) {
    return unet_rows(gpu(), unet, config(), count, shape);
  }

 private:
  std::optional<ExecContext> gpu_;
};

TEST_P(UNetOnGpu, AgreesWithTheCpu) {
  ExecContext cpu;
  const auto there = small_unet(cpu, config());
  const auto here = unet();
  EXPECT_EQ(here->info().weights_hash, there->info().weights_hash);
  for (const Shape& shape : {Shape{4, 8, 8}, Shape{4, 7, 5}}) {
    const auto want =
        predict(cpu, *there, unet_rows(cpu, *there, config(), 3, shape));
    const auto got = predict(gpu(), *here, rows_for(*here, 3, shape));
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_LE(relative_error(got[i], want[i]), GetParam().tolerance) << i;
    }
  }
}

TEST_P(UNetOnGpu, ComputesARowAsIfItWereAlone) {
  const auto here = unet();
  const Rows all = rows_for(*here, 3);
  const auto together = predict(gpu(), *here, all);
  for (std::size_t i = 0; i < 3; ++i) {
    Rows one;
    one.add(gpu(), *here, all.latents[i], all.timesteps[i],
            unet_condition(config(), i, 1 + 7 * static_cast<int>(i), 5));
    expect_same(predict(gpu(), *here, one), {together[i]});
  }
}

TEST_P(UNetOnGpu, MayBeCutAnywhere) {
  const auto here = unet();
  for (const Shape& shape : {Shape{4, 4, 12}, Shape{4, 5, 7}}) {
    const Rows rows = rows_for(*here, 2, shape);
    const auto want = predict(gpu(), *here, rows);
    ShardContext whole;
    const int count = UNetLayout(config()).size();
    for (int cut = 0; cut <= count; ++cut) {
      std::vector<Boundary> boundaries(2);
      here->embed(gpu(), whole, rows.batch(), boundaries);
      here->run_blocks(gpu(), whole, rows.batch(), 0, cut, boundaries);
      here->run_blocks(gpu(), whole, rows.batch(), cut, count, boundaries);
      auto outputs = outputs_for(*here, rows.latents);
      here->finish(gpu(), whole, rows.batch(), boundaries, outputs);
      expect_same(outputs, want);
    }
  }
}

TEST_P(UNetOnGpu, KnowsAnnouncedTimesteps) {
  const auto here = unet();
  const Rows rows = rows_for(*here, 1);
  const auto want = predict(gpu(), *here, rows);
  Rows announced = rows;
  const std::vector<double> timesteps = {1.0, rows.timesteps[0], 500.0};
  announced.prepared[0] =
      here->prepare(gpu(), unet_condition(config(), 0, 1), timesteps);
  announced.conditions[0] = announced.prepared[0].get();
  expect_same(predict(gpu(), *here, announced), want);
}

INSTANTIATE_TEST_SUITE_P(
    Types, UNetOnGpu,
    testing::Values(UNetOnGpuCase{"f32", DType::f32, false, 1e-5},
                    UNetOnGpuCase{"bf16", DType::bf16, true, 2e-2},
                    // Seen: 2.0e-3 on the emulator, 2.5e-3 on an H100.
                    UNetOnGpuCase{"f16", DType::f16, true, 4e-3}),
    [](const auto& item) { return item.param.name; });

class UNetGoldenOnGpu : public CudaTest {};

/// Its bf16 error is at most that of diffusers.
TEST_F(UNetGoldenOnGpu, Bf16ErrorIsAtMostDiffusersOwn) {
  ExecContext ctx(1, kGpu);
  for (const auto& folder : golden_folders("unet_")) {
    const Checkpoint checkpoint = open_checkpoint(folder);
    const auto denoiser = load_denoiser(ctx, checkpoint.denoiser, DType::bf16);
    const SafetensorsFile golden(folder / "golden.safetensors");
    const auto read = [&](const char* name) {
      return golden.read(*golden.find(name));
    };
    const Tensor latents = read("latents");
    const Tensor expected = read("output");
    Rows rows;
    for (std::int64_t i = 0; i < latents.dim(0); ++i) {
      Condition condition;
      for (const char* name : {"prompt_embeds", "pooled", "size_ids"}) {
        if (golden.find(name)) {
          condition.add(name, read(name).item(i));
        }
      }
      rows.add(ctx, *denoiser, latents.item(i),
               read("timesteps").data<float>()[i], condition);
    }
    const auto outputs = predict(ctx, *denoiser, rows);
    Tensor all(expected.shape(), DType::f32);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      std::memcpy(all.item(static_cast<std::int64_t>(i)).bytes().data(),
                  std::as_const(outputs[i]).bytes().data(),
                  outputs[i].num_bytes());
    }
    const double theirs = relative_error(read("output_bf16"), expected);
    const double error = relative_error(all, expected);
    RecordProperty(folder.filename().string(), std::to_string(error / theirs));
    EXPECT_LE(error, 1.5 * theirs) << folder;
  }
}

}  // namespace
}  // namespace troupe::models
