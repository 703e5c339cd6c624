#include "actors/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "kernels/core/error.h"

namespace troupe::actors {

bool are_speeds_of(std::span<const double> speeds, int num_segments) {
  return speeds.empty() ||
         (speeds.size() == static_cast<std::size_t>(num_segments) &&
          std::ranges::all_of(speeds, [](double speed) {
            return speed > 0 && std::isfinite(speed);
          }));
}

std::vector<int> cut_blocks(std::span<const double> costs, int num_segments,
                            std::span<const double> speeds) {
  const int num_blocks = static_cast<int>(costs.size());
  require(num_segments >= 1 && num_segments <= num_blocks,
          Errc::invalid_argument, "segments",
          "a network of " + std::to_string(num_blocks) +
              " blocks cannot be cut: got " + std::to_string(num_segments) +
              " segments, expected 1 to " + std::to_string(num_blocks));
  require(are_speeds_of(speeds, num_segments), Errc::invalid_argument,
          "segments",
          "expected no speeds, or a positive number for each of " +
              std::to_string(num_segments) + " segments");
  std::vector<double> sum(costs.size() + 1, 0.0);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    sum[i + 1] = sum[i] + costs[i];
  }
  // best[s][b]: the least time of the slowest segment when blocks [0, b) form
  // s segments; from[s][b]: where the last of them begins.
  const auto rows = static_cast<std::size_t>(num_segments) + 1;
  const double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(rows,
                                        std::vector<double>(sum.size(), never));
  std::vector<std::vector<std::size_t>> from(
      rows, std::vector<std::size_t>(sum.size(), 0));
  best[0][0] = 0;
  for (std::size_t s = 1; s < rows; ++s) {
    const double speed = speeds.empty() ? 1.0 : speeds[s - 1];
    for (std::size_t b = s; b < sum.size(); ++b) {
      for (std::size_t a = s - 1; a < b; ++a) {
        const double slowest =
            std::max(best[s - 1][a], (sum[b] - sum[a]) / speed);
        if (slowest < best[s][b]) {
          best[s][b] = slowest;
          from[s][b] = a;
        }
      }
    }
  }
  std::vector<int> cuts(rows);
  std::size_t end = costs.size();
  for (std::size_t s = rows - 1; s > 0; --s) {
    cuts[s] = static_cast<int>(end);
    end = from[s][end];
  }
  cuts[0] = 0;
  return cuts;
}

std::vector<WorkerGroup> group_workers(const std::vector<int>& classes,
                                       int num_parts) {
  std::map<int, std::vector<int>> members;
  for (std::size_t w = 0; w < classes.size(); ++w) {
    members[classes[w]].push_back(static_cast<int>(w));
  }
  const auto parts = static_cast<std::size_t>(num_parts);
  std::vector<WorkerGroup> groups;
  for (const auto& [execution_class, workers] : members) {
    for (std::size_t first = 0; first < workers.size(); first += parts) {
      const auto those = std::span(workers).subspan(
          first, std::min(parts, workers.size() - first));
      groups.push_back({{those.begin(), those.end()}, execution_class});
    }
  }
  return groups;
}

int tasks_per_call(const samplers::MethodOptions& options) {
  const auto rows_of = options.kind->most_rows;
  const int rows = rows_of == nullptr ? 1 : rows_of(options);
  // Each row has its step.
  const int segments =
      std::max(samplers::num_parts(options), samplers::num_segments(options));
  return std::max(segments + 1, 2 * rows);
}

int least_ahead(const samplers::MethodOptions& options) {
  const int call = tasks_per_call(options);
  return std::min(2 * call, std::max(kMostAhead, call));
}

}  // namespace troupe::actors
