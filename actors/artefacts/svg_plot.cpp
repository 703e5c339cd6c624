#include "actors/artefacts/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

/// Room for rounding when a value lies on a tick.
constexpr double kSlack = 1e-9;

double round_step(double span, bool whole) {
  const double rough = span / 6;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (rough <= factor * power * (1 + kSlack)) {
      step = factor * power;
    }
  }
  return whole ? std::max(step, 1.0) : step;
}

/// 1, 2 and 5 times a power of ten, from the last at or below the data to the
/// first at or above it.
Axis within_few_decades(double low, double high, int first, int last) {
  std::vector<double> all;
  for (int exponent = first; exponent <= last; ++exponent) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      all.push_back(factor * std::pow(10.0, exponent));
    }
  }
  const auto begin = std::ranges::upper_bound(all, low * (1 + kSlack)) - 1;
  const auto end = std::ranges::lower_bound(all, high * (1 - kSlack)) + 1;
  Axis axis;
  axis.ticks.assign(begin, std::max(end, begin + 2));
  axis.low = axis.ticks.front();
  axis.high = axis.ticks.back();
  return axis;
}

/// Powers of ten; ten of them at most.
Axis over_many_decades(int first, int last) {
  constexpr int kMost = 10;
  const int every = (last - first + kMost) / kMost;
  Axis axis;
  axis.low = std::pow(10.0, first);
  axis.high = std::pow(10.0, last);
  for (int exponent = first; exponent <= last; exponent += every) {
    axis.ticks.push_back(std::pow(10.0, exponent));
  }
  return axis;
}

constexpr double kPanelWidth = 440;
constexpr double kPanelHeight = 320;
constexpr double kLeft = 76;
constexpr double kRight = 20;
constexpr double kAbove = 14;
constexpr double kBelow = 52;
constexpr double kTitleHeight = 58;
constexpr double kLegendLine = 20;
constexpr double kLetter = 7.2;  ///< mean width of a character at 12 pixels

/// Okabe & Ito 2008: told apart with any colour vision.
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                 "#e69f00", "#56b4e9", "#000000"};
constexpr std::array kDashes = {"none", "7 3", "2 3", "9 3 2 3"};

struct Point {
  double x;
  double y;
  std::string label = {};
};

/// Colour and dash of a series: 28 pairs before one comes again.
std::string stroke(std::size_t series) {
  return fmt::format("stroke='{}' stroke-dasharray='{}'",
                     kColours.at(series % kColours.size()),
                     kDashes.at(series / kColours.size() % kDashes.size()));
}

/// Those of a line that can be shown.
std::vector<Point> points_of(const PlotPanel& panel, std::size_t line) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < panel.lines[line].size(); ++i) {
    const double x =
        panel.at.empty() ? static_cast<double>(i) : panel.at.at(line).at(i);
    const double y = panel.lines[line][i];
    if (std::isfinite(x) && std::isfinite(y) && (!panel.logarithmic || y > 0)) {
      points.push_back(
          {x, y,
           panel.labels.empty() ? std::string() : panel.labels.at(line).at(i)});
    }
  }
  return points;
}

/// Values to pixels within one panel.
struct Frame {
  Axis x_axis;
  Axis y_axis;
  bool logarithmic;
  double left;
  double top;
  double right = left + kPanelWidth - kLeft - kRight;
  double bottom = top + kPanelHeight - kAbove - kBelow;

  [[nodiscard]] double x(double value) const {
    return left +
           (value - x_axis.low) / (x_axis.high - x_axis.low) * (right - left);
  }
  [[nodiscard]] double y(double value) const {
    const auto& [low, high, ticks] = y_axis;
    const double share = logarithmic
                             ? std::log(value / low) / std::log(high / low)
                             : (value - low) / (high - low);
    return bottom - share * (bottom - top);
  }
};

std::string axes(const Frame& frame, const PlotPanel& panel) {
  std::string svg;
  for (const double tick : frame.y_axis.ticks) {
    svg += fmt::format(
        "<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' class='grid'/>"
        "<text x='{:.1f}' y='{:.1f}' class='y'>{:g}</text>\n",
        frame.left, frame.y(tick), frame.right, frame.y(tick), frame.left - 6,
        frame.y(tick) + 4, tick);
  }
  for (const double tick : frame.x_axis.ticks) {
    svg += fmt::format(
        "<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' class='axis'/>"
        "<text x='{:.1f}' y='{:.1f}' class='x'>{:g}</text>\n",
        frame.x(tick), frame.bottom, frame.x(tick), frame.bottom + 4,
        frame.x(tick), frame.bottom + 18, tick);
  }
  const double middle = (frame.top + frame.bottom) / 2;
  const double y_name = frame.left - 56;
  return svg + fmt::format(
                   "<polyline points='{0:.1f},{1:.1f} {0:.1f},{2:.1f} "
                   "{3:.1f},{2:.1f}'"
                   " class='axis'/>\n"
                   "<text x='{4:.1f}' y='{5:.1f}' class='x name'>{6}</text>\n"
                   "<text x='{7:.1f}' y='{8:.1f}' class='x name' "
                   "transform='rotate(-90 {7:.1f} {8:.1f})'>{9}{10}</text>\n",
                   frame.left, frame.top, frame.bottom, frame.right,
                   (frame.left + frame.right) / 2, frame.bottom + 38,
                   xml_escaped(panel.x_axis), y_name, middle,
                   xml_escaped(panel.y_axis),
                   panel.logarithmic ? " (log scale)" : "");
}

/// `radius`: of the points.
std::string line(const Frame& frame, const std::vector<Point>& points,
                 std::size_t series, double radius, bool is_joined) {
  std::string path;
  std::string dots;
  for (const Point& point : points) {
    const double x = frame.x(point.x);
    const double y = frame.y(point.y);
    path += fmt::format("{:.2f},{:.2f} ", x, y);
    dots +=
        fmt::format("<circle cx='{:.2f}' cy='{:.2f}' r='{:g}'/>", x, y, radius);
    if (!point.label.empty()) {
      dots += fmt::format("<text x='{:.1f}' y='{:.1f}'>{}</text>", x + 6, y - 5,
                          xml_escaped(point.label));
    }
  }
  const std::string joined =
      is_joined ? fmt::format("<polyline points='{}' class='line' {}/>\n", path,
                              stroke(series))
                : std::string();
  return joined + fmt::format("<g fill='{}'>{}</g>\n",
                              kColours.at(series % kColours.size()), dots);
}

std::string draw_panel(const PlotPanel& panel, double origin, double top) {
  std::vector<std::vector<Point>> lines;
  std::vector<double> xs = {0};  // with the beginning
  std::vector<double> ys;
  for (std::size_t i = 0; i < panel.lines.size(); ++i) {
    lines.push_back(points_of(panel, i));
    for (const Point& point : lines.back()) {
      xs.push_back(point.x);
      ys.push_back(point.y);
    }
  }
  require(!ys.empty(), Errc::invalid_argument, "plot",
          "a series without points to draw");
  const bool has_places = !panel.at.empty();
  const auto [first, last] = std::ranges::minmax(xs);
  const auto [low, high] = std::ranges::minmax(ys);
  const Frame frame{.x_axis = linear_axis(first, last, !has_places),
                    .y_axis = panel.logarithmic ? logarithmic_axis(low, high)
                                                : linear_axis(low, high),
                    .logarithmic = panel.logarithmic,
                    .left = origin + kLeft,
                    .top = top + kAbove};
  std::string svg = axes(frame, panel);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    svg +=
        line(frame, lines[i], i, has_places ? 4 : 2, i >= panel.num_scattered);
  }
  return svg;
}

double width_of(const std::string& text) {
  const auto letters = std::ranges::count_if(text, [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  });
  return kLetter * static_cast<double>(letters);
}

/// The legend's entries in lines of `width` pixels, and where they end.
struct Legend {
  std::string svg;
  double bottom;
};

Legend draw_legend(const std::vector<std::string>& names, double width) {
  Legend legend{{}, kTitleHeight};
  if (names.size() < 2) {
    return legend;
  }
  constexpr double kSwatch = 34;
  double x = kLeft;
  legend.bottom += kLegendLine;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double room = kSwatch + width_of(names[i]) + 20;
    if (x > kLeft && x + room > width) {
      x = kLeft;
      legend.bottom += kLegendLine;
    }
    const double y = legend.bottom - 8;
    legend.svg += fmt::format(
        "<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' class='line' "
        "{}/>"
        "<text x='{:.1f}' y='{:.1f}'>{}</text>\n",
        x, y - 4, x + kSwatch - 6, y - 4, stroke(i), x + kSwatch, y,
        xml_escaped(names[i]));
    x += room;
  }
  return legend;
}

/// The beginning of a picture of this size. `left`: of the text.
std::string head(double width, double height, double left,
                 const std::string& title, const std::string& subtitle) {
  return fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0:.0f}' "
      "height='{1:.0f}' viewBox='0 0 {0:.0f} {1:.0f}'>\n"
      "<style>text{{font:12px sans-serif;fill:#333}}"
      ".title{{font-size:16px;font-weight:bold}}.y{{text-anchor:end}}"
      ".x{{text-anchor:middle}}.name{{fill:#111}}.grid{{stroke:#ddd}}"
      ".axis{{fill:none;stroke:#555}}"
      ".line{{fill:none;stroke-width:1.6}}</style>\n"
      "<rect width='100%' height='100%' fill='white'/>\n"
      "<text x='{2:.0f}' y='26' class='title'>{3}</text>\n"
      "<text x='{2:.0f}' y='46'>{4}</text>\n",
      width, height, left, xml_escaped(title), xml_escaped(subtitle));
}

constexpr double kLane = 12;
constexpr double kLaneName = 22;
constexpr double kLeftOfLanes = 24;
constexpr double kLanesWidth = kPanelWidth - kLeftOfLanes - kRight;

/// The axis below lanes, from 0 to `last`. `x`: pixels of its values.
template <typename X>
std::string axis_below(double top, double bottom, const std::string& name,
                       double last, bool whole, const X& x) {
  std::string svg;
  for (const double tick : linear_axis(0, last, whole).ticks) {
    if (tick <= last) {
      svg += fmt::format(
          "<line x1='{0:.1f}' y1='{1:.1f}' x2='{0:.1f}' y2='{2:.1f}' "
          "class='grid'/><text x='{0:.1f}' y='{3:.1f}' "
          "class='x'>{4:g}</text>\n",
          x(tick), top, bottom + 4, bottom + 18, tick);
    }
  }
  return svg +
         fmt::format("<text x='{:.1f}' y='{:.1f}' class='x name'>{}</text>\n",
                     x(last / 2), bottom + 38, xml_escaped(name));
}

/// The name above lanes that begin at `y`, and the number of a lane there.
std::string lanes_name(double y, const std::string& name) {
  return fmt::format("<text x='{:.0f}' y='{:.1f}'>{}</text>\n", kLeftOfLanes,
                     y - 5, xml_escaped(name));
}
std::string lane_number(double y, std::size_t lane) {
  return fmt::format("<text x='{:.0f}' y='{:.1f}' class='y'>{}</text>\n",
                     kLeftOfLanes - 5, y + 9, lane + 1);
}

/// After viridis, which is told apart with any colour vision, and in grey: half
/// a decade each, from below 0.1 to above 100. At 1 it jumps from light to
/// dark.
constexpr std::array kHeat = {"#fde725", "#d8e219", "#addc30", "#21918c",
                              "#31688e", "#414487", "#481a6c", "#2a0134"};

const char* shade_of(double value) {
  const double place = std::ceil(2 * std::log10(std::max(value, 1e-9))) + 2;
  return kHeat.at(
      static_cast<std::size_t>(std::clamp(place, 0.0, kHeat.size() - 1.0)));
}

std::string parting_line(const std::string& path) {
  return fmt::format("<path d='{}' fill='none' stroke='black'/>\n", path);
}

constexpr double kHeatLegend = 40;

std::string heat_legend(double top) {
  constexpr double kSwatch = 28;
  std::string svg;
  double x = kLeftOfLanes;
  for (std::size_t i = 0; i < kHeat.size(); ++i) {
    svg += fmt::format(
        "<rect x='{:.0f}' y='{:.0f}' width='{}' height='12' fill='{}'/>", x,
        top, kSwatch, kHeat.at(i));
    x += kSwatch;
    if (i % 2 == 0) {
      svg +=
          fmt::format("<text x='{:.0f}' y='{:.0f}' class='x'>{:g}</text>\n", x,
                      top + 27, std::pow(10, static_cast<double>(i) / 2 - 1));
    }
  }
  return svg +
         fmt::format(
             "<text x='{:.0f}' y='{:.0f}'>residual ÷ tolerance</text>\n", x + 8,
             top + 11) +
         parting_line(fmt::format("M{:.0f} {:.0f}v16",
                                  kLeftOfLanes + 3 * kSwatch, top - 2));
}

}  // namespace

Axis linear_axis(double low, double high, bool whole) {
  if (!(high > low)) {  // one value: room on both sides
    const double room = whole ? 1.0 : std::max(std::fabs(low) * 0.1, 1e-6);
    low -= whole && low < room ? 0 : room;
    high += room;
  }
  const double step = round_step(high - low, whole);
  const double first = std::floor(low / step + kSlack);
  const double last = std::ceil(high / step - kSlack);
  Axis axis;
  for (double i = first; i <= last; ++i) {
    axis.ticks.push_back(i == 0 ? 0 : i * step);  // no −0
  }
  axis.low = axis.ticks.front();
  axis.high = axis.ticks.back();
  return axis;
}

Axis logarithmic_axis(double low, double high) {
  const double decades = std::log10(high / low);
  if (decades < 0.5) {
    Axis axis = linear_axis(low, high);
    if (axis.low > 0) {
      return axis;
    }
  }
  const int first = static_cast<int>(std::floor(std::log10(low) + kSlack));
  const int last = std::max(
      first + 1, static_cast<int>(std::ceil(std::log10(high) - kSlack)));
  return decades < 3 ? within_few_decades(low, high, first, last)
                     : over_many_decades(first, last);
}

std::string xml_escaped(const std::string& text) {
  static const std::map<char, std::string_view> kEntities = {{'&', "&amp;"},
                                                             {'<', "&lt;"},
                                                             {'>', "&gt;"},
                                                             {'"', "&quot;"},
                                                             {'\'', "&#39;"}};
  std::string out;
  for (const char c : text) {
    if (const auto found = kEntities.find(c); found != kEntities.end()) {
      out += found->second;
    } else {
      // XML has no other control characters.
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string plot_svg(const Plot& plot) {
  require(!plot.panels.empty(), Errc::invalid_argument, "plot",
          "nothing to draw");
  const double width = kPanelWidth * static_cast<double>(plot.panels.size());
  const Legend legend = draw_legend(plot.legend, width);
  std::string svg = head(width, legend.bottom + kPanelHeight, kLeft, plot.title,
                         plot.subtitle);
  svg += legend.svg;
  for (std::size_t i = 0; i < plot.panels.size(); ++i) {
    svg += draw_panel(plot.panels[i], kPanelWidth * static_cast<double>(i),
                      legend.bottom);
  }
  return svg + "</svg>\n";
}

std::string time_line_svg(const std::string& title, const std::string& subtitle,
                          const std::vector<TimeLanes>& groups) {
  constexpr double kBar = 9;
  double last = 0;
  double bottom = kTitleHeight;
  for (const TimeLanes& group : groups) {
    bottom += kLaneName + kLane * static_cast<double>(group.lanes.size());
    for (const auto& lane : group.lanes) {
      for (const TimeBar& bar : lane) {
        last = std::max(last, bar.start + bar.seconds);
      }
    }
  }
  require(last > 0, Errc::invalid_argument, "time line", "nothing to draw");
  const auto x = [&](double seconds) {
    return kLeftOfLanes + seconds / last * kLanesWidth;
  };
  std::string svg =
      head(kPanelWidth, bottom + kBelow, kLeftOfLanes, title, subtitle);
  svg += axis_below(kTitleHeight, bottom, "seconds", last, false, x);
  double y = kTitleHeight;
  for (const TimeLanes& group : groups) {
    y += kLaneName;
    svg += lanes_name(y, group.name);
    for (std::size_t i = 0; i < group.lanes.size(); ++i, y += kLane) {
      svg += lane_number(y, i);
      for (const TimeBar& bar : group.lanes[i]) {
        svg += fmt::format(
            "<rect x='{:.2f}' y='{:.1f}' width='{:.2f}' height='{}' fill='{}' "
            "fill-opacity='{}'><title>{}</title></rect>\n",
            x(bar.start), y, x(bar.seconds) - kLeftOfLanes, kBar,
            kColours.at(bar.series % kColours.size()), bar.is_pale ? 0.6 : 1.0,
            xml_escaped(bar.label));
      }
    }
  }
  return svg + "</svg>\n";
}

std::string heat_map_svg(const std::string& title, const std::string& subtitle,
                         const std::vector<HeatMap>& maps) {
  constexpr double kTop = kTitleHeight + kHeatLegend;
  std::size_t num_steps = 0;
  std::vector<std::size_t> depths;
  double bottom = kTop;
  for (const HeatMap& map : maps) {
    std::size_t& depth = depths.emplace_back(0);
    for (const std::vector<double>& column : map.columns) {
      depth = std::max(depth, column.size());
    }
    num_steps = std::max(num_steps, map.columns.size());
    bottom += kLaneName + kLane * static_cast<double>(depth);
  }
  require(num_steps > 0, Errc::invalid_argument, "heat map", "nothing to draw");
  const double width = kLanesWidth / static_cast<double>(num_steps);
  const auto middle = [width](double step) {
    return kLeftOfLanes + width * (step + 0.5);
  };
  std::string svg =
      head(kPanelWidth, bottom + kBelow, kLeftOfLanes, title, subtitle) +
      heat_legend(kTitleHeight + 4) +
      axis_below(kTop, bottom, "step", static_cast<double>(num_steps - 1), true,
                 middle);
  double y = kTop;
  for (std::size_t m = 0; m < maps.size(); ++m) {
    const auto& columns = maps[m].columns;
    y += kLaneName;
    svg += lanes_name(y, maps[m].name) + "<g shape-rendering='crispEdges'>\n";
    std::string parting;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const double x = kLeftOfLanes + width * static_cast<double>(i);
      for (std::size_t j = 0; j < columns[i].size(); ++j) {
        const double value = columns[i][j];
        const double top = y + kLane * static_cast<double>(j);
        svg += fmt::format(
            "<rect x='{:.2f}' y='{:.0f}' width='{:.2f}' height='{}' "
            "fill='{}'><title>step {}, sweep {}: {:.3g} × "
            "tolerance</title></rect>\n",
            x, top, width, kLane, shade_of(value), i, j + 1, value);
        const auto parts_from = [&](std::size_t step, std::size_t sweep) {
          return step < columns.size() && sweep < columns[step].size() &&
                 (columns[step][sweep] <= 1) != (value <= 1);
        };
        if (parts_from(i + 1, j)) {
          parting += fmt::format("M{:.2f} {:.0f}v{}", x + width, top, kLane);
        }
        if (parts_from(i, j + 1)) {
          parting +=
              fmt::format("M{:.2f} {:.0f}h{:.2f}", x, top + kLane, width);
        }
      }
    }
    svg += "</g>\n" + parting_line(parting);
    for (std::size_t lane = 0; lane < depths[m]; ++lane, y += kLane) {
      svg += lane_number(y, lane);
    }
  }
  return svg + "</svg>\n";
}

}  // namespace troupe::actors
