// The only file that names Boost.Math: its header is heavy.
#include <boost/math/special_functions/beta.hpp>

#include "samplers/numeric.h"

namespace troupe::samplers {

std::vector<double> beta_sigmas(double sigma_max, double sigma_min, int count) {
  constexpr double kShape = 0.6;
  std::vector<double> sigmas = linspace(0.0, 1.0, count);
  for (double& value : sigmas) {
    const double quantile = boost::math::ibeta_inv(kShape, kShape, 1.0 - value);
    value = sigma_min + quantile * (sigma_max - sigma_min);
  }
  return sigmas;
}

}  // namespace troupe::samplers
