// The hash of a configuration stands in recipes: it never changes.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "models/dit/dit_config.h"
#include "models/files/config_fields.h"
#include "models/pixart/pixart_config.h"
#include "models/text/clip_text.h"
#include "models/text/t5.h"
#include "models/unet/unet_config.h"
#include "models/vae/autoencoder_kl.h"

namespace troupe::models {
namespace {

using kernels::Activation;

/// Of all tensors.
constexpr std::uint64_t kTensors = 0x0123456789abcdef;

DitConfig other_dit() {
  return {.num_attention_heads = 3,
          .attention_head_dim = 20,
          .in_channels = 5,
          .out_channels = 10,
          .num_layers = 7,
          .attention_bias = false,
          .sample_size = 24,
          .patch_size = 4,
          .feed_forward = {Activation::gelu_erf, false},
          .num_classes = 12,
          .norm_eps = 1e-4F};
}

/// A configuration whose list forgets a member.
struct Forgetful {
  std::int64_t listed = 1;
  FeedForward feed_forward;
  std::vector<double> forgotten = {1.0};
};

constexpr void visit_fields(auto& visit, AnyConst<Forgetful> auto& c) {
  visit({"listed", 1, 2}, c.listed);
  visit(ParsedKey({"feed_forward"}), c.feed_forward.activation);
  visit(ParsedKey({"feed_forward"}), c.feed_forward.gated);
}

static_assert(num_members<Forgetful>() == 4);
static_assert(!lists_all_members<Forgetful>());

TEST(ConfigHash, OfDit) {
  EXPECT_EQ(hash_of(DitConfig{}, 0), 0xfba1233fab4a0efeU);
  EXPECT_EQ(hash_of(DitConfig{}, kTensors), 0x00238a8f06506f73U);
  DitConfig config = other_dit();
  EXPECT_EQ(hash_of(config, kTensors), 0x369fb5b8e5b12eb5U);
  // Newer fields count if one of them is set.
  config.feed_forward.gated = true;
  EXPECT_EQ(hash_of(config, kTensors), 0x2d758053674a8b39U);
  config.norm_elementwise_affine = true;
  EXPECT_EQ(hash_of(config, kTensors), 0x2f623bc1753d012cU);
  config.feed_forward.gated = false;
  EXPECT_EQ(hash_of(config, kTensors), 0x326c28dd9b9dbfd8U);
}

TEST(ConfigHash, OfPixArt) {
  EXPECT_EQ(hash_of(PixArtConfig{}, 0), 0x0ac50acbbfb77987U);
  EXPECT_EQ(hash_of(PixArtConfig{}, kTensors), 0x3567af309a36d2c8U);
  PixArtConfig config{.num_attention_heads = 3,
                      .attention_head_dim = 20,
                      .in_channels = 5,
                      .out_channels = 10,
                      .num_layers = 7,
                      .attention_bias = false,
                      .sample_size = 24,
                      .patch_size = 4,
                      .feed_forward = {Activation::silu, true},
                      .norm_eps = 1e-4F,
                      .interpolation_scale = 0.3,
                      .caption_channels = 33};
  EXPECT_EQ(hash_of(config, kTensors), 0x8115e2531ae5f291U);
  config.feed_forward.gated = false;
  EXPECT_EQ(hash_of(config, kTensors), 0xa8d795c894f051b8U);
}

TEST(ConfigHash, OfUNet) {
  EXPECT_EQ(hash_of(UNetConfig{}, 0), 0xcdb335c68188e3b9U);
  EXPECT_EQ(hash_of(UNetConfig{}, kTensors), 0x3882a682bf6a5bddU);
  UNetConfig config{.sample_height = 24,
                    .sample_width = 40,
                    .in_channels = 5,
                    .out_channels = 10,
                    .levels = {{64, 2, 1}, {128, 4, 3}, {192, 6, 0}},
                    .up_depths = {0, 3, 2},
                    .mid_depth = 4,
                    .layers_per_block = 3,
                    .activation = Activation::mish,
                    .norm_num_groups = 16,
                    .norm_eps = 1e-4F,
                    .cross_attention_dim = 33,
                    .time_embed_dim = 99,
                    .pooled_width = 21,
                    .size_embed_dim = 6};
  EXPECT_EQ(hash_of(config, kTensors), 0x58aec8bfba7c438dU);
  config.pooled_width = config.size_embed_dim = 0;
  EXPECT_EQ(hash_of(config, kTensors), 0x038f05bfde9bf477U);
  config.levels.pop_back();
  config.up_depths.pop_back();
  EXPECT_EQ(hash_of(config, kTensors), 0xccb790967eef4c70U);
}

TEST(ConfigHash, OfAutoencoderKl) {
  EXPECT_EQ(hash_of(AutoencoderKlConfig{}, 0), 0xff7c484c08d615eaU);
  EXPECT_EQ(hash_of(AutoencoderKlConfig{}, kTensors), 0x093068c496c8ab96U);
  AutoencoderKlConfig config{.out_channels = 4,
                             .block_out_channels = {32, 64, 96},
                             .layers_per_block = 2,
                             .activation = Activation::relu,
                             .latent_channels = 3,
                             .norm_num_groups = 16,
                             .scaling_factor = 0.3,
                             .shift_factor = -0.1,
                             .latents_mean = {0.5, -0.5, 0.25},
                             .latents_std = {1.5, 2.5, 3.5},
                             .use_post_quant_conv = false,
                             .mid_block_add_attention = false};
  EXPECT_EQ(hash_of(config, kTensors), 0x62cc000551b9b907U);
  // What decides tiles alone.
  config.sample_size = 77;
  EXPECT_EQ(hash_of(config, kTensors), 0x62cc000551b9b907U);
  // A newer field counts if it is set.
  config.up_block_attention = {false, false, false};
  EXPECT_EQ(hash_of(config, kTensors), 0x6d4ed978c4ed3b6dU);
  config.up_block_attention = {false, true, false};
  EXPECT_EQ(hash_of(config, kTensors), 0x431100fa9a3e598aU);
  config.latents_mean.clear();
  config.latents_std.clear();
  EXPECT_EQ(hash_of(config, kTensors), 0x03ce06cdcfd99745U);
}

TEST(ConfigHash, OfClipText) {
  EXPECT_EQ(hash_of(ClipTextConfig{}, 0), 0x78060e526ad0d8faU);
  EXPECT_EQ(hash_of(ClipTextConfig{}, kTensors), 0x1492c77474169370U);
  ClipTextConfig config{.vocab_size = 99,
                        .hidden_size = 24,
                        .intermediate_size = 56,
                        .num_layers = 3,
                        .num_heads = 2,
                        .max_tokens = 11,
                        .activation = Activation::gelu_erf,
                        .eps = 1e-4F,
                        .eos_token_id = -1,
                        .projection_dim = 13};
  EXPECT_EQ(hash_of(config, kTensors), 0x013d3efbf0735797U);
  config.projection_dim = 0;
  EXPECT_EQ(hash_of(config, kTensors), 0x8f79035bf7ea1ff6U);
}

TEST(ConfigHash, OfT5) {
  EXPECT_EQ(hash_of(T5Config{}, 0), 0x1759f380a3fb2c75U);
  EXPECT_EQ(hash_of(T5Config{}, kTensors), 0x0a01c2eb10aab13bU);
  T5Config config{.vocab_size = 99,
                  .d_model = 24,
                  .d_kv = 5,
                  .d_ff = 56,
                  .num_layers = 3,
                  .num_heads = 2,
                  .num_buckets = 16,
                  .max_distance = 50,
                  .eps = 1e-4F,
                  .activation = Activation::gelu_tanh,
                  .gated = true};
  EXPECT_EQ(hash_of(config, kTensors), 0x9b17045d620e225fU);
  config.gated = false;
  EXPECT_EQ(hash_of(config, kTensors), 0x1a49000d05804106U);
}

}  // namespace
}  // namespace troupe::models
