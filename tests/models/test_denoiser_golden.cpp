// What diffusers, or a reference of the authors' code, computes; stored and
// printed.

#include <cstring>
#include <utility>

#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "models/files/checkpoint.h"
#include "tests/models/dit_fixtures.h"
#include "tests/models/helpers.h"
#include "tests/models/loading.h"

namespace troupe::models {
namespace {

namespace fs = std::filesystem;

/// What row `index` is conditioned on: a class, or a prompt with padding.
Condition condition_in(const SafetensorsFile& golden, std::int64_t index) {
  if (const auto labels = golden.find("labels")) {
    return golden.read(*labels).data<std::int64_t>()[index];
  }
  Condition condition;
  condition.add(
      "prompt_embeds", golden.read(*golden.find("prompt_embeds")).item(index),
      golden.read(*golden.find("lengths")).data<std::int64_t>()[index]);
  for (const char* name : {"pooled", "size_ids"}) {
    if (const auto found = golden.find(name)) {
      condition.add(name, golden.read(*found).item(index));
    }
  }
  return condition;
}

/// Of any type that a timestep may have in torch.
double timestep_in(const Tensor& timesteps, std::int64_t index) {
  return timesteps.dtype() == DType::i64
             ? static_cast<double>(timesteps.data<std::int64_t>()[index])
             : timesteps.data<float>()[index];
}

class DenoiserGolden : public testing::TestWithParam<fs::path> {
 protected:
  struct Errors {
    double ours = 0.0;
    double theirs_bf16 = 0.0;
  };

  Errors compare(DType compute) {
    ExecContext ctx;
    const Checkpoint checkpoint = open_checkpoint(GetParam());
    const auto denoiser = load_denoiser(ctx, checkpoint.denoiser, compute);
    const SafetensorsFile golden(GetParam() / "golden.safetensors");
    const Tensor latents = golden.read(*golden.find("latents"));
    const Tensor timesteps = golden.read(*golden.find("timesteps"));
    const Tensor expected = golden.read(*golden.find("output"));
    Rows rows;
    for (std::int64_t i = 0; i < latents.dim(0); ++i) {
      rows.add(ctx, *denoiser, latents.item(i), timestep_in(timesteps, i),
               condition_in(golden, i));
    }
    const auto outputs = predict(ctx, *denoiser, rows);
    Tensor all(expected.shape(), DType::f32);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      std::memcpy(all.item(static_cast<std::int64_t>(i)).bytes().data(),
                  std::as_const(outputs[i]).bytes().data(),
                  outputs[i].num_bytes());
    }
    return {relative_error(all, expected),
            relative_error(golden.read(*golden.find("output_bf16")), expected)};
  }
};

TEST_P(DenoiserGolden, MatchesDiffusersInF32) {
  const double error = compare(DType::f32).ours;
  RecordProperty("relative_l2", std::to_string(error * 1e6) + "e-6");
  EXPECT_LE(error, 2e-5);
}

TEST_P(DenoiserGolden, Bf16ErrorIsAtMostDiffusersOwn) {
  if (!kernels::supports(DType::bf16)) {
    GTEST_SKIP() << "no bf16 on this CPU";
  }
  const Errors errors = compare(DType::bf16);
  RecordProperty("ratio", std::to_string(errors.ours / errors.theirs_bf16));
  EXPECT_LE(errors.ours, 1.5 * errors.theirs_bf16);
}

std::string name_of(const testing::TestParamInfo<fs::path>& item) {
  return item.param.filename().string();
}

INSTANTIATE_TEST_SUITE_P(Dit, DenoiserGolden,
                         testing::ValuesIn(golden_folders("dit_")), name_of);
INSTANTIATE_TEST_SUITE_P(PixArt, DenoiserGolden,
                         testing::ValuesIn(golden_folders("pixart_")), name_of);
INSTANTIATE_TEST_SUITE_P(UNet, DenoiserGolden,
                         testing::ValuesIn(golden_folders("unet_")), name_of);
INSTANTIATE_TEST_SUITE_P(UVit, DenoiserGolden,
                         testing::ValuesIn(golden_folders("uvit_")), name_of);

TEST(TimestepEmbedding, HasDiffusersValues) {
  const double timesteps[] = {500.0};
  const int index[] = {0, 1, 2, 127, 128, 129, 255};
  const float shift_0[] = {-0.883849F, 0.945946F, 0.848507F, 0.998557F,
                           -0.467772F, 0.324325F, 0.053705F};
  const float shift_1[] = {-0.883849F, 0.997773F, 0.499335F, 0.99875F,
                           -0.467772F, 0.066699F, 0.049979F};
  ExecContext ctx;
  Tensor out({1, 256}, DType::f32);
  kernels::timestep_embedding(ctx, timesteps, 0.0, 10000.0, out);
  for (int i = 0; i < 7; ++i) {
    EXPECT_NEAR(out.data<float>()[index[i]], shift_0[i], 2e-6);
  }
  kernels::timestep_embedding(ctx, timesteps, 1.0, 10000.0, out);
  for (int i = 0; i < 7; ++i) {
    EXPECT_NEAR(out.data<float>()[index[i]], shift_1[i], 2e-6);
  }
}

TEST(PositionTable, HasDiffusersValues) {
  const Tensor table = kernels::sincos_2d(1152, 16, 16, 16, 1.0);
  const int index[] = {0, 1, 288, 289, 576, 577, 864, 865};
  const float column_1[] = {0.841471F, 0.824051F, 0.540302F, 0.566515F,
                            0.0F,      0.0F,      1.0F,      1.0F};
  const float row_1[] = {0.0F,      0.0F,      1.0F,      1.0F,
                         0.841471F, 0.824051F, 0.540302F, 0.566515F};
  for (int i = 0; i < 8; ++i) {
    EXPECT_NEAR(table.data<float>()[1152 + index[i]], column_1[i], 1e-6);
    EXPECT_NEAR(table.data<float>()[16 * 1152 + index[i]], row_1[i], 1e-6);
  }
}

TEST(PositionTable, InterpolatesLikePixArt) {
  // Sigma at 1024 pixels: 64×64 tokens, interpolated by 2.
  const Tensor table = kernels::sincos_2d(1152, 64, 64, 64, 2.0);
  EXPECT_NEAR(table.data<float>()[1152], 0.479426F, 1e-6);
  EXPECT_NEAR(table.data<float>()[1152 + 288], 0.877583F, 1e-6);
}

TEST(PositionTable, StretchesItsBaseLikeStableDiffusion3) {
  // 192×192 tokens over a base of 64; the first frequency of columns and of
  // rows is 1 at any width.
  const Tensor table = kernels::sincos_2d(8, 192, 192, 64, 1.0);
  EXPECT_NEAR(table.data<float>()[8], 0.327195F, 1e-6);
  EXPECT_NEAR(table.data<float>()[192 * 8 + 4], 0.327195F, 1e-6);
}

}  // namespace
}  // namespace troupe::models
