#include "actors/cli/bench_pace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "actors/cli/bench_measure.h"
#include "actors/network_cuts.h"

namespace troupe::actors {
namespace {

double mean_of(std::span<const double> values) {
  return std::reduce(values.begin(), values.end()) /
         static_cast<double>(values.size());
}

}  // namespace

void PaceSamples::add_alone(std::span<const PassBar> passes,
                            double wall_seconds) {
  alone_.push_back(mean_of(add(passes, first_alone_)));
  for (const PassBar& pass : passes) {
    wall_seconds -= pass.seconds;
  }
  start_.push_back(std::max(wall_seconds, 0.0));
}

void PaceSamples::add_busy(std::size_t probe, std::span<const PassBar> passes) {
  const std::vector<double> later = add(passes, first_busy_);
  const double mean = mean_of(later);
  busy_.resize(std::max(busy_.size(), probe + 1));
  busy_[probe].push_back(mean);
  for (const double seconds : later) {
    slowness_.push_back(seconds / mean);
  }
}

/// Returns the seconds of passes that are not the first of their worker. A run
/// of one step has first passes alone: then the seconds of one of these.
std::vector<double> PaceSamples::add(std::span<const PassBar> passes,
                                     std::vector<double>& first) {
  std::map<int, double> firsts;
  std::vector<double> later;
  for (const PassBar& pass : passes) {
    if (!firsts.try_emplace(pass.worker, pass.seconds).second) {
      later.push_back(pass.seconds);
    }
  }
  if (later.empty()) {
    later.push_back(firsts.begin()->second);
  }
  for (const auto& [worker, seconds] : firsts) {
    first.push_back(seconds - mean_of(later));
  }
  return later;
}

MeasuredPace PaceSamples::pace() const {
  double squares = 0;
  for (const double one : slowness_) {
    squares += (one - 1) * (one - 1);
  }
  const double all_rows = median_of(busy_.front());
  const double one_row = median_of(busy_.back());
  const double solo_speed = std::max(all_rows / median_of(alone_), 1.0);
  std::vector<double> first = first_busy_;
  for (const double seconds : first_alone_) {
    first.push_back(seconds * solo_speed);
  }
  return {.row_ms = 1e3 * one_row,
          .row_slope = busy_.size() == 1 ? 1 : all_rows / one_row - 1,
          .solo_speed = solo_speed,
          .spread = std::sqrt(squares / static_cast<double>(slowness_.size())),
          .first_ms = 1e3 * std::max(median_of(first), 0.0),
          .start_ms = 1e3 * median_of(start_)};
}

emulation::Machine PaceSamples::machine_of(const JobRequest& request,
                                           std::uint64_t seed) const {
  const MeasuredPace measured = pace();
  const auto workers = static_cast<std::size_t>(request.num_workers());
  return {.step_ms = measured.row_ms,
          .row_slope = measured.row_slope,
          .seed = seed,
          .speeds = std::vector<double>(
              workers, workers == 1 ? measured.solo_speed : 1.0),
          .shares_memory = true,
          .solo_speed = measured.solo_speed,
          .slowness = slowness_,
          .first_ms = measured.first_ms,
          .link_us = 10,  // a message wakes a thread
          .is_guided = request.job.guidance.is_on(),
          .segment_shares = segment_shares(request.source.info(DType::f32),
                                           request.job.cuts)};
}

}  // namespace troupe::actors
