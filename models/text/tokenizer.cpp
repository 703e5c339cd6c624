#include "models/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/system/file_type.h"
#include "kernels/core/text.h"
#include "models/text/added_tokens.h"
#include "models/text/tokenizer_files.h"
#include "models/text/tokenizer_kinds.h"
#include "models/text/unicode.h"

namespace troupe::models {
namespace {

constexpr std::size_t kLongestText = std::size_t{1} << 20U;
constexpr std::int64_t kLongestSequence = std::int64_t{1} << 20U;
constexpr std::array<std::string_view, 7> kFileNames = {
    "tokenizer.json",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json"};

/// Ids around and behind a text.
struct Marks {
  std::optional<std::int32_t> begin;
  std::int32_t end = 0;
  std::int32_t pad = 0;
};

constexpr std::string_view kSelf = "tokenizer";

/// Errors: Errc::invalid_argument.
void check_text(std::string_view text) {
  require(text.size() <= kLongestText, Errc::invalid_argument, kSelf,
          "a text that is too long: got " + std::to_string(text.size()) +
              " bytes, expected at most " + std::to_string(kLongestText),
          "encoders read some hundred words; shorten the prompt");
  check_utf8(text, kSelf, Errc::invalid_argument);
}

class PipelineTokenizer final : public Tokenizer {
 public:
  PipelineTokenizer(std::string_view kind,
                    std::unique_ptr<const WordModel> model, AddedTokens added,
                    Marks marks, std::optional<std::int64_t> max_length,
                    std::vector<std::string> notes)
      : kind_(kind),
        model_(std::move(model)),
        added_(std::move(added)),
        marks_(marks),
        max_length_(max_length),
        notes_(std::move(notes)) {}

  [[nodiscard]] Tokens encode(std::string_view text,
                              std::int64_t max_length) const override;
  [[nodiscard]] std::string with_all_vectors(
      std::string_view text) const override {
    check_text(text);
    return added_.with_all_vectors(std::string(text), *model_, kLongestText);
  }
  [[nodiscard]] std::optional<std::int64_t> max_length() const override {
    return max_length_;
  }
  [[nodiscard]] std::int64_t num_marks() const override {
    return marks_.begin ? 2 : 1;
  }
  [[nodiscard]] std::int64_t vocab_size() const override {
    return std::int64_t{std::max(model_->largest_id(), added_.largest_id())} +
           1;
  }
  [[nodiscard]] std::string_view kind() const override { return kind_; }
  [[nodiscard]] const std::vector<std::string>& notes() const override {
    return notes_;
  }

 private:
  std::string_view kind_;
  std::unique_ptr<const WordModel> model_;
  AddedTokens added_;
  Marks marks_;
  std::optional<std::int64_t> max_length_;
  std::vector<std::string> notes_;
};

/// The text of the tokens from number `kept` on, extended to whole characters.
std::string text_after(const TokenList& list, std::size_t kept) {
  const std::string& text = list.text();
  std::size_t begin = kept == 0 ? 0 : list.tokens()[kept - 1].end;
  while (begin > 0 && begin < text.size() &&
         (static_cast<unsigned char>(text[begin]) & 0xc0U) == 0x80U) {
    --begin;
  }
  return std::string(trimmed(std::string_view(text).substr(begin)));
}

Tokens PipelineTokenizer::encode(std::string_view text,
                                 std::int64_t max_length) const {
  require(max_length >= num_marks() && max_length <= kLongestSequence,
          Errc::invalid_argument, kSelf,
          "the length of a sequence: got " + std::to_string(max_length) +
              ", expected " + std::to_string(num_marks()) + " to " +
              std::to_string(kLongestSequence));
  check_text(text);

  TokenList list;
  added_.tokenize(text, *model_, list);
  const std::size_t count = list.tokens().size();
  const std::size_t kept =
      std::min(count, static_cast<std::size_t>(max_length - num_marks()));
  Tokens result;
  result.ids.reserve(static_cast<std::size_t>(max_length));
  if (marks_.begin) {
    result.ids.push_back(*marks_.begin);
  }
  for (std::size_t i = 0; i < kept; ++i) {
    result.ids.push_back(list.tokens()[i].id);
  }
  result.ids.push_back(marks_.end);
  result.length = static_cast<std::int64_t>(result.ids.size());
  result.ids.resize(static_cast<std::size_t>(max_length), marks_.pad);
  result.cut = static_cast<std::int64_t>(count - kept);
  if (kept < count) {
    result.cut_text = text_after(list, kept);
  }
  return result;
}

[[noreturn]] void refuse(const std::string& place, const std::string& what,
                         const std::string& got, const std::string& expected) {
  throw Error(Errc::unsupported, place,
              what + ": got " + in_quotes(got) + ", expected " + expected,
              "Troupe reads the tokenizers of CLIP, T5 and UMT5");
}

/// The row whose tokenizer.json, or whose files, the folder has.
const TokenizerKind& kind_of_files(const TokenizerFiles& files,
                                   const TokenizerSettings& settings) {
  const TokenizerKind* found = nullptr;
  bool is_known = settings.tokenizer_class.empty();
  for (const TokenizerKind& kind : tokenizer_kinds()) {
    const bool has_files = std::ranges::all_of(
        kind.files, [&](std::string_view name) { return files.has(name); });
    const bool is_named = has_word(kind.classes, settings.tokenizer_class);
    is_known = is_known || is_named;
    if (has_files && (found == nullptr || is_named)) {
      found = &kind;
    }
  }
  if (!is_known) {
    refuse(files.place("tokenizer_config.json"), "tokenizer_class",
           settings.tokenizer_class, "a tokenizer of CLIP or T5");
  }
  if (found == nullptr) {
    throw Error(Errc::not_found, files.folder,
                "no tokenizer: expected tokenizer.json, or vocab.json and "
                "merges.txt, or spiece.model",
                "download the whole folder of the model");
  }
  return *found;
}

const TokenizerKind& kind_of_json(const TokenizerJson& json,
                                  const std::string& place) {
  const auto kinds = tokenizer_kinds();
  const auto kind =
      std::ranges::find(kinds, json.model_type, &TokenizerKind::model_type);
  if (kind == kinds.end()) {
    refuse(place, "the type of the model", json.model_type, "BPE or Unigram");
  }
  const auto check = [&](const char* what, const std::string& got,
                         std::span<const std::string_view> expected) {
    if (std::ranges::find(expected, got) == expected.end()) {
      refuse(place, what, got, "that of " + std::string(kind->name));
    }
  };
  check("the end of words", json.word_end, std::span(&kind->word_end, 1));
  check("the normalizer", json.normalizer, kind->normalizers);
  check("the pre-tokenizer", json.pre_tokenizer, kind->pre_tokenizers);
  return *kind;
}

/// Those that the files list with their ids.
AddedById listed_tokens(const TokenizerSettings& settings,
                        const Vocabulary& vocabulary) {
  AddedById listed = settings.added;
  if (!settings.has_added) {
    for (const auto& [id, token] : vocabulary.added) {
      listed.insert_or_assign(id, token);
    }
  }
  return listed;
}

/// Added tokens in the order in which transformers adds them. Sets the named
/// ones that the files leave out.
std::vector<AddedToken> all_added(const TokenizerKind& kind,
                                  const AddedById& listed,
                                  TokenizerSettings& settings) {
  const auto name = [&](const char* key, std::string_view content) {
    if (!content.empty()) {
      settings.named.try_emplace(
          key, AddedToken{std::string(content), false, false, false});
    }
  };
  name("bos_token", kind.begin);
  name("eos_token", kind.end);
  name("unk_token", kind.unknown);
  name("pad_token", kind.pad);

  std::vector<AddedToken> result;
  std::vector<std::string_view> known;
  for (const auto& [id, token] : listed) {
    result.push_back(token);
    known.push_back(token.content);
  }
  std::ranges::sort(known);
  const auto add = [&](const AddedToken& token) {
    if (!std::ranges::binary_search(known, std::string_view(token.content))) {
      result.push_back(token);
    }
  };
  for (const std::string_view key : kNamedTokens) {
    if (const auto token = settings.named.find(key);
        token != settings.named.end()) {
      add(token->second);
    }
  }
  for (const auto& [key, token] : settings.named) {
    if (std::ranges::find(kNamedTokens, key) == std::end(kNamedTokens)) {
      add(token);
    }
  }
  if (settings.extra) {
    std::ranges::for_each(*settings.extra, add);
  }
  return result;
}

/// transformers numbers added tokens by their order, whatever ids the files
/// give them. Then a trained row of the encoder is not the token's.
std::string note_on_ids(const AddedById& listed, const AddedTokens& tokens,
                        const TokenizerFiles& files) {
  for (const auto& [id, token] : listed) {
    const auto own = tokens.find(token.content);
    if (own && *own != id) {
      return files.folder + ": its files give the token " +
             in_quotes(token.content) + " the id " + std::to_string(id) +
             "; it is " + std::to_string(*own) + ", as in transformers 5";
    }
  }
  return {};
}

/// Two words that were trained apart may be one word to the tokenizer, as
/// CLIP's lowers what it reads.
std::string note_on_equals(const AddedTokens& tokens,
                           const TokenizerFiles& files) {
  const auto& hidden = tokens.hidden();
  if (!hidden) {
    return {};
  }
  const std::size_t others = tokens.num_hidden() - 1;
  return files.folder + ": its tokens " + in_quotes(hidden->content) + " and " +
         in_quotes(hidden->found) +
         " are one word to this tokenizer: the row of " +
         in_quotes(hidden->found) + ", " +
         std::to_string(*tokens.find(hidden->found)) +
         ", is taken for both, never row " +
         std::to_string(*tokens.find(hidden->content)) +
         (others == 0 ? std::string()
                      : "; so with " + std::to_string(others) + " more");
}

}  // namespace

std::unique_ptr<const Tokenizer> make_tokenizer(const TokenizerFiles& files) {
  TokenizerSettings settings = read_settings(files);
  const auto json_text = files.texts.find("tokenizer.json");
  const bool from_json = json_text != files.texts.end();
  std::string place;
  Vocabulary vocabulary;
  const TokenizerKind* kind = nullptr;
  if (from_json) {
    place = files.place("tokenizer.json");
    TokenizerJson json = read_tokenizer_json(json_text->second, place);
    kind = &kind_of_json(json, place);
    for (const std::string& side : json.left_sides) {
      if (std::ranges::find(settings.sides, side) == settings.sides.end()) {
        refuse_side(place, side, "\"left\"");
      }
    }
    vocabulary = std::move(json.vocabulary);
  } else {
    kind = &kind_of_files(files, settings);
    place = files.place(kind->files.front());
    vocabulary = kind->read(files);
  }
  if (!settings.tokenizer_class.empty() &&
      !has_word(kind->classes, settings.tokenizer_class)) {
    refuse(files.place("tokenizer_config.json"), "tokenizer_class",
           settings.tokenizer_class, "one of " + std::string(kind->classes));
  }
  kind->complete(vocabulary, settings, from_json, files.folder);
  const AddedById listed = listed_tokens(settings, vocabulary);
  const std::vector<AddedToken> added = all_added(*kind, listed, settings);
  vocabulary.pieces.sort();
  vocabulary.unknown_piece = settings.named.find("unk_token")->second.content;
  auto model = kind->make(std::move(vocabulary), place);
  AddedTokens tokens(added, *model, place);
  const auto id_of = [&](std::string_view key) {
    const std::string& content = settings.named.find(key)->second.content;
    const auto id = tokens.find(content);
    require(
        id.has_value(), Errc::corrupt_file, place,
        std::string(key) + ": got " + in_quotes(content) + ", expected a token",
        "correct tokenizer_config.json");
    return *id;
  };
  Marks marks;
  if (!kind->begin.empty()) {
    marks.begin = id_of("bos_token");
  }
  marks.end = id_of("eos_token");
  marks.pad = id_of("pad_token");
  std::vector<std::string> notes = {note_on_ids(listed, tokens, files),
                                    note_on_equals(tokens, files)};
  std::erase(notes, std::string());
  return std::make_unique<PipelineTokenizer>(
      kind->name, std::move(model), std::move(tokens), marks,
      settings.max_length, std::move(notes));
}

TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder) {
  TokenizerFiles files;
  files.folder = folder.string();
  for (const std::string_view name : kFileNames) {
    const std::filesystem::path path = folder / name;
    if (is_there(path)) {
      files.texts.emplace(name, read_file(path, kLargestTokenizerFile));
    }
  }
  return files;
}

std::unique_ptr<const Tokenizer> open_tokenizer(
    const std::filesystem::path& folder) {
  return make_tokenizer(read_tokenizer_files(folder));
}

}  // namespace troupe::models
