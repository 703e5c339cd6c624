#include "actors/cli/sheet.h"

#include "actors/artefacts/contact_sheet.h"
#include "actors/cli/image_recipe.h"
#include "kernels/core/atomic_file.h"

namespace troupe::actors {

void write_sheet(const RunOutputs& outputs,
                 std::map<std::uint64_t, Image> pictures) {
  if (outputs.grid.empty()) {
    return;
  }
  for (const EarlierImage& image : outputs.skipped) {
    pictures.emplace(image.index,
                     read_image(outputs.images->path(image.index).string()));
  }
  std::vector<Image> order;
  order.reserve(pictures.size());
  for (auto& [index, picture] : pictures) {
    order.push_back(std::move(picture));
  }
  if (!order.empty()) {
    write_file(outputs.grid, encode_png(contact_sheet(order)),
               outputs.rule_for(outputs.grid));
  }
}

}  // namespace troupe::actors
