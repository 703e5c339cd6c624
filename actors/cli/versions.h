#pragma once

#include <string>
#include <vector>

namespace troupe::actors {

/// "0.1.0".
[[nodiscard]] std::string version();
/// "troupe 0.1.0 (release, GCC 12.2.0)".
[[nodiscard]] std::string version_line();

struct LibraryVersion {
  std::string name;
  std::string version;
};
/// What the execution class names.
[[nodiscard]] std::vector<LibraryVersion> library_versions();
/// Everything this binary was built with: those, then the rest.
[[nodiscard]] std::vector<LibraryVersion> all_libraries();

}  // namespace troupe::actors
