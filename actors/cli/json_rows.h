#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "actors/artefacts/json_writer.h"
#include "actors/cli/help_topics.h"
#include "kernels/core/error.h"

namespace troupe::actors {

/// A value whose fields are named.
template <typename T>
[[nodiscard]] T example_of() {
  return {};
}
template <>
[[nodiscard]] inline Error example_of<Error>() {
  return {Errc::internal, "", ""};
}

/// Makes a row of `troupe help json` of every field that it visits, and of the
/// fields of these.
class JsonRows {
 public:
  static constexpr bool kShows = true;
  static constexpr bool kNamesAll = true;

  /// Meanings that differ from those in the lists, by path.
  using Meanings =
      std::initializer_list<std::pair<std::string_view, std::string_view>>;
  explicit JsonRows(Meanings meanings = {}) : meanings_(meanings) {}

  template <typename T>
  void operator()(const FieldKey& key, const T& /*value*/) {
    add(key.name, type_of<T>(key), key.meaning);
    if (key.json_type != nullptr) {
      return;  // nothing is said of what is in it
    }
    const std::string outer = section_;
    section_ += key.name;
    add_inner<T>(key);
    section_ = outer;
  }
  void add(const std::string& key, std::string type, std::string_view meaning) {
    const std::string path = section_ + key;
    for (const auto& other : meanings_) {
      meaning = other.first == path ? other.second : meaning;
    }
    rows_.push_back({path, std::move(type), meaning});
  }
  /// The fields that follow are those of an object.
  void begin(const std::string& object, std::string_view meaning) {
    section_.clear();
    add(object, "object", meaning);
    section_ = object + ".";
  }
  [[nodiscard]] std::vector<JsonField> rows() && { return std::move(rows_); }

 private:
  /// An object with any keys and values.
  template <typename T>
  static constexpr bool kIsJson = std::same_as<T, nlohmann::ordered_json>;

  template <typename T>
  static std::string type_of(const FieldKey& key) {
    if (key.json_type != nullptr) {
      return key.json_type;
    }
    return std::string(type_name<T>(key)) + (key.is_null ? " or null" : "");
  }
  template <typename T>
  static std::string type_name(const FieldKey& key) {
    if constexpr (kIsOptional<T>) {
      return type_name<std::decay_t<decltype(*std::declval<T>())>>(key);
    } else if constexpr (HasFields<const T> || kIsObject<T> || kIsJson<T>) {
      return "object";
    } else if constexpr (kIsList<T>) {
      return "array of " + type_name<typename T::value_type>(key) + "s";
    } else if constexpr (std::same_as<T, bool>) {
      return "boolean";
    } else if constexpr (std::integral<T>) {
      return key.is_hash ? "string" : "integer";
    } else if constexpr (std::floating_point<T>) {
      return "number";
    } else {
      return "string";  // names of things, too
    }
  }

  template <typename T>
  void add_inner(const FieldKey& key) {
    if constexpr (kIsOptional<T>) {
      add_inner<std::decay_t<decltype(*std::declval<T>())>>(key);
    } else if constexpr (kIsObject<T>) {
      using Value = typename T::value_type::second_type;
      add(".*", type_name<Value>(key), key.meaning_of_each);
    } else if constexpr (kIsJson<T>) {
      add(".*", "string, number or boolean", key.meaning_of_each);
    } else if constexpr (kIsList<T>) {
      section_ += "[]";
      add_inner<typename T::value_type>(key);
    } else if constexpr (HasFields<const T>) {
      section_ += ".";
      const T example = example_of<T>();
      visit_fields(*this, example);
    }
  }

  std::vector<std::pair<std::string_view, std::string_view>> meanings_;
  std::string section_;
  std::vector<JsonField> rows_;
};

/// The rows of a struct's fields.
template <typename T>
[[nodiscard]] std::vector<JsonField> json_rows_of(
    JsonRows::Meanings meanings = {}) {
  JsonRows rows(meanings);
  const T example{};
  visit_fields(rows, example);
  return std::move(rows).rows();
}

}  // namespace troupe::actors
