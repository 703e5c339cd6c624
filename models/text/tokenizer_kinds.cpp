#include "models/text/tokenizer_kinds.h"

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

void complete_clip(Vocabulary& /*vocabulary*/, TokenizerSettings& /*settings*/,
                   bool /*from_json*/) {}

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

/// The sentinels <extra_id_0> … are tokens; a spiece.model lacks them, the
/// highest number comes first. Its own control pieces are tokens, too.
void complete_t5(Vocabulary& vocabulary, TokenizerSettings& settings,
                 bool from_json) {
  const auto sentinel = [](std::int64_t number) {
    return "<extra_id_" + std::to_string(number) + ">";
  };
  for (std::int64_t i = settings.extra_ids; i-- > 0;) {
    settings.extra.push_back({sentinel(i), false, false, false});
    if (!from_json) {
      vocabulary.pieces.add(sentinel(i), "spiece.model");
      vocabulary.scores.push_back(0.0);
    }
  }
  if (!from_json) {
    settings.extra.insert(settings.extra.end(), vocabulary.added.begin(),
                          vocabulary.added.end());
    vocabulary.added.clear();
  }
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
