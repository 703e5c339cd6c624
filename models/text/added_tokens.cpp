#include "models/text/added_tokens.h"

#include <algorithm>
#include <set>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "models/text/unicode.h"

namespace troupe::models {
namespace {

/// Bytes of the white space that `text` begins with.
std::size_t leading_space(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size()) {
    const Utf8Character next = first_character(text.substr(size));
    if (!is_white_space(next.code)) {
      break;
    }
    size += next.size;
  }
  return size;
}

/// Bytes of the white space that `text` ends with.
std::size_t trailing_space(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t begin = end - 1;
    while (begin > 0 &&
           (static_cast<unsigned char>(text[begin]) & 0xc0U) == 0x80U) {
      --begin;
    }
    if (!is_white_space(first_character(text.substr(begin)).code)) {
      break;
    }
    end = begin;
  }
  return text.size() - end;
}

}  // namespace

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens,
                         const WordModel& model, std::string_view place) {
  std::int64_t next_id = model.num_pieces();
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) {
      continue;
    }
    const auto [at, is_new] =
        by_content_.try_emplace(token.content, entries_.size());
    if (!is_new) {
      entries_[at->second].token = token;
      continue;
    }
    const auto id = model.find(token.content);
    entries_.push_back(
        {token, id ? *id : static_cast<std::int32_t>(next_id++)});
    largest_ = std::max(largest_, entries_.back().id);
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const AddedToken& token = entries_[i].token;
    Patterns& patterns = token.is_normalized ? normalized_ : raw_;
    patterns.texts.add(
        token.is_normalized ? model.normalized(token.content) : token.content,
        place);
    patterns.entries.push_back(i);
    if (by_content_.contains(token.content + "_1")) {
      several_.push_back(token.content);
    }
  }
  raw_.texts.sort();
  normalized_.texts.sort();
  for (std::uint32_t i = 0; i < normalized_.texts.size(); ++i) {
    const auto found = normalized_.texts.find(normalized_.texts[i]);
    if (found && *found != i && num_hidden_++ == 0) {
      const auto content = [&](std::uint32_t number) {
        return entries_[normalized_.entries[number]].token.content;
      };
      hidden_ = Hidden{content(i), content(*found)};
    }
  }
}

std::optional<std::int32_t> AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? std::nullopt
                                    : std::optional(entries_[found->second].id);
}

std::string AddedTokens::with_all_vectors(std::string text,
                                          const WordModel& model,
                                          std::size_t most) const {
  if (several_.empty()) {
    return text;
  }
  TokenList list;
  tokenize(text, model, list);
  // A token is known by what was found, so one that takes white space along, or
  // that only the normalised text has, is another word.
  std::set<std::string, std::less<>> typed;
  std::size_t from = 0;
  for (const TokenList::Token& token : list.tokens()) {
    typed.insert(list.text().substr(from, token.end - from));
    from = token.end;
  }
  for (const std::string& word : several_) {
    if (!typed.contains(word)) {
      continue;
    }
    std::string all = word;
    for (int i = 1; find(word + "_" + std::to_string(i)); ++i) {
      all += " " + word + "_" + std::to_string(i);
    }
    std::string replaced;
    std::size_t begin = 0;
    for (std::size_t at = 0; (at = text.find(word, begin)) != std::string::npos;
         begin = at + word.size()) {
      replaced.append(text, begin, at - begin).append(all);
      require(replaced.size() <= most, Errc::invalid_argument, "tokenizer",
              "a text that is too long with all vectors of " + in_quotes(word),
              "shorten the prompt");
    }
    text = std::move(replaced.append(text, begin));
  }
  return text;
}

template <typename OnText, typename OnToken>
void AddedTokens::split(std::string_view text, const Patterns& patterns,
                        const OnText& on_text, const OnToken& on_token) const {
  std::size_t begin = 0;  // of what was not passed on yet
  for (std::size_t at = 0; at < text.size();) {
    const Entry* found = nullptr;
    std::size_t size = 0;
    patterns.texts.each_prefix(text.substr(at),
                               [&](std::uint32_t number, std::size_t bytes) {
                                 found = &entries_[patterns.entries[number]];
                                 size = bytes;
                               });
    if (found == nullptr) {
      ++at;
      continue;
    }
    std::size_t from = at;
    std::size_t to = at + size;
    at = to;
    if (found->token.strips_left && from > begin) {
      from -= trailing_space(text.substr(begin, from - begin));
    }
    if (found->token.strips_right) {
      to += leading_space(text.substr(to));
    }
    // What an earlier token took along is taken.
    from = std::max(from, begin);
    to = std::max(to, from);
    if (begin < from) {
      on_text(text.substr(begin, from - begin));
    }
    on_token(*found, text.substr(from, to - from));
    begin = to;
  }
  if (begin < text.size()) {
    on_text(text.substr(begin));
  }
}

void AddedTokens::tokenize(std::string_view text, const WordModel& model,
                           TokenList& to) const {
  const auto on_token = [&](const Entry& entry, std::string_view part) {
    to.add(entry.id, part);
  };
  split(
      text, raw_,
      [&](std::string_view part) {
        split(
            model.normalized(part), normalized_,
            [&](std::string_view rest) { model.tokenize(rest, to); }, on_token);
      },
      on_token);
}

}  // namespace troupe::models
