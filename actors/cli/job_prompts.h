#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/cli/model_source.h"
#include "actors/cli/prompt_source.h"
#include "config/config.h"
#include "models/condition.h"

namespace troupe::actors {

/// What a job's pictures show in words, or as tensors that were made of words
/// before. Empty for a model that takes classes.
struct JobPrompts {
  /// As they were written. Sample i shows entry i modulo their number.
  std::vector<std::string> texts;
  /// What the second text encoder reads in place of each; empty: the same.
  std::string second;
  /// A negative prompt for all texts, or one for each text, as the user wrote
  /// it, also where no guidance is used; none: the pipeline's own.
  std::vector<std::string> negatives;
  std::string negative_second;  ///< as `second`
  int clip_skip = 0;            ///< layers that are left out for `texts`
  int max_sequence_length = 0;  ///< 0: the pipeline's own
  /// What encodes them; null where nothing is to be encoded.
  std::shared_ptr<const PromptSource> source;
  /// Of `texts` and then, where the job is guided, of the negative prompts,
  /// unless there is none and that is no text. None for a prompt that is not
  /// to be encoded.
  std::vector<std::vector<models::Tokens>> tokens;
  bool is_guided = false;
  std::string
      cache;  ///< folder of texts that were encoded before; may be empty
  /// In place of texts: the conditions in a file.
  std::vector<StoredCondition> given;
  std::vector<StoredCondition> given_negative;

  [[nodiscard]] std::size_t size() const noexcept {
    return texts.size() + given.size();
  }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// The negative prompts in words: also the empty text, if that is the
  /// pipeline's default. None: no guidance, or no text.
  [[nodiscard]] std::vector<std::string> negative_texts() const;
  /// Layers that each of `tokens` leaves out.
  [[nodiscard]] PromptSource::ClipSkip clip_skips() const noexcept {
    return {.layers = clip_skip, .prompts = texts.size()};
  }
  /// How many of `texts` are to be encoded.
  [[nodiscard]] std::size_t num_wanted() const;
  /// Bytes of what is to be made of the texts; 0 where nothing is encoded.
  [[nodiscard]] std::uint64_t num_bytes() const;
  /// Leaves out the texts, and negative prompts, that no image of `samples`
  /// has, but for those with the indices `skipped`.
  void keep_wanted(const config::SampleRange& samples,
                   std::span<const std::uint64_t> skipped = {});
};

/// What prompts are read for: hints of errors differ.
enum class PromptUse : std::uint8_t { pictures, a_file };

/// Puts the lines of --prompt-file and --negative-prompt-file into the prompts,
/// once: a pipe has them once. Errors: those of files; Errc::invalid_argument,
/// also where no prompt is in one.
void read_prompt_files(config::Config& config);

/// The prompts that the options name for this model, as tokens. Prompt files
/// were read before. `is_guided`:
/// there is another branch. Notes say what was cut off.
/// Errors: Errc::invalid_argument for prompts with a model that takes none, and
/// for a missing prompt; those of PromptSource and of files.
[[nodiscard]] JobPrompts read_prompts(const config::Config& config,
                                      const ModelSource& source, bool is_guided,
                                      std::vector<std::string>& notes,
                                      PromptUse use = PromptUse::pictures);

}  // namespace troupe::actors
