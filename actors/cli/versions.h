#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/devices.h"

namespace troupe::actors {

/// "0.1.0".
[[nodiscard]] std::string version();
/// Of the files that decide what a run computes and of the options they are
/// compiled with: sixteen hexadecimal digits, the same wherever the checkout
/// lies. Written by the build (source_hash.cmake).
[[nodiscard]] std::string source_hash();
/// "troupe 0.1.0 (release, GCC 12.2.0, sources 0f1e2d3c4b5a6978)".
[[nodiscard]] std::string version_line();

using kernels::LibraryVersion;
/// The libraries that the execution class names, because results contain their
/// arithmetic: oneDNN and the C library as they are loaded.
[[nodiscard]] std::vector<LibraryVersion> library_versions();
/// The same for results of a GPU: without the matrix library of the CPU, with
/// the libraries loaded for the GPU.
[[nodiscard]] std::vector<LibraryVersion> gpu_library_versions();
/// All libraries that this binary was built with: first library_versions(),
/// then the rest.
[[nodiscard]] std::vector<LibraryVersion> all_libraries();

}  // namespace troupe::actors
