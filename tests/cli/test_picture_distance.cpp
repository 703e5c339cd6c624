#include <gtest/gtest.h>

#include <numeric>

#include "actors/cli/compare_files.h"
#include "actors/cli/picture_classifier.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

/// channel c of pixel (x, y) is value(x, y, c).
Image picture(int width, int height, int (*value)(int, int, int)) {
  Image image{.width = width, .height = height};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        image.rgb.push_back(static_cast<std::uint8_t>(value(x, y, c)));
      }
    }
  }
  return image;
}

TEST(Ssim, IsThatOfTheFormula) {
  const Image a = picture(16, 12, [](int x, int y, int c) {
    return (x * 37 + y * 11 + c * 50 + x * y * 3) % 256;
  });
  const Image b = picture(16, 12, [](int x, int y, int c) {
    return (x * 37 + y * 11 + c * 50 + x * y * 3 + (x * y % 5) * 9) % 256;
  });
  EXPECT_DOUBLE_EQ(structural_similarity(a, a), 1);
  // The definition, summed window by window in Python.
  EXPECT_NEAR(structural_similarity(a, b), 0.6412070351979925, 1e-12);
  const Image dark = picture(9, 4, [](int, int, int) { return 100; });
  const Image light = picture(9, 4, [](int, int, int) { return 110; });
  // Flat pictures differ in their means alone.
  constexpr double kC1 = 2.55 * 2.55;
  EXPECT_NEAR(structural_similarity(dark, light),
              (2 * 100 * 110 + kC1) / (100 * 100 + 110 * 110 + kC1), 1e-12);
}

// Figures of the next two tests: numpy in doubles, from the same definitions.

TEST(PictureClassifier, HasTheFeaturesOfItsDefinition) {
  PictureClassifier classifier(TROUPE_ROOT "/models/demo/classifier");
  ASSERT_EQ(classifier.side(), 32);
  const auto round = classifier.judge(picture(32, 32, [](int x, int y, int) {
    return ((x - 16) * (x - 16) + (y - 16) * (y - 16)) % 256;
  }));
  EXPECT_EQ(classifier.labels()[static_cast<std::size_t>(round.label)],
            "mammals");
  EXPECT_NEAR(round.features[0], 0.3429320180, 1e-5);
  EXPECT_NEAR(round.features[2], 0.8782741536, 1e-5);
  EXPECT_NEAR(
      std::accumulate(round.features.begin(), round.features.end(), 0.0),
      75.53861504454083, 1e-3);
  const auto noisy = classifier.judge(picture(32, 32, [](int x, int y, int c) {
    return (x * 37 + y * 11 + c * 50 + x * y * 3 + (x - 16) * (x - 16)) % 256;
  }));
  EXPECT_EQ(noisy.label, 15);
  EXPECT_NEAR(
      std::accumulate(noisy.features.begin(), noisy.features.end(), 0.0),
      72.906926052746, 1e-3);
  EXPECT_THROW(
      (void)classifier.judge(picture(31, 32, [](int, int, int) { return 0; })),
      Error);
}

std::vector<std::vector<float>> points(int count, int (*value)(int, int)) {
  std::vector<std::vector<float>> rows;
  for (int i = 0; i < count; ++i) {
    auto& row = rows.emplace_back();
    for (int j = 0; j < 4; ++j) {
      row.push_back(static_cast<float>(value(i, j)));
    }
  }
  return rows;
}

TEST(FrechetDistance, IsThatOfTheFormula) {
  const auto a =
      points(6, [](int i, int j) { return (i * 7 + j * 3 + i * j) % 11; });
  const auto b =
      points(5, [](int i, int j) { return (i * 5 + j * 2 + i * i * j) % 13; });
  EXPECT_NEAR(frechet_distance(a, b), 27.33759256671668, 1e-6);
  EXPECT_NEAR(frechet_distance(b, a), 27.33759256671668, 1e-6);
  EXPECT_NEAR(frechet_distance(a, a), 0, 1e-9);
  // More points than axes, and fewer: the same cloud three times over.
  std::vector<std::vector<float>> often = a;
  often.insert(often.end(), a.begin(), a.end());
  often.insert(often.end(), a.begin(), a.end());
  EXPECT_NEAR(frechet_distance(often, b), 27.33759256671668, 1e-6);
  EXPECT_NEAR(frechet_distance(std::span(a).first(3), often),
              frechet_distance(often, std::span(a).first(3)), 1e-9);
  const std::vector<std::vector<float>> short_one = {{1, 2, 3}};
  EXPECT_THROW((void)frechet_distance(a, short_one), Error);
  // Of single points only the means are left.
  EXPECT_NEAR(frechet_distance(std::span(a).first(1), std::span(b).first(1)),
              0 + 1 + 4 + 9, 1e-12);
}

}  // namespace
}  // namespace troupe::actors
