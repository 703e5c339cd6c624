// What the READMEs of actors/wire and actors/cli say of adding a field or a
// message: a struct and its list are all that bytes, JSON and help need.
#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/artefacts/json_writer.h"
#include "actors/cli/json_rows.h"
#include "actors/wire/record_codec.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

/// A struct that no production code knows.
struct Applause {
  std::string from;
  int claps = 0;
  std::optional<double> loudness = {};
  bool is_standing = false;

  friend bool operator==(const Applause&, const Applause&) = default;
};

void visit_fields(auto& visit, AnyConst<Applause> auto& r) {
  visit({"from", "who claps"}, r.from);
  visit(at_most(100, {"claps", "how often"}), r.claps);
  visit(or_null({"loudness", "in phon; null: not measured"}), r.loudness);
  visit({"is_standing", "whether they stand"}, r.is_standing);
}

struct Evening {
  std::vector<Applause> applause;

  friend bool operator==(const Evening&, const Evening&) = default;
};

void visit_fields(auto& visit, AnyConst<Evening> auto& r) {
  visit({"applause", "in its order"}, r.applause);
}

Evening read(const std::string& bytes) {
  return wire::RecordReader::read<Evening>(std::as_bytes(std::span(bytes)), 8);
}

TEST(AddedRecord, TravelsByItsList) {
  const Evening sent{{{"stalls", 7, 62.5, true}, {"balcony", 0, {}, false}}};
  const std::string bytes = wire::RecordWriter::write(sent);
  EXPECT_EQ(read(bytes), sent);
  EXPECT_THROW((void)read(bytes.substr(0, bytes.size() - 1)), Error);
  EXPECT_THROW((void)read(bytes + bytes.front()), Error);
  EXPECT_THROW((void)read(wire::RecordWriter::write(Evening{{{"box", 101}}})),
               Error)
      << "more than the bound of its list";
}

TEST(AddedRecord, IsShownAndExplainedByItsList) {
  const auto shown = json_of(Evening{{{"stalls", 7}}});
  EXPECT_EQ(shown.dump(),
            R"({"applause":[{"from":"stalls","claps":7,"loudness":null,)"
            R"("is_standing":false}]})");
  std::vector<std::string> rows;
  for (const JsonField& row : json_rows_of<Evening>()) {
    rows.push_back(row.path + ": " + row.type + ", " +
                   std::string(row.meaning));
  }
  EXPECT_EQ(rows, (std::vector<std::string>{
                      "applause: array of objects, in its order",
                      "applause[].from: string, who claps",
                      "applause[].claps: integer, how often",
                      "applause[].loudness: number or null, in phon; null: "
                      "not measured",
                      "applause[].is_standing: boolean, whether they stand"}));
}

}  // namespace
}  // namespace troupe::actors
