#include "actors/artefacts/plot_ticks.h"

#include <algorithm>
#include <cmath>

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

}  // namespace troupe::actors
