#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "samplers/parallel/method.h"

namespace troupe::samplers {

/// Of a point's residual: its mean square, and then the scalars of
/// Op::residual.
using MeanSquares = std::vector<double>;

/// A point as a sweep made it, and by how much that differs from what the sweep
/// began with.
struct Iterate {
  Slot state = 0;
  Slot residual = 0;
  MeanSquares squares = {};  ///< distances from the next older ones
};

/// Triangular Anderson acceleration of a fixed-point iteration x ← p(x) over a
/// window of points. With the residuals R = p(x) − x of this round (0) and the
/// rounds before it (1, 2, …), a point is mixed of what the rounds made of it,
///
///   p_0 + Σ γ_i (p_i − p_0),   where γ minimises Σ |R_0 + Σ γ_i (R_i − R_0)|²
///
/// over the points up to this one, of which it is made: none further on, so
/// nothing flows back and what is exact stays exact. The normal equations are
/// regularised with λ times the mean of their diagonal.
/// Source: Tang et al. 2024, arXiv:2402.09970 (ParaTAA); there the columns are
/// differences of neighbouring rounds, and λ is not relative.
class AndersonSums {
 public:
  /// Of a point with so many older iterates; at most kMostCoefficients.
  explicit AndersonSums(std::size_t num_older) : size_(num_older) {}

  /// Adds a point up to that one. A point with fewer older iterates counts as
  /// if the missing ones had its present residual.
  void add(const MeanSquares& squares, const std::vector<Iterate>& older);
  /// γ, one for each older iterate; none where the equations have no finite
  /// solution.
  [[nodiscard]] Coefficients weights() const;

 private:
  using Row = std::array<double, kMostCoefficients>;

  std::size_t size_;
  std::array<Row, kMostCoefficients> products_ = {};
  Row right_ = {};
};

}  // namespace troupe::samplers
