#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "config/bundled_models.h"
#include "config/scheduler_config.h"
#include "kernels/core/error.h"
#include "models/description.h"
#include "models/text/prompt_pipeline.h"

namespace troupe::config {
namespace {

TEST(BundledModels, AreReadableConfigurations) {
  for (const BundledModel& model : bundled_models()) {
    const std::string name(model.name);
    SCOPED_TRACE(name);
    const auto network = models::Json::parse(model.denoiser, name);
    models::ModelDescription description;
    description.denoiser =
        models::find_denoiser(network, network.string("_class_name", ""))
            .describe(network);
    if (!model.vae.empty()) {
      description.decoder =
          models::describe_decoder(models::Json::parse(model.vae, name));
      models::check_fit(description, name);
    }
    (void)parse_scheduler_config(model.scheduler, name);
    const models::PromptPipeline* const pipeline =
        models::find_prompt_pipeline(model.pipeline);
    EXPECT_EQ(pipeline != nullptr, description.denoiser->prompt_width() > 0);
    EXPECT_EQ(pipeline == nullptr, model.pipeline.empty());
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
