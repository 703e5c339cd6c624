#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "config/option_table.h"
#include "config/toml_file.h"
#include "kernels/core/error.h"

namespace troupe::config {

/// What was said, by source, weakest last.
struct Sources {
  std::vector<Setting> flags;
  std::vector<Setting> recipe;        ///< of --from or of an image to verify
  std::vector<Setting> environment;   ///< keys without TROUPE_
  std::string file;                   ///< TOML; empty: none
  bool recipe_needs_latents = false;  ///< it was made from given latents
  bool recipe_needs_embeds = false;   ///< it was made from given embeddings
  bool recipe_needs_guess = false;    ///< its guesses were given
};

/// The TROUPE_* variables of this process. TROUPE_CONFIG is not an option but
/// names the file: it ends up in `file` when that is empty.
[[nodiscard]] Sources read_environment();

/// Merges flags > recipe > environment > file > what the model's folder says
/// (sampling.json, for verbs that sample) > defaults, then checks the options
/// against each other. A recipe is whole: nothing that decides pixels is taken
/// from a source weaker than it. Where a source chooses a method, of
/// the method options of weaker ones only its own stay; --steps and the lists
/// of timesteps or sigmas take each other back in the same way. Errors:
/// Errc::corrupt_file for a value of the recipe that cannot be;
/// Errc::invalid_argument for an unknown key (with a suggestion), a value that
/// cannot be, or two options that exclude each other; those of read_toml and
/// read_sampling_defaults.
[[nodiscard]] Config load_config(Verb verb, const Sources& sources);

/// Whether `sources` ask for JSON, whatever else is wrong with them.
[[nodiscard]] bool asks_for_json(const Sources& sources);

/// `error`, if its place is an option ("--window", "window_size"), under the
/// name of the source that set it: "run.toml:3 window", "DIR/sampling.json:
/// eta" (Errc::corrupt_file), or else of the flag.
[[nodiscard]] Error at_its_source(const Config& config, const Error& error);

/// The error for an unknown option, with the nearest known one.
[[noreturn]] void fail_unknown_option(Verb verb, const std::string& written);

}  // namespace troupe::config
