#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/enum_names.h"
#include "config/method_plan.h"
#include "config/python_json.h"
#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/fields.h"
#include "samplers/options.h"

namespace troupe::config {

/// Bytes of a text that is read.
constexpr std::size_t kLongestText = 4096;

/// Reads fields out of a JSON object: a visitor of visit_schedule and its
/// siblings. `Reader` derives from it and has
///   const Json* find(const char* key);  // its value, or null: not there
///   void refuse(const char* key, const Json& value,
///               std::string_view expected);
/// and a `read` for each type of field that is not read here, or not so.
template <typename Reader, typename Json>
class FieldReader {
 public:
  template <typename T>
  void operator()(const FieldKey& key, T& out) {
    if (const Json* value = self().find(key.name)) {
      self().read(key.name, *value, out);
    }
  }
  template <typename T>
  void operator()(const FieldKey& key, std::optional<T>& out) {
    if (const Json* value = self().find(key.name)) {
      self().read(key.name, *value, out.emplace());
    }
  }

 protected:
  void expect(bool good, const char* key, const Json& value,
              std::string_view expected) {
    if (!good) {
      self().refuse(key, value, expected);
    }
  }
  std::size_t index_of(const char* key, const Json& value,
                       const std::vector<std::string>& names) {
    const auto found = std::ranges::find_if(
        names, [&value](const std::string& name) { return value == name; });
    expect(found != names.end(), key, value,
           "one of " + join_names(names, names.size()));
    return static_cast<std::size_t>(found - names.begin());
  }
  template <NamedEnum T>
  void read(const char* key, const Json& value, T& out) {
    out = static_cast<T>(index_of(key, value, names_of<T>()));
  }
  void read(const char* key, const Json& value, bool& out) {
    expect(value.is_boolean(), key, value, "true or false");
    out = value.template get<bool>();
  }
  void read(const char* key, const Json& value, double& out) {
    expect(value.is_number() && std::isfinite(value.template get<double>()),
           key, value, "a finite number");
    out = value.template get<double>();
  }
  void read(const char* key, const Json& value, int& out) {
    constexpr std::int64_t kLimit = 1'000'000;
    std::int64_t wide = 0;
    read(key, value, wide);
    expect(-kLimit <= wide && wide <= kLimit, key, value,
           "a whole number within a million of 0");
    out = static_cast<int>(wide);
  }
  void read(const char* key, const Json& value, std::int64_t& out) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    // JSON's numbers from 2⁶³ on would come out negative.
    expect(value.is_number_integer() &&
               (!value.is_number_unsigned() ||
                value.template get<std::uint64_t>() <= kMost),
           key, value, "a whole number below 2^63");
    out = value.template get<std::int64_t>();
  }
  void read(const char* key, const Json& value, std::uint64_t& out) {
    expect(value.is_number_unsigned(), key, value,
           "a whole number of at least 0");
    out = value.template get<std::uint64_t>();
  }
  void read(const char* key, const Json& value, std::string& out) {
    expect(value.is_string(), key, value, "a text");
    out = value.template get<std::string>();
    expect(out.size() <= kLongestText, key, value,
           "a text of at most 4096 bytes");
    // It will be printed on a terminal.
    for (const char c : out) {
      expect(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, key, value,
             "a text without control characters");
    }
  }
  void read(const char* key, const Json& value, samplers::Solver& out) {
    read_row(key, value, samplers::solver_table(), out);
  }
  void read(const char* key, const Json& value, samplers::MethodKind& out) {
    constexpr std::size_t kMany = 1000;
    const auto name =
        value.is_string() ? value.template get<std::string>() : "";
    const std::optional<samplers::MethodKind> kind = find_method(name);
    expect(kind.has_value(), key, value,
           "one of " + join_names(method_names(), kMany));
    out = *kind;
  }
  template <typename T>
  void read(const char* key, const Json& value, std::vector<T>& out) {
    constexpr std::size_t kLongest = 1'000'000;
    expect(value.is_array() && value.size() <= kLongest, key, value,
           "a list of numbers");
    out.clear();
    for (const Json& item : value) {
      self().read(key, item, out.emplace_back());
    }
  }

 private:
  template <typename Handle>
  void read_row(const char* key, const Json& value,
                std::span<const Handle> table, Handle& out) {
    std::vector<std::string> names;
    for (const Handle row : table) {
      names.emplace_back(row->name);
    }
    out = table[index_of(key, value, names)];
  }
  Reader& self() { return static_cast<Reader&>(*this); }
};

/// A FieldReader of one object of a file that Troupe writes. The reader keeps
/// the keys that callers asked for.
template <typename Reader, typename Json>
class ObjectReader : public FieldReader<Reader, Json> {
 protected:
  /// Errors name `place`, and have the hint. All three must outlive the reader.
  ObjectReader(const std::string& place, const Json& in, const char* hint)
      : place_(place), in_(in), hint_(hint) {}

  const Json* find(const char* key) {
    known_.emplace_back(key);
    const auto found = in_.find(key);
    return found == in_.end() ? nullptr : &*found;
  }
  [[noreturn]] void refuse(const char* key, const Json& value,
                           std::string_view expected) const {
    throw Error(Errc::corrupt_file, place_ + ": " + key,
                "got " + shown(value) + ", expected " + std::string(expected),
                hint_);
  }
  /// Keys of the object that nobody asked for.
  [[nodiscard]] std::vector<std::string> unknown_keys() const {
    std::vector<std::string> unknown;
    for (const auto& item : in_.items()) {
      if (std::ranges::find(known_, item.key()) == known_.end()) {
        unknown.push_back(item.key());
      }
    }
    return unknown;
  }

  const std::string& place_;
  const Json& in_;
  std::vector<std::string> known_;

 private:
  const char* hint_;
};

}  // namespace troupe::config
