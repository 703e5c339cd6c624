#pragma once

#include <span>
#include <string>

namespace troupe::actors {

/// A line of a plot: values over their index.
struct PlotSeries {
  std::string name;
  std::span<const double> values;
  bool logarithmic = false;  ///< points ≤ 0 are left out and said so
};

/// An SVG picture with one panel per series, side by side: axes, ticks, line
/// and points. Text is escaped. Errors: Errc::invalid_argument without points.
[[nodiscard]] std::string plot_svg(const std::string& title,
                                   std::span<const PlotSeries> series);

}  // namespace troupe::actors
