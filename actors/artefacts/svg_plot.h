#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace troupe::actors {

/// Where an axis begins and ends and which values it names: round ones.
struct Axis {
  double low = 0;
  double high = 1;
  std::vector<double> ticks;  ///< ascending, within [low, high]
};

/// Multiples of 1, 2 or 5 times a power of ten, four to eleven of them; the
/// axis ends at the first and last. `whole`: multiples of 1 at least.
/// low ≤ high, both finite.
[[nodiscard]] Axis linear_axis(double low, double high, bool whole = false);

/// Of a logarithmic axis: powers of ten, over more than ten decades not every
/// one; with 2 and 5 between them over less than three; over less than half a
/// decade those of a linear axis. 0 < low ≤ high, both finite.
[[nodiscard]] Axis logarithmic_axis(double low, double high);

/// One panel: a line per series over the index of its values, or over `at`.
struct PlotPanel {
  std::string x_axis;  ///< "network call"
  std::string y_axis;  ///< with its unit
  /// Points ≤ 0 are left out, and the axis says that it is logarithmic.
  bool logarithmic = false;
  std::vector<std::vector<double>> lines;  ///< as many as names in the legend
  /// Where on the x axis each value of each line stands; empty: at its index.
  std::vector<std::vector<double>> at = {};
  /// The first so many lines are points alone.
  std::size_t num_scattered = 0;
  /// What stands beside each point of each line; empty: nothing.
  std::vector<std::vector<std::string>> labels = {};
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

/// A stretch of work on a lane.
struct TimeBar {
  double start = 0;  ///< in seconds
  double seconds = 0;
  std::size_t series = 0;  ///< bars of one have one colour
  bool is_pale = false;    ///< tells it from its neighbours
  std::string label = {};  ///< shown where a reader points at it
};

/// What several workers did, each on its lane.
struct TimeLanes {
  std::string name;
  std::vector<std::vector<TimeBar>> lanes;
};

/// An SVG picture: groups of lanes one below the other, all over one axis of
/// seconds that begins at 0. Text is escaped. Errors: Errc::invalid_argument
/// where no bar ends after 0.
[[nodiscard]] std::string time_line_svg(const std::string& title,
                                        const std::string& subtitle,
                                        const std::vector<TimeLanes>& groups);

/// Residuals of sweeps, divided by the tolerance: a column for each step, the
/// first sweep on top.
struct HeatMap {
  std::string name;
  std::vector<std::vector<double>> columns;  ///< ≥ 0
};

/// An SVG picture: heat maps one below the other, all over one axis of steps. A
/// cell is the darker the more its sweep changed, in half decades. A line parts
/// cells up to 1 from others. Text is escaped. Errors: Errc::invalid_argument
/// where no map has a column.
[[nodiscard]] std::string heat_map_svg(const std::string& title,
                                       const std::string& subtitle,
                                       const std::vector<HeatMap>& maps);

/// `text` as it stands in XML and HTML, also within quotes. Control characters
/// become spaces.
[[nodiscard]] std::string xml_escaped(const std::string& text);

}  // namespace troupe::actors
