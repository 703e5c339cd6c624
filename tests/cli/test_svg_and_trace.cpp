#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "actors/artefacts/svg_plot.h"
#include "actors/artefacts/trace_writer.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

TEST(SvgPlot, EscapesTextAndSkipsWhatALogScaleCannotShow) {
  const std::vector<double> values = {10.0, 1.0, 0.0,
                                      std::numeric_limits<double>::infinity()};
  const std::vector<PlotSeries> series = {{"a<b", values, true}};
  const std::string svg = plot_svg("x & \"y\"", series);
  EXPECT_NE(svg.find("x &amp; &quot;y&quot;"), std::string::npos);
  EXPECT_NE(svg.find("a&lt;b (log scale)"), std::string::npos);
  std::size_t circles = 0;
  for (std::size_t at = svg.find("<circle"); at != std::string::npos;
       at = svg.find("<circle", at + 1)) {
    ++circles;
  }
  EXPECT_EQ(circles, 2U);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(SvgPlot, RefusesNothingToDraw) {
  EXPECT_THROW((void)plot_svg("x", {}), Error);
  const std::vector<double> zero = {0.0};
  const std::vector<PlotSeries> series = {{"a", zero, true}};
  EXPECT_THROW((void)plot_svg("x", series), Error);
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
  const std::vector<TraceSpan> spans = {span};
  const auto json = nlohmann::json::parse(trace_json(spans, start));
  const auto& events = json["traceEvents"];
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[1]["args"]["name"], "worker 1");
  EXPECT_EQ(events[2]["name"], "segment");
  EXPECT_EQ(events[2]["ts"], 1500.0);
  EXPECT_EQ(events[2]["dur"], 2000.0);
  EXPECT_EQ(events[2]["args"]["sample"], 7);
}

}  // namespace
}  // namespace troupe::actors
