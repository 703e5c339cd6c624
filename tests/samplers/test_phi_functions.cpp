#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "samplers/phi_functions.h"

namespace troupe::samplers {
namespace {

/// By series whose terms have one sign: φ_k(z) = Σ_j z^j / (j + k)! for z ≥ 0,
/// and e^z / (k − 1)! · Σ_j |z|^j / (j! (j + k)) below.
std::array<long double, 5> reference(long double z) {
  std::array<long double, 5> phi = {std::exp(z)};
  long double factorial = 1.0L;  // (k − 1)!
  for (std::size_t k = 1; k < phi.size(); ++k) {
    factorial *= k > 1 ? static_cast<long double>(k - 1) : 1.0L;
    long double sum = 0.0L;
    long double term = 1.0L;  // |z|^j / j! or |z|^j / ((k + 1) … (k + j))
    for (int j = 0; j < 400; ++j) {
      sum += z < 0 ? term / static_cast<long double>(j + static_cast<int>(k))
                   : term;
      term *= std::fabs(z) / static_cast<long double>(
                                 z < 0 ? j + 1 : j + 1 + static_cast<int>(k));
    }
    phi[k] = z < 0 ? std::exp(z) * sum / factorial
                   : sum / (factorial * static_cast<long double>(k));
  }
  return phi;
}

TEST(PhiFunctions, AreAccurateFromSmallToLarge) {
  for (double size = 1e-6; size <= 20.0; size *= 1.01) {
    for (const double z : {-size, size}) {
      const std::array<double, 5> phi = phi_functions(z, std::exp(z));
      const std::array<long double, 5> want = reference(z);
      for (std::size_t k = 0; k < phi.size(); ++k) {
        ASSERT_NEAR(phi[k], static_cast<double>(want[k]),
                    1e-14 * static_cast<double>(want[k]))
            << "phi_" << k << " of " << z;
      }
    }
  }
}

TEST(PhiFunctions, HaveTheirLimits) {
  const std::array<double, 5> at_zero = phi_functions(0.0, 1.0);
  constexpr std::array kWant = {1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24};
  for (std::size_t k = 0; k < at_zero.size(); ++k) {
    EXPECT_DOUBLE_EQ(at_zero[k], kWant[k]) << k;
  }
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double phi : phi_functions(-infinity, 0.0)) {
    EXPECT_EQ(phi, 0.0);
  }
}

}  // namespace
}  // namespace troupe::samplers
