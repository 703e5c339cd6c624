#pragma once

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

}  // namespace troupe::actors
