// The part of CoordinatorPolicy that decides which group of workers a sample
// belongs to, and when it changes; and how two unequal workers of a group share
// the branches of guidance.

#include <algorithm>
#include <utility>

#include "actors/coordinator_policy.h"

namespace troupe::actors {
namespace {

// While grants take longer than this on average, a worker that waits for its
// next one loses little: 20 to 60 us in a trace of two busy cores.
constexpr Duration kLongGrant = std::chrono::milliseconds(8);

// A worker that is s times slower leaves its rows to the other worker of the
// sample, but for one row in kRowsToNotice · s. That row shows whether the slow
// worker has become faster.
constexpr double kRowsToNotice = 16;

// So often the speeds of groups are compared: it costs some 30 us with 1,024.
constexpr Duration kCompareEvery = std::chrono::milliseconds(10);

// A class looks again for a sample to take over when its mean time of a sample
// has fallen to this part, or when the rest of a sample comes this close to the
// time from which a move is worth it.
constexpr double kSearchMargin = 0.98;
// Later than any job; a sum with it is still a time.
constexpr std::chrono::duration<double> kFarOff = std::chrono::hours(24 * 365);

}  // namespace

void CoordinatorPolicy::note_times(int execution_class, Duration grant) {
  ClassTimes& times = times_of(execution_class);
  times.busy += grant;
  ++times.num_results;
  groups_.set_long_grants(execution_class,
                          times.busy >= times.num_results * kLongGrant);
}

void CoordinatorPolicy::place(Sample& sample, std::size_t group) {
  const std::size_t before = std::exchange(sample.group, group);
  groups_.remove(before, sample.index);
  groups_.add(group, sample.index);
  note_loads(before);
  note_loads(group);
  keep_room(sample);
  recall_misplaced(sample);
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

/// Nobody works for a group that is not open, if at all.
bool CoordinatorPolicy::has_place(std::size_t group) const {
  return groups_.is_open(group) && !groups_.is_left_out(group) &&
         groups_.load(group) < groups_.most(group);
}

void CoordinatorPolicy::admit_samples() {
  while (next_sample_ < options_.samples.size() && has_credit()) {
    const std::uint64_t index = options_.samples[next_sample_];
    const auto begun = options_.begun.find(index);
    std::optional<std::size_t> best;
    if (begun != options_.begun.end()) {
      best = groups_.best(begun->second.execution_class);
    }
    best = best ? best : groups_.best(-1);
    if (!best || !has_place(*best) || groups_.is_full(*best) ||
        !room_.fits(kHomeMemory)) {
      break;
    }
    if (weigh_group(*best)) {
      continue;
    }
    if (const auto full = full_memory_of(*best, {})) {
      note_full(*best, *full);
      continue;
    }
    ++next_sample_;
    Sample& sample = samples_[index];
    sample.index = index;
    sample.method = options_.make_method();
    sample.group = *best;
    sample.run = options_.first_run;
    sample.began = now_;
    groups_.add(*best, index);
    note_loads(*best);
    if (begun != options_.begun.end()) {
      sample.last_cut = {0, 0, std::move(begun->second)};
    }
    keep_room(sample);
    (void)restore_cut(sample);
    issue_ready(sample);
  }
  if (samples_.empty() && next_sample_ < options_.samples.size()) {
    end_if_no_room();
  }
}

/// Near the end the fastest group runs dry first: it takes over a sample from
/// a group of its class that still has several. Bits do not depend on who of a
/// class computes.
void CoordinatorPolicy::share_samples() {
  if (next_sample_ < options_.samples.size() || groups_.size() == 1) {
    return;
  }
  // Rows that spread go to fast workers as it is.
  const bool compares = now_ >= compare_at_ && !options_.method.kind->spreads;
  if (compares) {
    compare_at_ = now_ + kCompareEvery;
  }
  for (std::size_t c = 0; c < times_.size(); ++c) {
    share_within(static_cast<int>(c));
    while (compares && rebalance_slowest(static_cast<int>(c))) {
    }
  }
}

void CoordinatorPolicy::share_within(int execution_class) {
  std::optional<std::size_t> most = groups_.fullest(execution_class);
  const std::optional<std::size_t> least = groups_.emptiest(execution_class);
  if (!most || !groups_.is_open(*least) || groups_.load(*least) != 0 ||
      groups_.load(*most) < 2 || delay_of(*least)) {
    return;
  }
  // What has come late takes its part at once.
  const bool is_late = groups_.is_new(*least);
  do {
    Sample& youngest = samples_.at(groups_.youngest(*most));
    if (!fits(*least, youngest.room)) {
      return;
    }
    place(youngest, *least);
    most = groups_.fullest(execution_class);
  } while (is_late && groups_.load(*most) > groups_.load(*least) + 1);
}

/// Moves a sample of the slowest group to an idle group that is much faster,
/// because the end of the job waits for that sample. It moves back only if the
/// speeds change as much. Returns whether a sample moved.
bool CoordinatorPolicy::rebalance_slowest(int execution_class) {
  std::optional<std::size_t> slowest;
  std::optional<std::size_t> fastest;  // of those that are idle
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (groups_.class_of(g) != execution_class || !groups_.is_open(g) ||
        row_time(g) == 0) {
      continue;
    }
    if (groups_.load(g) == 0 && !groups_.is_left_out(g)) {
      fastest = fastest && row_time(*fastest) <= row_time(g) ? fastest : g;
    } else if (groups_.load(g) > 0) {
      slowest = slowest && row_time(*slowest) >= row_time(g) ? slowest : g;
    }
  }
  if (!slowest || !fastest ||
      row_time(*slowest) < kWorthMoving * row_time(*fastest) ||
      delay_of(*fastest)) {
    return false;
  }
  Sample& youngest = samples_.at(groups_.youngest(*slowest));
  if (!fits(*fastest, youngest.room)) {
    return false;
  }
  place(youngest, *fastest);
  return true;
}

/// Seconds that a row takes on each of the group's workers, one after the
/// other; 0: one is not known yet.
double CoordinatorPolicy::row_time(std::size_t group) const {
  double sum = 0;
  for (const int w : groups_.group(group).workers) {
    const Worker& worker = workers_[static_cast<std::size_t>(w)];
    if (worker.gone) {
      continue;
    }
    if (worker.num_rows == 0) {
      return 0;
    }
    sum += worker.row_seconds / worker.num_rows;
  }
  return sum;
}

/// How many times as long as on the other one a row takes on a worker; 0: one
/// of the two is not known yet.
double CoordinatorPolicy::slowness(int worker, int other) const {
  const auto time_of = [this](int w) {
    const Worker& one = workers_[static_cast<std::size_t>(w)];
    return one.num_rows == 0 ? 0 : one.row_seconds / one.num_rows;
  };
  const double time = time_of(other);
  return time == 0 ? 0 : time_of(worker) / time;
}

/// A row that either of its sample's two workers may compute.
bool CoordinatorPolicy::is_branch(const samplers::Task& task) const {
  return options_.method.kind->splits_guidance && task.op->spreads;
}

/// The worker of the task's branch, or the sample's other worker if that is
/// faster and it is its turn. With several samples at hand, a worker that is s
/// times slower leaves (s − 1) / (s + 1) of its rows, so that both are at work
/// all the time. A sample alone waits for both of its rows. If the faster
/// worker can do the two of them sooner (s > 2), it gets nearly all.
int CoordinatorPolicy::worker_of_branch(const Sample& sample,
                                        const samplers::Task& task) {
  const int own = planned_worker(sample, task.part);
  const int other = planned_worker(sample, 1 - task.part);
  if (own < 0 || own == other) {
    return own;
  }
  const double slow = slowness(own, other);
  if (slow < kClearlySlower) {
    return own;
  }
  double& surplus = at(own).surplus;
  if (groups_.load(sample.group) > 1) {
    surplus += (slow - 1) / (slow + 1);
  } else if (slow > 2) {
    surplus += 1 - 1 / (kRowsToNotice * slow);
  }
  if (surplus < 1) {
    return own;
  }
  surplus -= 1;
  return other;
}

/// What is left of a sample, as fast as it went so far; before its first call,
/// as if that ended now.
Duration CoordinatorPolicy::time_left(const Sample& sample) const {
  const samplers::Progress progress = sample.method->progress();
  const int done = std::max(progress.accepted, 1);
  const int left = std::max(progress.total - done, 0);
  return (now_ - sample.began) * left / done;
}

/// Classes without samples take samples over from slower classes. Bits differ
/// between classes, so such a sample restarts from its first call: only if the
/// class makes a whole sample in less time than the slower class needs for the
/// rest. Once per sample, since a sample that two classes take from each other
/// would never end.
void CoordinatorPolicy::take_over_samples() {
  if (next_sample_ < options_.samples.size() || times_.size() == 1 ||
      options_.on_class_change != config::ClassChange::begin_anew) {
    return;
  }
  for (std::size_t c = 0; c < times_.size(); ++c) {
    take_over_for(static_cast<int>(c));
  }
}

void CoordinatorPolicy::take_over_for(int execution_class) {
  const ClassTimes& times = times_of(execution_class);
  const std::optional<std::size_t> best = groups_.best(execution_class);
  if (!best || !has_place(*best) || times.num_samples == 0 ||
      (now_ < times.search_again_at &&
       times.of_samples / times.num_samples >= times.search_again_below)) {
    return;
  }
  RoomKept at_home;
  (void)at_home[kHomeMemory];
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    // A sample that moves keeps its room in the coordinator's process.
    while (groups_.class_of(g) == execution_class && has_place(g) &&
           fits(g, at_home)) {
      Sample* slowest = slowest_elsewhere(execution_class);
      if (slowest == nullptr) {
        return;
      }
      slowest->was_taken_over = true;
      restart(*slowest, g);
    }
  }
}

/// The sample of another class whose rest takes longest, if this class would
/// make a whole sample in much less time. Notes when to look again.
CoordinatorPolicy::Sample* CoordinatorPolicy::slowest_elsewhere(
    int execution_class) {
  using Seconds = std::chrono::duration<double>;
  ClassTimes& times = times_of(execution_class);
  const Seconds whole = times.of_samples / times.num_samples;
  const Seconds search_again_below = whole * kSearchMargin;
  Sample* slowest = nullptr;
  TimePoint search_again_at = TimePoint::max();
  for (auto& [index, sample] : samples_) {
    if (sample.was_taken_over || class_of(sample) == execution_class) {
      continue;
    }
    const Duration left = time_left(sample);
    if (left > whole * kWorthMoving &&
        (slowest == nullptr || left > time_left(*slowest))) {
      slowest = &sample;
    }
    // When the rest would take that long, if no more calls came back.
    const samplers::Progress progress = sample.method->progress();
    const int done = std::max(progress.accepted, 1);
    if (progress.total > done) {
      const Seconds until = std::min(
          search_again_below * kWorthMoving * done / (progress.total - done),
          kFarOff);
      search_again_at =
          std::min(search_again_at,
                   sample.began + std::chrono::duration_cast<Duration>(until));
    }
  }
  times.search_again_below =
      std::chrono::duration_cast<Duration>(search_again_below);
  times.search_again_at = search_again_at;
  return slowest;
}

}  // namespace troupe::actors
