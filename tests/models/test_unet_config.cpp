// config.json of UNets, and the units that follow from it.

#include <string>

#include "models/description.h"
#include "models/unet/unet.h"
#include "models/unet/unet_config.h"
#include "models/unet/unet_layout.h"
#include "tests/models/helpers.h"

namespace troupe::models {
namespace {

/// Stable Diffusion 1.5.
constexpr const char* kSd15 = R"({
  "_class_name": "UNet2DConditionModel", "_diffusers_version": "0.6.0",
  "act_fn": "silu", "attention_head_dim": 8,
  "block_out_channels": [320, 640, 1280, 1280], "center_input_sample": false,
  "cross_attention_dim": 768,
  "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D",
                       "CrossAttnDownBlock2D", "DownBlock2D"],
  "downsample_padding": 1, "flip_sin_to_cos": true, "freq_shift": 0,
  "in_channels": 4, "layers_per_block": 2, "mid_block_scale_factor": 1,
  "norm_eps": 1e-05, "norm_num_groups": 32, "out_channels": 4,
  "sample_size": 64,
  "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D",
                     "CrossAttnUpBlock2D"]})";

constexpr const char* kSdxl = R"({
  "addition_embed_type": "text_time", "addition_time_embed_dim": 256,
  "attention_head_dim": [5, 10, 20], "block_out_channels": [320, 640, 1280],
  "cross_attention_dim": 2048,
  "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D",
                       "CrossAttnDownBlock2D"],
  "projection_class_embeddings_input_dim": 2816, "sample_size": 128,
  "transformer_layers_per_block": [1, 2, 10],
  "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
  "use_linear_projection": true})";

UNetConfig parse(const std::string& text) {
  return parse_unet_config(Json::parse(text, "config.json"));
}

std::int64_t parameters_of(const UNetConfig& config, std::size_t tensors) {
  const auto specs = describe(config)->specs({0, UNetLayout(config).size()});
  EXPECT_EQ(specs.size(), tensors);
  std::int64_t count = 0;
  for (const TensorSpec& spec : specs) {
    count += spec.shape.num_elements();
  }
  return count;
}

TEST(UNetConfig, HasThePublishedParameters) {
  EXPECT_EQ(parameters_of(parse(kSd15), 686), 859'520'964);
  EXPECT_EQ(parameters_of(parse(kSdxl), 1680), 2'567'463'684);
}

/// The sums over blocks are those of all tensors, and near the published
/// operations: 0.80 TFLOP at 512 pixels, 6.76 at 1024.
TEST(UNetConfig, DescribesItsCosts) {
  struct Case {
    const char* text;
    double tera;
  };
  for (const Case& of : {Case{kSd15, 0.80}, Case{kSdxl, 6.76}}) {
    const UNetConfig config = parse(of.text);
    const auto description = describe(config);
    const DenoiserInfo info =
        description->info(description->latent_shape(), DType::bf16);
    EXPECT_NEAR(info.flops() / 1e12, of.tera, 0.02 * of.tera);
    std::size_t blocks = 0;
    for (const BlockInfo& block : info.blocks) {
      blocks += block.parameter_bytes;
    }
    std::int64_t others = 0;
    for (const TensorSpec& spec :
         describe(config)->specs({0, UNetLayout(config).size()})) {
      // The projections of the timestep are one matrix of the whole segment.
      const bool in_block = (spec.name.starts_with("down_blocks.") ||
                             spec.name.starts_with("mid_block.") ||
                             spec.name.starts_with("up_blocks.")) &&
                            !contains(spec.name, "time_emb_proj");
      others += in_block ? 0 : spec.shape.num_elements();
    }
    // Biases and norms are f32, matrices bf16.
    const auto stored = static_cast<double>(
        parameters_of(config, config.has_sizes() ? 1680 : 686));
    EXPECT_NEAR(static_cast<double>(blocks) / 2 + static_cast<double>(others),
                stored, 0.001 * stored);
  }
}

/// A forecast times it, so it may not take what the whole network takes.
TEST(UNetConfig, HasASmallerNetworkOfTheSameBlocks) {
  for (const char* text : {kSd15, kSdxl}) {
    const UNetConfig config = parse(text);
    const auto whole = describe(config);
    const auto info = [&](const DenoiserDescription& of) {
      return of.info(whole->latent_shape(), DType::f32);
    };
    const auto blocks = static_cast<int>(info(*whole).blocks.size());
    EXPECT_EQ(info(*whole->with_blocks(blocks)).flops(), info(*whole).flops());
    const DenoiserInfo small = info(*whole->with_blocks(1));
    EXPECT_LT(small.blocks.size(), info(*whole).blocks.size());
    EXPECT_LT(small.flops(), 0.7 * info(*whole).flops());
    EXPECT_EQ(small.out_channels, info(*whole).out_channels);
  }
}

TEST(UNetLayout, MatchesSkipsWithUnitsOnTheWayUp) {
  for (const char* text : {kSd15, kSdxl}) {
    const UNetLayout layout(parse(text));
    EXPECT_EQ(layout.live_skips(0), 1);
    EXPECT_EQ(layout.live_skips(layout.size()), 0);
    std::size_t next = layout.skips().size();
    for (const UNetUnit& unit : layout.units()) {
      if (unit.kind == UNetUnit::Kind::up) {
        const UNetPlane& skip = layout.skips()[--next];
        EXPECT_EQ(unit.skip_channels, skip.channels);
        EXPECT_EQ(unit.halvings, skip.halvings) << unit.resnets[0];
      }
    }
    EXPECT_EQ(next, 0U);
    EXPECT_EQ(layout.hidden(layout.size()).halvings, 0);
  }
  EXPECT_EQ(UNetLayout(parse(kSd15)).size(), 24);
  EXPECT_EQ(UNetLayout(parse(kSdxl)).size(), 18);
}

/// Of SDXL at 1024 pixels in bf16.
TEST(UNetConfig, SaysWhatCrossesACut) {
  const UNetConfig config = parse(kSdxl);
  const auto description = describe(config);
  const DenoiserInfo info =
      description->info(description->latent_shape(), DType::bf16);
  const auto plane = [](std::size_t channels, std::size_t side) {
    return 2 * channels * side * side;
  };
  EXPECT_EQ(info.hidden_bytes(6), plane(640, 32));
  EXPECT_EQ(info.hidden_bytes(11), plane(1280, 32));
  const std::size_t skips = 3 * plane(320, 128) + plane(320, 64) +
                            2 * plane(640, 64) + plane(640, 32) +
                            2 * plane(1280, 32);
  EXPECT_EQ(info.boundary_bytes(9), skips + plane(1280, 32));
  // Where level 1 begins on the way up the hidden state is large, too.
  EXPECT_EQ(info.boundary_bytes(12),
            skips - plane(640, 32) - 2 * plane(1280, 32) + plane(1280, 64));
  EXPECT_EQ(info.boundary_bytes(), info.boundary_bytes(12));
  // The newest skip is the hidden state itself.
  EXPECT_EQ(info.boundary_bytes(1), 2 * plane(320, 128));
  ASSERT_EQ(info.skips.size(), 9U);
  for (const SkipInfo& skip : info.skips) {
    EXPECT_EQ(skip.made_before + skip.taken_by, 17);
  }
}

TEST(UNetConfig, TakesTheClassDefaultsForMissingKeys) {
  const UNetConfig config = parse("{}");
  EXPECT_EQ(config.levels.size(), 4U);
  EXPECT_EQ(config.cross_attention_dim, 1280);
  EXPECT_EQ(config.time_embed_dim, 1280);
  EXPECT_EQ(config.mid_depth, 1);
  EXPECT_FALSE(config.has_sizes());
}

TEST(UNetConfig, TakesSidesThatCannotBeHalvedEvenly) {
  EXPECT_EQ(parse(R"({"sample_size": 60})").latent_shape(), Shape({4, 60, 60}));
  EXPECT_EQ(parse(R"({"sample_size": [1, 97]})").latent_shape(),
            Shape({4, 1, 97}));
}

TEST(UNetLayout, RoundsSidesUpWhereTheyAreHalved) {
  const UNetSides sides{9, 6};
  const auto expect_sides = [&](int times, std::int64_t height,
                                std::int64_t width) {
    EXPECT_EQ(sides.halved(times).height, height) << times;
    EXPECT_EQ(sides.halved(times).width, width) << times;
  };
  expect_sides(0, 9, 6);
  expect_sides(1, 5, 3);
  expect_sides(2, 3, 2);
  expect_sides(3, 2, 1);
  expect_sides(4, 1, 1);
}

TEST(UNetConfig, RefusesOtherKindsWithTheKey) {
  const auto code_of = [](const std::string& text) {
    return error_of([&] { (void)parse(text); }).code();
  };
  for (const char* text :
       {R"({"class_embed_type": "timestep"})",
        R"({"dual_cross_attention": true})",
        R"({"addition_embed_type": "image"})", R"({"freq_shift": 1})",
        R"({"mid_block_type": null})", R"({"time_cond_proj_dim": 256})",
        R"({"resnet_time_scale_shift": "scale_shift"})",
        R"({"down_block_types": ["A", "B", "C", "D"]})",
        R"({"layers_per_block": [1, 2, 2, 2]})", R"({"act_fn": "tanh"})",
        R"({"cross_attention_dim": [768, 768, 768, 768]})",
        R"({"num_attention_heads": 8})", R"({"norm_num_groups": null})"}) {
    EXPECT_EQ(code_of(text), Errc::unsupported) << text;
  }
  for (const char* text :
       {R"({"block_out_channels": []})", R"({"block_out_channels": [320]})",
        R"({"attention_head_dim": [8, 8]})", R"({"norm_eps": -1})",
        R"({"attention_head_dim": 7})", R"({"sample_size": [64]})",
        R"({"norm_num_groups": 7})",
        R"({"addition_embed_type": "text_time",
            "addition_time_embed_dim": 256,
            "projection_class_embeddings_input_dim": 1536})"}) {
    EXPECT_EQ(code_of(text), Errc::corrupt_file) << text;
  }
  const Error error = error_of([] { (void)parse(R"({"freq_shift": 1})"); });
  EXPECT_TRUE(contains(error.what(), "freq_shift: got 1")) << error.what();
}

}  // namespace
}  // namespace troupe::models
