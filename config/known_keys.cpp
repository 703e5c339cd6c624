// Keys as they stand in the signatures of diffusers' classes, 0.42.1 and older.
#include "config/known_keys.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "config/python_json.h"
#include "config/suggest.h"
#include "kernels/core/text.h"
#include "samplers/options.h"

namespace troupe::config {
namespace {

using nlohmann::json;
using Keys = std::vector<std::string>;

/// What diffusers' EMAModel and quantisation add to any model's config.json.
const Keys& keys_of_trainers() {
  static const Keys kKeys = words(
      "decay inv_gamma min_decay optimization_step power quantization_config "
      "update_after_step use_ema_warmup");
  return kKeys;
}

/// Of the schedulers that Troupe reads, by name.
const Keys& scheduler_keys() {
  static const Keys kKeys = [] {
    std::set<std::string> keys;
    for (const samplers::Solver solver : samplers::solver_table()) {
      for (const std::string_view list : solver->keys) {
        std::ranges::move(words(list), std::inserter(keys, keys.end()));
      }
    }
    keys.erase("eta");  // an argument, which no file sets
    return Keys(keys.begin(), keys.end());
  }();
  return kKeys;
}

/// Of the other schedulers, and of old versions of ours.
const Keys& other_scheduler_keys() {
  static const Keys kKeys = words(
      "clip_denoised correct_steps corrector_k corrector_order "
      "corrector_steps denoise_final eps eta final_step_size_scale gamma "
      "n_grid noise_mode num_inference_steps original_inference_steps "
      "predict_epsilon predictor_order rho s s_churn s_max s_min s_noise "
      "sampling_eps scale_factors scaler schedule_mode scheduler_type "
      "set_alpha_to_zero sigma_data sigma_schedule skip_type "
      "snr snr_shift_scale stage_range stages t_max t_min tau_func "
      "tensor_format timestep_scaling timestep_values tsr_k tsr_sigma "
      "upscale_mode");
  return kKeys;
}

using KeySet = std::unordered_set<std::string_view>;

KeySet set_of(const Keys& one, const Keys& other) {
  KeySet set(one.begin(), one.end());
  set.insert(other.begin(), other.end());
  return set;
}

std::string note(std::string_view place, std::string_view owner,
                 std::span<const std::string> keys, const Keys& known,
                 const Keys& others) {
  constexpr std::size_t kShown = 4;
  const KeySet all = set_of(known, others);
  Keys unknown;
  for (const std::string& key : keys) {
    if (key.starts_with('_') || all.contains(key)) {
      continue;
    }
    // A file may have any number of them: suggestions are computed only for the
    // keys that the note shows.
    if (unknown.size() < kShown) {
      const std::string meant = suggested_name(key, known);
      unknown.push_back(in_quotes(key) +
                        (meant.empty() ? "" : " (" + meant + ")"));
    } else {
      unknown.emplace_back();
    }
  }
  return unknown.empty()
             ? std::string()
             : std::string(place) + ": ignored keys that diffusers' " +
                   std::string(owner) +
                   " does not have: " + join_names(unknown, kShown);
}

}  // namespace

std::string unknown_keys_note(std::string_view place,
                              std::string_view class_name,
                              std::string_view known,
                              std::span<const std::string> keys) {
  return note(place, class_name, keys, words(known), keys_of_trainers());
}

std::string unknown_scheduler_keys_note(std::string_view place,
                                        std::string_view text) {
  Keys keys;
  for (Member& member : members_of(text)) {
    keys.push_back(std::move(member.key));
  }
  return note(place, "scheduler class", keys, scheduler_keys(),
              other_scheduler_keys());
}

bool is_scheduler_key(std::string_view key) {
  static const KeySet kAll = set_of(scheduler_keys(), other_scheduler_keys());
  return key.starts_with('_') || kAll.contains(key);
}

std::string scheduler_class(std::string_view text) {
  for (const Member& member : members_of(text)) {
    if (member.key == "_class_name") {
      const json name = json::parse(member.value, nullptr, false);
      return name.is_string() ? name.get<std::string>() : std::string();
    }
  }
  return {};
}

}  // namespace troupe::config
