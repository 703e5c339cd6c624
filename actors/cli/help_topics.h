#pragma once

#include <span>
#include <string>
#include <string_view>

namespace troupe::actors {

/// A document that `troupe help NAME` prints. To add one: a row in
/// help_topics.cpp, and a test that holds it against the program.
struct HelpTopic {
  std::string_view name;
  std::string_view summary;
  std::string (*text)();  ///< whole lines
};

[[nodiscard]] std::span<const HelpTopic> help_topics();

/// One key of the JSON that a verb prints. A path joins keys with dots; "[]"
/// stands for each item of an array, "*" for any key of an object.
struct JsonField {
  std::string_view path;     ///< "images[].seed"
  std::string_view type;     ///< "integer", "string or null", "array of …"
  std::string_view meaning;  ///< with units; no full stop
};

/// Fields that stand together in one document.
struct JsonSection {
  /// What prints them: "every verb", a verb's name, or a document's own name.
  std::string_view of;
  std::string_view about;
  std::span<const JsonField> fields;
};

/// Everything that --json and --progress json print, and the recipe in an
/// image. To add a field: a row of json_fields.cpp, or of
/// recipe_json_fields.cpp; a test holds the rows against runs.
[[nodiscard]] std::span<const JsonSection> json_sections();

}  // namespace troupe::actors
