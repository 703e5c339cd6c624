#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/cuda/support.h"
#include "tests/models/helpers.h"
#include "tests/models/pixart_fixtures.h"

// PixArt on a GPU against the CPU, and the promises of
// models/network/denoiser.h there.

namespace troupe::models {
namespace {

using kernels::CudaTest;
using kernels::kGpu;

struct PixArtCase {
  std::string name;
  DType compute;
  std::int64_t head_dim;
  double tolerance;  ///< ‖gpu − cpu‖ / ‖cpu‖, the CPU in f32
};

class PixArtOnGpu : public CudaTest,
                    public testing::WithParamInterface<PixArtCase> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped()) {
      gpu_.emplace(1, kGpu);
    }
  }
  [[nodiscard]] ExecContext& gpu() { return *gpu_; }
  [[nodiscard]] std::unique_ptr<Denoiser> pixart(
      WeightPlacement placement = WeightPlacement::resident) {
    return small_pixart(gpu(), {"", GetParam().compute, GetParam().head_dim},
                        {}, placement);
  }

 private:
  std::optional<ExecContext> gpu_;
};

TEST_P(PixArtOnGpu, AgreesWithTheCpu) {
  ExecContext cpu;
  const auto there = small_pixart(cpu, {"", DType::f32, GetParam().head_dim});
  const auto here = pixart();
  EXPECT_EQ(here->info().weights_hash, there->info().weights_hash);
  const auto want = predict(cpu, *there, prompted_rows(cpu, *there, 3));
  const Rows rows = prompted_rows(gpu(), *here, 3);
  EXPECT_EQ(rows.prepared[1]->num_bytes(),
            4U * 8U * 6U * static_cast<std::size_t>(GetParam().head_dim) *
                size_of(GetParam().compute));
  // Called, recorded, played back.
  for (int pass = 0; pass < 4; ++pass) {
    const auto got = predict(gpu(), *here, rows);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_LE(relative_error(got[i], want[i]), GetParam().tolerance)
          << "pass " << pass << ", row " << i;
    }
  }
}

TEST_P(PixArtOnGpu, ComputesARowAsIfItWereAlone) {
  const auto here = pixart();
  const Rows all = prompted_rows(gpu(), *here, 4);
  const auto together = predict(gpu(), *here, all);
  for (std::size_t i = 0; i < 4; ++i) {
    Rows one;
    one.add(gpu(), *here, all.latents[i], all.timesteps[i],
            prompt_of_row(static_cast<std::int64_t>(i), 5));
    for (int pass = 0; pass < 3; ++pass) {
      expect_same(predict(gpu(), *here, one), {together[i]});
    }
  }
  expect_same(predict(gpu(), *here, all), together);
}

TEST_P(PixArtOnGpu, MayBeCutAnywhere) {
  const auto here = pixart();
  const Rows rows = prompted_rows(gpu(), *here, 3, {4, 6, 10});
  const auto want = predict(gpu(), *here, rows);
  ShardContext whole;
  for (const int cut : {0, 1, 4}) {
    for (int pass = 0; pass < 3; ++pass) {
      std::vector<Boundary> boundaries(3);
      here->embed(gpu(), whole, rows.batch(), boundaries);
      here->run_blocks(gpu(), whole, rows.batch(), 0, cut, boundaries);
      here->run_blocks(gpu(), whole, rows.batch(), cut, 4, boundaries);
      auto outputs = outputs_for(*here, rows.latents);
      here->finish(gpu(), whole, rows.batch(), boundaries, outputs);
      expect_same(outputs, want);
    }
  }
}

TEST_P(PixArtOnGpu, GivesTheSameBytesWithOffloadedWeights) {
  const auto resident = pixart();
  const auto offloaded = pixart(WeightPlacement::offloaded);
  EXPECT_EQ(offloaded->info().weights_hash, resident->info().weights_hash);
  const auto want =
      predict(gpu(), *resident, prompted_rows(gpu(), *resident, 3));
  const Rows rows = prompted_rows(gpu(), *offloaded, 3);
  for (int pass = 0; pass < 3; ++pass) {
    expect_same(predict(gpu(), *offloaded, rows), want);
  }
}

// 4×16 and 16×4 have as many tokens, but other positions.
TEST_P(PixArtOnGpu, TellsRectanglesOfOneAreaApart) {
  const auto here = pixart();
  const Rows wide = prompted_rows(gpu(), *here, 1, {4, 4, 16});
  Rows tall = wide;
  tall.latents[0] = wide.latents[0].reshape({4, 16, 4});
  const auto of_wide = predict(gpu(), *here, wide);
  const auto of_tall = predict(gpu(), *here, tall);
  EXPECT_FALSE(bytes_equal(of_wide[0].reshape({8, 16, 4}), of_tall[0]));
  for (int pass = 0; pass < 3; ++pass) {
    expect_same(predict(gpu(), *here, wide), of_wide);
    expect_same(predict(gpu(), *here, tall), of_tall);
  }
}

// A new prompt often gets the memory of one that was let go, and recordings
// that read it are still there.
TEST_P(PixArtOnGpu, ReadsThePromptsThatAreThere) {
  const auto here = pixart();
  const Tensor x = latents_of_row(0, {4, 10, 10});
  for (int round = 0; round < 8; ++round) {
    const auto seed = static_cast<std::uint64_t>(round % 4);
    const std::int64_t tokens = 5 + round % 2;
    ExecContext fresh(1, kGpu);
    Rows alone;
    alone.add(fresh, *here, x, 500.0, prompt(seed, tokens));
    const auto want = predict(fresh, *here, alone);
    Rows rows;
    rows.add(gpu(), *here, x, 500.0, prompt(seed, tokens));
    for (int pass = 0; pass < 4; ++pass) {
      expect_same(predict(gpu(), *here, rows), want);
    }
  }
}

TEST_P(PixArtOnGpu, KnowsAnnouncedTimesteps) {
  const auto here = pixart();
  const Rows rows = prompted_rows(gpu(), *here, 2);
  const auto want = predict(gpu(), *here, rows);
  Rows announced = rows;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::array<double, 3> timesteps = {1.0, rows.timesteps[i], 500.0};
    announced.prepared[i] = here->prepare(
        gpu(), prompt_of_row(static_cast<std::int64_t>(i)), timesteps);
    announced.conditions[i] = announced.prepared[i].get();
  }
  for (int pass = 0; pass < 3; ++pass) {
    expect_same(predict(gpu(), *here, announced), want);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, PixArtOnGpu,
    testing::Values(PixArtCase{"f32", DType::f32, 12, 1e-5},
                    PixArtCase{"bf16", DType::bf16, 16, 2e-2},
                    PixArtCase{"bf16_odd_heads", DType::bf16, 12, 2e-2},
                    PixArtCase{"f16", DType::f16, 16, 2e-3}),
    [](const auto& item) { return item.param.name; });

}  // namespace
}  // namespace troupe::models
