#include <tuple>

#include "kernels/linear.h"
#include "models/files/checkpoint.h"
#include "models/vae/autoencoder_kl.h"
#include "tests/models/helpers.h"
#include "tests/models/loading.h"

namespace troupe::models {
namespace {

namespace fs = std::filesystem;

Tensor decode(const fs::path& folder, DType compute, int threads) {
  ExecContext ctx(threads);
  const auto autoencoder =
      load_autoencoder(ctx, open_component(folder), compute);
  const SafetensorsFile golden(folder / "golden.safetensors");
  Tensor picture(golden.find("picture")->shape, DType::f32);
  autoencoder->decode(ctx, golden.read(*golden.find("latents")), picture);
  return picture;
}

Tensor expected(const fs::path& folder) {
  const SafetensorsFile golden(folder / "golden.safetensors");
  return golden.read(*golden.find("picture"));
}

class VaeGolden : public testing::TestWithParam<fs::path> {};

TEST_P(VaeGolden, MatchesDiffusersInF32) {
  const double error =
      relative_error(decode(GetParam(), DType::f32, 1), expected(GetParam()));
  RecordProperty("relative_l2", std::to_string(error * 1e6) + "e-6");
  EXPECT_LE(error, 2e-5);
}

TEST_P(VaeGolden, RunsInBf16) {
  if (!kernels::supports(DType::bf16)) {
    GTEST_SKIP() << "no bf16 on this CPU";
  }
  EXPECT_LE(
      relative_error(decode(GetParam(), DType::bf16, 1), expected(GetParam())),
      0.05);
}

INSTANTIATE_TEST_SUITE_P(Folders, VaeGolden,
                         testing::ValuesIn(golden_folders("vae_")),
                         [](const auto& item) {
                           return item.param.filename().string();
                         });

class VaeBits : public testing::TestWithParam<std::tuple<fs::path, DType>> {};

TEST_P(VaeBits, DoNotDependOnThreads) {
  const auto& [folder, compute] = GetParam();
  if (!kernels::supports(compute)) {
    GTEST_SKIP() << "no " << to_string(compute) << " on this processor";
  }
  const Tensor alone = decode(folder, compute, 1);
  EXPECT_TRUE(bytes_equal(decode(folder, compute, 1), alone));
  for (const int threads : {2, 3, 5}) {
    EXPECT_TRUE(bytes_equal(decode(folder, compute, threads), alone))
        << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Folders, VaeBits,
    testing::Combine(testing::ValuesIn(golden_folders("vae_")),
                     testing::Values(DType::f32, DType::bf16)),
    [](const auto& item) {
      return std::get<0>(item.param).filename().string() + "_" +
             std::string(to_string(std::get<1>(item.param)));
    });

TEST(AutoencoderKl, RefusesWrongShapes) {
  ExecContext ctx;
  const auto autoencoder = load_autoencoder(
      ctx, open_component(fs::path(TROUPE_GOLDEN_DIR) / "vae_default"),
      DType::f32);
  Tensor small({3, 8, 7}, DType::f32);
  EXPECT_EQ(
      error_of([&] {
        autoencoder->decode(ctx, Tensor::zeros({4, 4, 4}, DType::f32), small);
      }).code(),
      Errc::shape_mismatch);
}

TEST(AutoencoderKl, TheHashFollowsTheConfigurationAndNeedsNoPacking) {
  ExecContext ctx;
  const Component vae =
      open_component(fs::path(TROUPE_GOLDEN_DIR) / "vae_default");
  const auto hash_of = [&](const AutoencoderKlConfig& config) {
    FileWeights weights(ctx, vae.weights);
    return autoencoder_kl_weights_hash(ctx, config, weights);
  };
  const auto config = parse_autoencoder_kl_config(vae.config);
  EXPECT_EQ(hash_of(config),
            load_autoencoder(ctx, vae, DType::f32)->weights_hash());
  AutoencoderKlConfig other = config;
  other.scaling_factor = 0.2;
  EXPECT_NE(hash_of(other), hash_of(config));
  other = config;
  other.latents_std = {1, 1, 1, 1};
  EXPECT_NE(hash_of(other), hash_of(config));
  other = config;
  other.activation = kernels::Activation::relu;
  EXPECT_NE(hash_of(other), hash_of(config));
  // Execution classes compare it: a field that is added must leave it.
  EXPECT_EQ(hash_of(config), 0x42337e0d3fdc52b0ULL);
}

TEST(AutoencoderKl, CountsTheAttentionOfUpBlocks) {
  AutoencoderKlConfig config;
  config.block_out_channels = {32, 64};
  config.layers_per_block = 1;
  const auto flops = [&] {
    return autoencoder_kl_costs(config, DType::f32, 10, 10).flops;
  };
  const double plain = flops();
  config.up_block_attention = {false, true};
  // Two attentions over 400 pixels of width 32: four projections, two products.
  EXPECT_EQ(flops() - plain,
            2 * (4 * 2.0 * 32 * 32 * 400 + 4.0 * 400 * 400 * 32));
}

TEST(AutoencoderKl, APictureTakesTheMemoryThatWasForecast) {
  for (const std::vector<bool>& attends :
       {std::vector<bool>{}, {false, true}, {true, false}}) {
    AutoencoderKlConfig config;
    config.block_out_channels = {32, 64};
    config.up_block_attention = attends;
    ExecContext ctx;
    RandomWeights weights(ctx, 3);
    const AutoencoderKl decoder(ctx, config, DType::f32, weights);
    Tensor picture({3, 64, 64}, DType::f32);
    decoder.decode(ctx, Tensor::zeros({4, 32, 32}, DType::f32), picture);
    // The picture is part of the forecast, and no part of the workspace.
    const auto taken =
        static_cast<double>(ctx.workspace().peak_bytes() + picture.num_bytes());
    const auto forecast = static_cast<double>(
        autoencoder_kl_costs(config, DType::f32, 32, 32).bytes);
    EXPECT_LE(taken, forecast);
    EXPECT_GE(taken, 0.95 * forecast);
  }
}

// The attention is what takes most: 1,024 tokens in one head.
TEST(AutoencoderKl, ThreadsTakeTheScratchThatWasForecast) {
  AutoencoderKlConfig config;
  config.block_out_channels = {32, 128};
  for (const int threads : {1, 3}) {
    ExecContext ctx(threads);
    RandomWeights weights(ctx, 3);
    const AutoencoderKl decoder(ctx, config, DType::f32, weights);
    ExecContext fresh(threads);
    Tensor picture({3, 64, 64}, DType::f32);
    decoder.decode(fresh, Tensor::zeros({4, 32, 32}, DType::f32), picture);
    const ThreadScratch forecast =
        autoencoder_kl_costs(config, DType::f32, 32, 32).scratch;
    EXPECT_GT(forecast.attention, forecast.convolution);
    // The library asks for a little more.
    EXPECT_LE(fresh.scratch_bytes(), forecast.of(threads) * 21 / 20) << threads;
    EXPECT_GE(fresh.scratch_bytes(), forecast.of(1) / 2) << threads;
  }
}

TEST(AutoencoderKl, ThreadsShareTheCopiesOfAWideHead) {
  const AutoencoderKlConfig config{.block_out_channels = {128, 256, 512, 512}};
  const ThreadScratch scratch =
      autoencoder_kl_costs(config, DType::f32, 128, 128).scratch;
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
  EXPECT_GT(scratch.of(1), 64 * kMiB) << "16,384 keys and values of 512";
  EXPECT_LE(scratch.of(16), 256 * kMiB);
}

TEST(AutoencoderKlConfig, HasDiffusersDefaults) {
  const auto config = parse_autoencoder_kl_config(Json::parse("{}", "file"));
  EXPECT_EQ(config.block_out_channels, std::vector<std::int64_t>{64});
  EXPECT_EQ(config.layers_per_block, 1);
  EXPECT_EQ(config.scaling_factor, 0.18215);
  EXPECT_TRUE(config.use_post_quant_conv);
}

TEST(AutoencoderKlConfig, RefusesWhatCannotBe) {
  for (const char* text :
       {R"({"block_out_channels":[]})", R"({"block_out_channels":[48]})",
        R"({"act_fn":"tanh"})", R"({"scaling_factor":0})",
        R"({"up_block_types":["UpBlock2D"]})",
        R"({"up_block_types":["UpDecoderBlock2D", "UpDecoderBlock2D"]})",
        R"({"latents_mean":[1.0]})", R"({"layers_per_block":-1})"}) {
    EXPECT_THROW((void)parse_autoencoder_kl_config(Json::parse(text, "file")),
                 Error)
        << text;
  }
}

TEST(AutoencoderKl, DecoderOfStableDiffusionHasItsTensors) {
  const auto config = parse_autoencoder_kl_config(Json::parse(
      R"({"block_out_channels":[128,256,512,512],"layers_per_block":2})",
      "file"));
  std::int64_t parameters = 0;
  for (const TensorSpec& spec : autoencoder_kl_tensors(config)) {
    parameters += spec.shape.num_elements();
  }
  // 49,490,179 in the decoder and 20 in post_quant_conv.
  EXPECT_EQ(parameters, 49'490'199);
}

TEST(AutoencoderKl, CountsItsArithmetic) {
  const auto config = parse_autoencoder_kl_config(Json::parse(
      R"({"block_out_channels":[64],"layers_per_block":1,
          "mid_block_add_attention":false})",
      "file"));
  // Four pairs of residual convolutions between 1 × 1, first and last one.
  const double weights =
      4.0 * 4 + 9.0 * 4 * 64 + 4 * 2 * 9.0 * 64 * 64 + 9.0 * 64 * 3;
  EXPECT_EQ(autoencoder_kl_costs(config, DType::f32, 8, 32).flops,
            2 * 256 * weights);
}

}  // namespace
}  // namespace troupe::models
