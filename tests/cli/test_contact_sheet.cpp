#include <gtest/gtest.h>

#include "actors/artefacts/contact_sheet.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

Image filled(int width, int height, std::uint8_t value) {
  return {.width = width,
          .height = height,
          .rgb = std::vector<std::uint8_t>(
              static_cast<std::size_t>(width * height * 3), value),
          .recipe = {}};
}

std::uint8_t at(const Image& image, int x, int y) {
  return image.rgb[static_cast<std::size_t>((y * image.width + x) * 3)];
}

TEST(ContactSheet, IsTheLeastSquareThatHoldsAll) {
  for (const auto& [count, columns] :
       {std::pair<std::size_t, int>{1, 1}, {2, 2}, {4, 2}, {5, 3}, {9, 3}}) {
    const std::vector<Image> images(count, filled(1, 1, 10));
    EXPECT_EQ(contact_sheet(images).width, 2 + 3 * columns);
  }
}

TEST(ContactSheet, PutsImagesInReadingOrder) {
  const std::vector<Image> images = {filled(4, 3, 10), filled(4, 3, 20),
                                     filled(4, 3, 30)};
  const Image sheet = contact_sheet(images);
  EXPECT_EQ(sheet.width, 2 * 4 + 3 * 2);
  EXPECT_EQ(sheet.height, 2 * 3 + 3 * 2);
  EXPECT_EQ(at(sheet, 2, 2), 10);
  EXPECT_EQ(at(sheet, 8, 2), 20);
  EXPECT_EQ(at(sheet, 2, 7), 30);
  EXPECT_EQ(at(sheet, 8, 7), 255);
  EXPECT_EQ(at(sheet, 0, 0), 255);
}

TEST(ContactSheet, RefusesNoImagesAndGiantSheets) {
  EXPECT_THROW((void)contact_sheet({}), Error);
  const std::vector<Image> wide = {filled(16384, 1, 0), filled(1, 1, 0)};
  EXPECT_THROW((void)contact_sheet(wide), Error);
}

}  // namespace
}  // namespace troupe::actors
