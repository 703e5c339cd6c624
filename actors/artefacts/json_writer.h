#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/artefacts/summary.h"
#include "actors/record_fields.h"
#include "config/enum_names.h"
#include "kernels/core/fields.h"

namespace troupe::actors {

template <typename T>
constexpr bool kIsOptional = false;
template <typename T>
constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
constexpr bool kIsList = false;
template <typename T>
constexpr bool kIsList<std::vector<T>> = true;

/// An object with any keys, in their order.
template <typename T>
using JsonObject = std::vector<std::pair<std::string, T>>;
template <typename T>
constexpr bool kIsObject = false;
template <typename T>
constexpr bool kIsObject<JsonObject<T>> = true;

/// Structs by their lists of fields, enums by name; all else as it is. What is
/// not finite becomes null when the JSON is printed.
template <typename T>
[[nodiscard]] nlohmann::ordered_json json_of(const T& value);

/// Puts the fields that it visits into an object.
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
    to_[key.name] = json_of(value);
  }

 private:
  nlohmann::ordered_json& to_;
};

template <typename T>
nlohmann::ordered_json json_of(const T& value) {
  using Json = nlohmann::ordered_json;
  if constexpr (HasFields<const T>) {
    Json object = Json::object();
    JsonWriter writer(object);
    visit_fields(writer, value);
    return object;
  } else if constexpr (kIsOptional<T>) {
    return value ? json_of(*value) : Json();
  } else if constexpr (kIsObject<T>) {
    Json object = Json::object();
    for (const auto& [name, one] : value) {
      object[name] = json_of(one);
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
