#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
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
  /// JSON leaves the key out while the text is empty. An optional that is unset
  /// is left out in any case, unless `is_null`.
  bool is_absent = false;
  bool is_null = false;  ///< JSON has null while the optional is unset
  /// For `troupe help json`: of the values of an object with any keys.
  const char* meaning_of_each = "";

  // NOLINTNEXTLINE(google-explicit-constructor): for visitors of names.
  constexpr operator const char*() const { return name; }
};

[[nodiscard]] constexpr FieldKey hash_key(FieldKey key) {
  key.is_hash = true;
  return key;
}

[[nodiscard]] constexpr FieldKey at_most(std::uint64_t most, FieldKey key) {
  key.most = most;
  return key;
}

[[nodiscard]] constexpr FieldKey cut_to(std::uint64_t most, FieldKey key) {
  key.is_cut = true;
  return at_most(most, key);
}

[[nodiscard]] constexpr FieldKey if_any(FieldKey key) {
  key.is_absent = true;
  return key;
}

[[nodiscard]] constexpr FieldKey or_null(FieldKey key) {
  key.is_null = true;
  return key;
}

/// An object with any keys.
[[nodiscard]] constexpr FieldKey each_is(const char* meaning, FieldKey key) {
  key.meaning_of_each = meaning;
  return key;
}

/// A visitor that shows fields to people and programs. It is handed values that
/// follow from members, too, and may not keep or change them.
template <typename Visitor>
concept ShowsFields = requires {
  Visitor::kShows;
};

/// A visitor that names every field that may ever be shown, whatever is set.
template <typename Visitor>
concept NamesFields = requires {
  Visitor::kNamesAll;
};

/// The fields of a part stand among those of the record; left out while the
/// part is unset.
template <typename Visitor, typename Part>
void visit_part(Visitor& visit, const std::optional<Part>& part) {
  if (part) {
    visit_fields(visit, *part);
  } else if constexpr (NamesFields<Visitor>) {
    const Part example{};
    visit_fields(visit, example);
  }
}

}  // namespace troupe
