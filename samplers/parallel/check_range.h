#pragma once

#include <string>

#include "kernels/core/error.h"
#include "samplers/options.h"

// For the files of the methods only.

namespace troupe::samplers {

/// Errors: Errc::invalid_argument that names the option.
inline void check_range(const char* option, int value, int low, int high,
                        const char* what) {
  if (value < low || value > high) {
    throw Error(Errc::invalid_argument, option,
                std::string(what) + ": got " + std::to_string(value) +
                    ", expected " + std::to_string(low) + " to " +
                    std::to_string(high));
  }
}

inline void check_segments(const MethodOptions& options) {
  check_range("num_segments", options.num_segments, 1, 1 << 20,
              "a pipeline has segments");
}

}  // namespace troupe::samplers
