#include "models/files/checkpoint_files.h"

#include <algorithm>
#include <set>
#include <system_error>

#include "kernels/core/error.h"

namespace fs = std::filesystem;

namespace troupe::models {
namespace {

/// The folder's own JSON: configurations and lists of shards. Hidden files are
/// some other program's.
void add_json(const fs::path& folder, std::set<fs::path>& files) {
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder, error)) {
    const bool is_hidden = entry.path().filename().native().starts_with('.');
    if (!is_hidden && entry.path().extension() == ".json" &&
        entry.is_regular_file(error)) {
      files.insert(entry.path());
    }
  }
  require(!error, Errc::io, folder.string(),
          "its files cannot be listed: " + error.message());
}

void add(const Component& component, std::set<fs::path>& files) {
  add_json(component.folder, files);
  for (const auto& file : component.weights.files()) {
    files.insert(file->path());
  }
}

}  // namespace

std::vector<fs::path> files_of(const Checkpoint& checkpoint) {
  std::set<fs::path> files;
  add_json(checkpoint.folder, files);
  add(checkpoint.denoiser, files);
  if (checkpoint.vae) {
    add(*checkpoint.vae, files);
  }
  if (!checkpoint.scheduler_config.empty()) {
    add_json(checkpoint.folder / "scheduler", files);
  }
  std::vector<fs::path> within;
  for (const fs::path& file : files) {
    within.push_back(file.lexically_relative(checkpoint.folder));
  }
  std::ranges::sort(within);
  return within;
}

}  // namespace troupe::models
