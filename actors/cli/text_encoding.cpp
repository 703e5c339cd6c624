#include "actors/cli/text_encoding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "actors/cli/execution_class.h"
#include "actors/cli/memory_plan.h"
#include "actors/cli/model_source.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/system/atomic_file.h"
#include "models/files/weight_source.h"

namespace troupe::actors {
namespace {

std::unique_ptr<models::TextEncoder> load_encoder(
    ExecContext& ctx, DType compute, const PromptEncoderSource& source) {
  if (source.files == nullptr) {
    models::RandomWeights weights(ctx, kRandomWeightsSeed);
    return source.description->load(ctx, compute, weights);
  }
  models::FileWeights weights(ctx, source.files->weights);
  return source.description->load(ctx, compute, weights);
}

/// Which weights an encoder has, without reading them: a file is known by its
/// stamp, random ones by the name and by what draws them (`by`, a class).
std::uint64_t identity_of(const PromptEncoderSource& source,
                          const std::string& by) {
  std::string text = source.record.class_name + '\n' + source.record.config;
  if (source.files == nullptr) {
    text += '\n' + source.bundled + '\n' + by;
  } else {
    for (const auto& file : source.files->weights.files()) {
      const auto stamp = stamp_of(file->path()).value_or(FileStamp{});
      text += fmt::format("\n{} {} {} {} {} {}", file->path().string(),
                          stamp.device, stamp.inode, stamp.size, stamp.modified,
                          stamp.changed);
    }
  }
  return xxh3_64(std::as_bytes(std::span(text)));
}

bool has_text_to_encode(const EncodingRecord& record, std::size_t encoder) {
  return std::ranges::any_of(record.texts, [&](const EncodingText& text) {
    return static_cast<std::size_t>(text.encoder) == encoder && !text.is_kept;
  });
}

}  // namespace

TextCache::TextCache(EncodingRecord& record, PromptEncoders encoders,
                     const std::filesystem::path& folder)
    : record_(record), cache_(folder) {
  for (const PromptEncoderSource& source : encoders) {
    identities_.push_back(identity_of(source, record.execution_class));
    weights_xxh3_.push_back(cache_.find_weights(identities_.back()));
  }
}

/// It follows from all that decides what the encoder makes of the ids.
std::uint64_t TextCache::key_of(const EncodingText& text) const {
  const auto e = static_cast<std::size_t>(text.encoder);
  std::string all =
      fmt::format("{} {} {} {} {}\n{}", record_.encoders[e].class_name,
                  to_hex(weights_xxh3_[e]), text.wanted.skipped_layers,
                  text.wanted.final_norm, record_.execution_class,
                  fmt::join(text.ids, " "));
  if (text.key_length > 0) {
    all += fmt::format("\n{}", text.key_length);
  }
  return xxh3_64(std::as_bytes(std::span(all)));
}

EncodedTexts TextCache::find() {
  EncodedTexts found(record_);
  for (std::size_t e = 0; e < weights_xxh3_.size(); ++e) {
    if (weights_xxh3_[e] != 0) {
      take_from_cache(e, found);
    }
  }
  return found;
}

std::size_t TextCache::find_more(std::size_t encoder,
                                 std::uint64_t weights_xxh3,
                                 EncodedTexts& found) {
  note_hash(found.weights_xxh3[encoder], weights_xxh3);
  if (weights_xxh3_[encoder] == weights_xxh3) {
    return 0;
  }
  note_weights(encoder, weights_xxh3);
  return take_from_cache(encoder, found);
}

std::size_t TextCache::take_from_cache(std::size_t encoder,
                                       EncodedTexts& found) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < record_.texts.size(); ++i) {
    EncodingText& text = record_.texts[i];
    if (static_cast<std::size_t>(text.encoder) != encoder) {
      continue;
    }
    auto entry = cache_.find(key_of(text));
    if (entry && entry->weights_hash == weights_xxh3_[encoder]) {
      text.is_kept = true;
      found.put(i, entry->text);
      found.weights_xxh3[encoder] = weights_xxh3_[encoder];
      ++count;
    }
  }
  return count;
}

void TextCache::note_weights(std::size_t encoder, std::uint64_t weights_xxh3) {
  if (weights_xxh3_[encoder] != weights_xxh3) {
    weights_xxh3_[encoder] = weights_xxh3;
    cache_.keep_weights(identities_[encoder], weights_xxh3);
  }
}

void TextCache::keep(std::size_t text, const models::EncodedText& encoded,
                     std::uint64_t weights_xxh3) {
  const EncodingText& of = record_.texts[text];
  note_weights(static_cast<std::size_t>(of.encoder), weights_xxh3);
  cache_.keep(key_of(of), {encoded, weights_xxh3});
}

void note_hash(std::uint64_t& known, std::uint64_t weights_xxh3) {
  require(known == 0 || known == weights_xxh3, Errc::corrupt_file, "--cache",
          "it holds texts of this encoder by other weights",
          "remove the folder encoded/ in it");
  known = weights_xxh3;
}

std::vector<std::uint64_t> encode_texts(ExecContext& ctx,
                                        const EncodingRecord& record,
                                        PromptEncoders encoders,
                                        const TextTaker& take,
                                        const WeightsTaker& read) {
  std::vector<std::uint64_t> hashes(encoders.size());
  for (std::size_t e = 0; e < encoders.size(); ++e) {
    if (!has_text_to_encode(record, e)) {
      continue;
    }
    const auto encoder = load_encoder(ctx, record.dtype, encoders[e]);
    hashes[e] = encoder->weights_hash();
    if (read) {
      read(e, hashes[e]);
    }
    for (std::size_t i = 0; i < record.texts.size(); ++i) {
      const EncodingText& text = record.texts[i];
      if (static_cast<std::size_t>(text.encoder) != e || text.is_kept) {
        continue;
      }
      take(i,
           encoder->encode(
               ctx, text.ids,
               text.key_length > 0 ? text.key_length : std::ssize(text.ids),
               text.wanted),
           hashes[e]);
    }
  }
  return hashes;
}

std::vector<std::uint64_t> read_encoder_hashes(ExecContext& ctx,
                                               const EncodingRecord& record,
                                               PromptEncoders encoders) {
  std::vector<std::uint64_t> hashes(encoders.size());
  for (std::size_t e = 0; e < encoders.size(); ++e) {
    const PromptEncoderSource& source = encoders[e];
    if (source.files != nullptr && has_text_to_encode(record, e)) {
      models::FileWeights weights(ctx, source.files->weights);
      hashes[e] = source.description->weights_hash(ctx, weights);
    }
  }
  return hashes;
}

std::string needed_text(std::uint64_t bytes, std::uint64_t prompts) {
  constexpr std::uint64_t kCounts = std::uint64_t{1} << 20U;
  return human_bytes(bytes) +
         (prompts < kCounts
              ? std::string()
              : ", " + human_bytes(prompts) + " of it for encoded prompts");
}

EncodingMemory larger_of(const EncodingMemory& a, const EncodingMemory& b) {
  return {std::max(a.host, b.host), std::max(a.gpu, b.gpu)};
}

EncodingMemory encoding_memory(const models::TextEncoderDescription& encoder,
                               std::int64_t tokens, const JobDevice& by) {
  const models::TextEncoderCosts costs = encoder.costs(
      tokens, by.compute, by.is_gpu() ? DeviceKind::cuda : DeviceKind::cpu);
  const std::uint64_t bytes = costs.weights_bytes + costs.pass_bytes;
  if (!by.is_gpu()) {
    return {.host = bytes};
  }
  return {.host = costs.table_bytes,
          .gpu = bytes - costs.table_bytes + kGpuOverhead};
}

EncodingMemory encoding_memory(const EncodingRecord& record,
                               PromptEncoders encoders, const JobDevice& by) {
  EncodingMemory most;
  for (std::size_t e = 0; e < encoders.size(); ++e) {
    std::size_t longest = 0;
    for (const EncodingText& text : record.texts) {
      if (static_cast<std::size_t>(text.encoder) == e && !text.is_kept) {
        longest = std::max(longest, text.ids.size());
      }
    }
    if (longest > 0) {
      most = larger_of(most,
                       encoding_memory(*encoders[e].description,
                                       static_cast<std::int64_t>(longest), by));
    }
  }
  return most;
}

std::string encoder_class_of(const JobDevice& by,
                             std::span<const std::uint64_t> weights_xxh3) {
  const std::uint64_t hash =
      weights_xxh3.empty() ? 0 : xxh3_64(std::as_bytes(weights_xxh3));
  return execution_class(execution_conditions(hash, by, {}));
}

}  // namespace troupe::actors
