#pragma once

#include <string>
#include <string_view>

#include "kernels/core/error.h"

namespace troupe::models {

/// Throws Errc::corrupt_file for a file of a tokenizer.
[[noreturn]] inline void corrupt(std::string_view place,
                                 const std::string& problem) {
  throw Error(Errc::corrupt_file, place, problem,
              "the file is damaged: download it again");
}

}  // namespace troupe::models
