#include "actors/cli/earlier_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "actors/artefacts/output_paths.h"
#include "actors/artefacts/png.h"
#include "actors/artefacts/png_chunks.h"
#include "actors/cli/image_recipe.h"
#include "actors/cli/notes.h"
#include "actors/cli/row_file.h"
#include "actors/cli/tensor_file.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

using nlohmann::json;

constexpr const char* kHint =
    "give another --out, the options of the first run, or --exists replace";

/// What decides the pixels and can be known before weights are read. Dtype and
/// instruction set are compared apart: where they are chosen by machine, one
/// job may hold several.
json job_of(const config::Recipe& recipe) {
  json job = json::parse(config::to_json(recipe)).flatten();
  for (const char* key :
       {"version", "model", "class_name", "dtype", "isa", "device", "bits",
        "tf32", "weights_xxh3", "execution_class", "encoder_class",
        "encoder_device", "latents_xxh3"}) {
    job.erase(std::string("/").append(key));
  }
  return job;
}

std::string value_of(const json& job, const std::string& key) {
  constexpr std::size_t kLongest = 40;
  if (!job.contains(key)) {
    return "not given";
  }
  return printable(job.at(key).dump(), kLongest);
}

/// "seed is 7 there and 8 here"; empty if the jobs are the same.
std::string difference(const config::Recipe& there,
                       const config::Recipe& here) {
  const json a = job_of(there);
  const json b = job_of(here);
  json all = a;
  all.update(b);
  // A difference in a key of both recipes tells more than a missing key.
  for (const bool by_both : {true, false}) {
    for (const auto& [key, value] : all.items()) {
      const bool is_by_both = a.contains(key) && b.contains(key);
      if (is_by_both != by_both || (by_both && a.at(key) == b.at(key))) {
        continue;
      }
      std::string name = key.substr(1);
      std::ranges::replace(name, '/', '.');
      return fmt::format("{} is {} there and {} here", name, value_of(a, key),
                         value_of(b, key));
    }
  }
  return {};
}

bool computes_in(const JobRequest& request, const std::string& dtype) {
  return std::ranges::any_of(request.devices, [&](const JobDevice& device) {
    return device.workers > 0 && to_string(device.compute) == dtype;
  });
}

/// Older recipes leave out the size and the negative prompt if these are the
/// model's own. Here they are filled in. Some hold a negative prompt that
/// nothing read, because nothing was guided: here they do not.
config::Recipe with_defaults(config::Recipe there, const config::Recipe& here,
                             const JobRequest& request) {
  if (!there.width && !there.height && !request.source.size()) {
    there.width = here.width;
    there.height = here.height;
  }
  if (!there.negative_prompt && request.prompts.negatives.empty()) {
    there.negative_prompt = here.negative_prompt;
  }
  if (!request.prompts.is_guided) {
    there.negative_prompt.reset();
    there.negative_prompt_2.reset();
  }
  return there;
}

/// What keeps an image with the recipe `there` from being this job's; empty if
/// nothing does.
std::string hindrance(const config::Config& config, const JobRequest& request,
                      const config::Recipe& there, std::uint64_t index) {
  const config::Recipe here = request.recipe_of(index);
  std::string what = difference(with_defaults(there, here, request), here);
  // An image with --bits free or TF32 would weaken the promise of this run.
  if (what.empty() && there.bits == config::BitsMode::free &&
      config.bits == config::BitsMode::invariant) {
    what = "bits are free there and invariant here";
  } else if (what.empty() && there.tf32.value_or(false) && !config.tf32) {
    what = "tf32 is on there and off here";
  }
  if (what.empty() && !computes_in(request, there.dtype) &&
      config.compute != config::ComputeType::automatic) {
    what = fmt::format("dtype is {} there and {} here", there.dtype,
                       request.dtypes());
  }
  return what;
}

void note_damage(const RunOutputs& outputs, const std::string& first,
                 JobRequest& request) {
  const std::size_t count = outputs.damaged.size();
  if (count > 0) {
    request.notes.push_back(fmt::format(
        "{} of the images that are there {} damaged and made anew: {}{}", count,
        count == 1 ? "is" : "are", count == 1 ? "" : "the first is ", first));
  }
}

void read_images(const config::Config& config, const StopFlag& stop,
                 JobRequest& request, RunOutputs& outputs) {
  std::vector<EarlierImage> whole;
  std::string first_damage;
  for (const EarlierImage& there : outputs.skipped) {
    stop.check("sample", "stopped before it began");
    const std::string path = outputs.images->path(there.index).string();
    FoundImage found = examine_image(config, request, path, there.index);
    if (!found.damage.empty()) {
      if (outputs.damaged.empty()) {
        first_damage = path + ", " + found.damage;
      }
      outputs.damaged.push_back(std::move(found.image));
      continue;
    }
    whole.push_back(std::move(found.image));
    if (!computes_in(request, found.dtype)) {
      add_note(request.notes, fmt::format("images that are there were computed "
                                          "in {}, this run computes in {}",
                                          found.dtype, request.dtypes()));
    }
  }
  outputs.skipped = std::move(whole);
  note_damage(outputs, first_damage, request);
}

/// The hash of a row's final latents: a trajectory's last point.
std::string latents_hash(const char* name, const Tensor& row) {
  const Tensor latents =
      std::string_view(name) == "trajectory" ? row.item(row.dim(0) - 1) : row;
  return to_hex(xxh3_64(latents.bytes()));
}

/// Whether what is there may be the rest of a file of the ending's format. It
/// can be made anew: a file without its end has no rows that could be read.
bool is_remnant(const std::string& path) {
  const std::string head = first_bytes(path, 9);
  if (is_blank(head)) {
    return true;
  }
  const auto begins = [&head](std::string_view format) {
    const std::size_t size = std::min(head.size(), format.size());
    return head.substr(0, size) == format.substr(0, size);
  };
  return path.ends_with(".npz")   ? begins("PK\3\4")
         : path.ends_with(".npy") ? begins("\x93NUMPY")
                                  : head.size() < 9 || head[8] == '{';
}

/// The rows of a file of --save, by the hash of each one's final latents. Of a
/// damaged file none.
std::map<std::string, Tensor> read_rows(const std::string& path,
                                        const char* name, const Shape& row,
                                        JobRequest& request) {
  std::vector<NamedTensor> tensors;
  try {
    tensors = read_tensors(path);
  } catch (const Error& error) {
    if (error.code() != Errc::corrupt_file || !is_remnant(path)) {
      throw;
    }
    request.notes.push_back(
        "the file of --save that is there is damaged and made anew: " + path +
        ", " + error.message());
    return {};
  }
  const bool fits =
      tensors.size() == 1 &&
      (tensors[0].name == name || path.ends_with(".npy")) &&  // has no names
      tensors[0].tensor.dtype() == DType::f32 &&
      tensors[0].tensor.shape().rank() == row.rank() + 1 &&
      std::ranges::equal(tensors[0].tensor.shape().extents().subspan(1),
                         row.extents());
  if (!fits) {
    throw Error(
        Errc::invalid_argument, path,
        std::string("a file of another job is there: expected one tensor '") +
            name + "' with rows of " + to_string(row),
        "give another file, or --exists replace");
  }
  std::map<std::string, Tensor> rows;
  const Tensor& all = tensors[0].tensor;
  for (std::int64_t i = 0; i < all.dim(0); ++i) {
    const Tensor item = all.item(i);
    rows.emplace(latents_hash(name, item), item);
  }
  return rows;
}

/// Matches a file of --save, and what a killed run has left of one, with the
/// images that are there. Returns the rows by sample; a sample without one is
/// not in it.
std::map<std::uint64_t, Tensor> match_rows(const RunOutputs& outputs,
                                           const std::string& path,
                                           const char* name, const Shape& row,
                                           JobRequest& request) {
  std::map<std::string, Tensor> rows;
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    require(outputs.images.has_value(), Errc::invalid_argument, "--save",
            "the file is there already: " + path +
                ": only images (--out) can tell whose rows it holds",
            "give another file, or --exists replace");
    rows = read_rows(path, name, row, request);
  }
  std::set<std::string> wanted;
  for (const EarlierImage& image : outputs.skipped) {
    wanted.insert(image.latents_xxh3);
  }
  // The rows of damaged images are made anew with them; of some nothing is
  // known.
  std::set<std::string> known = wanted;
  std::size_t num_unknown = 0;
  for (const EarlierImage& image : outputs.damaged) {
    known.insert(image.latents_xxh3);
    num_unknown += image.is_wreck ? 1 : 0;
  }
  const auto num_lost = static_cast<std::size_t>(std::ranges::count_if(
      rows, [&](const auto& one) { return !known.contains(one.first); }));
  if (num_lost > num_unknown) {
    throw Error(Errc::invalid_argument, path,
                fmt::format("{} of the rows that are there belong to no image "
                            "of these samples, and would be lost",
                            num_lost),
                "give another file, or --exists replace");
  }
  RowFile::for_each_left(path, row, [&](Tensor left) {
    const std::string hash = latents_hash(name, left);
    if (wanted.contains(hash)) {
      rows.try_emplace(hash, std::move(left));
    }
  });
  std::map<std::uint64_t, Tensor> matched;
  for (const EarlierImage& image : outputs.skipped) {
    const auto found = rows.find(image.latents_xxh3);
    if (found != rows.end()) {
      matched.emplace(image.index, found->second);
    }
  }
  return matched;
}

/// Of an image that another program may have written anew, in another place or
/// compressed; empty: none that can be read.
std::string recipe_elsewhere_in(const std::string& path) {
  try {
    return read_image(path).recipe;
  } catch (const Error& error) {
    if (error.code() != Errc::corrupt_file) {
      throw;
    }
    return {};
  }
}

}  // namespace

void find_earlier(const config::Config& config, JobRequest& request,
                  RunOutputs& outputs, const StopFlag& stop) {
  if (config.exists != config::ExistsPolicy::skip) {
    return;
  }
  read_images(config, stop, request, outputs);
  const std::size_t images = outputs.skipped.size();
  const auto keep_those_in = [&](const std::map<std::uint64_t, Tensor>& rows) {
    std::erase_if(outputs.skipped, [&](const EarlierImage& image) {
      return !rows.contains(image.index);
    });
  };
  if (!outputs.latents.empty()) {
    outputs.earlier_latents =
        match_rows(outputs, outputs.latents, "latents",
                   request.source.latent_shape(), request);
  }
  if (!outputs.trajectory.empty()) {
    outputs.earlier_trajectory =
        match_rows(outputs, outputs.trajectory, "trajectory",
                   request.trajectory_shape(), request);
    keep_those_in(outputs.earlier_trajectory);
  }
  if (!outputs.latents.empty()) {
    keep_those_in(outputs.earlier_latents);
  }
  if (outputs.skipped.size() < images) {
    request.notes.push_back(fmt::format(
        "{} finished image{} no rows in the files of --save and {} made again",
        images - outputs.skipped.size(),
        images - outputs.skipped.size() == 1 ? " has" : "s have",
        images - outputs.skipped.size() == 1 ? "is" : "are"));
  }
}

FoundImage examine_image(const config::Config& config,
                         const JobRequest& request, const std::string& path,
                         std::uint64_t index) {
  CheckedPng png = check_png(path);
  if (png.recipe.empty() && png.is_wreck) {
    return {.image = {.index = index, .is_wreck = true},
            .dtype = {},
            .damage = png.damage};
  }
  if (png.recipe.empty() && !png.damage.empty()) {
    throw Error(Errc::corrupt_file, path,
                "not a readable PNG: " + png.damage +
                    ", and no recipe says whose image it was",
                "remove the file, or make it anew with --exists replace");
  }
  if (png.recipe.empty()) {
    png.recipe = recipe_elsewhere_in(path);
  }
  require(!png.recipe.empty(), Errc::invalid_argument, path,
          "an image without a recipe is there: whether it is of this job "
          "cannot be told",
          kHint);
  config::Recipe recipe = config::parse_recipe(path, png.recipe);
  const std::string what = hindrance(config, request, recipe, index);
  if (!what.empty()) {
    throw Error(Errc::invalid_argument, path,
                "an image of another job is there: " + what, kHint);
  }
  return {.image = {.index = index,
                    .weights_xxh3 = std::move(recipe.weights_xxh3),
                    .latents_xxh3 = std::move(recipe.latents_xxh3),
                    .execution_class = std::move(recipe.execution_class)},
          .dtype = std::move(recipe.dtype),
          .damage = std::move(png.damage)};
}

void check_weights(const EarlierImage& image, const std::string& path,
                   const std::string& weights_xxh3) {
  if (image.weights_xxh3 != weights_xxh3) {
    throw Error(Errc::invalid_argument, path,
                "an image of another job is there: its weights have the hash " +
                    image.weights_xxh3 + ", these " + weights_xxh3,
                kHint);
  }
}

void check_weights(const RunOutputs& outputs, const std::string& weights_xxh3) {
  for (const auto* images : {&outputs.skipped, &outputs.damaged}) {
    for (const EarlierImage& image : *images) {
      if (!image.is_wreck) {
        check_weights(image, outputs.images->path(image.index).string(),
                      weights_xxh3);
      }
    }
  }
}

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

}  // namespace troupe::actors
