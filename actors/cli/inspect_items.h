#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/core/system.h"
#include "kernels/core/text.h"

// The JSON of models that `inspect` prints, and its form as text.

namespace troupe::actors {

using InspectedItem = nlohmann::ordered_json;

/// A checkpoint folder. Errors: those of ModelSource::open; those of its text
/// encoders' and tokenizers' files. What Troupe does not have is said in the
/// item, and is no error.
[[nodiscard]] InspectedItem describe_checkpoint(const std::string& path);

/// Whether --random-weights takes this name.
[[nodiscard]] bool is_bundled_model(const std::string& name);
/// A bundled model, by a name that --random-weights takes.
[[nodiscard]] InspectedItem describe_bundled(const std::string& name);

/// Either of them, as lines of text.
void print_model(const InspectedItem& item);

/// The plain list under an ordered object, whose own insertion searches all
/// keys for the new one. Append only keys that differ.
[[nodiscard]] inline InspectedItem::object_t& as_list(InspectedItem& object) {
  return object.get_ref<InspectedItem::object_t&>();
}

[[nodiscard]] inline const std::string& string_of(const InspectedItem& json) {
  return json.get_ref<const std::string&>();
}

/// A text that a stranger's file may have chosen.
[[nodiscard]] inline std::string text_of(const InspectedItem& json) {
  return printable(string_of(json));
}

[[nodiscard]] inline std::string size_of(const InspectedItem& json) {
  return human_bytes(json.get<std::uint64_t>());
}

}  // namespace troupe::actors
