#include "actors/cli/converter.h"

#include <system_error>

#include "models/checkpoint.h"

namespace troupe::actors {

namespace fs = std::filesystem;

fs::path converter_of(const fs::path& program) {
  const fs::path folder = program.parent_path();
  // <prefix>/bin/troupe; <source>/build/<preset>/troupe; <source>/build/troupe.
  for (const fs::path& scripts :
       {folder.parent_path() / "share" / "troupe" / "scripts",
        folder.parent_path().parent_path() / "scripts",
        folder.parent_path() / "scripts"}) {
    std::error_code error;
    if (fs::is_regular_file(scripts / models::kConverter, error)) {
      return scripts / models::kConverter;
    }
  }
  return models::kConverter;
}

fs::path converter() {
  std::error_code error;
  return converter_of(fs::read_symlink("/proc/self/exe", error));
}

}  // namespace troupe::actors
