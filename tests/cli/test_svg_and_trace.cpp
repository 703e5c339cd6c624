#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

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

TEST(SvgPlot, PutsValuesWhereTheyBelong) {
  const std::string svg = plot_svg({.title = "places",
                                    .subtitle = {},
                                    .legend = {"one"},
                                    .panels = {{.x_axis = "x",
                                                .y_axis = "y",
                                                .lines = {{1, 2, 3}},
                                                .at = {{0, 1, 4}},
                                                .num_scattered = 1,
                                                .labels = {{"", "<b>", ""}}}}});
  // The axis goes from 0 to 4 over 344 pixels, from 76 on.
  EXPECT_NE(svg.find("<circle cx='76.00'"), std::string::npos);
  EXPECT_NE(svg.find("<circle cx='162.00'"), std::string::npos);
  EXPECT_NE(svg.find("<circle cx='420.00'"), std::string::npos);
  EXPECT_EQ(count(svg, ">&lt;b&gt;</text>"), 1U);
  EXPECT_EQ(count(svg, "class='line'"), 0U);  // points alone
}

TEST(SvgPlot, RefusesNothingToDraw) {
  EXPECT_THROW((void)plot_svg({}), Error);
  EXPECT_THROW((void)plot_svg({.title = "x",
                               .subtitle = {},
                               .legend = {"one"},
                               .panels = {{"call", "a", true, {{0.0}}}}}),
               Error);
}

TEST(TimeLine, DrawsABarForEachPassOnItsLane) {
  const std::string svg = time_line_svg(
      "a & b", "by worker",
      {{"<one>", {{{.start = 0, .seconds = 2, .label = "step 0"}}}},
       {"two",
        {{{.start = 0, .seconds = 0.5}, {.start = 1, .seconds = 1}},
         {{.start = 0.5, .seconds = 0.5, .series = 1, .is_pale = true}}}}});
  EXPECT_EQ(count(svg, "a &amp; b"), 1U);
  EXPECT_EQ(count(svg, ">&lt;one&gt;</text>"), 1U);
  EXPECT_EQ(count(svg, "<title>step 0</title>"), 1U);
  EXPECT_EQ(count(svg, "</rect>"), 4U);
  // All lanes have one axis: two seconds are 396 pixels.
  EXPECT_EQ(count(svg, "<rect x='24.00' y='80.0' width='396.00'"), 1U);
  EXPECT_EQ(count(svg, "<rect x='222.00' y='114.0' width='198.00'"), 1U);
  EXPECT_EQ(count(svg, "<rect x='123.00' y='126.0' width='99.00'"), 1U);
  EXPECT_THROW((void)time_line_svg("x", "", {{"idle", {{}}}}), Error);
}

TEST(HeatMap, DrawsACellForEachSweepAndALineAtTheTolerance) {
  const std::string svg = heat_map_svg(
      "a & b", "sweeps", {{"<one>", {{2000, 1}, {}, {0}, {1.01, 0.5}}}});
  EXPECT_EQ(count(svg, "a &amp; b"), 1U);
  EXPECT_EQ(count(svg, ">&lt;one&gt;</text>"), 1U);
  EXPECT_EQ(count(svg, "</rect>"), 5U);
  // Four steps are 396 pixels.
  EXPECT_EQ(count(svg,
                  "<rect x='24.00' y='120' width='99.00' height='12' "
                  "fill='#2a0134'><title>step 0, sweep 1: 2e+03 × tolerance<"),
            1U);
  EXPECT_EQ(count(svg,
                  "y='132' width='99.00' height='12' fill='#addc30'>"
                  "<title>step 0, sweep 2: 1 × tolerance<"),
            1U);
  EXPECT_EQ(count(svg, "fill='#fde725'><title>step 2, sweep 1: 0 × tolerance<"),
            1U);
  EXPECT_EQ(
      count(svg, "fill='#21918c'><title>step 3, sweep 1: 1.01 × tolerance<"),
      1U);
  // Below the first cell, between steps 2 and 3, and below step 3's first.
  EXPECT_EQ(count(svg, "d='M24.00 132h99.00M321.00 120v12M321.00 132h99.00'"),
            1U)
      << svg;
  EXPECT_THROW((void)heat_map_svg("x", "", {}), Error);
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

using std::chrono::microseconds;

TracePass pass(int worker, int process, int start, int end) {
  TracePass made;
  made.span.worker = worker;
  made.span.process = process;
  made.span.start = TimePoint(microseconds(start));
  made.span.duration = microseconds(end - start);
  return made;
}

/// The events of the text that have this phase.
std::vector<nlohmann::json> events(const nlohmann::json& trace,
                                   const std::string& phase) {
  std::vector<nlohmann::json> found;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == phase) {
      found.push_back(event);
    }
  }
  return found;
}

/// What the metadata say: by process and worker (none: of the process), and by
/// kind.
std::map<std::tuple<int, int, std::string>, nlohmann::json> facts(
    const nlohmann::json& trace) {
  std::map<std::tuple<int, int, std::string>, nlohmann::json> found;
  for (const auto& event : events(trace, "M")) {
    found[{event["pid"].get<int>(), event.value("tid", -1),
           event["name"].get<std::string>()}] = event["args"].front();
  }
  return found;
}

nlohmann::json parsed(const TraceLog& log,
                      const std::vector<TraceProcess>& processes) {
  return nlohmann::json::parse(trace_json(log, processes, TimePoint{}));
}

TEST(TraceJson, HasABarPerSpan) {
  TraceLog log;
  TracePass one = pass(1, 0, 1500, 3500);
  one.span.op = samplers::Op::segment;
  one.span.sample_index = 7;
  one.span.rows = 2;
  log.add(one);
  const auto bars = events(parsed(log, {}), "X");
  ASSERT_EQ(bars.size(), 1U);
  EXPECT_EQ(bars[0]["name"], "segment");
  EXPECT_EQ(bars[0]["pid"], 1);
  EXPECT_EQ(bars[0]["tid"], 1);
  EXPECT_EQ(bars[0]["ts"], 1500.0);
  EXPECT_EQ(bars[0]["dur"], 2000.0);
  EXPECT_EQ(bars[0]["args"]["sample"], 7);
  EXPECT_EQ(bars[0]["args"]["rows"], 2);
}

TEST(TraceJson, HasAGroupPerProcessAndATrackPerWorkerInAStableOrder) {
  TraceLog log;
  TracePass on_gpu = pass(4, 1, 0, 1);
  on_gpu.span.device = {DeviceKind::cuda, 1};
  log.add(on_gpu);
  on_gpu.span.worker = 5;
  on_gpu.span.device.index = 0;
  log.add(on_gpu);
  log.add(pass(6, 2, 0, 1));
  log.add(pass(0, 0, 0, 1));
  const auto known = facts(parsed(log, {{0, "a:1"},
                                        {1, "b \"2\"\n", microseconds(120)},
                                        {2, "c:3", std::nullopt}}));
  EXPECT_EQ(known.at({1, -1, "process_name"}), "troupe a:1");
  EXPECT_EQ(known.at({2, -1, "process_name"}), "troupe b \"2\"\n");
  EXPECT_EQ(known.at({3, -1, "process_name"}), "troupe c:3");
  EXPECT_EQ(known.at({3, -1, "process_sort_index"}), 2);
  EXPECT_FALSE(known.contains({1, -1, "process_labels"}));
  EXPECT_EQ(known.at({2, -1, "process_labels"}), "clock ±0.120 ms");
  EXPECT_NE(
      known.at({3, -1, "process_labels"}).get<std::string>().find("not known"),
      std::string::npos);
  EXPECT_EQ(known.at({1, 0, "thread_name"}), "cpu, worker 0");
  EXPECT_EQ(known.at({2, 4, "thread_name"}), "cuda:1, worker 4");
  EXPECT_EQ(known.at({2, 5, "thread_name"}), "cuda:0, worker 5");
  EXPECT_EQ(known.at({3, 6, "thread_name"}), "cpu, worker 6");
  const std::pair<int, int> in_order[] = {{1, 0}, {2, 5}, {2, 4}, {3, 6}};
  for (int place = 0; place < 4; ++place) {
    const auto& [process, worker] = in_order[place];
    EXPECT_EQ(known.at({process, worker, "thread_sort_index"}), place);
  }
}

TEST(TraceJson, HasAnArrowPerValueThatMoved) {
  const ValueName name{7, 1, 12};
  TraceLog log;
  // Heard of in another order than it happened.
  TracePass reader = pass(1, 1, 30, 40);
  reader.reads = {{name, 4096}, {{7, 1, 99}, 1}};
  log.add(reader);
  TracePass neighbour = pass(2, 0, 50, 60);
  neighbour.reads = {{name, 4096}};
  log.add(neighbour);
  TracePass maker = pass(0, 0, 10, 20);
  maker.made = {{7, 1, 11}, name, {7, 2, 12}};
  log.add(maker);
  const auto trace = parsed(log, {});
  const auto begun = events(trace, "s");
  const auto ended = events(trace, "f");
  ASSERT_EQ(begun.size(), 1U) << "one has no maker, one did not move";
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(begun[0]["name"], "sample 7 slot 12");
  EXPECT_EQ(begun[0]["args"]["bytes"], 4096);
  EXPECT_EQ(begun[0]["args"]["run"], 1);
  for (const char* const same : {"id", "cat", "name"}) {
    EXPECT_EQ(begun[0][same], ended[0][same]);
  }
  EXPECT_EQ(ended[0]["bp"], "e");
  EXPECT_EQ(begun[0]["pid"], 1);
  EXPECT_EQ(begun[0]["tid"], 0);
  EXPECT_EQ(begun[0]["ts"], 19.999) << "in its bar";
  EXPECT_EQ(ended[0]["pid"], 2);
  EXPECT_EQ(ended[0]["tid"], 1);
  EXPECT_EQ(ended[0]["ts"], 30.0);
}

TEST(TraceJson, HasNoArrowBackInTime) {
  // By clocks that are wrong: the reader began before the maker was done, or
  // was done before that began.
  for (const auto& [start, end] : {std::pair{15, 40}, std::pair{5, 9}}) {
    TraceLog log;
    TracePass maker = pass(0, 0, 10, 20);
    maker.made = {{1, 0, 2}};
    log.add(maker);
    TracePass reader = pass(1, 1, start, end);
    reader.reads = {{{1, 0, 2}, 8}};
    log.add(reader);
    const auto trace = parsed(log, {});
    ASSERT_EQ(events(trace, "s").size(), 1U);
    const double from = events(trace, "s")[0]["ts"];
    const double to = events(trace, "f")[0]["ts"];
    EXPECT_LE(from, to);
    EXPECT_GE(to, start);
    EXPECT_LE(to, end);
  }
}

TEST(TraceLog, TakesTheNewestOfTwoMakersThatWasDone) {
  TraceLog log;
  for (const auto& [worker, end] :
       {std::pair{0, 10}, std::pair{1, 20}, std::pair{2, 90}}) {
    TracePass maker = pass(worker, worker, 0, end);
    maker.made = {{1, 0, 2}};
    log.add(maker);
  }
  TracePass reader = pass(3, 3, 50, 60);
  reader.reads = {{{1, 0, 2}, 8}};
  log.add(reader);
  const auto arrows = log.arrows();
  ASSERT_EQ(arrows.size(), 1U);
  EXPECT_EQ(arrows[0].from->worker, 1);
}

TEST(TraceLog, DrawsArrowsBetweenDevicesOfOneProcess) {
  TraceLog log;
  TracePass maker = pass(0, 0, 0, 10);
  maker.span.device = {DeviceKind::cuda, 0};
  maker.made = {{1, 0, 2}};
  log.add(maker);
  for (const int device : {0, 1}) {
    TracePass reader = pass(1 + device, 0, 20, 30);
    reader.span.device = {DeviceKind::cuda, device};
    reader.reads = {{{1, 0, 2}, 8}};
    log.add(reader);
  }
  ASSERT_EQ(log.arrows().size(), 1U);
  EXPECT_EQ(log.arrows()[0].to->device.index, 1);
}

TEST(TraceLog, DrawsNoBarOfAWorkerOverAnother) {
  TraceLog log;
  log.add(pass(0, 1, 0, 10));
  log.add(pass(0, 1, 8, 30));
  log.add(pass(0, 1, 12, 25));
  log.add(pass(1, 1, 8, 30));
  EXPECT_EQ(log.spans()[1].start, TimePoint(microseconds(10)));
  EXPECT_EQ(log.spans()[1].duration, microseconds(20));
  EXPECT_EQ(log.spans()[2].duration, microseconds(0));
  EXPECT_EQ(log.spans()[3].start, TimePoint(microseconds(8)));
}

TEST(TraceLog, DropsTheOldestAndCountsThem) {
  TraceLog log({.spans = 3, .made = 4, .reads = 2});
  for (int step = 0; step < 5; ++step) {
    TracePass one = pass(step % 2, step % 2, 10 * step, 10 * step + 5);
    one.span.step = step;
    const auto slot = static_cast<std::uint32_t>(step);
    one.made = {{1, 0, slot}};
    if (step > 0) {
      one.reads = {{{1, 0, slot - 1}, 8}};
    }
    log.add(one);
  }
  ASSERT_EQ(log.spans().size(), 3U);
  EXPECT_EQ(log.spans().front().step, 2);
  EXPECT_EQ(log.spans().back().step, 4);
  EXPECT_EQ(log.num_dropped(), 2U);
  EXPECT_EQ(log.num_reads(), 2U);
  EXPECT_EQ(log.num_dropped_reads(), 2U);
  const auto arrows = log.arrows();
  ASSERT_EQ(arrows.size(), 2U);
  EXPECT_EQ(arrows[0].from->step, 2);
  EXPECT_EQ(arrows[1].to->step, 4);
  // Whose maker was dropped has none.
  TraceLog shorter({.spans = 1, .made = 4, .reads = 2});
  TracePass maker = pass(0, 0, 0, 5);
  maker.made = {{1, 0, 2}};
  shorter.add(maker);
  TracePass reader = pass(1, 1, 10, 15);
  reader.reads = {{{1, 0, 2}, 8}};
  shorter.add(reader);
  EXPECT_TRUE(shorter.arrows().empty());
}

TEST(TraceLog, IsAsLargeAsTheMemoryPlanSays) {
  TraceLog log;
  for (std::uint32_t slot = 0; slot < 1000; ++slot) {
    TracePass one = pass(static_cast<int>(slot % 2), static_cast<int>(slot % 2),
                         1'000'000 + static_cast<int>(10 * slot),
                         1'000'005 + static_cast<int>(10 * slot));
    one.made = {{100'000, 3, slot}};
    if (slot > 0) {
      one.reads = {{{100'000, 3, slot - 1}, std::uint64_t{1} << 24U}};
    }
    log.add(one);
  }
  ASSERT_EQ(log.arrows().size(), 999U);
  const std::size_t size = trace_json(log, {}, TimePoint{}).size();
  EXPECT_LE(size, trace_bytes(1000, 999));
  EXPECT_GE(TraceLog::most_bytes(1000), 2.0 * static_cast<double>(size));
}

}  // namespace
}  // namespace troupe::actors
