#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/core/noise.h"
#include "models/vae/autoencoder_kl.h"
#include "models/vae/tiled_decode.h"
#include "tests/cuda/support.h"
#include "tests/models/dit_fixtures.h"
#include "tests/models/helpers.h"

// Whole networks on a GPU against the CPU, and the promises of
// models/network/denoiser.h there: rows are independent, cuts change nothing,
// by bytes.

namespace troupe::models {
namespace {

using kernels::CudaTest;
using kernels::kGpu;

struct GpuCase {
  std::string name;
  DType compute;
  std::int64_t head_dim;
  double tolerance;  ///< ‖gpu − cpu‖ / ‖cpu‖, the CPU in f32
};

class DitOnGpu : public CudaTest, public testing::WithParamInterface<GpuCase> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped()) {
      gpu_.emplace(1, kGpu);
    }
  }
  [[nodiscard]] ExecContext& gpu() { return *gpu_; }
  [[nodiscard]] std::unique_ptr<Denoiser> dit(
      ExecContext& ctx, DType compute,
      WeightPlacement placement = WeightPlacement::resident) const {
    return load_random(ctx, *describe(small_config(GetParam().head_dim)),
                       compute, {}, placement);
  }
  [[nodiscard]] std::unique_ptr<Denoiser> dit_on_gpu(
      WeightPlacement placement = WeightPlacement::resident) {
    return dit(gpu(), GetParam().compute, placement);
  }

 private:
  std::optional<ExecContext> gpu_;
};

void expect_same(const std::vector<Tensor>& got,
                 const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(bytes_equal(got[i], want[i])) << "row " << i;
  }
}

TEST_P(DitOnGpu, AgreesWithTheCpu) {
  ExecContext cpu;
  const auto there = dit(cpu, DType::f32);
  const auto here = dit_on_gpu();
  EXPECT_EQ(here->info().weights_hash, there->info().weights_hash);
  const auto want = predict(cpu, *there, small_rows(cpu, *there, 3));
  const Rows rows = small_rows(gpu(), *here, 3);
  // Called, recorded, played back.
  for (int pass = 0; pass < 4; ++pass) {
    const auto got = predict(gpu(), *here, rows);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_LE(relative_error(got[i], want[i]), GetParam().tolerance)
          << "pass " << pass << ", row " << i;
    }
  }
}

TEST_P(DitOnGpu, ComputesARowAsIfItWereAlone) {
  const auto here = dit_on_gpu();
  const Rows all = small_rows(gpu(), *here, 5);
  const auto together = predict(gpu(), *here, all);
  for (std::size_t i = 0; i < 5; ++i) {
    Rows one;
    one.add(gpu(), *here, all.latents[i], all.timesteps[i],
            static_cast<std::int64_t>(i % 8));
    for (int pass = 0; pass < 3; ++pass) {
      expect_same(predict(gpu(), *here, one), {together[i]});
    }
  }
  expect_same(predict(gpu(), *here, all), together);
}

/// Through two segments, cut before block `cut`.
std::vector<Tensor> predict_cut(ExecContext& ctx, const Denoiser& dit,
                                const Rows& rows, int cut) {
  ShardContext whole;
  std::vector<Boundary> boundaries(rows.latents.size());
  dit.embed(ctx, whole, rows.batch(), boundaries);
  dit.run_blocks(ctx, whole, rows.batch(), 0, cut, boundaries);
  dit.run_blocks(ctx, whole, rows.batch(), cut, 5, boundaries);
  auto outputs = outputs_for(dit, rows.latents);
  dit.finish(ctx, whole, rows.batch(), boundaries, outputs);
  return outputs;
}

TEST_P(DitOnGpu, MayBeCutAnywhere) {
  const auto here = dit_on_gpu();
  const Rows rows = small_rows(gpu(), *here, 3);
  const auto want = predict(gpu(), *here, rows);
  for (const int cut : {0, 1, 3, 5}) {
    for (int pass = 0; pass < 3; ++pass) {
      expect_same(predict_cut(gpu(), *here, rows, cut), want);
    }
  }
}

TEST_P(DitOnGpu, GivesTheSameBytesWithOffloadedWeights) {
  const auto resident = dit_on_gpu();
  const auto offloaded = dit_on_gpu(WeightPlacement::offloaded);
  EXPECT_EQ(offloaded->info().weights_hash, resident->info().weights_hash);
  const auto want = predict(gpu(), *resident, small_rows(gpu(), *resident, 3));
  const Rows rows = small_rows(gpu(), *offloaded, 3);
  for (int pass = 0; pass < 3; ++pass) {
    expect_same(predict(gpu(), *offloaded, rows), want);
    expect_same(predict_cut(gpu(), *offloaded, rows, 2), want);
  }
}

TEST_P(DitOnGpu, KnowsAnnouncedTimesteps) {
  const auto here = dit_on_gpu();
  const Rows rows = small_rows(gpu(), *here, 2);
  const auto want = predict(gpu(), *here, rows);
  Rows announced = rows;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::array<double, 3> timesteps = {1.0, rows.timesteps[i], 500.0};
    announced.prepared[i] =
        here->prepare(gpu(), static_cast<std::int64_t>(i), timesteps);
    announced.conditions[i] = announced.prepared[i].get();
  }
  for (int pass = 0; pass < 3; ++pass) {
    expect_same(predict(gpu(), *here, announced), want);
  }
}

TEST_P(DitOnGpu, ServesTwoContextsOfOneGpu) {
  const auto here = dit_on_gpu();
  const Rows rows = small_rows(gpu(), *here, 2);
  const auto want = predict(gpu(), *here, rows);
  ExecContext other(1, kGpu);
  for (int pass = 0; pass < 3; ++pass) {
    expect_same(predict(other, *here, rows), want);
    expect_same(predict(gpu(), *here, rows), want);
  }
}

class DitMemoryOnGpu : public CudaTest {};

// In f32 attention takes up to 72 MiB more, however many rows there are: that
// is counted once for a worker.
TEST_F(DitMemoryOnGpu, IsWhatWasForecast) {
  struct Case {
    DType compute;
    kernels::Activation activation;
    int rows;
    bool gated;
  };
  // The two 16-bit types take the same room.
  for (const Case& c :
       {Case{DType::bf16, kernels::Activation::gelu_tanh, 1, false},
        Case{DType::bf16, kernels::Activation::gelu_tanh, 3, true},
        Case{DType::bf16, kernels::Activation::gelu_erf, 1, true},
        Case{DType::bf16, kernels::Activation::gelu_erf, 3, false},
        Case{DType::f16, kernels::Activation::gelu_tanh, 3, false},
        Case{DType::f16, kernels::Activation::gelu_erf, 1, true}}) {
    ExecContext ctx(1, kGpu);
    const double share =
        workspace_over_forecast(ctx, c.activation, c.compute, c.rows, c.gated);
    const auto which = [&] {
      return testing::Message()
             << to_string(c.compute) << ", activation "
             << static_cast<int>(c.activation) << ", " << c.rows << " rows"
             << (c.gated ? ", gated" : "");
    };
    EXPECT_LE(share, 1.0) << which();
    EXPECT_GE(share, 0.8) << which();
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DitOnGpu,
                         testing::Values(GpuCase{"f32", DType::f32, 12, 1e-5},
                                         GpuCase{"bf16", DType::bf16, 16, 2e-2},
                                         GpuCase{"bf16_odd_heads", DType::bf16,
                                                 12, 2e-2},
                                         GpuCase{"f16", DType::f16, 16, 2e-3}),
                         [](const auto& item) { return item.param.name; });

class DecoderOnGpu : public CudaTest,
                     public testing::WithParamInterface<GpuCase> {};

TEST_P(DecoderOnGpu, AgreesWithTheCpu) {
  AutoencoderKlConfig config;
  config.block_out_channels = {16, 32};
  config.layers_per_block = 1;
  config.norm_num_groups = 4;
  ExecContext cpu;
  ExecContext gpu(1, kGpu);
  RandomWeights weights(cpu, 3);
  RandomWeights same(cpu, 3);
  const AutoencoderKl there(cpu, config, DType::f32, weights);
  const AutoencoderKl here(gpu, config, GetParam().compute, same);
  EXPECT_EQ(here.weights_hash(), there.weights_hash());
  // Sides that are multiples of no block size.
  Tensor latents({4, 7, 10}, DType::f32);
  fill_normal({.seed = 9}, latents);
  Tensor want({3, 14, 20}, DType::f32);
  there.decode(cpu, latents, want);
  std::optional<Tensor> first;
  for (int pass = 0; pass < 3; ++pass) {
    Tensor got({3, 14, 20}, DType::f32);
    here.decode(gpu, latents, got);
    EXPECT_LE(relative_error(got, want), GetParam().tolerance) << pass;
    if (!first) {
      first = got;
    }
    EXPECT_TRUE(bytes_equal(got, *first)) << "run to run";
  }
  Tensor on_gpu = kernels::poisoned(gpu, {3, 14, 20}, DType::f32);
  here.decode(gpu, kernels::upload(gpu, latents), on_gpu);
  EXPECT_TRUE(bytes_equal(kernels::download(gpu, on_gpu), *first));
  // In tiles, to the host and on the GPU.
  constexpr std::int64_t kTile = 6;
  decode_in_tiles(cpu, there, latents, kTile, want);
  Tensor tiled({3, 14, 20}, DType::f32);
  decode_in_tiles(gpu, here, latents, kTile, tiled);
  EXPECT_LE(relative_error(tiled, want), 2 * GetParam().tolerance);
  decode_in_tiles(gpu, here, kernels::upload(gpu, latents), kTile, on_gpu);
  EXPECT_TRUE(bytes_equal(kernels::download(gpu, on_gpu), tiled));
}

INSTANTIATE_TEST_SUITE_P(Types, DecoderOnGpu,
                         testing::Values(GpuCase{"f32", DType::f32, 0, 1e-5},
                                         GpuCase{"bf16", DType::bf16, 0, 2e-2},
                                         GpuCase{"f16", DType::f16, 0, 4e-3}),
                         [](const auto& item) { return item.param.name; });

}  // namespace
}  // namespace troupe::models
