#include "config/method_figures.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <type_traits>

#include "config/field_reader.h"
#include "config/parse_value.h"
#include "config/python_json.h"
#include "kernels/core/error.h"
#include "kernels/core/system/atomic_file.h"
#include "samplers/option_fields.h"

namespace troupe::config {
namespace {

constexpr std::size_t kMostFigureBytes = std::size_t{4} << 20U;
constexpr const char* kMeasureAgain =
    "make the file again: troupe bench methods --calibrate";

class FigureWriter {
 public:
  explicit FigureWriter(nlohmann::ordered_json& to) : to_(to) {}

  template <typename T>
  void operator()(const char* key, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      to_[key] = name_of(value);
    } else if constexpr (std::is_same_v<T, samplers::MethodKind>) {
      to_[key] = value->name;
    } else {
      to_[key] = value;
    }
  }

 private:
  nlohmann::ordered_json& to_;
};

/// Reads one object of the file. A key that is not there is refused, unless
/// `may_lack` says that defaults count: another version has other options.
class FigureReader : public FieldReader<FigureReader, nlohmann::json> {
 public:
  using Json = nlohmann::json;
  FigureReader(std::string place, const Json& in, bool may_lack = false)
      : place_(std::move(place)), in_(in), may_lack_(may_lack) {
    require(in.is_object(), Errc::corrupt_file, place_,
            "got " + shown(in) + ", expected an object", kMeasureAgain);
  }

  const Json* find(const char* key) const {
    const auto found = in_.find(key);
    require(found != in_.end() || may_lack_, Errc::corrupt_file,
            place_ + ": " + key, "is missing", kMeasureAgain);
    return found == in_.end() ? nullptr : &*found;
  }
  [[noreturn]] void refuse(const char* key, const Json& value,
                           std::string_view expected) const {
    throw Error(Errc::corrupt_file, place_ + ": " + key,
                "got " + shown(value) + ", expected " + std::string(expected),
                kMeasureAgain);
  }
  void check(bool good, const char* key, std::string_view expected) const {
    if (!good) {
      refuse(key, in_.at(key), expected);
    }
  }

 private:
  friend FieldReader;
  using FieldReader::read;

  void read(const char* key, const Json& in, int& value) {
    constexpr std::int64_t kLimit = 1'000'000;
    expect(in.is_number_integer() && in <= kLimit && in >= -kLimit, key, in,
           "a whole number within a million of 0");
    value = in.get<int>();
  }
  void read(const char* key, const Json& in, std::string& value) {
    constexpr std::size_t kLongest = 4096;
    expect(in.is_string() && in.get_ref<const std::string&>().size() < kLongest,
           key, in, "a text of at most 4096 bytes");
    value = in.get<std::string>();
  }
  void read(const char* key, const Json& in, samplers::MethodKind& value) {
    std::vector<std::string> names;
    for (const samplers::MethodKind kind : samplers::method_table()) {
      names.emplace_back(kind->name);
    }
    value = samplers::method_table()[index_of(key, in, names)];
  }

  std::string place_;
  const Json& in_;
  bool may_lack_;
};

MethodFigure read_figure(const std::string& place, const nlohmann::json& in) {
  MethodFigure figure;
  FigureReader reader(place, in);
  visit_figure(reader, figure);
  reader.check(figure.steps >= 1, "steps", "at least 1");
  reader.check(figure.rounds >= 1, "rounds", "at least 1");
  reader.check(figure.nfe >= 1, "nfe", "at least 1");
  reader.check(figure.runs >= 1, "runs", "at least 1");
  reader.check(figure.relative_rmse_median >= 0, "relative_rmse_median",
               "at least 0");
  reader.check(figure.relative_rmse_worst >= figure.relative_rmse_median,
               "relative_rmse_worst", "at least relative_rmse_median");
  try {
    (void)parse_size(place, figure.size);
  } catch (const Error&) {
    reader.check(false, "size", "width and height, such as 512x384");
  }
  FigureReader method(place + ": method", *reader.find("method"), true);
  samplers::visit_method(method, figure.method);
  return figure;
}

}  // namespace

std::string to_json(const MethodFigures& figures) {
  nlohmann::ordered_json head;
  head["schema"] = kFiguresSchema;
  FigureWriter writer(head);
  visit_figures(writer, figures);
  const auto text = [](const nlohmann::ordered_json& json) {
    return json.dump(-1, ' ', false,
                     nlohmann::ordered_json::error_handler_t::replace);
  };
  std::string out = text(head);
  out.back() = ',';
  out += "\n\"methods\":[";
  for (const MethodFigure& figure : figures.methods) {
    nlohmann::ordered_json line;
    FigureWriter fields(line);
    visit_figure(fields, figure);
    FigureWriter options(line["method"]);
    samplers::visit_method(options, figure.method);
    out += (out.back() == '[' ? "\n" : ",\n") + text(line);
  }
  return out + "]}\n";
}

MethodFigures parse_method_figures(const std::string& place,
                                   std::string_view text) {
  check_objects(text, place, Errc::corrupt_file);
  const auto document = nlohmann::json::parse(text, nullptr, false);
  require(!document.is_discarded(), Errc::corrupt_file, place,
          "the file is not JSON", kMeasureAgain);
  FigureReader top(place, document);
  int schema = 0;
  top("schema", schema);
  top.check(schema == kFiguresSchema, "schema", "1");
  MethodFigures figures;
  visit_figures(top, figures);
  top.check(figures.weights_xxh3.size() == 16 &&
                figures.weights_xxh3.find_first_not_of("0123456789abcdef") ==
                    std::string::npos,
            "weights_xxh3", "16 hexadecimal digits");
  const nlohmann::json& methods = *top.find("methods");
  top.check(methods.is_array() && !methods.empty(), "methods",
            "a list with an entry for each setting");
  for (std::size_t i = 0; i < methods.size(); ++i) {
    figures.methods.push_back(read_figure(
        place + ": methods[" + std::to_string(i) + "]", methods[i]));
  }
  return figures;
}

MethodFigures read_method_figures(const std::filesystem::path& path) {
  return parse_method_figures(path.string(), read_file(path, kMostFigureBytes));
}

}  // namespace troupe::config
