#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "models/files/safetensors.h"

namespace troupe::models {

/// The names that a diffusers class has in its state dict under one
/// configuration, including names that older versions used.
struct ClassTensors {
  std::vector<std::string> names;     ///< in any order
  std::vector<std::string> prefixes;  ///< any name that begins so
};

/// Tensors of the files without a use.
struct UnusedTensors {
  std::size_t count = 0;
  std::string first;  ///< the name of one of them
};

/// Checks that the diffusers class has every tensor of the files. A tensor that
/// it lacks means that the weights belong to another configuration (more
/// blocks, attention), so pictures would be wrong. Returns the tensors that are
/// allowed but unused: position tables and ids, averaged copies ("ema").
/// Errors: Errc::corrupt_file at `place` with the first three names.
UnusedTensors check_class_tensors(const TensorFiles& files,
                                  std::string_view place,
                                  std::string_view class_name,
                                  ClassTensors known);

}  // namespace troupe::models
