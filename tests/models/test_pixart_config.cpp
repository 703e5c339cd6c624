#include "models/description.h"
#include "models/pixart/pixart_config.h"
#include "tests/models/helpers.h"

namespace troupe::models {
namespace {

PixArtConfig parsed(std::string_view text) {
  return parse_pixart_config(Json::parse(text, "file"));
}

TEST(PixArtConfig, MissingKeysAreTheClassDefaults) {
  const PixArtConfig config =
      parsed(R"({"caption_channels":4096,"use_additional_conditions":false})");
  EXPECT_EQ(config.width(), 1152);
  EXPECT_EQ(config.num_layers, 28);
  EXPECT_EQ(config.out_channels, 8);
  EXPECT_EQ(config.sample_size, 128);
  EXPECT_EQ(config.norm_eps, 1e-6F);
  EXPECT_EQ(config.interpolation_scale, 2.0);  // of sample_size
}

TEST(PixArtConfig, NullIsNotMissing) {
  const PixArtConfig config = parsed(
      R"({"caption_channels":7,"sample_size":32,"in_channels":3,
          "out_channels":null,"interpolation_scale":null,
          "use_additional_conditions":null})");
  EXPECT_EQ(config.out_channels, 3);
  EXPECT_EQ(config.interpolation_scale, 1.0);
  EXPECT_EQ(config.caption_channels, 7);
  EXPECT_EQ(parsed(R"({"caption_channels":7,"sample_size":256,
                       "interpolation_scale":null})")
                .interpolation_scale,
            4.0);
  EXPECT_EQ(parsed(R"({"caption_channels":7,"sample_size":32,
                       "interpolation_scale":0.5})")
                .interpolation_scale,
            0.5);
}

TEST(PixArtConfig, RefusesTheSizeEmbeddingsOfAlpha) {
  for (const char* text :
       {R"({"caption_channels":4096})",
        R"({"caption_channels":4096,"sample_size":32,
            "use_additional_conditions":true})",
        R"({"caption_channels":4096,"use_additional_conditions":null})"}) {
    const Error error = error_of([&] { (void)parsed(text); });
    EXPECT_EQ(error.code(), Errc::unsupported) << text;
    EXPECT_TRUE(contains(error.what(), "use_additional_conditions")) << text;
  }
}

TEST(PixArtConfig, RefusesWhatCannotBe) {
  for (const std::string key :
       {R"("num_layers":0)", R"("patch_size":3)", R"("sample_size":0)",
        R"("sample_size":65536,"patch_size":1)",
        R"("num_attention_heads":1,"attention_head_dim":3,
           "cross_attention_dim":3)",
        R"("cross_attention_dim":1151)", R"("cross_attention_dim":null)",
        R"("activation_fn":"relu")", R"("norm_type":"ada_norm_zero")",
        R"("norm_elementwise_affine":true)", R"("attention_type":"gated")",
        R"("interpolation_scale":0)", R"("interpolation_scale":-2)",
        R"("norm_eps":-1)"}) {
    EXPECT_THROW((void)parsed(R"({"caption_channels":64,
                                  "use_additional_conditions":false,)" +
                              key + "}"),
                 Error)
        << key;
  }
  EXPECT_THROW((void)parsed(R"({"sample_size":32})"), Error);
}

TEST(PixArtConfig, TheOldClassIsWhatItsNormTypeSays) {
  const auto class_of = [](std::string_view norm) {
    const Json json = Json::parse(
        R"({"_class_name":"Transformer2DModel","caption_channels":64,
            "sample_size":32)" +
            std::string(norm) + "}",
        "file");
    return find_denoiser(json, "Transformer2DModel")
        .describe(json)
        ->info({4, 32, 32}, DType::f32)
        .class_name;
  };
  EXPECT_EQ(class_of(R"(,"norm_type":"ada_norm_zero")"),
            "DiTTransformer2DModel");
  EXPECT_EQ(class_of(R"(,"norm_type":"ada_norm_single")"),
            "PixArtTransformer2DModel");
  for (const char* norm : {"", R"(,"norm_type":"layer_norm")"}) {
    const Error error = error_of([&] { (void)class_of(norm); });
    EXPECT_EQ(error.code(), Errc::unsupported);
    EXPECT_TRUE(contains(error.what(), "layer_norm"));
  }
}

}  // namespace
}  // namespace troupe::models
