#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "config/bundled_models.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

TEST(BundledModels, AreReadableConfigurations) {
  for (const BundledModel& model : bundled_models()) {
    const auto transformer = nlohmann::json::parse(model.transformer);
    const bool is_pixart = model.name.find("pixart") != std::string_view::npos;
    EXPECT_EQ(transformer["_class_name"],
              is_pixart ? "PixArtTransformer2DModel" : "DiTTransformer2DModel");
    const auto scheduler = nlohmann::json::parse(model.scheduler);
    EXPECT_EQ(scheduler["_class_name"],
              is_pixart ? "DPMSolverMultistepScheduler" : "DDIMScheduler");
    if (!model.vae.empty()) {
      EXPECT_EQ(nlohmann::json::parse(model.vae)["latent_channels"],
                transformer["in_channels"])
          << model.name;
    }
  }
}

TEST(BundledModels, HaveThePublishedSizes) {
  // Width, blocks and heads of the paper's table 1, patch 2.
  const std::tuple<const char*, int, int, int> published[] = {
      {"dit-s-2", 384, 12, 6},
      {"dit-b-2", 768, 12, 12},
      {"dit-l-2", 1024, 24, 16},
      {"dit-xl-2-256", 1152, 28, 16}};
  for (const auto& [name, width, blocks, heads] : published) {
    const auto config =
        nlohmann::json::parse(find_bundled_model(name).transformer);
    EXPECT_EQ(config["num_attention_heads"], heads) << name;
    EXPECT_EQ(config["attention_head_dim"], width / heads) << name;
    EXPECT_EQ(config["num_layers"], blocks) << name;
    EXPECT_EQ(config["patch_size"], 2) << name;
    EXPECT_EQ(config["sample_size"], 32) << name;
  }
}

TEST(BundledModels, PixArtSigmaHasThePublishedSize) {
  const auto config = nlohmann::json::parse(
      find_bundled_model("pixart-sigma-xl-2").transformer);
  EXPECT_EQ(config["num_attention_heads"], 16);
  EXPECT_EQ(config["attention_head_dim"], 72);
  EXPECT_EQ(config["cross_attention_dim"], 1152);
  EXPECT_EQ(config["num_layers"], 28);
  EXPECT_EQ(config["sample_size"], 128);
  EXPECT_EQ(config["interpolation_scale"], 2.0);
  EXPECT_EQ(config["caption_channels"], 4096);
  EXPECT_EQ(config["use_additional_conditions"], false);
}

TEST(BundledModels, SuggestsTheNearestName) {
  try {
    (void)find_bundled_model("dit-xl-256");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::not_found);
    EXPECT_EQ(error.hint(), "did you mean 'dit-xl-2-256'?");
  }
}

}  // namespace
}  // namespace troupe::config
