#include "actors/cli/versions.h"

#include <fmt/core.h>

namespace troupe::actors {
namespace {

#ifdef NDEBUG
constexpr const char* kBuild = "release";
#else
constexpr const char* kBuild = "with assertions";
#endif

}  // namespace

std::string version() { return TROUPE_VERSION; }

std::string version_line() {
  return fmt::format("troupe {} ({}, GCC {})", version(), kBuild, __VERSION__);
}

std::vector<LibraryVersion> library_versions() {
  return {{"oneDNN", TROUPE_DNNL_VERSION},
          {"CAF", TROUPE_CAF_VERSION},
          {"libpng", TROUPE_PNG_VERSION},
          {"fmt", TROUPE_FMT_VERSION}};
}

}  // namespace troupe::actors
