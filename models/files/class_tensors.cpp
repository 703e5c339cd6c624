#include "models/files/class_tensors.h"

#include <algorithm>
#include <array>

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::models {
namespace {

/// Buffers that follow from the configuration, and copies beside the weights.
bool is_leftover(std::string_view name) {
  constexpr std::array<std::string_view, 3> kLast = {
      "pos_embed", "position_ids", "num_updates"};
  constexpr std::array<std::string_view, 2> kAny = {"ema", "shadow_params"};
  for (std::string_view rest = name;;) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    if (std::ranges::find(kAny, part) != kAny.end() ||
        part.starts_with("ema_") || part.ends_with("_ema")) {
      return true;
    }
    if (dot == std::string_view::npos) {
      return std::ranges::find(kLast, part) != kLast.end();
    }
    rest.remove_prefix(dot + 1);
  }
}

bool has(const ClassTensors& known, std::string_view name) {
  return std::binary_search(known.names.begin(), known.names.end(), name) ||
         std::ranges::any_of(known.prefixes, [&](const std::string& prefix) {
           return name.starts_with(prefix);
         });
}

}  // namespace

UnusedTensors check_class_tensors(const TensorFiles& files,
                                  std::string_view place,
                                  std::string_view class_name,
                                  ClassTensors known) {
  constexpr std::size_t kShown = 3;
  std::ranges::sort(known.names);
  UnusedTensors leftovers;
  std::string foreign;
  std::size_t count = 0;
  for (const auto& file : files.files()) {
    const SafetensorsEntries& entries = file->header().entries;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::string_view name = entries.name(i);
      if (has(known, name)) {
        continue;
      }
      if (is_leftover(name)) {
        if (leftovers.count++ == 0) {
          leftovers.first = name;
        }
      } else if (++count <= kShown) {
        foreign += (count == 1 ? "" : ", ") + in_quotes(name);
      }
    }
  }
  if (count > 0) {
    throw Error(Errc::corrupt_file, place,
                "the weights have tensors that " + std::string(class_name) +
                    " does not have under this config.json: got " + foreign +
                    (count > kShown
                         ? ", … (" + std::to_string(count) + " tensors in all)"
                         : "") +
                    ", expected none",
                "compare config.json with the weights: the number of layers, "
                "and what is switched on");
  }
  return leftovers;
}

}  // namespace troupe::models
