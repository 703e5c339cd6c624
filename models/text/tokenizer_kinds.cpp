#include "models/text/tokenizer_kinds.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "kernels/core/error.h"
#include "models/text/bpe.h"
#include "models/text/unigram.h"

namespace troupe::models {
namespace {

// CLIP -----------------------------------------------------------------------

constexpr std::array<std::string_view, 2> kClipFiles = {"vocab.json",
                                                        "merges.txt"};
constexpr std::array<std::string_view, 1> kClipNormalizers = {
    R"(Sequence[NFC, Replace[content " ", pattern {"Regex":"\\s+"}], )"
    R"(Lowercase])"};
// Without and with the marks of a text, which change nothing here.
constexpr std::array<std::string_view, 2> kClipPreTokenizers = {
    R"(Sequence[Split[behavior "Removed", invert true, pattern {"Regex":)"
    R"("'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+"}], )"
    R"(ByteLevel[add_prefix_space false]])",
    R"(Sequence[Split[behavior "Removed", invert true, pattern {"Regex":)"
    R"("<\\|startoftext\\|>|<\\|endoftext\\|>|)"
    R"('s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+"}], )"
    R"(ByteLevel[add_prefix_space false]])"};

Vocabulary read_clip(const TokenizerFiles& files) {
  return read_vocab_and_merges(files.texts.find("vocab.json")->second,
                               files.texts.find("merges.txt")->second,
                               files.place("vocab.json"));
}

void complete_clip(Vocabulary& /*vocabulary*/, TokenizerSettings& settings,
                   bool /*from_json*/, std::string_view /*place*/) {
  if (!settings.extra) {
    settings.extra = settings.additional;
  }
}

// T5 and UMT5 ----------------------------------------------------------------

constexpr std::array<std::string_view, 1> kT5Files = {"spiece.model"};
// The pre-tokenizer removes white space, so normalizers may differ in the white
// space that they leave.
constexpr std::array<std::string_view, 5> kT5Normalizers = {
    "none", "Precompiled", "Sequence[Precompiled]",
    R"(Sequence[Precompiled, Replace[content " ", pattern {"Regex":" {2,}"}]])",
    "Sequence[Precompiled, Strip[strip_left false, strip_right true], "
    "Replace[content \"\u2581\", pattern {\"Regex\":\" {2,}\"}]]"};
constexpr std::array<std::string_view, 2> kT5PreTokenizers = {
    "Sequence[WhitespaceSplit, Metaspace[replacement \"\u2581\"]]",
    "Metaspace[replacement \"\u2581\"]"};

Vocabulary read_t5(const TokenizerFiles& files) {
  return read_spiece_model(files.texts.find("spiece.model")->second,
                           files.place("spiece.model"));
}

/// The sentinels <extra_id_0> … and the control pieces of a spiece.model are
/// tokens, unless the files list others. A spiece.model has no pieces for the
/// sentinels; the highest number comes first.
/// Source: transformers 5, models/t5/tokenization_t5.py,
/// convert_slow_tokenizer.py (T5Converter).
void complete_t5(Vocabulary& vocabulary, TokenizerSettings& settings,
                 bool from_json, std::string_view place) {
  static constexpr std::string_view kSentinel = "<extra_id_";
  std::vector<AddedToken> sentinels;
  for (std::int64_t i = 0; i < settings.extra_ids; ++i) {
    sentinels.push_back(
        {.content = std::string(kSentinel) + std::to_string(i) + ">"});
  }
  auto additional = settings.additional.value_or(std::vector<AddedToken>());
  if (!from_json) {
    for (std::size_t i = sentinels.size(); i-- > 0;) {
      vocabulary.pieces.add(sentinels[i].content, "spiece.model");
      vocabulary.scores.push_back(0.0);
    }
    additional.clear();
    for (auto& [id, token] : std::exchange(vocabulary.added, {})) {
      additional.push_back(token);
    }
  }
  if (settings.extra) {
    return;
  }
  const auto listed =
      std::ranges::count_if(additional, [](const AddedToken& token) {
        return token.content.find(kSentinel) != std::string::npos;
      });
  require(
      listed == 0 || settings.extra_ids == 0 || listed == settings.extra_ids,
      Errc::corrupt_file, place,
      "additional_special_tokens: got " + std::to_string(listed) +
          " sentinels, expected as many as extra_ids, " +
          std::to_string(settings.extra_ids),
      "correct extra_ids in tokenizer_config.json");
  if (listed == 0) {
    additional.insert(additional.end(), sentinels.begin(), sentinels.end());
  }
  settings.extra = std::move(additional);
}

}  // namespace

std::span<const TokenizerKind> tokenizer_kinds() {
  static const std::array<TokenizerKind, 2> kKinds = {{
      {"CLIP", "CLIPTokenizer CLIPTokenizerFast", "BPE", kWordEnd,
       kClipNormalizers, kClipPreTokenizers, kClipFiles, read_clip,
       complete_clip, make_clip_bpe, "<|startoftext|>", "<|endoftext|>",
       "<|endoftext|>", "<|endoftext|>"},
      {"T5", "T5Tokenizer T5TokenizerFast", "Unigram", "", kT5Normalizers,
       kT5PreTokenizers, kT5Files, read_t5, complete_t5, make_unigram, "",
       "</s>", "<unk>", "<pad>"},
  }};
  return kKinds;
}

}  // namespace troupe::models
