#include "samplers/parallel/anderson.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "samplers/parallel/op_run.h"
#include "samplers/step_arithmetic.h"

// What taa adds to picard's machine: the weights of a mix, and its two ops.

namespace troupe::samplers {

/// Scalar products of differences of residuals, from the distances between
/// residuals: 2 ⟨a, b⟩ = |a|² + |b|² − |a − b|².
void AndersonSums::add(const MeanSquares& squares,
                       const std::vector<Iterate>& older) {
  const std::size_t count = std::min(size_, older.size());
  const auto distance = [&](std::size_t from, std::size_t to) {
    const MeanSquares& of = from == 0 ? squares : older[from - 1].squares;
    return from == to ? 0.0 : of.at(to - from);
  };
  for (std::size_t a = 0; a < count; ++a) {
    // − ⟨R_0, R_a − R_0⟩
    right_[a] +=
        0.5 * (squares.at(0) + distance(0, a + 1) - older[a].squares.at(0));
    for (std::size_t b = a; b < count; ++b) {
      products_[a][b] += 0.5 * (distance(0, a + 1) + distance(0, b + 1) -
                                distance(a + 1, b + 1));
    }
  }
}

Coefficients AndersonSums::weights() const {
  constexpr double kRegularisation = 1e-3;
  // A device that adds squares in another order nearly always gets the same
  // weights.
  constexpr double kUnit = 1 << 20;
  auto rows = products_;
  Row right = right_;
  double diagonal = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    diagonal += products_[i][i] / static_cast<double>(size_);
  }
  // Elimination of a symmetric matrix, of which one half is kept.
  for (std::size_t i = 0; i < size_; ++i) {
    rows[i][i] += kRegularisation * diagonal;
    if (!(rows[i][i] > 0)) {
      return {};  // all residuals are the same
    }
    for (std::size_t k = i + 1; k < size_; ++k) {
      const double factor = rows[i][k] / rows[i][i];
      for (std::size_t j = k; j < size_; ++j) {
        rows[k][j] -= factor * rows[i][j];
      }
      right[k] -= factor * right[i];
    }
  }
  for (std::size_t i = size_; i-- > 0;) {
    for (std::size_t j = i + 1; j < size_; ++j) {
      right[i] -= rows[i][j] * right[j];
    }
    right[i] /= rows[i][i];
  }
  for (double& weight : right) {
    weight = std::round(weight * kUnit) / kUnit;
    if (!std::isfinite(weight)) {
      return {};
    }
  }
  return {right.begin(), right.begin() + static_cast<std::ptrdiff_t>(size_)};
}

void run_residual(const OpRun& run, OpTasks tasks) {
  const BoundTask& bound = *tasks.front();
  const Tensor now = run.latents(bound, 0);
  const Tensor before = run.latents(bound, 1);
  const Tensor residual =
      weighted_sum(run.ctx, Memory::lasting, {{1.0, &now}, {-1.0, &before}});
  std::vector<std::size_t> readings;
  for (std::size_t i = 2; i < bound.task.inputs.size(); ++i) {
    readings.push_back(run.queued.readings->sum_squared_difference(
        residual, run.latents(bound, i)));
  }
  if (!readings.empty()) {
    run.queued.verdicts.push_back(
        {&bound, [readings, size = static_cast<double>(now.num_elements())](
                     std::span<const double> values) {
           std::vector<double> means;
           for (const std::size_t reading : readings) {
             means.push_back(values[reading] / size);
           }
           return means;
         }});
  }
  run.queued.write(bound, SolverState{.latents = residual});
}

void run_mix(const OpRun& run, OpTasks tasks) {
  const BoundTask& bound = *tasks.front();
  const Coefficients& weights = bound.task.coefficients;
  require(bound.task.inputs.size() == 1 + weights.size(), Errc::internal, "mix",
          "needs one weight for each state but the first");
  const Tensor first = run.latents(bound, 0);
  Tensor mixed = first;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    Tensor sum = run.ctx.empty(first.shape(), first.dtype());
    kernels::add_carry(run.ctx, mixed, weights[i], run.latents(bound, i + 1),
                       first, sum);
    mixed = std::move(sum);
  }
  run.queued.write(bound, SolverState{.latents = mixed});
}

}  // namespace troupe::samplers
