#include <gtest/gtest.h>

#include <cmath>

#include "models/pixart/resolution_bins.h"
#include "models/text/prompt_pipeline.h"

namespace troupe::models {
namespace {

constexpr std::int64_t kSides[] = {32, 64, 128, 256};  // of the latents

std::pair<std::int64_t, std::int64_t> bin_of(std::int64_t sample_size,
                                             std::int64_t height,
                                             std::int64_t width) {
  const ResolutionBin& bin =
      nearest_bin(pixart_bins(sample_size), height, width);
  return {bin.height, bin.width};
}

TEST(ResolutionBins, AreThoseOfDiffusers) {
  EXPECT_EQ(pixart_bins(32).size(), 33U);
  EXPECT_EQ(pixart_bins(64).size(), 33U);
  EXPECT_EQ(pixart_bins(128).size(), 33U);
  EXPECT_EQ(pixart_bins(256).size(), 40U);
  for (const std::int64_t side : {0, 8, 16, 31, 96, 512}) {
    EXPECT_TRUE(pixart_bins(side).empty()) << side;
  }
  // What classify_height_width_bin of diffusers 0.42.1 returns.
  using Sides = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(bin_of(32, 400, 600), Sides(208, 304));
  EXPECT_EQ(bin_of(32, 97, 61), Sides(320, 192));
  EXPECT_EQ(bin_of(64, 400, 600), Sides(416, 608));
  EXPECT_EQ(bin_of(64, 1, 9999), Sides(256, 1024));
  EXPECT_EQ(bin_of(128, 400, 600), Sides(832, 1216));
  EXPECT_EQ(bin_of(128, 1080, 1920), Sides(768, 1344));
  EXPECT_EQ(bin_of(128, 1000, 999), Sides(1024, 1024));
  EXPECT_EQ(bin_of(256, 1000, 350), Sides(3328, 1152));
  EXPECT_EQ(bin_of(256, 700, 180), Sides(3968, 1024));
}

TEST(ResolutionBins, AreTheirOwnNearest) {
  for (const std::int64_t side : kSides) {
    for (const ResolutionBin& bin : pixart_bins(side)) {
      EXPECT_EQ(&nearest_bin(pixart_bins(side), bin.height, bin.width), &bin);
    }
  }
}

TEST(ResolutionBins, HaveTheRatioThatTheySayAndAboutTheTrainedArea) {
  for (const std::int64_t side : kSides) {
    const auto trained = static_cast<double>(64 * side * side);
    for (const ResolutionBin& bin : pixart_bins(side)) {
      const auto height = static_cast<double>(bin.height);
      const auto width = static_cast<double>(bin.width);
      EXPECT_NEAR(height / width, bin.ratio, 0.02) << bin.ratio;
      EXPECT_NEAR(height * width / trained, 1, 0.1) << bin.ratio;
      EXPECT_EQ(bin.height % 16, 0);
      EXPECT_EQ(bin.width % 16, 0);
    }
  }
}

TEST(ResolutionBins, OfTwoThatAreEquallyNearAreTheFirst) {
  constexpr ResolutionBin kBins[] = {{3, 30, 10}, {0.5, 5, 10}, {1.5, 15, 10}};
  EXPECT_EQ(&nearest_bin(kBins, 10, 10), &kBins[1]);
}

TEST(ResolutionBins, BelongToPixArt) {
  for (const PromptPipeline* pipeline : prompt_pipeline_table()) {
    EXPECT_EQ(pipeline->bins != nullptr,
              pipeline->class_name == "PixArtSigmaPipeline")
        << pipeline->class_name;
  }
}

}  // namespace
}  // namespace troupe::models
