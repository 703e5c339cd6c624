#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/artefacts/output_paths.h"
#include "actors/artefacts/png.h"
#include "actors/cli/signals.h"
#include "config/config.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/tensor.h"

namespace troupe::actors {

/// An image of this job that an earlier run made.
struct EarlierImage {
  std::uint64_t index = 0;
  std::string weights_xxh3;  ///< as its recipe says
  std::string latents_xxh3;
  std::string execution_class;
  bool is_wreck = false;  ///< nothing says whose it was
};

/// Where a run writes, checked before it starts.
struct RunOutputs {
  std::optional<OutputPaths> images;
  std::string grid;
  std::string latents;
  std::string trajectory;
  std::optional<OutputPaths> preview;
  config::SampleRange preview_samples = {};  ///< of the job's
  int preview_every = 1;                     ///< model calls between previews
  std::string trace;
  config::ExistsPolicy exists = config::ExistsPolicy::error;
  /// Files that stood at an output's path at the start (--exists skip), by path
  /// as written. Only these may be replaced.
  std::map<std::string, FileStamp> standing;
  /// Samples whose outputs exist (--exists skip), by index; see find_earlier.
  std::vector<EarlierImage> skipped;
  /// Damaged images of this job, which are made again.
  std::vector<EarlierImage> damaged;
  std::map<std::uint64_t, Tensor> earlier_latents;     ///< rows of the file
  std::map<std::uint64_t, Tensor> earlier_trajectory;  ///< the same

  [[nodiscard]] bool is_skipped(std::uint64_t index) const {
    return std::ranges::binary_search(skipped, index, {}, &EarlierImage::index);
  }
  /// What may be done with a file that stands at `path` when it is written.
  [[nodiscard]] FileRule rule_for(const std::string& path) const;
  [[nodiscard]] bool is_previewed(std::uint64_t index) const {
    return preview && preview_samples.begin <= index &&
           index < preview_samples.end && !is_skipped(index);
  }
  /// Whether pixels are wanted, not only latents.
  [[nodiscard]] bool pictures() const noexcept {
    return images || !grid.empty();
  }
};

/// Reads --out, --grid, --save, --preview and --trace; makes the output folder,
/// tries to write in every place, and looks for outputs that are there. What a
/// killed run left half-written in these places is removed (sweep_temporaries),
/// unless nothing is to be written (--dry-run).
/// `picture` is the shape [C, H, W] of one picture.
/// Errors: Errc::invalid_argument (a bad name, two outputs of one name, an
/// output that exists, a contact sheet too large), Errc::corrupt_file (what
/// stands where a sheet or preview goes is no PNG), Errc::io (not writable),
/// Errc::no_space, those of StopFlag::check.
[[nodiscard]] RunOutputs prepare_outputs(const config::Config& config,
                                         const Shape& picture,
                                         const StopFlag& stop);

/// Writes the contact sheet of --grid, if one is asked for and there is a
/// picture: `pictures` by sample, and those that are skipped read from their
/// files. Errors: Errc::io, Errc::corrupt_file.
void write_sheet(const RunOutputs& outputs,
                 std::map<std::uint64_t, Image> pictures);

}  // namespace troupe::actors
