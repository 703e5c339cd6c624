#include "actors/artefacts/contact_sheet.h"

#include <algorithm>

#include "kernels/core/error.h"

namespace troupe::actors {

int contact_sheet_columns(std::size_t count) {
  int columns = 1;
  while (static_cast<std::size_t>(columns) * static_cast<std::size_t>(columns) <
         count) {
    ++columns;
  }
  return columns;
}

Image contact_sheet(std::span<const Image> images) {
  constexpr int kGap = 2;
  constexpr int kMaxSide = 16384;
  require(!images.empty(), Errc::invalid_argument, "--grid",
          "a contact sheet needs at least one image");
  int cell_width = 0;
  int cell_height = 0;
  for (const Image& image : images) {
    cell_width = std::max(cell_width, image.width);
    cell_height = std::max(cell_height, image.height);
  }
  const int columns = contact_sheet_columns(images.size());
  const int rows = (static_cast<int>(images.size()) + columns - 1) / columns;
  Image sheet{.width = columns * (cell_width + kGap) + kGap,
              .height = rows * (cell_height + kGap) + kGap,
              .rgb = {},
              .recipe = {}};
  require(sheet.width <= kMaxSide && sheet.height <= kMaxSide,
          Errc::invalid_argument, "--grid",
          "the contact sheet would be larger than 16384 pixels a side",
          "make sheets of fewer samples with --samples A:B");
  sheet.rgb.assign(static_cast<std::size_t>(sheet.width) *
                       static_cast<std::size_t>(sheet.height) * 3,
                   255);
  for (std::size_t i = 0; i < images.size(); ++i) {
    const Image& image = images[i];
    const int left = kGap + static_cast<int>(i) % columns * (cell_width + kGap);
    const int top = kGap + static_cast<int>(i) / columns * (cell_height + kGap);
    const std::size_t stride = static_cast<std::size_t>(image.width) * 3;
    for (int row = 0; row < image.height; ++row) {
      const auto from =
          image.rgb.begin() +
          static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * stride);
      const std::size_t to = (static_cast<std::size_t>(top + row) *
                                  static_cast<std::size_t>(sheet.width) +
                              static_cast<std::size_t>(left)) *
                             3;
      std::copy_n(from, stride,
                  sheet.rgb.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }
  return sheet;
}

}  // namespace troupe::actors
