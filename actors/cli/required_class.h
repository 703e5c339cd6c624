#pragma once

#include <cstdint>
#include <string>

#include "actors/cli/job_request.h"
#include "actors/cli/run_outputs.h"

namespace troupe::actors {

/// The execution class that --require-class asks for, by name or by an image
/// that was made in it; every device of the job must be of it.
struct RequiredClass {
  std::string name;          ///< empty: none is required
  std::string weights_xxh3;  ///< of the image; empty: a name was given

  /// Errors: Errc::invalid_argument for what is neither a class nor an image;
  /// those of read_image and recipe_in.
  [[nodiscard]] static RequiredClass of(const config::Config& config);

  /// What can be checked before the weights are read: images that are there,
  /// and the class that the image's weights would have on this machine.
  /// Errors: Errc::another_class.
  void check_before_loading(const JobRequest& request,
                            const RunOutputs& outputs) const;
  /// Errors: Errc::another_class, naming both, for an image of an earlier run
  /// at `path`.
  void check_image(const EarlierImage& image, const std::string& path) const;
  /// Errors: Errc::another_class, naming both.
  void check(const JobRequest& request, std::uint64_t weights_hash) const;
};

}  // namespace troupe::actors
