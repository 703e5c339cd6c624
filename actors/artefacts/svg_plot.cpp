#include "actors/artefacts/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

constexpr double kPanelWidth = 420;
constexpr double kHeight = 320;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 56;
constexpr double kBottom = 40;

struct Point {
  double x;
  double y;
};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::vector<Point> points_of(const PlotSeries& series) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < series.values.size(); ++i) {
    const double value = series.values[i];
    if (std::isfinite(value) && (!series.logarithmic || value > 0)) {
      points.push_back({static_cast<double>(i),
                        series.logarithmic ? std::log10(value) : value});
    }
  }
  return points;
}

std::string panel(const PlotSeries& series, double origin) {
  const std::vector<Point> points = points_of(series);
  require(!points.empty(), Errc::invalid_argument, "plot",
          "a series without points to draw");
  const auto [low, high] = std::ranges::minmax_element(points, {}, &Point::y);
  const double y0 = low->y;
  const double span = std::max(high->y - low->y, 1e-12);
  const double last =
      std::max(static_cast<double>(series.values.size()) - 1, 1.0);
  const double width = kPanelWidth - kLeft - kRight;
  const double height = kHeight - kTop - kBottom;
  const auto x_of = [&](double x) { return origin + kLeft + x / last * width; };
  const auto y_of = [&](double y) {
    return kTop + height - (y - y0) / span * height;
  };
  std::string svg = fmt::format(
      "<text x='{:.1f}' y='44' class='name'>{}{}</text>\n", origin + kLeft,
      escaped(series.name), series.logarithmic ? " (log scale)" : "");
  for (int tick = 0; tick <= 4; ++tick) {
    const double y = y0 + span * tick / 4;
    const double x = std::round(last * tick / 4);
    svg += fmt::format(
        "<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' class='grid'/>"
        "<text x='{:.1f}' y='{:.1f}' class='y'>{:.3g}</text>"
        "<text x='{:.1f}' y='{:.1f}' class='x'>{:.0f}</text>\n",
        x_of(0), y_of(y), x_of(last), y_of(y), x_of(0) - 6, y_of(y) + 4,
        series.logarithmic ? std::pow(10.0, y) : y, x_of(x), kTop + height + 18,
        x);
  }
  std::string line;
  std::string dots;
  for (const Point& point : points) {
    line += fmt::format("{:.2f},{:.2f} ", x_of(point.x), y_of(point.y));
    dots += fmt::format("<circle cx='{:.2f}' cy='{:.2f}' r='2'/>",
                        x_of(point.x), y_of(point.y));
  }
  return svg + "<polyline points='" + line + "'/>\n<g class='dots'>" + dots +
         "</g>\n";
}

}  // namespace

std::string plot_svg(const std::string& title,
                     std::span<const PlotSeries> series) {
  require(!series.empty(), Errc::invalid_argument, "plot", "nothing to draw");
  const double width = kPanelWidth * static_cast<double>(series.size());
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0:.0f}' "
      "height='{1:.0f}' viewBox='0 0 {0:.0f} {1:.0f}'>\n"
      "<style>text{{font:12px sans-serif;fill:#333}}"
      ".title{{font-size:15px;font-weight:bold}}.y{{text-anchor:end}}"
      ".x{{text-anchor:middle}}.grid{{stroke:#ddd}}"
      "polyline{{fill:none;stroke:#2060c0;stroke-width:1.5}}"
      ".dots{{fill:#2060c0}}</style>\n"
      "<rect width='100%' height='100%' fill='white'/>\n"
      "<text x='{2:.0f}' y='22' class='title'>{3}</text>\n",
      width, kHeight, kLeft, escaped(title));
  for (std::size_t i = 0; i < series.size(); ++i) {
    svg += panel(series[i], kPanelWidth * static_cast<double>(i));
  }
  return svg + "</svg>\n";
}

}  // namespace troupe::actors
