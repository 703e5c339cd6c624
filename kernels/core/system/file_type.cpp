#include "kernels/core/system/file_type.h"

#include <system_error>

#include "kernels/core/error.h"

namespace troupe {
namespace fs = std::filesystem;
namespace {

bool leads_nowhere(const fs::path& path) {
  std::error_code error;
  return fs::is_symlink(path, error) && !fs::exists(path, error);
}

}  // namespace

fs::file_type type_at(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return leads_nowhere(path) || leads_nowhere(path.parent_path())
               ? fs::file_type::symlink
               : fs::file_type::not_found;
  }
  if (error) {
    throw Error(Errc::io, path.string(),
                "cannot look at it: " + error.message(),
                "ask for the right to read the folders of this path, or change "
                "their permissions");
  }
  return status.type();
}

bool is_there(const fs::path& path) {
  return type_at(path) != fs::file_type::not_found;
}

}  // namespace troupe
