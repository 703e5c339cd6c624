#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

#include "config/bundled_models.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

/// A pipeline, its network and its scheduler.
using Classes =
    std::tuple<std::string_view, std::string_view, std::string_view>;

const Classes& classes_of(std::string_view pipeline, std::string_view network) {
  static constexpr std::array kClasses = {
      Classes{"", "DiTTransformer2DModel", "DDIMScheduler"},
      Classes{"", "UViT", "DPMSolverMultistepScheduler"},
      Classes{"PixArtSigmaPipeline", "PixArtTransformer2DModel",
              "DPMSolverMultistepScheduler"},
      Classes{"StableDiffusionPipeline", "UNet2DConditionModel",
              "PNDMScheduler"},
      Classes{"StableDiffusionXLPipeline", "UNet2DConditionModel",
              "EulerDiscreteScheduler"}};
  const auto* const found =
      std::ranges::find_if(kClasses, [&](const Classes& classes) {
        return std::get<0>(classes) == pipeline &&
               (!pipeline.empty() || std::get<1>(classes) == network);
      });
  require(found != kClasses.end(), Errc::not_found, network, "no such classes");
  return *found;
}

TEST(BundledModels, AreReadableConfigurations) {
  for (const BundledModel& model : bundled_models()) {
    const auto network = nlohmann::json::parse(model.denoiser);
    const auto& [pipeline, class_name, scheduler_class] = classes_of(
        model.pipeline, network["_class_name"].get_ref<const std::string&>());
    EXPECT_EQ(network["_class_name"], class_name);
    EXPECT_EQ(nlohmann::json::parse(model.scheduler)["_class_name"],
              scheduler_class);
    if (!model.vae.empty()) {
      EXPECT_EQ(
          nlohmann::json::parse(model.vae)["latent_channels"],
          network[network.contains("in_chans") ? "in_chans" : "in_channels"])
          << model.name;
    }
  }
}

TEST(BundledModels, HaveTheTilesOfWhatTheirDecodersWereTrainedWith) {
  const std::tuple<const char*, int> published[] = {
      {"dit-xl-2-256", 256},
      {"uvit-large-256", 256},
      {"sd15", 512},
      {"sdxl", 1024},
      {"pixart-sigma-xl-2", 1024}};
  for (const auto& [name, pixels] : published) {
    EXPECT_EQ(
        nlohmann::json::parse(find_bundled_model(name).vae)["sample_size"],
        pixels)
        << name;
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
        nlohmann::json::parse(find_bundled_model(name).denoiser);
    EXPECT_EQ(config["num_attention_heads"], heads) << name;
    EXPECT_EQ(config["attention_head_dim"], width / heads) << name;
    EXPECT_EQ(config["num_layers"], blocks) << name;
    EXPECT_EQ(config["patch_size"], 2) << name;
    EXPECT_EQ(config["sample_size"], 32) << name;
  }
}

TEST(BundledModels, UVitHasThePublishedSize) {
  const auto config =
      nlohmann::json::parse(find_bundled_model("uvit-large-256").denoiser);
  EXPECT_EQ(config["embed_dim"], 1024);
  EXPECT_EQ(config["depth"], 20);
  EXPECT_EQ(config["num_heads"], 16);
  EXPECT_EQ(config["img_size"], 32);
  EXPECT_EQ(config["patch_size"], 2);
  EXPECT_EQ(config["num_classes"], 1001);
  EXPECT_EQ(config["conv"], false);
}

TEST(BundledModels, PixArtSigmaHasThePublishedSize) {
  const auto config =
      nlohmann::json::parse(find_bundled_model("pixart-sigma-xl-2").denoiser);
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
