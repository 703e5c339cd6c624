#include "actors/cli/prompt_source.h"

#include <algorithm>
#include <map>
#include <utility>

#include "config/bundled_models.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/text.h"
#include "models/text/bundled_tokenizers.h"
#include "models/weight_source.h"

namespace troupe::actors {
namespace {

constexpr const char* kEmbedsHint =
    "give encoded prompts with --prompt-embeds FILE, as troupe encode or "
    "diffusers makes them";

/// How prompts are encoded is a matter of the pipeline, not of the network.
Error no_pipeline(const ModelSource& model) {
  const std::string got =
      model.checkpoint() ? model.checkpoint()->pipeline_class : std::string();
  return {
      Errc::not_found, model.name(),
      "no pipeline says how prompts are encoded: got " +
          (got.empty() ? "no model_index.json with a class" : in_quotes(got)) +
          ", expected one of " + models::prompt_pipeline_names(),
      kEmbedsHint};
}

}  // namespace

PromptSource::PromptSource(const ModelSource& model)
    : pipeline_(model.pipeline()),
      zeros_for_no_negative_(!model.checkpoint() ||
                             model.checkpoint()->zeros_for_no_negative) {
  if (pipeline_ == nullptr) {
    throw no_pipeline(model);
  }
  for (const models::PromptEncoder& part : pipeline_->encoders) {
    parts_.push_back(model.checkpoint() ? open_part(*model.checkpoint(), part)
                                        : bundled_part(model.name(), part));
  }
  // Found before gigabytes of weights are read.
  std::int64_t width = 0;
  for (const Part& part : parts_) {
    width += part.encoder->width();
  }
  require(width == model.denoiser().prompt_width(), Errc::corrupt_file,
          model.name(),
          "the text encoder belongs to another model: it makes vectors of " +
              std::to_string(width) + " numbers, the network takes " +
              std::to_string(model.denoiser().prompt_width()),
          "compare the config.json of both");
  const std::int64_t pooled = model.denoiser().pooled_width();
  require(pooled == 0 || pooled == parts_.back().encoder->pooled_width(),
          Errc::corrupt_file, model.name(),
          "the last text encoder belongs to another model: its pooled vector "
          "has " +
              std::to_string(parts_.back().encoder->pooled_width()) +
              " numbers, the network takes " + std::to_string(pooled),
          "compare the config.json of both");
}

PromptSource::Part PromptSource::open_part(const models::Checkpoint& checkpoint,
                                           const models::PromptEncoder& of) {
  const auto found = checkpoint.text_encoders.find(std::string(of.encoder));
  if (found == checkpoint.text_encoders.end()) {
    throw Error(Errc::not_found, (checkpoint.folder / of.encoder).string(),
                "the pipeline has no text encoder", kEmbedsHint);
  }
  const models::Component& files = found->second->encoder;
  const std::filesystem::path& tokenizer = found->second->tokenizer;
  std::shared_ptr<const models::TextEncoderDescription> encoder =
      models::find_text_encoder(files.config, files.class_name)
          .describe(files.config);
  (void)models::check_class_tensors(files.weights, files.folder.string(),
                                    files.class_name, encoder->tensors());
  std::error_code error;
  require(std::filesystem::is_directory(tokenizer, error), Errc::not_found,
          tokenizer.string(), "the pipeline has no tokenizer", kEmbedsHint);
  return {&of, std::move(encoder), models::open_tokenizer(tokenizer),
          found->second};
}

PromptSource::Part PromptSource::bundled_part(const std::string& model,
                                              const models::PromptEncoder& of) {
  const config::BundledModel& bundled = config::find_bundled_model(model);
  const auto found = std::ranges::find(bundled.encoders, of.encoder,
                                       &config::BundledEncoder::name);
  require(found != bundled.encoders.end(), Errc::not_found, model,
          "the bundled model has no text encoder", kEmbedsHint);
  const models::Json config =
      models::Json::parse(found->config, "bundled " + std::string(of.encoder));
  return {&of,
          models::find_text_encoder(config, found->class_name).describe(config),
          models::open_bundled_tokenizer(found->tokenizer), nullptr};
}

std::vector<models::Tokens> PromptSource::tokens(
    const std::string& prompt, const std::string& second) const {
  const std::string text = pipeline_->cleaned(prompt);
  const std::string other = second.empty() ? text : pipeline_->cleaned(second);
  std::vector<models::Tokens> tokens;
  for (const Part& part : parts_) {
    tokens.push_back(part.tokenizer->encode(
        part.of->reads_second ? other : text,
        std::min(part.of->most_tokens, part.encoder->max_tokens())));
    require(*std::ranges::max_element(tokens.back().ids) <
                part.encoder->vocab_size(),
            Errc::corrupt_file, std::string(part.of->tokenizer),
            "tokens that the encoder does not know",
            "the tokenizer belongs to another model");
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

std::uint64_t PromptSource::required_bytes(DType compute) const {
  std::uint64_t most = 0;
  for (const Part& part : parts_) {
    most = std::max(
        most, part.encoder->weights_bytes(compute) +
                  part.encoder->pass_bytes(part.of->most_tokens, compute));
  }
  return most;
}

PromptSource::Encoded PromptSource::encode(
    ExecContext& ctx, DType compute,
    const std::vector<std::vector<models::Tokens>>& prompts) const {
  std::vector<std::vector<models::EncodedPrompt>> encoded(prompts.size());
  std::vector<std::uint64_t> hashes;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const std::unique_ptr<models::TextEncoder> encoder =
        load(ctx, compute, parts_[p]);
    hashes.push_back(encoder->weights_hash());
    const models::PromptEncoder& of = *parts_[p].of;
    // Equal prompts share the tensors.
    std::map<std::vector<std::int32_t>, models::EncodedPrompt> known;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const models::Tokens& tokens = prompts[i][p];
      std::vector<std::int32_t> ids = tokens.ids;
      if (of.is_masked) {
        ids.resize(static_cast<std::size_t>(tokens.length));
      }
      const auto [at, is_new] = known.try_emplace(std::move(ids));
      if (is_new) {
        const auto length = static_cast<std::int64_t>(at->first.size());
        at->second = {encoder->encode(ctx, at->first, length, of.wanted),
                      length};
      }
      encoded[i].push_back(at->second);
    }
  }
  Encoded result;
  for (const auto& prompt : encoded) {
    result.conditions.push_back(pipeline_->condition(prompt));
  }
  result.weights_hash = xxh3_64(std::as_bytes(std::span(hashes)));
  return result;
}

std::unique_ptr<models::TextEncoder> PromptSource::load(
    ExecContext& ctx, DType compute, const Part& part) const {
  if (part.files == nullptr) {
    models::RandomWeights weights(ctx, kRandomWeightsSeed);
    return part.encoder->load(ctx, compute, weights);
  }
  models::FileWeights weights(part.files->encoder.weights);
  return part.encoder->load(ctx, compute, weights);
}

}  // namespace troupe::actors
