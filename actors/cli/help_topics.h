#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::actors {

/// A page that `troupe help NAME` prints: of the manual (a file in manual/), or
/// made of a table in help_topics.cpp.
struct HelpTopic {
  std::string name;
  std::string summary;
  std::string text;  ///< whole lines; the first is "NAME: SUMMARY"
};

/// In the order of their names.
[[nodiscard]] std::span<const HelpTopic> help_topics();

/// The files in manual/, as they stand there.
[[nodiscard]] std::span<const std::string_view> manual_pages();

/// One key of the JSON that a verb prints. A path joins keys with dots; "[]"
/// stands for each item of an array, "*" for any key of an object.
struct JsonField {
  std::string path;          ///< "images[].seed"
  std::string type;          ///< "integer", "string or null", "array of …"
  std::string_view meaning;  ///< with units; no full stop
};

/// Fields that stand together in one document.
struct JsonSection {
  /// What prints them: "every verb", a verb's name, or a document's own name.
  std::string_view of;
  std::string_view about;
  std::vector<JsonField> fields;
};

/// Everything that --json and --progress json print, and the recipe in an
/// image: rows that json_rows.h makes of the lists of fields that the JSON is
/// printed from. A test holds them against runs.
[[nodiscard]] std::span<const JsonSection> json_sections();

}  // namespace troupe::actors
