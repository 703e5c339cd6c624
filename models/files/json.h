#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

/// A configuration object. A missing key gives the caller's default (that of
/// the diffusers class); unknown keys are ignored; a value of the wrong type or
/// out of range is an error that names file and key. Copies share the document.
/// Thread: any.
class Json {
 public:
  /// An object without keys.
  Json();

  /// At most 16 MiB, 32 levels, no duplicate keys. Errors: Errc::not_found,
  /// Errc::io, Errc::corrupt_file.
  [[nodiscard]] static Json read_file(const std::filesystem::path& path);
  [[nodiscard]] static Json parse(std::string_view text,
                                  std::string_view place);

  /// File name (or whatever was given to parse), for messages.
  [[nodiscard]] const std::string& place() const noexcept;
  /// The text it was read from.
  [[nodiscard]] const std::string& text() const noexcept;
  /// The object as JSON that no formatting changes: keys in order, no spaces.
  [[nodiscard]] std::string canonical() const;

  /// The object without a key.
  [[nodiscard]] Json without(std::string_view key) const;

  /// True when the key is there and not null.
  [[nodiscard]] bool has(std::string_view key) const;

  // Values by key. `missing`: the result when `has(key)` is false. Errors
  // (all): Errc::corrupt_file.

  /// True when the value is an array.
  [[nodiscard]] bool is_list(std::string_view key) const;
  /// The value as JSON without spaces; "null" when it is missing.
  [[nodiscard]] std::string written(std::string_view key) const;

  /// Within [least, most].
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t missing,
                                     std::int64_t least,
                                     std::int64_t most) const;
  /// Finite, within ±1e30.
  [[nodiscard]] double number(std::string_view key, double missing) const;
  [[nodiscard]] bool boolean(std::string_view key, bool missing) const;
  [[nodiscard]] std::string string(std::string_view key,
                                   std::string_view missing) const;
  /// An array of integers, each within [least, most].
  [[nodiscard]] std::vector<std::int64_t> integers(
      std::string_view key, std::vector<std::int64_t> missing,
      std::int64_t least, std::int64_t most) const;
  /// An array of numbers; empty when missing.
  [[nodiscard]] std::vector<double> numbers(std::string_view key) const;
  /// An array of strings; empty when missing.
  [[nodiscard]] std::vector<std::string> string_list(
      std::string_view key) const;
  /// An object whose values are strings; empty when missing.
  [[nodiscard]] std::map<std::string, std::string> strings(
      std::string_view key) const;
  /// The class of a component in model_index.json, which is written
  /// [library, class]; empty when it is missing or [null, null].
  [[nodiscard]] std::string component_class(std::string_view key) const;
  /// Keys of the object, in alphabetical order.
  [[nodiscard]] std::vector<std::string> keys() const;

 private:
  struct Document;
  std::shared_ptr<const Document> document_;
};

}  // namespace troupe::models
