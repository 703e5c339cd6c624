#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/artefacts/summary.h"
#include "actors/record_fields.h"
#include "config/enum_names.h"
#include "config/parse_value.h"
#include "kernels/core/fields.h"
#include "kernels/core/hash.h"
#include "samplers/guidance.h"

namespace troupe::actors {

/// May be unset.
template <typename T>
constexpr bool kIsOptional = false;
template <typename T>
constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
constexpr bool kIsOptional<std::shared_ptr<T>> = true;
template <typename T>
constexpr bool kIsList = false;
template <typename T>
constexpr bool kIsList<std::vector<T>> = true;

/// An object with any keys, in their order. No two are equal.
template <typename T>
using JsonObject = std::vector<std::pair<std::string, T>>;
template <typename T>
constexpr bool kIsObject = false;
template <typename T>
constexpr bool kIsObject<JsonObject<T>> = true;

/// Structs by their lists of fields, enums and rows of tables by name; all else
/// as it is. What is not finite becomes null when the JSON is printed.
template <typename T>
[[nodiscard]] nlohmann::ordered_json json_of(const T& value);

/// Puts the fields that it visits into an object. Hashes become texts. A text
/// whose key names another type in JSON is parsed.
class JsonWriter {
 public:
  static constexpr bool kShows = true;

  explicit JsonWriter(nlohmann::ordered_json& to) : to_(to) {}

  template <typename T>
  void operator()(const FieldKey& key, const T& value) {
    if constexpr (kIsOptional<T>) {
      if (!value && !key.is_null) {
        return;
      }
    } else if constexpr (requires { value.empty(); }) {
      if (value.empty() && key.is_absent) {
        return;
      }
    }
    nlohmann::ordered_json& json = to_[key.name] = json_of(value);
    if (key.is_hash) {
      for (auto& hash : json) {  // a number counts as a list of one
        hash = to_hex(hash.get<std::uint64_t>());
      }
    }
    if constexpr (std::same_as<T, std::string>) {
      if (key.json_type != nullptr && !value.empty()) {
        json = nlohmann::ordered_json::parse(value);
      }
    }
  }

 private:
  nlohmann::ordered_json& to_;
};

template <typename T>
nlohmann::ordered_json json_of(const T& value) {
  using Json = nlohmann::ordered_json;
  if constexpr (std::same_as<T, samplers::SigmaRange>) {
    return config::to_string(value);
  } else if constexpr (HasFields<const T>) {
    Json object = Json::object();
    JsonWriter writer(object);
    visit_fields(writer, value);
    return object;
  } else if constexpr (kIsOptional<T>) {
    return value ? json_of(*value) : Json();
  } else if constexpr (kIsObject<T>) {
    Json object = Json::object();
    // operator[] would search all of them for each.
    auto& list = object.get_ref<Json::object_t&>();
    for (const auto& [name, one] : value) {
      list.emplace_back(name, json_of(one));
    }
    return object;
  } else if constexpr (kIsList<T>) {
    Json list = Json::array();
    for (const auto& one : value) {
      list.push_back(json_of(one));
    }
    return list;
  } else if constexpr (config::NamedEnum<T>) {
    return config::name_of(value);
  } else if constexpr (requires {
                         value->name;
                         to_string(value);
                       }) {
    return to_string(value);  // a method, with its modifiers
  } else if constexpr (requires { value->name; }) {
    return value->name;
  } else {
    return value;
  }
}

/// What a verb prints: the envelope, and the fields of what it `found`.
template <typename T>
[[nodiscard]] nlohmann::ordered_json document(const RunSummary& summary,
                                              const T& found) {
  nlohmann::ordered_json out = envelope(summary);
  JsonWriter writer(out);
  visit_fields(writer, found);
  return out;
}

}  // namespace troupe::actors
