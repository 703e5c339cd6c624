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

  /// What can be known without the weights: that an image with these weights
  /// would be of another class here. Errors: kAnotherClass.
  void check_before_loading(const JobRequest& request,
                            const RunOutputs& outputs) const;
  /// Errors: kAnotherClass, naming both.
  void check(const JobRequest& request, std::uint64_t weights_hash) const;
};

}  // namespace troupe::actors
