#pragma once

#include <set>
#include <string>

#include "actors/cli/job_request.h"
#include "actors/cli/run_outputs.h"

namespace troupe::actors {

/// What an earlier run of the same command left, for --exists skip. A sample is
/// skipped when all its outputs exist: the image, and the rows in the files of
/// --save. Rows are found by the hash of the final latents, which the image's
/// recipe names. Fills `outputs.skipped` and the earlier rows; adds what the
/// user should know to `request.notes`.
///
/// A damaged image of this job is not skipped but made anew, and so is a file
/// without a whole picture that names no job. A damaged file of --save has no
/// rows.
///
/// Errors: those of examine_image; Errc::invalid_argument for a file of --save
/// that holds rows of other samples: two jobs are never mixed in one folder,
/// and no row is lost. Errc::corrupt_file, Errc::io, those of StopFlag::check.
void find_earlier(const config::Config& config, JobRequest& request,
                  RunOutputs& outputs, const StopFlag& stop);

/// An image of this job that was found.
struct FoundImage {
  EarlierImage image;
  std::string dtype;
  std::string damage;  ///< of its pixels; empty: it is whole
};

/// Reads the recipe in an image that stands where sample `index` goes. Thread:
/// any.
/// Errors: Errc::invalid_argument for a recipe that is not of this job (weights
/// excepted, see check_weights), naming the first difference, and for an image
/// without one; Errc::corrupt_file for a file that is damaged and names no job,
/// unless it has no whole picture that could be lost; Errc::io.
[[nodiscard]] FoundImage examine_image(const config::Config& config,
                                       const JobRequest& request,
                                       const std::string& path,
                                       std::uint64_t index);

/// Errors: Errc::invalid_argument if an image at `path` was made with other
/// weights than these.
void check_weights(const EarlierImage& image, const std::string& path,
                   const std::string& weights_xxh3);
/// The same for all images that are skipped or made again.
void check_weights(const RunOutputs& outputs, const std::string& weights_xxh3);

/// The execution classes of the images that were there.
[[nodiscard]] std::set<std::string> classes_there(const RunOutputs& outputs);

/// The class, or "mixed" where there are several.
[[nodiscard]] std::string one_class(const std::set<std::string>& classes);

/// XXH3-64 over the rows of --save that were there, in index order; empty if
/// there are none.
[[nodiscard]] std::string hash_of_earlier_rows(const RunOutputs& outputs);

}  // namespace troupe::actors
