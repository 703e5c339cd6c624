#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/bundled_models.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

TEST(BundledModels, AreReadableConfigurations) {
  for (const BundledModel& model : bundled_models()) {
    const auto transformer = nlohmann::json::parse(model.transformer);
    EXPECT_EQ(transformer["_class_name"], "DiTTransformer2DModel");
    const auto scheduler = nlohmann::json::parse(model.scheduler);
    EXPECT_EQ(scheduler["_class_name"], "DDIMScheduler");
    if (!model.vae.empty()) {
      EXPECT_EQ(nlohmann::json::parse(model.vae)["latent_channels"],
                transformer["in_channels"])
          << model.name;
    }
  }
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
