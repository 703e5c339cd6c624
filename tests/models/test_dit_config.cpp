#include "models/dit/dit_config.h"
#include "tests/models/helpers.h"

namespace troupe::models {
namespace {

TEST(DitConfig, OldClassNeedsItsNormType) {
  EXPECT_NO_THROW(
      (void)parse_dit_config(Json::parse(R"({"_class_name":"Transformer2DModel",
                      "norm_type":"ada_norm_zero"})",
                                         "file")));
  EXPECT_EQ(error_of([] {
              (void)parse_dit_config(Json::parse(
                  R"({"_class_name":"Transformer2DModel"})", "file"));
            }).code(),
            Errc::unsupported);
}

TEST(DitConfig, MissingKeysAreTheClassDefaults) {
  const DitConfig config = parse_dit_config(Json::parse("{}", "file"));
  EXPECT_EQ(config.width(), 1152);
  EXPECT_EQ(config.num_layers, 28);
  EXPECT_EQ(config.out_channels, 4);
  EXPECT_EQ(config.num_classes, 1000);
  EXPECT_EQ(config.norm_eps, 1e-5F);
}

TEST(DitConfig, RefusesWhatCannotBe) {
  for (const char* text :
       {R"({"num_layers":0})", R"({"patch_size":3})", R"({"sample_size":0})",
        R"({"sample_size":65536,"patch_size":1})",
        R"({"in_channels":1,"patch_size":256,"sample_size":65536})",
        R"({"in_channels":65,"patch_size":16,"sample_size":2048})",
        R"({"out_channels":65,"patch_size":16,"sample_size":2048})",
        R"({"num_attention_heads":1,"attention_head_dim":3})",
        R"({"activation_fn":"relu"})", R"({"norm_type":"layer_norm"})",
        R"({"norm_eps":-1})", R"({"sample_size":1.5})"}) {
    EXPECT_THROW((void)parse_dit_config(Json::parse(text, "file")), Error)
        << text;
  }
}

}  // namespace
}  // namespace troupe::models
