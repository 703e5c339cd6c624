#include <gtest/gtest.h>

#include "actors/cli/compare_files.h"

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

}  // namespace
}  // namespace troupe::actors
