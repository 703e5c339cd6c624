#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/enum_names.h"
#include "config/suggest.h"

namespace troupe::config {

/// Reads fields out of a JSON object: a visitor of visit_schedule and its
/// siblings, for a file and for a recipe. `Reader` derives from it and has
///   const Json* find(const char* key);  // its value, or null: not there
///   void refuse(const char* key, const Json& value,
///               std::string_view expected);
/// and a `read` for each type of field that is not read here.
template <typename Reader, typename Json>
class FieldReader {
 public:
  template <typename T>
  void operator()(const char* key, T& out) {
    if (const Json* value = self().find(key)) {
      self().read(key, *value, out);
    }
  }
  template <typename T>
  void operator()(const char* key, std::optional<T>& out) {
    if (const Json* value = self().find(key)) {
      self().read(key, *value, out.emplace());
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
  Reader& self() { return static_cast<Reader&>(*this); }
};

}  // namespace troupe::config
