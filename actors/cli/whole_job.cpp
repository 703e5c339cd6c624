#include "actors/cli/whole_job.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/core/hash.h"

namespace troupe::actors {

std::set<std::string> classes_there(const RunOutputs& outputs) {
  std::set<std::string> classes;
  for (const EarlierImage& image : outputs.skipped) {
    classes.insert(image.execution_class);
  }
  return classes;
}

std::string one_class(const std::set<std::string>& classes) {
  return classes.size() == 1 ? *classes.begin() : "mixed";
}

std::string hash_of_earlier_rows(const RunOutputs& outputs) {
  Xxh3Stream hash;
  for (const auto& [index, row] : outputs.earlier_latents) {
    hash.update(row.bytes());
  }
  return outputs.earlier_latents.empty() ? std::string()
                                         : to_hex(hash.digest());
}

std::string why_no_hash(const RunSummary& summary) {
  if (!summary.latents_xxh3.empty()) {
    return {};
  }
  const auto there =
      std::ranges::count(summary.images, "skipped", &ImageSummary::status);
  if (there == 0) {
    return "not all images are done";
  }
  return fmt::format("{} of {} images {} there without {} latents", there,
                     summary.images.size(), there == 1 ? "was" : "were",
                     there == 1 ? "its" : "their");
}

void note_missing_hash(RunSummary& summary) {
  const std::string why = why_no_hash(summary);
  if (!why.empty()) {
    summary.notes.push_back("latents_xxh3 of the whole job is left out: " +
                            why + "; each image names its own");
  }
}

}  // namespace troupe::actors
