#include "actors/cli/versions.h"

#include <fmt/core.h>
#include <gnu/libc-version.h>

#include "kernels/linear.h"

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
  return fmt::format("troupe {} ({}, GCC {}, sources {})", version(), kBuild,
                     __VERSION__, source_hash());
}

std::vector<LibraryVersion> library_versions() {
  return {{"oneDNN", kernels::matrix_library_version()},
          {"Highway", TROUPE_HWY_VERSION},
          {"Boost.Math", TROUPE_BOOST_VERSION},
          {"glibc", ::gnu_get_libc_version()}};
}

std::vector<LibraryVersion> gpu_library_versions() {
  std::vector<LibraryVersion> all = library_versions();
  std::erase_if(all, [](const LibraryVersion& library) {
    return library.name == "oneDNN" || library.name == "Highway";
  });
  for (const LibraryVersion& library : kernels::cuda_libraries()) {
    if (library.name != "CUDA driver" && library.name != "NCCL") {
      all.push_back(library);
    }
  }
  return all;
}

std::vector<LibraryVersion> all_libraries() {
  std::vector<LibraryVersion> all = library_versions();
  all.insert(all.end(), {{"CAF", TROUPE_CAF_VERSION},
                         {"ZeroMQ", TROUPE_ZMQ_VERSION},
                         {"libsodium", TROUPE_SODIUM_VERSION},
                         {"libpng", TROUPE_PNG_VERSION},
                         {"fmt", TROUPE_FMT_VERSION},
                         {"xxHash", TROUPE_XXHASH_VERSION},
                         {"spdlog", TROUPE_SPDLOG_VERSION},
                         {"json", TROUPE_JSON_VERSION},
                         {"CLI11", TROUPE_CLI11_VERSION},
                         {"toml++", TROUPE_TOML_VERSION},
                         {"OpenMP", TROUPE_OPENMP_VERSION},
                         {"Random123", "headers without a version"}});
  return all;
}

}  // namespace troupe::actors
