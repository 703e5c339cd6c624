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

// A sample moves only if the gain is this clear. Its values have to follow, and
// a sample that starts again in another class wastes the work done so far.
constexpr double kWorthMoving = 1.5;

// A worker that is s times slower leaves its rows to the other worker of the
// sample, but for one row in kRowsToNotice · s. That row shows whether the slow
// worker has become faster.
constexpr double kRowsToNotice = 16;

// So often the speeds of groups are compared: it costs some 30 us with 1,024.
constexpr Duration kCompareEvery = std::chrono::milliseconds(10);

// All samples are looked at again when a whole one has become quicker than this
// part of what it took, or when a rest takes longer than this part of the time
// that is worth moving it for.
constexpr double kStillCalm = 0.98;
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
  groups_.remove(sample.group, sample.index);
  sample.group = group;
  groups_.add(group, sample.index);
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
  return groups_.is_open(group) && groups_.load(group) < groups_.most(group);
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
    if (begun != options_.begun.end()) {
      sample.last_cut = {0, std::move(begun->second)};
    }
    keep_room(sample);
    (void)begin_with_cut(sample);
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
    while (compares && quicken_slowest(static_cast<int>(c))) {
    }
  }
}

void CoordinatorPolicy::share_within(int execution_class) {
  std::optional<std::size_t> most = groups_.fullest(execution_class);
  const std::optional<std::size_t> least = groups_.emptiest(execution_class);
  if (!most || !groups_.is_open(*least) || groups_.load(*least) != 0 ||
      groups_.load(*most) < 2) {
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

/// A slow group's sample goes to an idle one that is much faster: the rest of
/// the job waits for it. It never comes back unless the speeds change as much.
/// Returns whether one went.
bool CoordinatorPolicy::quicken_slowest(int execution_class) {
  std::optional<std::size_t> slowest;
  std::optional<std::size_t> fastest;  // of those that are idle
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (groups_.class_of(g) != execution_class || !groups_.is_open(g) ||
        row_time(g) == 0) {
      continue;
    }
    if (groups_.load(g) == 0) {
      fastest = fastest && row_time(*fastest) <= row_time(g) ? fastest : g;
    } else {
      slowest = slowest && row_time(*slowest) >= row_time(g) ? slowest : g;
    }
  }
  if (!slowest || !fastest ||
      row_time(*slowest) < kWorthMoving * row_time(*fastest)) {
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
  return options_.method.kind->splits_guidance &&
         task.op == samplers::Op::evaluate;
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

/// Between classes bits differ, so a sample that changes begins anew: when a
/// class has run dry that makes a whole one in less time than the slower class
/// needs for the rest. Once per sample: what two classes took from each other
/// again and again would never end.
void CoordinatorPolicy::hurry_samples() {
  if (next_sample_ < options_.samples.size() || times_.size() == 1 ||
      options_.on_class_change != config::ClassChange::begin_anew) {
    return;
  }
  for (std::size_t c = 0; c < times_.size(); ++c) {
    hurry_to(static_cast<int>(c));
  }
}

void CoordinatorPolicy::hurry_to(int execution_class) {
  const ClassTimes& times = times_of(execution_class);
  const std::optional<std::size_t> best = groups_.best(execution_class);
  if (!best || !has_place(*best) || times.num_samples == 0 ||
      (now_ < times.calm_until &&
       times.of_samples / times.num_samples >= times.calm_whole)) {
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
      slowest->hurried = true;
      begin_anew(*slowest, g);
    }
  }
}

/// The sample of another class whose rest takes longest, if the class would
/// make a whole one in much less. Else notes from when on to look again.
CoordinatorPolicy::Sample* CoordinatorPolicy::slowest_elsewhere(
    int execution_class) {
  using Seconds = std::chrono::duration<double>;
  ClassTimes& times = times_of(execution_class);
  const Seconds whole = times.of_samples / times.num_samples;
  const Seconds calm_whole = whole * kStillCalm;
  Sample* slowest = nullptr;
  TimePoint calm_until = TimePoint::max();
  for (auto& [index, sample] : samples_) {
    if (sample.hurried || class_of(sample) == execution_class) {
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
          calm_whole * kWorthMoving * done / (progress.total - done), kFarOff);
      calm_until =
          std::min(calm_until,
                   sample.began + std::chrono::duration_cast<Duration>(until));
    }
  }
  times.calm_whole = std::chrono::duration_cast<Duration>(calm_whole);
  times.calm_until = calm_until;
  return slowest;
}

}  // namespace troupe::actors
