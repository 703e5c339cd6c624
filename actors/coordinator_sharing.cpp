// The part of CoordinatorPolicy that decides which group of workers a sample
// belongs to, and when it changes.

#include <algorithm>

#include "actors/coordinator_policy.h"

namespace troupe::actors {
namespace {

// While grants take longer than this on average, a worker that waits for its
// next one loses little: 20 to 60 us in a trace of two busy cores.
constexpr Duration kLongGrant = std::chrono::milliseconds(8);

// A sample that begins anew elsewhere wastes what was done of it: only where
// the gain is clear.
constexpr double kWorthMoving = 1.5;

}  // namespace

std::size_t CoordinatorPolicy::most_in_flight(std::size_t group) const {
  const Pace& pace =
      paces_[static_cast<std::size_t>(groups_[group].execution_class)];
  const bool is_long =
      pace.num_results == 0 || pace.busy >= pace.num_results * kLongGrant;
  const samplers::InFlight& capacity = capacities_[group];
  return static_cast<std::size_t>(
      std::max(is_long ? capacity.most_of_long_grants : capacity.most, 1));
}

bool CoordinatorPolicy::is_staffed(std::size_t group) const {
  return std::ranges::any_of(groups_[group].workers, [this](int worker) {
    return !workers_[static_cast<std::size_t>(worker)].gone;
  });
}

std::optional<std::size_t> CoordinatorPolicy::best_group(
    int execution_class) const {
  std::optional<std::size_t> best;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const bool fits =
        execution_class < 0 || groups_[g].execution_class == execution_class;
    if (!fits || !is_staffed(g)) {
      continue;
    }
    // Filled to the same share, the earlier one.
    if (!best ||
        loads_[g] * most_in_flight(*best) < loads_[*best] * most_in_flight(g)) {
      best = g;
    }
  }
  return best;
}

void CoordinatorPolicy::place(Sample& sample, std::size_t group) {
  --loads_[sample.group];
  sample.group = group;
  ++loads_[group];
}

/// A writer that keeps up is never waited for: then nothing is unwritten when
/// the next sample begins, or little.
bool CoordinatorPolicy::has_credit() const {
  if (unwritten_.empty()) {
    return true;
  }
  const std::uint64_t each =
      std::max(options_.outcome_bytes, kLeastOutcomeBytes);
  return unwritten_.size() + samples_.size() < kWriterCredit / each;
}

void CoordinatorPolicy::admit_samples() {
  while (next_sample_ < options_.samples.size() && has_credit()) {
    const std::uint64_t index = options_.samples[next_sample_];
    const auto begun = options_.begun.find(index);
    std::optional<std::size_t> best;
    if (begun != options_.begun.end()) {
      best = best_group(begun->second.execution_class);
    }
    best = best ? best : best_group(-1);
    if (!best || loads_[*best] >= most_in_flight(*best)) {
      return;
    }
    ++next_sample_;
    Sample& sample = samples_[index];
    sample.index = index;
    sample.method = options_.make_method();
    sample.group = *best;
    sample.run = options_.first_run;
    sample.began = now_;
    ++loads_[*best];
    if (begun != options_.begun.end()) {
      sample.last_cut = {0, std::move(begun->second)};
    }
    (void)begin_with_cut(sample);
    issue_ready(sample);
  }
}

/// Near the end the fastest group runs dry first: it takes over a sample from
/// a group of its class that still has several. Bits do not depend on who of a
/// class computes.
void CoordinatorPolicy::share_samples() {
  if (next_sample_ < options_.samples.size() || groups_.size() == 1) {
    return;
  }
  for (std::size_t c = 0; c < paces_.size(); ++c) {
    share_within(static_cast<int>(c));
  }
}

void CoordinatorPolicy::share_within(int execution_class) {
  std::optional<std::size_t> most;
  std::optional<std::size_t> least;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].execution_class != execution_class || !is_staffed(g)) {
      continue;
    }
    most = !most || loads_[g] > loads_[*most] ? g : *most;
    least = !least || loads_[g] < loads_[*least] ? g : *least;
  }
  if (!most || loads_[*least] != 0 || loads_[*most] < 2) {
    return;
  }
  const auto youngest = std::find_if(
      samples_.rbegin(), samples_.rend(),
      [&](const auto& entry) { return entry.second.group == *most; });
  place(youngest->second, *least);
}

/// What is left of a sample, as fast as it went so far; before its first call,
/// as if that ended now.
Duration CoordinatorPolicy::time_left(const Sample& sample) const {
  const samplers::Progress progress = sample.method->progress();
  const int done = std::max(progress.accepted, 1);
  const int left = std::max(progress.total - done, 0);
  return (now_ - sample.began) * left / done;
}

/// Between classes bits differ, so a sample that changes begins anew: when a
/// class has run dry that makes a whole one in less time than the slower class
/// needs for the rest. Once per sample: what two classes took from each other
/// again and again would never end.
void CoordinatorPolicy::hurry_samples() {
  if (next_sample_ < options_.samples.size() || paces_.size() == 1) {
    return;
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Pace& pace = pace_of(groups_[g].execution_class);
    if (!is_staffed(g) || pace.num_samples == 0) {
      continue;
    }
    const std::chrono::duration<double> whole =
        pace.of_samples / pace.num_samples;
    while (loads_[g] < most_in_flight(g)) {
      Sample* slowest = nullptr;
      for (auto& [index, sample] : samples_) {
        if (!sample.hurried && class_of(sample) != groups_[g].execution_class &&
            time_left(sample) > whole * kWorthMoving &&
            (slowest == nullptr || time_left(sample) > time_left(*slowest))) {
          slowest = &sample;
        }
      }
      if (slowest == nullptr) {
        break;
      }
      slowest->hurried = true;
      begin_anew(*slowest, g);
    }
  }
}

}  // namespace troupe::actors
