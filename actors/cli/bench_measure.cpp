#include "actors/cli/bench_measure.h"

#include <cmath>

#include "kernels/core/hash.h"

namespace troupe::actors {

void check_measured(const JobResult& result) {
  if (result.failure) {
    throw to_error(*result.failure);
  }
  for (const SampleReport& report : result.samples) {
    if (report.failure) {
      throw to_error(*report.failure);
    }
  }
}

double relative_rmse(const std::map<std::uint64_t, Tensor>& a,
                     const std::map<std::uint64_t, Tensor>& b) {
  double error = 0;
  double norm = 0;
  for (const auto& [index, reference] : b) {
    const auto values = a.at(index).span<float>();
    const auto truth = reference.span<float>();
    for (std::size_t i = 0; i < truth.size(); ++i) {
      const double difference = static_cast<double>(values[i]) - truth[i];
      error += difference * difference;
      norm += static_cast<double>(truth[i]) * truth[i];
    }
  }
  return norm > 0 ? std::sqrt(error / norm) : 0;
}

std::string latents_xxh3(const std::map<std::uint64_t, Tensor>& latents) {
  Xxh3Stream hash;
  for (const auto& [index, one] : latents) {
    hash.update(one.bytes());
  }
  return to_hex(hash.digest());
}

}  // namespace troupe::actors
