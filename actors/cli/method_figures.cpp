#include "actors/cli/method_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "actors/artefacts/json_writer.h"
#include "config/field_reader.h"
#include "config/parse_value.h"
#include "config/python_json.h"
#include "kernels/core/error.h"
#include "kernels/core/system/atomic_file.h"

namespace troupe::actors {
namespace {

using nlohmann::json;

constexpr std::size_t kMostTableBytes = std::size_t{4} << 20U;
constexpr const char* kTableHint =
    "make it anew with troupe bench methods --calibrate";

/// Reads one object, whose every key it knows.
class FigureReader : public config::ObjectReader<FigureReader, json> {
 public:
  FigureReader(const std::string& place, const json& in)
      : ObjectReader(place, in, kTableHint) {}

  void check_keys() const {
    for (const std::string& key : unknown_keys()) {
      throw Error(Errc::corrupt_file, place_,
                  "the unknown key " + config::shown(json(key)), kTableHint);
    }
  }

 private:
  friend FieldReader;
  using FieldReader::read;

  void read(const char* key, const json& in, samplers::SigmaRange& out) {
    expect(in.is_string(), key, in, "a text");
    out = config::parse_sigma_range(place_ + ": " + key, in.get<std::string>())
              .value();
  }
  // A template of the same parameters would hide FieldReader::read from
  // Clang 14.
  template <typename Key, HasFields T>
  void read(Key key, const json& in, T& out) {
    expect(in.is_object(), key, in, "an object");
    FigureReader part(place_, in);
    visit_fields(part, out);
    part.check_keys();
  }
};

bool is_figure(const MethodFigure& figure) {
  return figure.rounds > 0 && figure.nfe >= figure.rounds &&
         figure.relative_rmse_median >= 0 &&
         figure.relative_rmse_worst >= figure.relative_rmse_median &&
         std::isfinite(figure.relative_rmse_worst);
}

}  // namespace

std::string to_string(const FigureSetting& setting) {
  return fmt::format("{}, {} steps, {}, guidance {:g}, {}", setting.sampler,
                     setting.steps, setting.dtype, setting.guidance.scale,
                     setting.size);
}

bool is_same(const samplers::MethodOptions& a,
             const samplers::MethodOptions& b) {
  return json_of(FigureMethod{a}) == json_of(FigureMethod{b});
}

MethodFigures read_method_figures(const std::filesystem::path& path) {
  const std::string place = path.string();
  const std::string text = read_file(path, kMostTableBytes);
  const bool is_json = config::check_objects(text, place, Errc::corrupt_file);
  const json document = is_json ? json::parse(text, nullptr, false) : json();
  require(document.is_object() && document.contains("weights_xxh3") &&
              document.contains("methods"),
          Errc::corrupt_file, place,
          "not a table of troupe bench methods --calibrate", kTableHint);
  MethodFigures file;
  FigureReader reader(place, document);
  visit_fields(reader, file);
  require(
      file.schema == MethodFigures().schema, Errc::corrupt_file,
      place + ": schema",
      fmt::format("got {}, expected {}", file.schema, MethodFigures().schema),
      "was it made by a newer troupe?");
  reader.check_keys();
  require(std::ranges::all_of(file.methods, is_figure), Errc::corrupt_file,
          place, "figures that no run has", kTableHint);
  return file;
}

void merge(const std::vector<MethodFigure>& newer, MethodFigures& file) {
  std::erase_if(file.methods, [&](const MethodFigure& old) {
    return std::ranges::any_of(newer, [&](const MethodFigure& one) {
      return one.setting == old.setting &&
             (one.name == old.name ||
              is_same(one.method.options, old.method.options));
    });
  });
  file.methods.insert(file.methods.end(), newer.begin(), newer.end());
}

}  // namespace troupe::actors
