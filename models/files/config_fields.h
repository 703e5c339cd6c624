#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/core/fields.h"
#include "models/files/json.h"

// The list of a configuration's fields. Its function `visit_fields(visit,
// config)` calls `visit(key, field)` for each field. The parser, the hash and
// the known keys follow from it. The fields enter the hash in this order, so it
// never changes.

namespace troupe::models {

/// The key of a field in config.json, and what the hash needs to know.
struct ConfigKey {
  const char* name;
  /// Bounds of a whole number, or of each in a list. Both are needed: no number
  /// is within these.
  std::int64_t least = 1;
  std::int64_t most = 0;
  const char* other_name = nullptr;  ///< counts where the file has it
  bool not_negative = false;         ///< of a float or a double
  /// Came when there were hashes already. These fields enter the hash behind
  /// all others, and only if one of them is set.
  bool is_newer = false;
  bool is_hashed = true;
  bool has_length = true;  ///< the hash of a list begins with its length
};

/// The key of a field that the parser reads by itself: because the value
/// depends on more than this key, or is written in a way of its own.
struct ParsedKey : ConfigKey {
  constexpr explicit ParsedKey(ConfigKey key) : ConfigKey(key) {}
};

/// Reads the fields of ConfigKeys. A field whose key is missing keeps its
/// value, which is the default of the class. Errors: Errc::corrupt_file.
class FieldReader {
 public:
  explicit FieldReader(const Json& json) : json_(json) {}

  void operator()(const ConfigKey& key, std::int64_t& field) const;
  void operator()(const ConfigKey& key, bool& field) const;
  void operator()(const ConfigKey& key, float& field) const;
  void operator()(const ConfigKey& key, double& field) const;
  void operator()(const ConfigKey& key, std::vector<std::int64_t>& field) const;
  void operator()(const ConfigKey& key, std::vector<double>& field) const;
  void operator()(const ParsedKey& /*key*/, auto& /*field*/) const {}

 private:
  [[nodiscard]] const char* name_of(const ConfigKey& key) const;
  void check_sign(const ConfigKey& key, double field) const;

  const Json& json_;
};

void read_fields(const Json& json, auto& config) {
  const FieldReader read(json);
  visit_fields(read, config);
}

/// Refuses what a network does not compute. Errors (all): Errc::unsupported,
/// "KEY: got …, expected …", with the hint.
class ValueCheck {
 public:
  ValueCheck(const Json& json, std::string_view hint)
      : json_(json), hint_(hint) {}

  /// got: the value, or what it comes to.
  void operator()(bool is_right, std::string_view key, std::string_view got,
                  std::string_view expected) const;
  /// Got what the file says.
  void operator()(bool is_right, std::string_view key,
                  std::string_view expected) const {
    (*this)(is_right, key, json_.written(key), expected);
  }

 private:
  const Json& json_;
  std::string_view hint_;
};

/// Turns fields into 64-bit words: integers by their value, floating-point
/// numbers by their bits, lists with their length in front.
class FieldHash {
 public:
  /// `first`: the first words.
  explicit FieldHash(std::vector<std::uint64_t> first)
      : words_(std::move(first)) {}

  template <typename Field>
  void operator()(const ConfigKey& key, const Field& field) {
    if (!key.is_hashed) {
      return;
    }
    std::vector<std::uint64_t>& words = key.is_newer ? newer_ : words_;
    if constexpr (std::same_as<Field, double>) {
      words.push_back(std::bit_cast<std::uint64_t>(field));
    } else if constexpr (std::same_as<Field, float>) {
      words.push_back(std::bit_cast<std::uint32_t>(field));
    } else if constexpr (requires { field.size(); }) {
      if (key.has_length) {
        words.push_back(field.size());
      }
      for (const auto& item : field) {
        (*this)(key, item);
      }
    } else if constexpr (std::is_class_v<Field>) {
      visit_fields(*this, field);
    } else {
      words.push_back(static_cast<std::uint64_t>(field));
    }
  }

  [[nodiscard]] std::uint64_t digest() const;

 private:
  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> newer_;
};

/// The weights_hash of a network: of its configuration and of `tensors`, the
/// hash of all tensors. Other pictures come of the same tensors under another
/// configuration.
template <typename Config>
[[nodiscard]] std::uint64_t hash_of(const Config& config,
                                    std::uint64_t tensors) {
  FieldHash hash({tensors});
  visit_fields(hash, config);
  return hash.digest();
}

/// Collects the keys of fields.
class FieldKeys {
 public:
  /// `others`: keys of the class that are no field's, separated by spaces.
  explicit FieldKeys(std::string_view others);

  template <typename Field>
  void operator()(const ConfigKey& key, const Field& /*field*/) {
    for (const char* name : {key.name, key.other_name}) {
      if (name != nullptr) {
        names_.emplace(name);
      }
    }
    if constexpr (requires { typename Field::value_type; }) {
      if constexpr (std::is_class_v<typename Field::value_type>) {
        const typename Field::value_type item{};
        visit_fields(*this, item);
      }
    }
  }

  /// In alphabetical order, separated by spaces.
  [[nodiscard]] std::string joined() const;

 private:
  std::set<std::string> names_;
};

/// The keys that a file of the class may have: those of `Configs`, and
/// `others`. In alphabetical order, separated by spaces.
template <typename... Configs>
[[nodiscard]] std::string keys_of(std::string_view others) {
  FieldKeys keys(others);
  const auto add = [&](const auto& config) { visit_fields(keys, config); };
  (add(Configs{}), ...);
  return keys.joined();
}

/// Initialises any member that is no aggregate, so that those of an aggregate
/// inside count as well.
struct AnyMember {
  template <typename Member>
  requires(!std::is_aggregate_v<Member>)
  // NOLINTNEXTLINE(google-explicit-constructor): only named, never called.
  operator Member() const;
};

template <typename Config, typename... Members>
[[nodiscard]] consteval std::size_t num_members() {
  if constexpr (requires { Config{Members{}..., AnyMember{}}; }) {
    return num_members<Config, Members..., AnyMember>();
  } else {
    return sizeof...(Members);
  }
}

struct FieldCount {
  constexpr void operator()(const ConfigKey& /*key*/, const auto& /*field*/) {
    ++count;
  }
  std::size_t count = 0;
};

/// Whether the list has as many fields as the configuration has members: a
/// forgotten one would give two networks one hash.
template <typename Config>
[[nodiscard]] consteval bool lists_all_members() {
  Config config{};  // GCC 12 makes no constant vector at compile time
  FieldCount fields;
  visit_fields(fields, config);
  return fields.count == num_members<Config>();
}

}  // namespace troupe::models
