#include "actors/artefacts/contact_sheet.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

constexpr std::int64_t kGap = 2;

std::int64_t side_of(std::int64_t cells, std::int64_t cell) {
  return cells * (cell + kGap) + kGap;
}

/// The least square that holds all.
std::int64_t columns_of(std::size_t count) {
  const double columns = std::ceil(std::sqrt(static_cast<double>(count)));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(columns));
}

std::int64_t rows_of(std::size_t count) {
  const std::int64_t columns = columns_of(count);
  return (static_cast<std::int64_t>(count) + columns - 1) / columns;
}

}  // namespace

void check_contact_sheet(std::size_t count, int width, int height) {
  constexpr std::int64_t kMaxSide = 16384;
  const std::int64_t side = std::max(side_of(columns_of(count), width),
                                     side_of(rows_of(count), height));
  require(side <= kMaxSide, Errc::invalid_argument, "--grid",
          "the contact sheet would be too large: got " + std::to_string(side) +
              " pixels a side, expected at most " + std::to_string(kMaxSide),
          "leave --grid out, or make fewer images with --samples A:B");
}

Image contact_sheet(std::span<const Image> images) {
  require(!images.empty(), Errc::invalid_argument, "--grid",
          "a contact sheet needs at least one image");
  const int cell_width =
      std::ranges::max_element(images, {}, &Image::width)->width;
  const int cell_height =
      std::ranges::max_element(images, {}, &Image::height)->height;
  check_contact_sheet(images.size(), cell_width, cell_height);
  const std::int64_t columns = columns_of(images.size());
  const std::int64_t width = side_of(columns, cell_width);
  const std::int64_t height = side_of(rows_of(images.size()), cell_height);
  Image sheet{.width = static_cast<int>(width),
              .height = static_cast<int>(height),
              .rgb = std::vector<std::uint8_t>(
                  static_cast<std::size_t>(width * height * 3), 255),
              .kind = PictureKind::sheet};
  std::int64_t i = 0;
  for (const Image& image : images) {
    const std::int64_t left = side_of(i % columns, cell_width);
    const std::int64_t top = side_of(i / columns, cell_height);
    const std::int64_t stride = std::int64_t{image.width} * 3;
    for (std::int64_t row = 0; row < image.height; ++row) {
      std::copy_n(image.rgb.begin() + row * stride, stride,
                  sheet.rgb.begin() + ((top + row) * width + left) * 3);
    }
    ++i;
  }
  return sheet;
}

}  // namespace troupe::actors
