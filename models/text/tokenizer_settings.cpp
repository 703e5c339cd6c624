// Reads tokenizer_config.json, special_tokens_map.json and added_tokens.json.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/key_walk.h"
#include "kernels/core/text.h"
#include "models/text/corrupt.h"
#include "models/text/tokenizer_files.h"

namespace troupe::models {
namespace {

using nlohmann::json;

/// That of UMT5, with 300 added tokens, has 60 kB.
constexpr std::size_t kLargestSettings = std::size_t{4} << 20U;
constexpr std::int64_t kMostExtraIds = 100'000;
/// transformers writes 1e30 where a prompt may have any length.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 20U;
constexpr double kMostStated = 1e9;
/// Ends the keys of named tokens.
constexpr std::string_view kTokenEnd = "_token";

json read_object(std::string_view text, std::string_view place) {
  if (text.size() > kLargestSettings) {
    corrupt(place, "too long: got " + std::to_string(text.size()) +
                       " bytes, expected at most " +
                       std::to_string(kLargestSettings));
  }
  (void)check_keys<nlohmann::json_sax, json>(text, place, Errc::corrupt_file);
  json root;
  try {
    root = json::parse(text.begin(), text.end());
  } catch (const json::exception& error) {
    corrupt(place, "not valid JSON: " + printable(error.what()));
  }
  if (!root.is_object()) {
    corrupt(place, "expected a JSON object");
  }
  return root;
}

bool flag(const json& object, const char* key, bool missing,
          std::string_view place) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) {
    return missing;
  }
  if (!found->is_boolean()) {
    corrupt(place,
            "key " + in_quotes(key) + " of a token: expected true or false");
  }
  return found->get<bool>();
}

/// A token is its text, or an object with its text and how it is looked for.
AddedToken token_of(const json& value, std::string_view place,
                    bool is_special) {
  if (value.is_string()) {
    return {value.get<std::string>(), false, false, false};
  }
  const auto content = value.is_object() ? value.find("content") : value.end();
  if (!value.is_object() || content == value.end() || !content->is_string()) {
    corrupt(place, "a token: expected its text, or an object with its content");
  }
  require(!flag(value, "single_word", false, place), Errc::unsupported, place,
          "a token with single_word: expected one that may stand anywhere",
          "set it to false if the prompt needs no such token");
  is_special = flag(value, "special", is_special, place);
  return {content->get<std::string>(), flag(value, "lstrip", false, place),
          flag(value, "rstrip", false, place),
          flag(value, "normalized", !is_special, place)};
}

void read_added(const json& list, std::string_view place,
                TokenizerSettings& to) {
  if (!list.is_object()) {
    corrupt(place, "added_tokens_decoder: expected an object");
  }
  for (const auto& [key, value] : list.items()) {
    std::int64_t id = 0;
    const auto [end, error] =
        std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0) {
      corrupt(place, "added_tokens_decoder: got " + in_quotes(key) +
                         ", expected an id");
    }
    to.added.insert_or_assign(id, token_of(value, place, false));
  }
  to.has_added = true;
}

/// What folders have that were written before added_tokens_decoder:
/// {"<cat-toy>": 49408}. Of the tokens with a name only those of transformers
/// count.
void read_added_file(const json& object, std::string_view place,
                     TokenizerSettings& to) {
  std::set<std::string_view> special;
  for (const std::string_view name : kNamedTokens) {
    if (const auto token = to.named.find(name); token != to.named.end()) {
      special.insert(token->second.content);
    }
  }
  if (to.extra) {
    for (const AddedToken& token : *to.extra) {
      special.insert(token.content);
    }
  }
  for (const auto& [content, id] : object.items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > kLargestId) {
      corrupt(place, "the token " + in_quotes(content) +
                         ": expected an id from 0 to " +
                         std::to_string(kLargestId));
    }
    const bool is_new =
        to.added
            .try_emplace(
                id.get<std::int64_t>(),
                AddedToken{.content = content,
                           .is_normalized = !special.contains(content)})
            .second;
    if (!is_new) {
      corrupt(place,
              "the token " + in_quotes(content) + " has the id of another one");
    }
  }
}

/// A list of tokens; nothing where there is none.
std::optional<std::vector<AddedToken>> list_of(const json& object,
                                               const char* key,
                                               std::string_view place) {
  const auto list = object.find(key);
  if (list == object.end() || !(list->is_array() || list->is_null())) {
    return std::nullopt;
  }
  std::vector<AddedToken> tokens;
  for (const json& item : *list) {
    tokens.push_back(token_of(item, place, true));
  }
  return tokens;
}

/// Tokens by name, and lists of others. A null value of a name counts as
/// missing. `is_map`: of special_tokens_map.json.
void read_tokens(const json& object, bool is_map, std::string_view place,
                 TokenizerSettings& to) {
  constexpr const char* kExtra = "extra_special_tokens";
  const auto read_named = [&](const std::string& key, const json& value) {
    if (value.is_string() || value.is_object()) {
      to.named.insert_or_assign(key, token_of(value, place, true));
    }
  };
  for (const auto& [key, value] : object.items()) {
    if (key.ends_with(kTokenEnd)) {
      read_named(key, value);
    } else if (key == kExtra && value.is_object()) {
      for (const auto& [name, token] : value.items()) {
        read_named(name, token);
      }
    }
  }
  const auto extra = list_of(object, kExtra, place);
  const auto additional = list_of(object, "additional_special_tokens", place);
  if (is_map) {
    to.additional = additional;
    if (extra && to.extra) {
      to.extra->insert(to.extra->end(), extra->begin(), extra->end());
      return;
    }
  }
  if (extra && !(extra->empty() && additional && !is_map)) {
    to.extra = extra;
  } else if (additional && !is_map) {
    to.extra = additional;
  }
}

std::string written(const json& value) {
  return printable(value.dump(-1, ' ', true, json::error_handler_t::replace));
}

void check_side(const json& object, const char* key, std::string_view place,
                TokenizerSettings& to) {
  const auto found = object.find(key);
  if (found != object.end() && !found->is_null()) {
    if (*found != "right") {
      refuse_side(place, key, written(*found));
    }
    to.sides.emplace_back(key);
  }
}

/// Whole numbers, up to one that no file needs; nothing where there is none.
std::optional<std::int64_t> number_of(const json& object, const char* key,
                                      std::string_view place) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) {
    return std::nullopt;
  }
  const double number = found->is_number() ? found->get<double>() : -1.0;
  if (!(number >= 0) || number != std::floor(number)) {
    corrupt(place, "key " + in_quotes(key) +
                       ": expected a whole number of at least 0");
  }
  return static_cast<std::int64_t>(std::min(number, kMostStated));
}

/// What a file says. Keys of a later file replace those of an earlier one.
void read_keys(const json& object, bool is_map, std::string_view place,
               TokenizerSettings& to) {
  read_tokens(object, is_map, place, to);
  check_side(object, "padding_side", place, to);
  check_side(object, "truncation_side", place, to);
  if (const auto split = object.find("split_special_tokens");
      split != object.end() && !split->is_null() && *split != false) {
    throw Error(
        Errc::unsupported, place,
        "split_special_tokens: got " + written(*split) + ", expected false",
        "a special token that is typed in a prompt is one token");
  }
  const char* const length =
      object.contains("model_max_length") ? "model_max_length" : "max_len";
  if (const auto most = number_of(object, length, place)) {
    to.max_length = *most > kNoLimit ? std::nullopt : most;
  }
  to.extra_ids = number_of(object, "extra_ids", place).value_or(to.extra_ids);
  if (to.extra_ids > kMostExtraIds) {
    corrupt(place,
            "extra_ids: expected at most " + std::to_string(kMostExtraIds));
  }
}

}  // namespace

void refuse_side(std::string_view place, std::string_view key,
                 std::string_view got) {
  throw Error(
      Errc::unsupported, place,
      std::string(key) + ": got " + std::string(got) + ", expected \"right\"",
      "text encoders of diffusion models pad and cut at the right");
}

TokenizerSettings read_settings(const TokenizerFiles& files) {
  TokenizerSettings settings;
  const auto read = [&](const char* name, const auto& fn) {
    if (const auto text = files.texts.find(name); text != files.texts.end()) {
      const std::string place = files.place(name);
      fn(read_object(text->second, place), place);
    }
  };
  read("tokenizer_config.json", [&](const json& config, const auto& place) {
    read_keys(config, false, place, settings);
    if (const auto added = config.find("added_tokens_decoder");
        added != config.end()) {
      read_added(*added, place, settings);
    }
    if (const auto name = config.find("tokenizer_class");
        name != config.end() && name->is_string()) {
      settings.tokenizer_class = name->template get<std::string>();
    }
  });
  if (!settings.has_added) {
    read("special_tokens_map.json", [&](const json& map, const auto& place) {
      read_keys(map, true, place, settings);
    });
    read("added_tokens.json", [&](const json& added, const auto& place) {
      read_added_file(added, place, settings);
    });
  }
  return settings;
}

}  // namespace troupe::models
