#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/toml_file.h"
#include "samplers/options.h"

namespace troupe::config {

/// A text that is stored and read back byte for byte.
struct Verbatim {
  std::string text;

  friend bool operator==(const Verbatim&, const Verbatim&) = default;
};

/// All inputs that decide the pixels of one image, and no facts about the run:
/// a recovered, resumed or differently placed run writes the same bytes. A
/// recipe never holds paths, hosts or keys.
struct Recipe {
  std::string version;         ///< of the build
  std::string model;           ///< folder name or bundled name, to recognise it
  std::string random_weights;  ///< bundled name; empty for a checkpoint
  std::string weights_xxh3;
  std::int64_t class_id = 0;
  std::string class_name;
  // Of a model that takes prompts.
  std::optional<Verbatim> prompt;
  std::optional<Verbatim> prompt_2;           ///< unset: as `prompt`
  std::optional<Verbatim> negative_prompt;    ///< unset: the pipeline's own
  std::optional<Verbatim> negative_prompt_2;  ///< unset: the same
  std::optional<int> clip_skip;  ///< layers left out for prompts; unset: none
  std::optional<int> max_sequence_length;  ///< unset: the pipeline's own
  /// The execution class that encoded the prompts.
  std::optional<std::string> encoder_class;
  std::optional<DeviceKind> encoder_device;
  /// Hash of the given tensors, where a file had them in place of prompts.
  std::optional<std::string> prompt_embeds_xxh3;
  std::uint64_t seed = 0;
  std::uint64_t index = 0;  ///< global sample index
  NoiseKind noise = NoiseKind::philox;
  std::string init_latents_xxh3;  ///< set when latents came from a file
  /// Whether torch's generator drew latents before the given ones replaced
  /// them. Set (to false) where that matters: torch noise, given latents, steps
  /// that draw. Recipes of before have no such key and did draw them.
  std::optional<bool> init_latents_drawn;
  /// Hash of the given trajectory, where guesses came from one and the method
  /// approximates: then they decide the pixels.
  std::optional<std::string> guess_xxh3;
  /// Of the picture in pixels; unset: as the model was trained.
  std::optional<std::int64_t> width;
  std::optional<std::int64_t> height;
  /// Whether it was sampled at another size, a bin of the pipeline's, then
  /// scaled and cut. Set (to true) where it was; recipes of before have no such
  /// key.
  std::optional<bool> resolution_bins;
  SizeConfig told;           ///< of its sides
  SizeConfig told_negative;  ///< in guidance's other branch; unset: the same
  /// Side of the tiles that it was decoded in, in latents; unset: whole.
  std::optional<std::int64_t> vae_tile;
  /// Blocks of keys that attention merged; unset: none.
  std::optional<int> ring_blocks;
  samplers::Guidance guidance;
  samplers::ScheduleOptions schedule;
  samplers::MethodOptions method;
  std::string dtype;            ///< "f32", "bf16" or "f16"
  std::optional<IsaLevel> isa;  ///< of the CPU; unset: a GPU, or not known
  // For an image of a GPU; unset for the CPU.
  std::optional<DeviceKind> device;
  std::optional<BitsMode> bits;  ///< unset: invariant
  std::optional<bool> tf32;      ///< unset: no
  std::string execution_class;
  std::string latents_xxh3;
};

/// Canonical JSON: sorted keys, no spaces, shortest numbers; equal recipes
/// give equal texts. An exact method is written as "sequential", because its
/// bytes are the sequential run's.
[[nodiscard]] std::string to_json(const Recipe& recipe);

/// Reads a recipe of unknown origin: at most 1 MiB and 32 levels, every value
/// checked for type and range; an unknown key is an error unless a newer
/// version wrote it. Errors: Errc::corrupt_file naming `place` and the key.
[[nodiscard]] Recipe parse_recipe(const std::string& place,
                                  std::string_view text);

/// The recipe as options, weaker than flags. The schedule is not among the
/// options: sampler options change it. `place` names the image.
[[nodiscard]] std::vector<Setting> to_settings(const Recipe& recipe,
                                               const std::string& place);

/// The method options that decide bytes: an exact method (all but stale with
/// an age above 0 and picard with a tolerance above 0) becomes sequential.
[[nodiscard]] samplers::MethodOptions logical_method(
    const samplers::MethodOptions& options);

}  // namespace troupe::config
