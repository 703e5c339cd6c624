#include "actors/cli/prompt_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "actors/cli/execution_class.h"
#include "config/bundled_models.h"
#include "kernels/core/atomic_file.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/text.h"
#include "models/text/bundled_tokenizers.h"
#include "models/weight_source.h"

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

/// Whether something is not in the folder, or Troupe does not have it. Where
/// such an error has no hint, what helps is a matter of who asks.
bool is_lack(const Error& error) {
  return error.code() == Errc::unsupported || error.code() == Errc::not_found;
}

/// fn(), whose errors about a lack have no hint.
template <typename Fn>
auto without_hints(const Fn& fn) {
  try {
    return fn();
  } catch (const Error& error) {
    if (!is_lack(error)) {
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
  const Error& why = found->second;
  // The command that converts pickled weights stays what helps most.
  return {why.code(), why.place(), why.message(),
          why.code() == Errc::not_found ? std::string() : why.hint()};
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

}  // namespace

PromptEncoderSource open_prompt_encoder(const ModelSource& model,
                                        const models::PromptEncoder& of) {
  if (!model.checkpoint()) {
    const config::BundledEncoder& bundled = bundled_encoder(model.name(), of);
    const models::Json config = models::Json::parse(
        bundled.config, "bundled " + std::string(of.encoder));
    return {
        std::string(bundled.class_name),
        models::find_text_encoder(config, bundled.class_name).describe(config),
        nullptr};
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
  return {files.class_name, std::move(description), found->second};
}

std::shared_ptr<const models::Tokenizer> open_prompt_tokenizer(
    const ModelSource& model, const models::PromptEncoder& of) {
  if (!model.checkpoint()) {
    return models::open_bundled_tokenizer(
        bundled_encoder(model.name(), of).tokenizer);
  }
  const std::filesystem::path folder =
      model.checkpoint()->folder / of.tokenizer;
  std::error_code error;
  require(std::filesystem::is_directory(folder, error), Errc::not_found,
          folder.string(), "the pipeline has no tokenizer");
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

PromptSource::PromptSource(const ModelSource& model, std::string_view hint)
    : pipeline_(model.pipeline()),
      zeros_for_no_negative_(!model.checkpoint() ||
                             model.checkpoint()->zeros_for_no_negative) {
  try {
    open_parts(model);
  } catch (const Error& error) {
    if (!is_lack(error) || !error.hint().empty()) {
      throw;
    }
    throw Error(error.code(), error.place(), error.message(),
                std::string(hint));
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

void PromptSource::open_parts(const ModelSource& model) {
  if (pipeline_ == nullptr) {
    throw no_pipeline(model);
  }
  for (const models::PromptEncoder& part : pipeline_->encoders) {
    parts_.push_back(open_part(model, part));
  }
}

PromptSource::Part PromptSource::open_part(const ModelSource& model,
                                           const models::PromptEncoder& of) {
  PromptEncoderSource encoder = open_prompt_encoder(model, of);
  return {&of, std::move(encoder.description), open_prompt_tokenizer(model, of),
          std::move(encoder.files),
          model.is_random() ? model.name() + '/' + std::string(of.encoder)
                            : std::string()};
}

std::string PromptSource::Part::tokenizer_place() const {
  const std::string name(of->tokenizer);
  return files == nullptr ? name
                          : (files->folder.parent_path() / name).string();
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
    const std::int32_t largest = *std::ranges::max_element(tokens.back().ids);
    require(largest < part.encoder->vocab_size(), Errc::corrupt_file,
            part.tokenizer_place(),
            "the tokenizer belongs to another model: got the token " +
                std::to_string(largest) + ", expected ids below " +
                std::to_string(part.encoder->vocab_size()),
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

std::uint64_t PromptSource::required_bytes(DType compute) const {
  std::uint64_t most = 0;
  for (const Part& part : parts_) {
    most = std::max(
        most, part.encoder->weights_bytes(compute) +
                  part.encoder->pass_bytes(part.of->most_tokens, compute));
  }
  return most;
}

std::int64_t PromptSource::most_clip_skip() const {
  std::int64_t most = parts_.front().encoder->num_layers();
  for (const Part& part : parts_) {
    most = std::min(
        most, part.encoder->num_layers() - part.of->wanted.skipped_layers);
  }
  return most;
}

/// One encoder of a run. It is read when a text needs it that no cache has.
class PromptSource::Encoding {
 public:
  Encoding(ExecContext& ctx, DType compute, const Part& part,
           const EncodingCache& cache)
      : ctx_(ctx),
        compute_(compute),
        part_(part),
        cache_(cache),
        identity_(identity()),
        class_(execution_class_here()) {}

  /// Equal texts share the tensors. clip_skip: layers that are left out beyond
  /// those of the pipeline.
  const models::EncodedPrompt& encode(const models::Tokens& tokens,
                                      int clip_skip) {
    std::vector<std::int32_t> ids = tokens.ids;
    if (part_.of->is_masked) {
      ids.resize(static_cast<std::size_t>(tokens.length));
    }
    const auto [at, is_new] = known_[clip_skip].try_emplace(std::move(ids));
    if (is_new) {
      EncodingCache::Entry entry = entry_of(at->first, clip_skip);
      require(!weights_hash_ || *weights_hash_ == entry.weights_hash,
              Errc::corrupt_file, "--cache",
              "it holds texts of this encoder by other weights",
              "remove the folder encoded/ in it");
      weights_hash_ = entry.weights_hash;
      at->second = {std::move(entry.text),
                    static_cast<std::int64_t>(at->first.size())};
    }
    return at->second;
  }
  /// After the first text.
  [[nodiscard]] std::uint64_t weights_hash() const { return *weights_hash_; }
  [[nodiscard]] std::uint64_t num_kept() const noexcept { return num_kept_; }

 private:
  EncodingCache::Entry entry_of(const std::vector<std::int32_t>& ids,
                                int clip_skip) {
    models::HiddenState wanted = part_.of->wanted;
    wanted.skipped_layers += clip_skip;
    const std::uint64_t key = key_of(ids, wanted);
    if (auto kept = cache_.find(key)) {
      ++num_kept_;
      return std::move(*kept);
    }
    if (encoder_ == nullptr) {
      encoder_ = load();
    }
    EncodingCache::Entry entry{
        encoder_->encode(ctx_, ids, static_cast<std::int64_t>(ids.size()),
                         wanted),
        encoder_->weights_hash()};
    cache_.keep(key, entry);
    return entry;
  }

  [[nodiscard]] std::unique_ptr<models::TextEncoder> load() const {
    if (part_.files == nullptr) {
      models::RandomWeights weights(ctx_, kRandomWeightsSeed);
      return part_.encoder->load(ctx_, compute_, weights);
    }
    models::FileWeights weights(ctx_, part_.files->weights);
    return part_.encoder->load(ctx_, compute_, weights);
  }

  /// What the encoder is, without reading its weights: a file is known by its
  /// stamp.
  [[nodiscard]] std::string identity() const {
    std::string text = part_.bundled + '\n';
    if (part_.files != nullptr) {
      const models::Component& encoder = *part_.files;
      text += encoder.class_name + '\n' + encoder.config.canonical() + '\n';
      for (const auto& file : encoder.weights.files()) {
        const auto stamp = stamp_of(file->path()).value_or(FileStamp{});
        text +=
            fmt::format("{} {} {} {} {}\n", file->path().string(), stamp.device,
                        stamp.inode, stamp.size, stamp.modified);
      }
    }
    return text;
  }
  [[nodiscard]] std::string execution_class_here() const {
    const JobDevice cpu{.compute = compute_};
    return execution_class(execution_conditions(0, cpu, {}));
  }
  /// Follows from all that decides what the encoder makes of ids.
  [[nodiscard]] std::uint64_t key_of(const std::vector<std::int32_t>& ids,
                                     models::HiddenState wanted) const {
    const std::string text =
        identity_ + fmt::format("{} {} {}\n{}", wanted.skipped_layers,
                                wanted.final_norm, class_, fmt::join(ids, " "));
    return xxh3_64(std::as_bytes(std::span(text)));
  }

  ExecContext& ctx_;
  DType compute_;
  const Part& part_;
  const EncodingCache& cache_;
  std::string identity_;
  std::string class_;
  std::unique_ptr<models::TextEncoder> encoder_;
  std::optional<std::uint64_t> weights_hash_;
  /// By clip skip and ids.
  std::map<int, std::map<std::vector<std::int32_t>, models::EncodedPrompt>>
      known_;
  std::uint64_t num_kept_ = 0;
};

PromptSource::Encoded PromptSource::encode(
    ExecContext& ctx, DType compute,
    const std::vector<std::vector<models::Tokens>>& prompts, ClipSkip clip_skip,
    const EncodingCache& cache) const {
  std::vector<std::vector<models::EncodedPrompt>> encoded(prompts.size());
  std::vector<std::uint64_t> hashes;
  Encoded result;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    Encoding encoding(ctx, compute, parts_[p], cache);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      encoded[i].push_back(encoding.encode(
          prompts[i][p], i < clip_skip.prompts ? clip_skip.layers : 0));
    }
    hashes.push_back(encoding.weights_hash());
    result.num_kept += encoding.num_kept();
  }
  for (const auto& prompt : encoded) {
    result.conditions.push_back(pipeline_->condition(prompt));
  }
  result.weights_hash = xxh3_64(std::as_bytes(std::span(hashes)));
  return result;
}

}  // namespace troupe::actors
