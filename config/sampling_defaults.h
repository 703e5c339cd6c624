#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/toml_file.h"

namespace troupe::config {

/// The file in which a model's folder says how it is sampled best. diffusers
/// does not read it, and it is no part of the weights' hash.
inline constexpr std::string_view kSamplingDefaults = "sampling.json";

/// The default settings for a model's folder: the defaults of the pipeline in
/// DIR/model_index.json, overridden by the settings in DIR/sampling.json.
/// DIR/sampling.json is one flat JSON object:
///   {"guidance": 1.5, "steps": 50, "sampler": "ddim"}
/// with the keys sampler, steps, guidance, eta, order, timestep_spacing,
/// sigma_spacing and shift (or their other spellings, as --help has them);
/// values are numbers and strings, null means not set, and keys that begin with
/// '_' are left to others.
/// Errors: Errc::corrupt_file for anything else (more than 64 KiB, not JSON,
/// unknown or repeated keys, wrong types, unknown solvers); Errc::io.
[[nodiscard]] std::vector<Setting> read_sampling_defaults(
    const std::filesystem::path& folder);

/// The defaults of a pipeline of diffusers, by its class; empty for an unknown
/// class. `place` says where the class stood.
[[nodiscard]] std::vector<Setting> pipeline_defaults(
    std::string_view class_name, const std::string& place);

/// The keys that a pipeline of diffusers sets in its scheduler, whatever the
/// scheduler's file says: a JSON object, empty for an unknown class.
[[nodiscard]] std::string_view pipeline_scheduler_keys(
    std::string_view class_name);

}  // namespace troupe::config
