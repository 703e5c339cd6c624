#include "actors/cli/recipe_json_fields.h"

#include <concepts>
#include <deque>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "config/recipe.h"
#include "config/recipe_fields.h"

namespace troupe::actors {
namespace {

template <typename T>
constexpr std::string_view kJsonType = "string";  // names of things, too
template <std::integral T>
constexpr std::string_view kJsonType<T> = "integer";
template <>
constexpr std::string_view kJsonType<bool> = "boolean";
template <>
constexpr std::string_view kJsonType<double> = "number";
template <>
constexpr std::string_view kJsonType<std::vector<int>> = "array of integers";
template <>
constexpr std::string_view kJsonType<std::vector<double>> = "array of numbers";
/// What is unset is left out.
template <typename T>
constexpr std::string_view kJsonType<std::optional<T>> = kJsonType<T>;

/// Makes a row of every field that it visits.
class Rows {
 public:
  template <typename T>
  void operator()(const FieldKey& key, const T& /*value*/) {
    add(key.name, key.json_type != nullptr ? key.json_type : kJsonType<T>,
        key.meaning);
  }
  void add(const std::string& key, std::string_view type,
           std::string_view meaning) {
    rows_.push_back({paths_.emplace_back(section_ + key), type, meaning});
  }
  /// The fields that follow are those of an object.
  void begin(const std::string& object, std::string_view meaning) {
    section_.clear();
    add(object, "object", meaning);
    section_ = object + ".";
  }
  [[nodiscard]] std::span<const JsonField> rows() const { return rows_; }

 private:
  std::string section_;
  std::deque<std::string> paths_;  ///< a deque: they stay where they are
  std::vector<JsonField> rows_;
};

constexpr JsonField kJob[] = {
    {"job", "string", "name of the job: a hash of all that follows"},
    {"model", "object",
     "name, configurations, hash of the weights; those of tensors are told to "
     "other processes only"},
    {"schedule.options", "object", "as schedule in a recipe, resolved"},
    {"schedule.timesteps", "array of numbers", "what the network is told"},
    {"schedule.sigmas", "array of numbers", "noise levels; one more"},
    {"schedule.levels", "array of objects", "alpha, sigma, their logarithms"},
    {"schedule.arrivals", "array of objects", "the same where a step ends"},
    {"schedule.residual_scales", "array of numbers", "picard's measure"},
    {"schedule.alphas_cumprod", "array of numbers", "by training step"},
    {"schedule.init_noise_sigma", "number", "scale of the first latents"},
    {"schedule.calls_before", "integer", "of the whole run, made elsewhere"},
    {"schedule.calls_after", "integer", "the same, to be made later"},
    {"method", "object", "as in a recipe; graph: of a stale pipeline"},
    {"cuts", "array of integers", "blocks at which segments begin and end"},
    {"guidance_scale", "number", "1: none"},
    {"guidance_rescale", "number",
     "share of a guided output that has the conditional branch's deviation"},
    {"latent_shape", "array of integers", "of one sample"},
    {"picture_size", "array of integers",
     "height and width that what is decoded is cut to; empty: as it is"},
    {"begin", "integer", "first sample, by global index"},
    {"end", "integer", "one past the last"},
    {"conditions", "array of strings",
     "hashes; sample i has i modulo n; zeros: no sample of the job has it"},
    {"unconditional", "array of strings",
     "the same of guidance's other branch; empty: there is none"},
    {"noise", "string", "philox or torch"},
    {"seed", "integer", "seed of the run"},
    {"seed_text", "string", "the same, for readers of doubles (jq)"},
    {"draws_latents", "boolean", "torch draws them even if others are given"},
    {"init_latents", "array of strings", "hashes of given latents"},
    {"execution_classes", "array of objects",
     "how each kind of device computes"},
    {"dtype", "string",
     "of --dtype, for kinds of devices that join later; absent: they choose"},
    {"vae_tile", "integer",
     "side of the decoder's tiles in latents; 0: whole pictures"},
};

}  // namespace

std::span<const JsonField> recipe_json_fields() {
  static const Rows kRecipe = [] {
    const config::Recipe recipe;
    Rows rows;
    rows.add("schema", "integer",
             "1; changes when an old reader would misread it");
    config::visit_recipe(rows, recipe);
    rows.begin("method", "what of the method decides the bytes");
    samplers::visit_method(rows, recipe.method);
    rows.begin("schedule", "the noise schedule, resolved");
    samplers::visit_schedule(rows, recipe.schedule);
    return rows;
  }();
  return kRecipe.rows();
}

std::span<const JsonField> job_json_fields() { return kJob; }

}  // namespace troupe::actors
