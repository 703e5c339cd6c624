#pragma once

#include <span>

#include "actors/artefacts/png.h"

namespace troupe::actors {

/// Images in reading order on a near-square grid with a two-pixel gap on
/// white. Smaller images keep their size, top left in their cell. Empty cells
/// stay white. The recipe is that of the caller's choice: left empty.
/// Errors: Errc::invalid_argument without images or above 16384 pixels a side.
[[nodiscard]] Image contact_sheet(std::span<const Image> images);

/// What contact_sheet would refuse about `count` images of this size, before
/// there are any. Errors: Errc::invalid_argument above 16384 pixels a side.
void check_contact_sheet(std::size_t count, int width, int height);

}  // namespace troupe::actors
