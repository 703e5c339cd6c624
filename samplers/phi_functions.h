#pragma once

#include <array>
#include <cmath>
#include <cstddef>

// The functions that exponential integrators are made of. Internal to samplers.

namespace troupe::samplers {

/// φ_0 … φ_4 at z, where φ_k(z) = Σ_j z^j / (j + k)!: so φ_0(z) = e^z and
/// φ_{k+1}(z) = (φ_k(z) − 1/k!) / z. `exp_z` is e^z, which a solver has as a
/// ratio of its noise levels. Near 0, where that recurrence cancels, it runs
/// the other way from the series of φ_4. Relative errors stay below 1e-14.
[[nodiscard]] inline std::array<double, 5> phi_functions(double z,
                                                         double exp_z) {
  constexpr std::array kInverseFactorials = {1.0, 1.0, 1.0 / 2.0, 1.0 / 6.0,
                                             1.0 / 24.0};
  constexpr double kSeriesEnd = 2.0;
  constexpr int kSeriesTerms = 24;
  std::array<double, 5> phi = {exp_z};
  if (!(std::fabs(z) < kSeriesEnd)) {
    for (std::size_t k = 0; k + 1 < phi.size(); ++k) {
      phi[k + 1] = (phi[k] - kInverseFactorials[k]) / z;
    }
    return phi;
  }
  double sum = 1.0;
  for (int n = kSeriesTerms + 4; n > 4; --n) {
    sum = 1.0 + z * sum / n;
  }
  phi[4] = kInverseFactorials[4] * sum;
  for (std::size_t k = phi.size() - 1; k-- > 0;) {
    phi[k] = kInverseFactorials[k] + z * phi[k + 1];
  }
  return phi;
}

}  // namespace troupe::samplers
