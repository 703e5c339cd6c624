#include "actors/cli/run_outputs.h"

#include "actors/cli/latents_file.h"
#include "config/suggest.h"
#include "kernels/core/atomic_file.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

void read_save(const std::vector<std::string>& items, RunOutputs& outputs) {
  for (const std::string& item : items) {
    const std::size_t equals = item.find('=');
    const std::string kind = item.substr(0, equals);
    const std::vector<std::string> kinds = {"latents", "trajectory"};
    if (equals == std::string::npos || equals + 1 == item.size() ||
        (kind != kinds[0] && kind != kinds[1])) {
      throw Error(
          Errc::invalid_argument, "--save",
          "got '" + item + "', expected latents=FILE or trajectory=FILE",
          config::suggestion(kind, kinds));
    }
    const std::string path = item.substr(equals + 1);
    check_tensor_path("--save", path);
    (kind == "latents" ? outputs.latents : outputs.trajectory) = path;
  }
}

void check_png(const char* flag, const std::string& path) {
  if (path.empty()) {
    return;
  }
  if (!path.ends_with(".png")) {
    throw Error(Errc::invalid_argument, flag,
                "pictures are written as PNG: got '" + path + "'",
                "end the name in .png");
  }
  check_writable(path);
}

/// A file that a run would make anew at its end.
void check_exists(const char* flag, const std::string& path,
                  config::ExistsPolicy policy) {
  std::error_code error;
  if (policy == config::ExistsPolicy::error && !path.empty() &&
      std::filesystem::exists(path, error)) {
    throw Error(Errc::invalid_argument, flag,
                "the file is there already: " + path,
                "--exists replace overwrites, --exists skip keeps images");
  }
}

void look_for_images(const config::Config& config, RunOutputs& outputs) {
  if (config.exists == config::ExistsPolicy::replace) {
    return;
  }
  for (std::uint64_t i = config.samples.begin; i < config.samples.end; ++i) {
    const std::filesystem::path path = outputs.images->path(i);
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
      continue;
    }
    if (config.exists == config::ExistsPolicy::error) {
      check_exists("--out", path.string(), config.exists);
    }
    outputs.skipped.push_back(i);
  }
}

void check_distinct(const RunOutputs& outputs, const config::Config& config) {
  std::set<std::string> seen;
  for (const std::string& path :
       {outputs.grid, outputs.latents, outputs.trajectory, outputs.preview,
        outputs.trace,
        outputs.images && config.samples.size() == 1
            ? outputs.images->path(config.samples.begin).string()
            : std::string()}) {
    if (!path.empty() && !seen.insert(path).second) {
      throw Error(Errc::invalid_argument, path, "two outputs of one name",
                  "give each its own file");
    }
  }
}

}  // namespace

RunOutputs prepare_outputs(const config::Config& config) {
  RunOutputs outputs{.images = {},
                     .grid = config.grid,
                     .latents = {},
                     .trajectory = {},
                     .preview = config.preview,
                     .preview_every = config.preview_every,
                     .trace = config.trace,
                     .skipped = {}};
  if (!config.out.empty()) {
    outputs.images.emplace(config.out, config.samples);
  }
  read_save(config.save, outputs);
  check_png("--grid", outputs.grid);
  check_png("--preview", outputs.preview);
  if (!outputs.trace.empty()) {
    check_writable(outputs.trace);
  }
  check_distinct(outputs, config);
  check_exists("--grid", outputs.grid, config.exists);
  check_exists("--save", outputs.latents, config.exists);
  check_exists("--save", outputs.trajectory, config.exists);
  if (outputs.images) {
    look_for_images(config, outputs);
    outputs.images->prepare();
  }
  return outputs;
}

}  // namespace troupe::actors
