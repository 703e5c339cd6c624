#include "actors/cli/prompt_source.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "actors/cli/isa_in_force.h"
#include "config/bundled_models.h"
#include "kernels/core/error.h"
#include "kernels/core/system/file_type.h"
#include "kernels/core/text.h"
#include "models/text/bundled_tokenizers.h"

namespace troupe::actors {
namespace {

/// How prompts are encoded is a matter of the pipeline, not of the network.
Error no_pipeline(const ModelSource& model) {
  const std::string got =
      model.checkpoint() ? model.checkpoint()->pipeline_class : std::string();
  return {
      Errc::not_found, model.name(),
      "no pipeline says how prompts are encoded: got " +
          (got.empty() ? "no model_index.json with a class" : in_quotes(got)) +
          ", expected one of " + models::prompt_pipeline_names()};
}

/// The error, with what helps whoever asks for prompts if something is not in
/// the folder or Troupe does not have it. The command that converts pickled
/// weights stays what helps most.
Error with_hint(const Error& error, const std::string& hint) {
  const bool has_hint = !error.hint().empty();
  if (error.code() == Errc::not_found) {
    return {error.code(), error.place(), error.message(),
            has_hint ? error.hint() + ", or " + hint : hint};
  }
  return error.code() == Errc::unsupported && !has_hint
             ? Error(error.code(), error.place(), error.message(), hint)
             : error;
}

/// fn(), whose errors about what Troupe does not have are without a hint.
template <typename Fn>
auto without_hints(const Fn& fn) {
  try {
    return fn();
  } catch (const Error& error) {
    if (error.code() != Errc::unsupported) {
      throw;
    }
    throw Error(error.code(), error.place(), error.message());
  }
}

/// Why the folder's encoder cannot be opened.
Error unusable_encoder(const models::Checkpoint& checkpoint,
                       const models::PromptEncoder& of) {
  const auto found = checkpoint.unusable_encoders.find(std::string(of.encoder));
  if (found == checkpoint.unusable_encoders.end()) {
    return {Errc::not_found, (checkpoint.folder / of.encoder).string(),
            "the pipeline has no text encoder"};
  }
  return found->second;
}

const config::BundledEncoder& bundled_encoder(const std::string& model,
                                              const models::PromptEncoder& of) {
  const config::BundledModel& bundled = config::find_bundled_model(model);
  const auto found = std::ranges::find(bundled.encoders, of.encoder,
                                       &config::BundledEncoder::name);
  require(found != bundled.encoders.end(), Errc::not_found, model,
          "the bundled model has no text encoder");
  return *found;
}

/// Its folder, for messages.
std::string tokenizer_place(const ModelSource& model,
                            const models::PromptEncoder& of) {
  return model.checkpoint()
             ? (model.checkpoint()->folder / of.tokenizer).string()
             : std::string(of.tokenizer);
}

/// A row of the encoder that no id names may be a word that was trained.
std::string note_on_rows(const std::string& place,
                         const models::PromptEncoder& of,
                         const models::Tokenizer& tokenizer,
                         const models::TextEncoderDescription& encoder) {
  const std::int64_t ids = tokenizer.vocab_size();
  const std::int64_t named =
      (ids + of.row_multiple - 1) / of.row_multiple * of.row_multiple;
  return named >= encoder.vocab_size()
             ? std::string()
             : place + ": it has " + std::to_string(ids) + " ids, and " +
                   std::string(of.encoder) + " " +
                   std::to_string(encoder.vocab_size()) +
                   " rows: words that were trained may be missing in "
                   "added_tokens.json";
}

}  // namespace

PromptEncoderSource open_prompt_encoder(const ModelSource& model,
                                        const models::PromptEncoder& of) {
  if (!model.checkpoint()) {
    const config::BundledEncoder& bundled = bundled_encoder(model.name(), of);
    const models::Json config = models::Json::parse(
        bundled.config, "bundled " + std::string(of.encoder));
    const std::string name(of.encoder);
    return {
        {name, std::string(bundled.class_name), config.canonical()},
        models::find_text_encoder(config, bundled.class_name).describe(config),
        nullptr,
        model.name() + '/' + name};
  }
  const models::Checkpoint& checkpoint = *model.checkpoint();
  const auto found = checkpoint.text_encoders.find(std::string(of.encoder));
  if (found == checkpoint.text_encoders.end()) {
    throw unusable_encoder(checkpoint, of);
  }
  const models::Component& files = *found->second;
  std::shared_ptr<const models::TextEncoderDescription> description =
      without_hints([&] {
        return models::find_text_encoder(files.config, files.class_name)
            .describe(files.config);
      });
  (void)models::check_class_tensors(files.weights, files.folder.string(),
                                    files.class_name, description->tensors());
  return {{found->first, files.class_name, files.config.canonical()},
          std::move(description),
          found->second};
}

std::shared_ptr<const models::Tokenizer> open_prompt_tokenizer(
    const ModelSource& model, const models::PromptEncoder& of) {
  if (!model.checkpoint()) {
    return models::open_bundled_tokenizer(
        bundled_encoder(model.name(), of).tokenizer);
  }
  const std::filesystem::path folder =
      model.checkpoint()->folder / of.tokenizer;
  const std::filesystem::file_type type = type_at(folder);
  // Of a link to nothing, whoever opens a file in it says where it leads.
  require(type == std::filesystem::file_type::directory ||
              type == std::filesystem::file_type::symlink,
          Errc::not_found, folder.string(), "the pipeline has no tokenizer");
  std::shared_ptr<const models::Tokenizer> tokenizer =
      without_hints([&] { return models::open_tokenizer(folder); });
  require(tokenizer->kind() == of.tokenizer_kind, Errc::corrupt_file,
          folder.string(),
          "the tokenizer belongs to another model: got one of " +
              std::string(tokenizer->kind()) + ", expected one of " +
              std::string(of.tokenizer_kind),
          "download this folder of the model again");
  return tokenizer;
}

std::int64_t prompt_length(const ModelSource& model,
                           const models::PromptEncoder& of,
                           const models::Tokenizer& tokenizer,
                           const models::TextEncoderDescription& encoder) {
  const std::int64_t most = encoder.max_tokens();
  const std::optional<std::int64_t> stated = tokenizer.max_length();
  if (!of.takes_stated_length || !stated) {
    return std::min(of.most_tokens, most);
  }
  require(*stated >= tokenizer.num_marks() && *stated <= most,
          Errc::corrupt_file, tokenizer_place(model, of),
          "model_max_length: got " + std::to_string(*stated) + ", expected " +
              std::to_string(tokenizer.num_marks()) + " to " +
              std::to_string(most) + ", the positions of " +
              std::string(of.encoder),
          "compare tokenizer_config.json with max_position_embeddings in the "
          "encoder's config.json");
  return *stated;
}

PromptSource::PromptSource(const ModelSource& model, std::string_view hint,
                           int max_length)
    : pipeline_(model.pipeline()),
      model_(model.name()),
      is_random_(model.is_random()),
      zeros_for_no_negative_(!model.checkpoint() ||
                             model.checkpoint()->zeros_for_no_negative) {
  try {
    open_parts(model);
  } catch (const Error& error) {
    throw with_hint(error, std::string(hint));
  }
  // Found before gigabytes of weights are read.
  look_at_parts(model, max_length);
  std::int64_t width = 0;
  for (const PromptEncoderSource& encoder : encoders_) {
    width += encoder.description->width();
  }
  require(width == model.denoiser().prompt_width(), Errc::corrupt_file,
          model.name(),
          "the text encoder belongs to another model: it makes vectors of " +
              std::to_string(width) + " numbers, the network takes " +
              std::to_string(model.denoiser().prompt_width()),
          "compare the config.json of both");
  const std::int64_t pooled = model.denoiser().pooled_width(model.ids(false));
  require(
      (pooled > 0) == pipeline_->gives_pooled, Errc::unsupported, model.name(),
      std::string(pipeline_->class_name) +
          (pooled > 0 ? " gives no pooled vector, which the network takes"
                      : " gives a pooled vector, which the network does not "
                        "take"),
      "compare addition_embed_type in the network's config.json with a "
      "checkpoint of this pipeline");
  const std::int64_t made = encoders_.back().description->pooled_width();
  require(pooled == 0 || pooled == made, Errc::corrupt_file, model.name(),
          "the last text encoder belongs to another model: its pooled vector "
          "has " +
              std::to_string(made) + " numbers, the network takes " +
              std::to_string(pooled),
          "compare the config.json of both");
}

void PromptSource::open_parts(const ModelSource& model) {
  if (pipeline_ == nullptr) {
    throw no_pipeline(model);
  }
  for (const models::PromptEncoder& of : pipeline_->encoders) {
    encoders_.push_back(open_prompt_encoder(model, of));
    tokenizers_.push_back(open_prompt_tokenizer(model, of));
  }
}

void PromptSource::look_at_parts(const ModelSource& model, int max_length) {
  for (std::size_t e = 0; e < encoders_.size(); ++e) {
    const models::PromptEncoder& of = pipeline_->encoders[e];
    const models::Tokenizer& tokenizer = *tokenizers_[e];
    const models::TextEncoderDescription& encoder = *encoders_[e].description;
    const std::string& place =
        tokenizer_places_.emplace_back(tokenizer_place(model, of));
    lengths_.push_back(
        max_length > 0
            ? std::min<std::int64_t>(max_length, encoder.max_tokens())
            : prompt_length(model, of, tokenizer, encoder));
    require(of.is_masked || lengths_.back() == lengths_.front(),
            Errc::corrupt_file, place,
            "the tokenizers cut prompts at different lengths: got " +
                std::to_string(lengths_.back()) + ", expected " +
                std::to_string(lengths_.front()) + " as " +
                std::string(pipeline_->encoders.front().tokenizer),
            "compare model_max_length in their tokenizer_config.json");
    hides_padding_.push_back(
        of.heeds_mask_key && encoders_[e].files != nullptr &&
        encoders_[e].files->config.boolean("use_attention_mask", false));
    std::ranges::copy(tokenizer.notes(), std::back_inserter(notes_));
    if (!is_random_) {
      notes_.push_back(note_on_rows(place, of, tokenizer, encoder));
    }
  }
}

std::vector<models::Tokens> PromptSource::tokens(
    const std::string& prompt, const std::string& second) const {
  const std::string first = pipeline_->cleaned(prompt);
  const std::string texts[] = {
      first, second.empty() ? first : pipeline_->cleaned(second)};
  std::vector<models::Tokens> tokens;
  for (std::size_t e = 0; e < encoders_.size(); ++e) {
    const models::PromptEncoder& of = pipeline_->encoders[e];
    const models::TextEncoderDescription& encoder = *encoders_[e].description;
    const std::string& said = texts[of.text];
    tokens.push_back(
        tokenizers_[e]->encode(pipeline_->takes_several_vectors
                                   ? tokenizers_[e]->with_all_vectors(said)
                                   : said,
                               lengths_[e]));
    const std::int32_t largest = *std::ranges::max_element(tokens.back().ids);
    require(largest < encoder.vocab_size(), Errc::corrupt_file,
            tokenizer_places_[e],
            "the tokenizer belongs to another model: got the token " +
                std::to_string(largest) + ", expected ids below " +
                std::to_string(encoder.vocab_size()),
            "download this folder of the model again");
  }
  return tokens;
}

bool PromptSource::has_no_negative() const noexcept {
  return pipeline_->no_negative != nullptr && zeros_for_no_negative_;
}

std::optional<models::Condition> PromptSource::no_negative(
    const models::Condition& like) const {
  if (!has_no_negative()) {
    return std::nullopt;
  }
  return pipeline_->no_negative(like);
}

EncodingMemory PromptSource::memory(const JobDevice& by) const {
  EncodingMemory most;
  for (std::size_t e = 0; e < encoders_.size(); ++e) {
    most = larger_of(
        most, encoding_memory(*encoders_[e].description, lengths_[e], by));
  }
  return most;
}

std::int64_t PromptSource::most_clip_skip() const {
  std::int64_t most = encoders_.front().description->num_layers();
  for (std::size_t e = 0; e < encoders_.size(); ++e) {
    most = std::min(most, encoders_[e].description->num_layers() -
                              pipeline_->encoders[e].wanted.skipped_layers);
  }
  return most;
}

PromptSource::Work PromptSource::texts_of(
    const std::vector<std::vector<models::Tokens>>& prompts,
    ClipSkip clip_skip) const {
  Work work;
  work.prompts.resize(prompts.size());
  work.first_negative = clip_skip.prompts;
  for (std::size_t e = 0; e < encoders_.size(); ++e) {
    const models::PromptEncoder& of = pipeline_->encoders[e];
    work.record.encoders.push_back(encoders_[e].record);
    // By what is left out and hidden, and ids: equal texts share the tensors.
    std::map<std::tuple<int, std::int64_t, std::vector<std::int32_t>>,
             std::size_t>
        known;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      if (prompts[i].empty()) {
        continue;
      }
      const models::Tokens& tokens = prompts[i][e];
      std::vector<std::int32_t> ids = tokens.ids;
      if (of.is_masked) {
        ids.resize(static_cast<std::size_t>(tokens.length));
      }
      models::HiddenState wanted = of.wanted;
      wanted.skipped_layers += i < clip_skip.prompts ? clip_skip.layers : 0;
      const std::int64_t seen = hides_padding_[e] ? tokens.length : 0;
      const auto [at, is_new] = known.try_emplace(
          {wanted.skipped_layers, seen, ids}, work.record.texts.size());
      if (is_new) {
        work.record.texts.push_back({.encoder = static_cast<int>(e),
                                     .ids = std::move(ids),
                                     .wanted = wanted,
                                     .key_length = seen});
      }
      work.prompts[i].push_back(at->second);
    }
  }
  return work;
}

std::uint64_t PromptSource::num_bytes(const Work& work) const {
  std::uint64_t numbers = 0;
  for (const EncodingText& text : work.record.texts) {
    const models::TextEncoderDescription& encoder =
        *encoders_[static_cast<std::size_t>(text.encoder)].description;
    numbers += text.ids.size() * static_cast<std::uint64_t>(encoder.width()) +
               static_cast<std::uint64_t>(encoder.pooled_width());
  }
  return numbers * sizeof(float);
}

PromptSource::Work PromptSource::work_of(
    const JobDevice& by,
    const std::vector<std::vector<models::Tokens>>& prompts,
    ClipSkip clip_skip) const {
  Work work = texts_of(prompts, clip_skip);
  work.record.model = model_;
  work.record.random_weights = is_random_;
  work.record.dtype = by.compute;
  work.record.isa = isa_in_force();
  work.record.execution_class = encoder_class_of(by);
  return work;
}

std::vector<StoredCondition> PromptSource::conditions(
    const Work& work, const EncodedTexts& encoded,
    const ConditionFinisher& finish) const {
  struct Text {
    std::size_t place;  ///< in the store
    std::int64_t length;
  };
  std::vector<StoredCondition> conditions;
  for (const std::vector<std::size_t>& places : work.prompts) {
    if (places.empty()) {
      conditions.emplace_back();
      continue;
    }
    std::vector<Text> texts;
    for (const std::size_t text : places) {
      texts.push_back(
          {encoded.place(text),
           static_cast<std::int64_t>(work.record.texts[text].ids.size())});
    }
    auto read = [texts = std::move(texts), store = encoded.store(),
                 pipeline = pipeline_, finish,
                 is_negative = conditions.size() >= work.first_negative] {
      std::vector<models::EncodedPrompt> prompt;
      for (const Text& text : texts) {
        prompt.push_back({EncodedTexts::from(*store, text.place), text.length});
      }
      models::Condition condition = pipeline->condition(prompt);
      finish(condition, is_negative);
      return condition;
    };
    const std::uint64_t hash = read().hash();
    conditions.emplace_back(hash, std::move(read));
  }
  return conditions;
}

}  // namespace troupe::actors
