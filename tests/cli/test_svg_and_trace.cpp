#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "actors/artefacts/plot_ticks.h"
#include "actors/artefacts/svg_plot.h"
#include "actors/artefacts/trace_writer.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

TEST(SvgPlot, EscapesTextAndSkipsWhatALogScaleCannotShow) {
  const std::vector<double> values = {10.0, 1.0, 0.0,
                                      std::numeric_limits<double>::infinity()};
  const std::string svg =
      plot_svg({.title = "x & \"y\"",
                .subtitle = "it's",
                .legend = {"one"},
                .panels = {{"call", "a<b", true, {values}}}});
  EXPECT_NE(svg.find("x &amp; &quot;y&quot;"), std::string::npos);
  EXPECT_NE(svg.find("it&#39;s"), std::string::npos);
  EXPECT_NE(svg.find("a&lt;b (log scale)"), std::string::npos);
  EXPECT_EQ(count(svg, "<circle"), 2U);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_EQ(svg.find(">one<"), std::string::npos);  // alone: the title says it
}

TEST(SvgPlot, DrawsALinePerSeriesAndNamesItOnce) {
  const std::string svg =
      plot_svg({.title = "two",
                .subtitle = {},
                .legend = {"short", "long"},
                .panels = {{"call", "a", false, {{1, 2}, {1, 2, 3}}},
                           {"call", "b", false, {{4, 5}, {4, 5, 6}}}}});
  EXPECT_EQ(count(svg, "class='line'"), 2U * 2U + 2U);  // and the legend's
  EXPECT_EQ(count(svg, ">short<"), 1U);
  EXPECT_EQ(count(svg, ">long<"), 1U);
  EXPECT_EQ(count(svg, "<circle"), 10U);
}

TEST(SvgPlot, RefusesNothingToDraw) {
  EXPECT_THROW((void)plot_svg({}), Error);
  EXPECT_THROW((void)plot_svg({.title = "x",
                               .subtitle = {},
                               .legend = {"one"},
                               .panels = {{"call", "a", true, {{0.0}}}}}),
               Error);
}

TEST(PlotTicks, AreRoundAndCoverTheData) {
  using Ticks = std::vector<double>;
  EXPECT_EQ(linear_axis(0, 49, true).ticks, (Ticks{0, 10, 20, 30, 40, 50}));
  EXPECT_EQ(linear_axis(0, 999).ticks, (Ticks{0, 200, 400, 600, 800, 1000}));
  EXPECT_EQ(linear_axis(0, 3, true).ticks, (Ticks{0, 1, 2, 3}));
  EXPECT_EQ(linear_axis(-10.12, 9.21).ticks, (Ticks{-15, -10, -5, 0, 5, 10}));
  EXPECT_EQ(linear_axis(0, 0, true).ticks, (Ticks{0, 1}));
  EXPECT_EQ(logarithmic_axis(0.01, 157.4).ticks,
            (Ticks{0.01, 0.1, 1, 10, 100, 1000}));
  EXPECT_EQ(logarithmic_axis(0.3, 14.6).ticks,
            (Ticks{0.2, 0.5, 1, 2, 5, 10, 20}));
  EXPECT_EQ(logarithmic_axis(10, 11).ticks.front(), 10);
  EXPECT_LE(logarithmic_axis(1e-20, 1e9).ticks.size(), 11U);
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{
           {0.017, 0.043}, {3, 3}, {1e-9, 1e-9}, {999, 1001}, {2, 700}}) {
    for (const Axis& axis :
         {linear_axis(low, high), logarithmic_axis(low, high)}) {
      EXPECT_LE(axis.low, low * (1 + 1e-6));
      EXPECT_GE(axis.high, high * (1 - 1e-6));
      EXPECT_LT(axis.low, axis.high);
      EXPECT_GE(axis.ticks.size(), 2U);
      EXPECT_LE(axis.ticks.size(), 12U);
    }
  }
}

TEST(TraceJson, HasATrackPerWorkerAndABarPerSpan) {
  const TimePoint start{};
  TraceSpan span;
  span.worker = 1;
  span.op = samplers::Op::segment;
  span.sample_index = 7;
  span.rows = 2;
  span.start = start + std::chrono::microseconds(1500);
  span.duration = std::chrono::milliseconds(2);
  const std::deque<TraceSpan> spans = {span};
  const auto json = nlohmann::json::parse(trace_json(spans, start));
  const auto& events = json["traceEvents"];
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[1]["args"]["name"], "worker 1");
  EXPECT_EQ(events[2]["name"], "segment");
  EXPECT_EQ(events[2]["ts"], 1500.0);
  EXPECT_EQ(events[2]["dur"], 2000.0);
  EXPECT_EQ(events[2]["args"]["sample"], 7);
}

TEST(SpanLog, DropsTheOldestAndCountsThem) {
  SpanLog log(3);
  for (int step = 0; step < 5; ++step) {
    TraceSpan span;
    span.step = step;
    log.add(span);
  }
  ASSERT_EQ(log.spans().size(), 3U);
  EXPECT_EQ(log.spans().front().step, 2);
  EXPECT_EQ(log.spans().back().step, 4);
  EXPECT_EQ(log.num_dropped(), 2U);
}

}  // namespace
}  // namespace troupe::actors
