// Reads tokenizer_config.json and special_tokens_map.json.
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
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
  std::vector<std::pair<std::int64_t, AddedToken>> by_id;
  for (const auto& [key, value] : list.items()) {
    std::int64_t id = 0;
    const auto [end, error] =
        std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0) {
      corrupt(place, "added_tokens_decoder: got " + in_quotes(key) +
                         ", expected an id");
    }
    by_id.emplace_back(id, token_of(value, place, false));
  }
  std::stable_sort(
      by_id.begin(), by_id.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [id, token] : by_id) {
    to.added.push_back(std::move(token));
  }
  to.has_added = true;
}

void read_extra(const json& list, std::string_view place,
                TokenizerSettings& to) {
  for (const json& item : list) {
    to.extra.push_back(token_of(item, place, true));
  }
}

/// Tokens by name, and lists of others. A null value counts as missing.
void read_tokens(const json& object, std::string_view place,
                 TokenizerSettings& to) {
  for (const auto& [key, value] : object.items()) {
    const bool is_token = value.is_string() || value.is_object();
    if (key.ends_with(kTokenEnd) && is_token) {
      to.named.insert_or_assign(key, token_of(value, place, true));
    } else if ((key == "additional_special_tokens" ||
                key == "extra_special_tokens") &&
               value.is_array()) {
      read_extra(value, place, to);
    }
  }
}

void check_side(const json& object, const char* key, std::string_view place) {
  const auto found = object.find(key);
  if (found != object.end() && !found->is_null() && *found != "right") {
    throw Error(Errc::unsupported, place,
                std::string(key) + ": got " +
                    printable(found->dump(-1, ' ', true,
                                          json::error_handler_t::replace)) +
                    ", expected \"right\"",
                "text encoders of diffusion models pad and cut at the right");
  }
}

std::int64_t bounded(const json& object, const char* key, std::int64_t missing,
                     std::int64_t most, std::string_view place) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) {
    return missing;
  }
  if (!found->is_number() || !(found->get<double>() >= 0)) {
    corrupt(place,
            "key " + in_quotes(key) + ": expected a number of at least 0");
  }
  const double number = found->get<double>();
  return number > static_cast<double>(most) ? -1
                                            : static_cast<std::int64_t>(number);
}

}  // namespace

TokenizerSettings read_settings(const TokenizerFiles& files) {
  TokenizerSettings settings;
  json config = json::object();
  if (const auto text = files.texts.find("tokenizer_config.json");
      text != files.texts.end()) {
    const std::string place = files.place(text->first);
    config = read_object(text->second, place);
    read_tokens(config, place, settings);
    check_side(config, "padding_side", place);
    check_side(config, "truncation_side", place);
    if (const auto added = config.find("added_tokens_decoder");
        added != config.end()) {
      read_added(*added, place, settings);
    }
    if (const auto name = config.find("tokenizer_class");
        name != config.end() && name->is_string()) {
      settings.tokenizer_class = name->get<std::string>();
    }
    // transformers writes 1e30 where there is no limit.
    constexpr std::int64_t kNoLimit = std::int64_t{1} << 20U;
    settings.max_length = std::max<std::int64_t>(
        0, bounded(config, "model_max_length", 0, kNoLimit, place));
    settings.extra_ids =
        bounded(config, "extra_ids", 100, kMostExtraIds, place);
    if (settings.extra_ids < 0) {
      corrupt(place,
              "extra_ids: expected at most " + std::to_string(kMostExtraIds));
    }
  }
  if (const auto text = files.texts.find("special_tokens_map.json");
      text != files.texts.end() && !settings.has_added) {
    const std::string place = files.place(text->first);
    read_tokens(read_object(text->second, place), place, settings);
  }
  return settings;
}

}  // namespace troupe::models
