#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

// Lists of fields. A struct that travels, is shown or is kept has a function
// `visit_fields(visit, record)` in its namespace, which calls
// `visit(key, field)` for each field, in an order that never changes. Codecs,
// hashes, JSON and help walk the list, and know no field by themselves.

namespace troupe {

/// `Record`, or a constant one.
template <typename T, typename Record>
concept AnyConst = std::same_as<std::remove_const_t<T>, Record>;

/// What a visitor learns of a field beside its value. A visitor that takes
/// `const char*` gets the name.
struct FieldKey {
  // NOLINTNEXTLINE(google-explicit-constructor): most lists say names alone.
  constexpr FieldKey(const char* its_name, const char* its_meaning = "",
                     const char* its_json_type = nullptr)
      : name(its_name), meaning(its_meaning), json_type(its_json_type) {}

  const char* name;     ///< in files and messages
  const char* meaning;  ///< for `troupe help json`; no full stop
  /// Type in JSON, where it does not follow from the member's.
  const char* json_type;
  /// 64 random bits: always eight bytes of a message.
  bool is_hash = false;
  /// The most that a number in a message may be, or that a list may have
  /// entries, or a text bytes: a reader refuses more.
  std::uint64_t most = ~std::uint64_t{0};
  bool is_cut = false;  ///< a writer cuts the list or the text to `most`

  // NOLINTNEXTLINE(google-explicit-constructor): for visitors of names.
  constexpr operator const char*() const { return name; }
};

[[nodiscard]] constexpr FieldKey hash_key(const char* name) {
  FieldKey key(name);
  key.is_hash = true;
  return key;
}

[[nodiscard]] constexpr FieldKey at_most(std::uint64_t most, const char* name) {
  FieldKey key(name);
  key.most = most;
  return key;
}

[[nodiscard]] constexpr FieldKey cut_to(std::uint64_t most, const char* name) {
  FieldKey key = at_most(most, name);
  key.is_cut = true;
  return key;
}

}  // namespace troupe
