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
/// What this binary was built with.
[[nodiscard]] std::vector<LibraryVersion> library_versions();

}  // namespace troupe::actors
