// Reads tokenizer.json and vocab.json. Their long lists go to a Vocabulary as
// they are met; a tree of all of it would take sixteen times the text.
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/key_walk.h"
#include "kernels/core/text.h"
#include "models/text/base64.h"
#include "models/text/corrupt.h"
#include "models/text/tokenizer_files.h"
#include "models/text/unicode.h"

namespace troupe::models {
namespace {

using nlohmann::json;

/// Values outside the long lists.
constexpr std::size_t kMostValues = 200'000;

/// Parts of the file, and the settings that count in their place.
constexpr std::pair<const char*, const char*> kSides[] = {
    {"padding", "padding_side"}, {"truncation", "truncation_side"}};

/// What the long lists hold.
struct Lists {
  Vocabulary vocabulary;
  PieceTable merges;  ///< left and right in turn
};

/// Takes what a parser meets. Objects and lists are levels: 1 is the root.
class ListReader final : public nlohmann::json_sax<json> {
 public:
  /// `is_vocabulary`: the root is the object that model.vocab is elsewhere.
  ListReader(std::string_view place, bool is_vocabulary)
      : place_(place), list_(is_vocabulary ? List::pieces : List::none) {}

  bool start_object(std::size_t /*elements*/) override {
    ++level_;
    if (list_ == List::none) {
      tree_open(json::object());
    } else if (list_ == List::merges || level_ != list_level()) {
      corrupt(place_, "an object where none belongs, in a list of pieces");
    }
    return true;
  }
  bool end_object() override { return end(); }
  bool start_array(std::size_t /*elements*/) override {
    ++level_;
    if (list_ == List::none) {
      tree_open(json::array());
    } else if (level_ == list_level() + 1) {
      items_ = 0;
    } else if (level_ > list_level()) {
      corrupt(place_, "a list where none belongs, in a list of pieces");
    }
    return true;
  }
  bool end_array() override {
    if (list_ != List::none && level_ == list_level() + 1 && items_ != 2) {
      corrupt(place_, "an item of a list of pieces: got " +
                          std::to_string(items_) + " values, expected 2");
    }
    return end();
  }
  bool key(std::string& name) override {
    if (list_ != List::none) {
      add_piece(name);
      return true;
    }
    key_ = name;
    if (level_ == 2 && in_model_ && (name == "vocab" || name == "merges")) {
      list_ = name == "vocab" ? List::pieces : List::merges;
    } else if (level_ == 1) {
      in_model_ = name == "model";
    }
    return true;
  }
  bool null() override { return value(nullptr); }
  bool boolean(bool is) override { return value(is); }
  bool number_integer(json::number_integer_t number) override {
    return list_ == List::none ? value(number)
                               : add_number(static_cast<double>(number));
  }
  bool number_unsigned(json::number_unsigned_t number) override {
    return list_ == List::none ? value(number)
                               : add_number(static_cast<double>(number));
  }
  bool number_float(json::number_float_t number,
                    const std::string& /*text*/) override {
    return list_ == List::none ? value(number) : add_number(number);
  }
  bool string(std::string& text) override {
    return list_ == List::none ? value(text) : add_string(text);
  }
  bool binary(json::binary_t& /*bytes*/) override { return false; }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const json::exception& error) override {
    corrupt(place_, "not valid JSON: " + printable(error.what()));
  }

  Lists lists;
  json root;

 private:
  enum class List : std::uint8_t { none, pieces, merges };

  /// Level of the list itself; items are one level deeper.
  [[nodiscard]] int list_level() const { return tree_.empty() ? 1 : 3; }

  bool end() {
    --level_;
    if (list_ == List::none) {
      tree_.pop_back();
    } else if (level_ < list_level()) {
      list_ = List::none;
    }
    return true;
  }
  void tree_open(json empty) {
    json* const opened = tree_add(std::move(empty));
    tree_.push_back(opened);
  }
  json* tree_add(json item) {
    if (++values_ > kMostValues) {
      corrupt(place_, "too many values: expected at most " +
                          std::to_string(kMostValues) +
                          " beside the vocabulary");
    }
    if (tree_.empty()) {
      root = std::move(item);
      return &root;
    }
    json& parent = *tree_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(item));
      return &parent.back();
    }
    return &(parent[key_] = std::move(item));
  }
  bool value(json item) {
    if (list_ == List::none) {
      (void)tree_add(std::move(item));
    } else if (level_ < list_level()) {
      list_ = List::none;  // a single value instead of the list
    } else {
      corrupt(place_,
              "a value that is neither text nor number, in a list of "
              "pieces");
    }
    return true;
  }
  void add_piece(std::string_view piece) {
    lists.vocabulary.pieces.add(piece, place_);
  }
  bool add_string(const std::string& text) {
    if (level_ < list_level()) {
      return value(text);
    }
    const bool is_item = level_ == list_level() + 1;
    if (list_ == List::merges && !is_item) {
      const std::size_t space = text.find(' ');
      if (space == std::string::npos || text.rfind(' ') != space) {
        corrupt(place_, "a merge: got " + in_quotes(text) +
                            ", expected two pieces and a space between them");
      }
      lists.merges.add(std::string_view(text).substr(0, space), place_);
      lists.merges.add(std::string_view(text).substr(space + 1), place_);
      return true;
    }
    if (!is_item || (list_ == List::pieces && items_ != 0) || ++items_ > 2) {
      corrupt(place_, "text where none belongs, in a list of pieces");
    }
    (list_ == List::merges ? lists.merges : lists.vocabulary.pieces)
        .add(text, place_);
    return true;
  }
  bool add_number(double number) {
    if (level_ < list_level()) {
      return value(number);
    }
    if (list_ != List::pieces) {
      corrupt(place_, "a number among the merges");
    }
    if (level_ == list_level() + 1) {
      if (items_++ != 1) {
        corrupt(place_, "a score that belongs to no piece");
      }
      lists.vocabulary.scores.push_back(number);
      return true;
    }
    if (!(number >= 0 && number <= static_cast<double>(kLargestId)) ||
        number != std::floor(number)) {
      corrupt(place_, "the id of a piece: expected a whole number from 0 to " +
                          std::to_string(kLargestId));
    }
    lists.vocabulary.ids.push_back(static_cast<std::int32_t>(number));
    return true;
  }

  std::string_view place_;
  List list_;
  int level_ = 0;
  int items_ = 0;
  bool in_model_ = false;
  std::string key_;
  std::vector<json*> tree_;  ///< open objects and lists
  std::size_t values_ = 0;
};

/// Piece numbers of the merges.
void resolve_merges(Lists& lists, std::string_view place) {
  const auto number_of = [&](std::string_view piece) {
    const auto number = lists.vocabulary.pieces.find(piece);
    if (!number) {
      corrupt(place, "a merge of " + in_quotes(piece) +
                         ", which is not in the vocabulary");
    }
    return *number;
  };
  lists.vocabulary.merges.reserve(lists.merges.size() / 2);
  for (std::size_t i = 0; i + 1 < lists.merges.size(); i += 2) {
    lists.vocabulary.merges.emplace_back(number_of(lists.merges[i]),
                                         number_of(lists.merges[i + 1]));
  }
}

void read_lists(std::string_view text, std::string_view place,
                ListReader& reader) {
  (void)check_keys<nlohmann::json_sax, json>(text, place, Errc::corrupt_file);
  (void)json::sax_parse(text.begin(), text.end(), &reader);
  Vocabulary& vocabulary = reader.lists.vocabulary;
  const std::size_t values = vocabulary.ids.size() + vocabulary.scores.size();
  if (vocabulary.pieces.size() != values || values == 0 ||
      (!vocabulary.ids.empty() && !vocabulary.scores.empty())) {
    corrupt(place, "a vocabulary of " +
                       std::to_string(vocabulary.pieces.size()) +
                       " pieces with " + std::to_string(vocabulary.ids.size()) +
                       " ids and " + std::to_string(vocabulary.scores.size()) +
                       " scores, expected as many of one of them");
  }
  vocabulary.pieces.sort();
}

/// What older files leave out.
bool is_default(std::string_view setting) {
  return setting == "use_regex true" || setting == "split true" ||
         setting == "add_prefix_space true" ||
         setting == "prepend_scheme \"always\"";
}

/// "Sequence[NFC, Lowercase]": the types, with their arguments.
std::string outline(const json& node) {
  if (!node.is_object()) {
    return node.is_null() ? "none" : "unknown";
  }
  std::string text = node.value("type", json()).is_string()
                         ? node["type"].get<std::string>()
                         : std::string("unnamed");
  std::string inside;
  const auto add = [&](const std::string& part) {
    inside += (inside.empty() ? "" : ", ") + part;
  };
  for (const auto& [key, item] : node.items()) {
    if (key == "normalizers" || key == "pretokenizers") {
      for (const json& child : item) {
        add(outline(child));
      }
    } else if (const std::string part = key + " " + item.dump();
               key != "type" && key != "precompiled_charsmap" &&
               key != "trim_offsets" && key != "str_rep" && !is_default(part)) {
      add(part);
    }
    if (inside.size() > kLongestLine) {
      break;
    }
  }
  return inside.empty() ? text : text + "[" + inside + "]";
}

/// The character map of the normalizer, or of the first one of a sequence.
std::optional<std::string> encoded_charsmap(const json& node) {
  if (!node.is_object()) {
    return std::nullopt;
  }
  if (const auto map = node.find("precompiled_charsmap"); map != node.end()) {
    return map->is_string() ? std::optional(map->get<std::string>())
                            : std::nullopt;
  }
  const auto children = node.find("normalizers");
  return children != node.end() && children->is_array() && !children->empty()
             ? encoded_charsmap(children->front())
             : std::nullopt;
}

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : std::string();
}

bool flag_of(const json& object, const char* key, bool missing) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() ? found->get<bool>()
                                                      : missing;
}

AddedById added_tokens(const json& list, std::string_view place) {
  AddedById by_id;
  for (const json& item : list.is_array() ? list : json::array()) {
    const bool has_id = item.is_object() && item.contains("id") &&
                        item["id"].is_number_unsigned();
    if (!has_id || flag_of(item, "single_word", false)) {
      corrupt(place,
              "added_tokens: expected objects with an id, and no "
              "single_word");
    }
    by_id.insert_or_assign(
        item["id"].get<std::int64_t>(),
        AddedToken{
            text_of(item, "content"), flag_of(item, "lstrip", false),
            flag_of(item, "rstrip", false),
            flag_of(item, "normalized", !flag_of(item, "special", false))});
  }
  return by_id;
}

/// Whether the part `name` of the file ("padding", "truncation") is for the
/// left.
bool is_left(const json& root, const char* name) {
  return text_of(root.value(name, json()), "direction") == "Left";
}

}  // namespace

Vocabulary read_vocab_and_merges(std::string_view vocab,
                                 std::string_view merges,
                                 std::string_view place) {
  ListReader reader(place, true);
  read_lists(vocab, place, reader);
  check_utf8(merges, place, Errc::corrupt_file);
  while (!merges.empty()) {
    const std::size_t end = std::min(merges.find('\n'), merges.size());
    std::string_view line = merges.substr(0, end);
    merges.remove_prefix(std::min(end + 1, merges.size()));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (line.empty() || line.starts_with("#version")) {
      continue;
    }
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || line.rfind(' ') != space) {
      corrupt(place, "merges.txt: got " + in_quotes(line) +
                         ", expected two pieces and a space between them");
    }
    reader.lists.merges.add(line.substr(0, space), place);
    reader.lists.merges.add(line.substr(space + 1), place);
  }
  resolve_merges(reader.lists, place);
  return std::move(reader.lists.vocabulary);
}

TokenizerJson read_tokenizer_json(std::string_view text,
                                  std::string_view place) {
  ListReader reader(place, false);
  read_lists(text, place, reader);
  const json& root = reader.root;
  const json model = root.is_object() ? root.value("model", json()) : json();
  if (!model.is_object()) {
    corrupt(place, "expected an object with a model");
  }
  resolve_merges(reader.lists, place);
  TokenizerJson result;
  result.vocabulary = std::move(reader.lists.vocabulary);
  result.model_type = text_of(model, "type");
  result.word_end = text_of(model, "end_of_word_suffix");
  result.vocabulary.unknown_piece = text_of(model, "unk_token");
  if (const auto id = model.find("unk_id");
      id != model.end() && id->is_number_unsigned()) {
    result.vocabulary.unknown_id = id->get<std::int64_t>();
  }
  const json normalizer = root.value("normalizer", json());
  result.normalizer = outline(normalizer);
  result.pre_tokenizer = outline(root.value("pre_tokenizer", json()));
  if (const auto encoded = encoded_charsmap(normalizer)) {
    const auto bytes = from_base64(*encoded);
    if (!bytes) {
      corrupt(place, "precompiled_charsmap is not base64");
    }
    result.vocabulary.charsmap = Charsmap(*bytes, place);
  }
  result.vocabulary.added =
      added_tokens(root.value("added_tokens", json()), place);
  for (const auto& [name, side] : kSides) {
    if (is_left(root, name)) {
      result.left_sides.emplace_back(side);
    }
  }
  return result;
}

}  // namespace troupe::models
