#pragma once

#include <string>
#include <vector>

namespace troupe::actors {

/// One panel: a line per series over the index of its values.
struct PlotPanel {
  std::string x_axis;  ///< "network call"
  std::string y_axis;  ///< with its unit
  /// Points ≤ 0 are left out, and the axis says that it is logarithmic.
  bool logarithmic = false;
  std::vector<std::vector<double>> lines;  ///< as many as names in the legend
};

struct Plot {
  std::string title;
  std::string subtitle;
  std::vector<std::string> legend;  ///< shown where there is more than one
  std::vector<PlotPanel> panels;    ///< side by side
};

/// An SVG picture: axes with names and round ticks, lines and points, each
/// series in its own colour and dash. Text is escaped; a point that is not
/// finite is left out. Errors: Errc::invalid_argument for a panel without
/// points.
[[nodiscard]] std::string plot_svg(const Plot& plot);

}  // namespace troupe::actors
