#include "actors/artefacts/contact_sheet.h"

#include <algorithm>
#include <string>

#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

constexpr std::int64_t kGap = 2;

std::int64_t side_of(std::int64_t cells, std::int64_t cell) {
  return cells * (cell + kGap) + kGap;
}

}  // namespace

int contact_sheet_columns(std::size_t count) {
  int columns = 1;
  while (static_cast<std::size_t>(columns) * static_cast<std::size_t>(columns) <
         count) {
    ++columns;
  }
  return columns;
}

void check_contact_sheet(std::size_t count, int width, int height) {
  constexpr std::int64_t kMaxSide = 16384;
  const std::int64_t columns = contact_sheet_columns(count);
  const std::int64_t rows =
      (static_cast<std::int64_t>(count) + columns - 1) / columns;
  const std::int64_t side =
      std::max(side_of(columns, width), side_of(rows, height));
  if (side > kMaxSide) {
    throw Error(Errc::invalid_argument, "--grid",
                "the contact sheet would be too large: got " +
                    std::to_string(side) + " pixels a side, expected at most " +
                    std::to_string(kMaxSide),
                "leave --grid out, or make fewer images with --samples A:B");
  }
}

Image contact_sheet(std::span<const Image> images) {
  require(!images.empty(), Errc::invalid_argument, "--grid",
          "a contact sheet needs at least one image");
  int cell_width = 0;
  int cell_height = 0;
  for (const Image& image : images) {
    cell_width = std::max(cell_width, image.width);
    cell_height = std::max(cell_height, image.height);
  }
  check_contact_sheet(images.size(), cell_width, cell_height);
  const int columns = contact_sheet_columns(images.size());
  const int rows = (static_cast<int>(images.size()) + columns - 1) / columns;
  Image sheet{.width = static_cast<int>(side_of(columns, cell_width)),
              .height = static_cast<int>(side_of(rows, cell_height)),
              .kind = PictureKind::sheet};
  sheet.rgb.assign(static_cast<std::size_t>(sheet.width) *
                       static_cast<std::size_t>(sheet.height) * 3,
                   255);
  for (std::size_t i = 0; i < images.size(); ++i) {
    const Image& image = images[i];
    const std::int64_t left =
        side_of(static_cast<int>(i) % columns, cell_width);
    const std::int64_t top =
        side_of(static_cast<int>(i) / columns, cell_height);
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
