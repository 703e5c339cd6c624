#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "config/enum_names.h"
#include "config/python_json.h"
#include "config/recipe.h"
#include "config/recipe_fields.h"
#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/log.h"
#include "kernels/core/text.h"

namespace troupe::config {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxBytes = std::size_t{1} << 20U;
constexpr const char* kHint =
    "the recipe is not as troupe wrote it: use the image as it was made";

/// Reads one object of a recipe key by key, and keeps the keys it was asked
/// for.
class JsonReader {
 public:
  /// `name`: what the object's keys are shown with, "schedule.".
  JsonReader(const std::string& place, const json& in, std::string name = {})
      : place_(place), in_(in), name_(std::move(name)) {}

  template <typename T>
  void operator()(const char* key, T& value) {
    known_.emplace_back(key);
    const auto found = in_.find(key);
    if (found != in_.end()) {
      read(place_ + ": " + key, *found, value);
    }
  }
  template <typename T>
  void operator()(const char* key, std::optional<T>& value) {
    T inner{};
    (*this)(key, inner);
    if (in_.contains(key)) {
      value = inner;
    }
  }

  /// The object under a key.
  JsonReader section(const char* key) {
    known_.emplace_back(key);
    const auto found = in_.find(key);
    if (found == in_.end() || !found->is_object()) {
      throw Error(Errc::corrupt_file, place_,
                  std::string("the recipe has no section '") + key + "'",
                  "was the image made by troupe?");
    }
    return {place_, *found, std::string(key) + "."};
  }

  /// A key that nobody asked for would be dropped, and another image come out:
  /// a mistake, unless a newer version wrote it.
  void check_keys(bool by_newer) const {
    std::vector<std::string> unknown;
    for (const auto& item : in_.items()) {
      if (std::ranges::find(known_, item.key()) != known_.end()) {
        continue;
      }
      unknown.push_back(shown(json(name_ + item.key())));
      if (!by_newer) {
        throw Error(Errc::corrupt_file, place_,
                    "the recipe has the unknown key " + unknown.back(),
                    suggestion(item.key(), known_, kHint));
      }
    }
    if (!unknown.empty()) {
      constexpr std::size_t kShown = 4;
      log_message(LogLevel::warning,
                  place_ +
                      ": a newer troupe wrote the recipe; ignored, because "
                      "unknown here: " +
                      join_names(unknown, kShown));
    }
  }

 private:
  [[noreturn]] static void fail(const std::string& at, const json& got,
                                const std::string& expected) {
    throw Error(Errc::corrupt_file, at,
                "got " + shown(got) + ", expected " + expected, kHint);
  }

  static void expect(bool good, const std::string& at, const json& got,
                     std::string_view expected) {
    if (!good) {
      fail(at, got, std::string(expected));
    }
  }

  template <NamedEnum T>
  static void read(const std::string& at, const json& in, T& value) {
    if (!in.is_string()) {
      fail(at, in, "one of " + join_names(names_of<T>()));
    }
    try {
      value = parse_enum<T>(at, in.get_ref<const std::string&>());
    } catch (const Error& error) {
      throw Error(Errc::corrupt_file, at, error.message(),
                  error.hint().empty() ? kHint : error.hint());
    }
  }
  template <typename Handle>
  static void read_name(const std::string& at, const json& in,
                        std::span<const Handle> table, Handle& value) {
    std::vector<std::string> names;
    for (const Handle row : table) {
      if (in == row->name) {
        value = row;
        return;
      }
      names.emplace_back(row->name);
    }
    fail(at, in, "one of " + join_names(names));
  }
  static void read(const std::string& at, const json& in,
                   samplers::Solver& value) {
    read_name(at, in, samplers::solver_table(), value);
  }
  static void read(const std::string& at, const json& in,
                   samplers::MethodKind& value) {
    read_name(at, in, samplers::method_table(), value);
  }
  static void read(const std::string& at, const json& in, int& value) {
    constexpr std::int64_t kLimit = 1'000'000;
    std::int64_t wide = 0;
    read(at, in, wide);
    expect(-kLimit <= wide && wide <= kLimit, at, in,
           "a whole number within a million of 0");
    value = static_cast<int>(wide);
  }
  static void read(const std::string& at, const json& in, std::int64_t& value) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    // JSON's numbers from 2⁶³ on would come out negative.
    expect(in.is_number_integer() &&
               (!in.is_number_unsigned() || in.get<std::uint64_t>() <= kMost),
           at, in, "a whole number below 2^63");
    value = in.get<std::int64_t>();
  }
  static void read(const std::string& at, const json& in,
                   std::uint64_t& value) {
    expect(in.is_number_unsigned(), at, in, "a whole number of at least 0");
    value = in.get<std::uint64_t>();
  }
  static void read(const std::string& at, const json& in, double& value) {
    expect(in.is_number() && std::isfinite(in.get<double>()), at, in,
           "a finite number");
    value = in.get<double>();
  }
  static void read(const std::string& at, const json& in, bool& value) {
    expect(in.is_boolean(), at, in, "true or false");
    value = in.get<bool>();
  }
  static void read(const std::string& at, const json& in, std::string& value) {
    expect(in.is_string(), at, in, "a text");
    value = in.get<std::string>();
    expect(value.size() <= kLongestRecipeText, at, in,
           "a text of at most 4096 bytes");
    // It will be printed on a terminal.
    for (const char c : value) {
      expect(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, at, in,
             "a text without control characters");
    }
  }
  template <typename T>
  static void read(const std::string& at, const json& in,
                   std::vector<T>& values) {
    expect(in.is_array(), at, in, "a list");
    values.clear();
    for (const json& item : in) {
      T value{};
      read(at, item, value);
      values.push_back(value);
    }
  }

  const std::string& place_;
  const json& in_;
  std::string name_;
  std::vector<std::string> known_;
};

/// "0.10.2" after "0.9": numbers compare as numbers; what is no version is not
/// newer than anything.
bool is_newer(std::string_view version, std::string_view than) {
  const auto next = [](std::string_view& text) {
    int number = -1;
    const char* end = text.data() + text.size();
    const char* rest = std::from_chars(text.data(), end, number).ptr;
    text = rest == end ? std::string_view() : std::string_view(rest + 1, end);
    return number;
  };
  while (!version.empty() && !than.empty()) {
    const int a = next(version);
    const int b = next(than);
    if (a != b) {
      return a > b;
    }
  }
  return than.empty() && !version.empty() && next(version) > 0;
}

json parse_bounded(const std::string& place, std::string_view text) {
  require(text.size() <= kMaxBytes, Errc::corrupt_file, place,
          "the recipe is longer than 1 MiB", kHint);
  check_objects(text, place, Errc::corrupt_file);
  try {
    json document = json::parse(text);
    require(document.is_object(), Errc::corrupt_file, place,
            "the recipe is not a JSON object", kHint);
    return document;
  } catch (const json::exception&) {
    throw Error(Errc::corrupt_file, place, "the recipe is not JSON", kHint);
  }
}

}  // namespace

Recipe parse_recipe(const std::string& place, std::string_view text) {
  const json document = parse_bounded(place, text);
  Recipe recipe;
  JsonReader top(place, document);
  int schema = 0;
  top("schema", schema);
  if (schema != kRecipeSchema) {
    throw Error(Errc::corrupt_file, place + ": schema",
                "a recipe of another kind: got " + std::to_string(schema) +
                    ", expected " + std::to_string(kRecipeSchema),
                "was it made by a newer troupe?");
  }
  JsonReader schedule = top.section("schedule");
  JsonReader method = top.section("method");
  visit_recipe(top, recipe);
  visit_schedule(schedule, recipe.schedule);
  visit_method(method, recipe.method);
  const bool by_newer = is_newer(recipe.version, TROUPE_VERSION);
  for (const JsonReader* reader : {&top, &schedule, &method}) {
    reader->check_keys(by_newer);
  }
  return recipe;
}

}  // namespace troupe::config
