#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "models/safetensors.h"

namespace troupe::models {

/// The names that a diffusers class has in its state dict under one
/// configuration, those of older versions included.
struct ClassTensors {
  std::vector<std::string> names;     ///< in any order
  std::vector<std::string> prefixes;  ///< whatever begins with one of these
};

struct UnusedTensors {
  std::size_t count = 0;
  std::string first;
};

/// Checks that the class has every tensor of the files. One that it does not
/// have means another configuration (fewer blocks, no attention), and other
/// pictures.
/// Returns how many tensors savers left behind that nobody reads (position
/// tables and ids, averaged copies: "ema"), and the first of them.
/// Errors: Errc::corrupt_file at `place` with the first three names.
UnusedTensors check_class_tensors(const TensorFiles& files,
                                  std::string_view place,
                                  std::string_view class_name,
                                  ClassTensors known);

}  // namespace troupe::models
