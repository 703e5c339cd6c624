#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/method_figures.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

MethodFigures some_figures() {
  MethodFigures figures{.version = "0.1.0",
                        .sources = "0f1e2d3c4b5a6978",
                        .date = "2026-11-29",
                        .model = "demo \"ä\"",
                        .weights_xxh3 = "0123456789abcdef",
                        .methods = {}};
  MethodFigure figure{.sampler = "ddim",
                      .steps = 20,
                      .dtype = "bf16",
                      .guidance = 1.2,
                      .size = "32x48",
                      .method = {},
                      .rounds = 11.5,
                      .nfe = 31,
                      .relative_rmse_median = 0.0131,
                      .relative_rmse_worst = 0.3,
                      .runs = 8};
  figure.method.kind = samplers::MethodKind::picard;
  figure.method.window_size = 4;
  figure.method.tolerance = 0.03;
  figure.method.accept = samplers::Accept::settled;
  figures.methods.push_back(figure);
  figure.method.kind = samplers::MethodKind::stale;
  figure.method.ages = {1, 2};
  figure.method.segment_speeds = {1, 2.5, 1};
  figures.methods.push_back(figure);
  return figures;
}

TEST(MethodFigures, ComeBackAsTheyWereWritten) {
  const MethodFigures figures = some_figures();
  const std::string text = to_json(figures);
  const MethodFigures read = parse_method_figures("methods.json", text);
  EXPECT_EQ(to_json(read), text);
  EXPECT_EQ(read.model, figures.model);
  ASSERT_EQ(read.methods.size(), 2U);
  EXPECT_EQ(read.methods[0].method.kind, samplers::MethodKind::picard);
  EXPECT_EQ(read.methods[0].method.tolerance, 0.03);
  EXPECT_EQ(read.methods[0].method.accept, samplers::Accept::settled);
  EXPECT_EQ(read.methods[0].rounds, 11.5);
  EXPECT_EQ(read.methods[1].method.ages, (std::vector{1, 2}));
  EXPECT_EQ(read.methods[1].method.segment_speeds,
            (std::vector<double>{1, 2.5, 1}));
}

TEST(MethodFigures, BadFilesAreRefusedByPlaceAndKey) {
  const auto good = nlohmann::json::parse(to_json(some_figures()));
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      (void)parse_method_figures("m.json", text);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::corrupt_file);
      return error.place() + ": " + error.message();
    }
  };
  const auto changed = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json bad = good;
    bad[nlohmann::json::json_pointer(pointer)] = value;
    return refusal(bad.dump());
  };
  EXPECT_EQ(refusal("{"), "m.json: the file is not JSON");
  EXPECT_EQ(refusal("[1]"), "m.json: got [1], expected an object");
  EXPECT_EQ(changed("/schema", 2), "m.json: schema: got 2, expected 1");
  EXPECT_EQ(changed("/methods/1/steps", 0),
            "m.json: methods[1]: steps: got 0, expected at least 1");
  EXPECT_EQ(changed("/methods/0/nfe", "31"),
            "m.json: methods[0]: nfe: got \"31\", expected a finite number");
  EXPECT_EQ(changed("/methods/0/relative_rmse_worst", 0.001),
            "m.json: methods[0]: relative_rmse_worst: got 0.001, expected at "
            "least relative_rmse_median");
  EXPECT_NE(changed("/methods/0/method/kind", "picrad")
                .find("methods[0]: method: kind: got \"picrad\""),
            std::string::npos);
  EXPECT_NE(changed("/methods/0/method", 7).find("expected an object"),
            std::string::npos);
  EXPECT_NE(changed("/methods/0/size", "big").find("such as 512x384"),
            std::string::npos);
  EXPECT_NE(changed("/weights_xxh3", "x").find("16 hexadecimal digits"),
            std::string::npos);
  EXPECT_NE(
      changed("/methods", nlohmann::json::array()).find("expected a list"),
      std::string::npos);
  nlohmann::json bad = good;
  bad["methods"][0].erase("rounds");
  EXPECT_EQ(refusal(bad.dump()), "m.json: methods[0]: rounds: is missing");
  // A file of another version may have options that this one has not.
  bad = good;
  bad["methods"][0]["method"].erase("anchor");
  bad["methods"][0]["method"]["later"] = 1;
  EXPECT_EQ(refusal(bad.dump()), "");
}

}  // namespace
}  // namespace troupe::config
