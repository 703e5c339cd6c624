// The part of CoordinatorPolicy that weighs links: which workers are left out
// because values take longer to them and back than they save. It compares
// predicted times, from the measured links, the sizes of values and the usual
// time of a row. Nobody is left out while the time of a row is not known.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "actors/coordinator_policy.h"

namespace troupe::actors {
namespace {

using samplers::Slot;
using samplers::Task;
using samplers::ValueKind;

/// A rehearsal takes up to some milliseconds.
constexpr Duration kWeighEvery = std::chrono::seconds(5);

/// Who computes a part changes only if a call gets so many times as fast. The
/// predictions of two ways are not more exact than that.
constexpr double kClearlyFaster = 1.1;

/// A stale pipeline has begun by then, and others are the same from call to
/// call.
constexpr int kRehearsedCalls = 16;

constexpr int kMostMiddles = 16;

/// A process holds values and activations beside its weights.
constexpr double kMemoryForWeights = 0.75;

const std::set<int> kNobody;  // is left out

}  // namespace

void CoordinatorPolicy::handle(const LinkMeasured& event) {
  if (lost_processes_.contains(event.process) ||
      lost_processes_.contains(event.other)) {
    return;
  }
  const LinkPace before = links_.between(event.process, event.other);
  const LinkPace now{event.round_trip, event.bytes_per_second};
  links_.set(event.process, event.other, now);
  // Each beat measures the round trip. A small change decides nothing.
  if (now.bytes_per_second != before.bytes_per_second ||
      std::chrono::abs(now.round_trip - before.round_trip) >
          before.round_trip / 4) {
    note_row_links();
    weigh_at_ = TimePoint::min();
  }
}

/// Seconds of a row and its result between each process and one process in the
/// middle. A row between two processes takes at most the sum of their seconds.
/// The middle is the coordinator's process if it has workers. Otherwise it is
/// the process, among the first few, with the fastest links to all.
void CoordinatorPolicy::note_row_links() {
  if (!options_.method.kind->spreads) {
    return;
  }
  const ValueSizes& sizes = options_.value_sizes;
  std::set<int> processes;
  for (const Worker& worker : workers_) {
    if (!worker.gone) {
      processes.insert(worker.traits.process);
    }
  }
  double nearest = std::numeric_limits<double>::infinity();
  int tries = 0;
  for (const int middle : processes) {
    std::map<int, double> taken;
    double sum = 0;
    for (const int process : processes) {
      const double way = links_.seconds(middle, process, sizes.state) +
                         links_.seconds(process, middle, sizes.output);
      taken[process] = way;
      sum += way;
    }
    if (sum < nearest) {
      nearest = sum;
      row_links_ = std::move(taken);
    }
    if (middle == kHomeProcess || ++tries == kMostMiddles) {
      break;
    }
  }
  for (int w = 0; w < num_workers(); ++w) {
    note_load(w);
  }
}

void CoordinatorPolicy::weigh_links() {
  if (links_.empty() || now_ < weigh_at_) {
    return;
  }
  weigh_at_ = now_ + kWeighEvery;
  note_row_links();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (groups_.is_open(g)) {
      weigh_parts(g);
      (void)weigh_group(g);
      move_delayed(g);
    }
  }
}

// ---- what is known

/// Seconds of a row of the whole network; 0: not known. A worker that has not
/// shown it counts like the one of its class that had the last pass.
double CoordinatorPolicy::usual_row(int index) const {
  const Worker& worker = workers_[static_cast<std::size_t>(index)];
  return worker.usual_row_seconds > 0
             ? worker.usual_row_seconds
             : times_[static_cast<std::size_t>(worker.traits.execution_class)]
                   .usual_row_seconds;
}

/// Seconds of a row on the group's slowest worker; 0: not known. All parts are
/// rehearsed with this time. So a slow worker, or one whose first pass was
/// slow, is not left out: only slow links count.
double CoordinatorPolicy::slowest_row(std::size_t group) const {
  double slowest = 0;
  for (const int w : groups_.group(group).workers) {
    const Worker& worker = workers_[static_cast<std::size_t>(w)];
    if (groups_.group_of(w) == group && worker.alive) {
      slowest = std::max(slowest, usual_row(w));
    }
  }
  return slowest;
}

/// Of the network's work, in a task of this op and segment. A peer can name any
/// segment.
double CoordinatorPolicy::share_of(samplers::Op op, int segment) const {
  if (op->work != samplers::Work::segment) {
    return op->joins() ? 1 : 0;
  }
  const auto s = static_cast<std::size_t>(segment);
  const bool is_known = s < options_.segments.size();
  const double share = is_known ? options_.segments[s].share : 0;
  return share > 0 ? share : 1.0 / samplers::num_segments(options_.method);
}

std::uint64_t CoordinatorPolicy::output_bytes(const Task& task,
                                              std::size_t place) const {
  const ValueSizes& sizes = options_.value_sizes;
  const auto segment = static_cast<std::size_t>(task.segment);
  const ValueKind kind = samplers::output_kind(
      task, place, samplers::num_segments(options_.method));
  return kind == ValueKind::boundary && segment < options_.segments.size()
             ? options_.segments[segment].sent_bytes
             : bytes_of(sizes, kind);
}

/// Processes of its workers that are alive.
std::set<int> CoordinatorPolicy::processes_of(std::size_t group) const {
  std::set<int> processes;
  for (const int w : groups_.group(group).workers) {
    const Worker& worker = workers_[static_cast<std::size_t>(w)];
    if (groups_.group_of(w) == group && worker.alive && !worker.drains) {
      processes.insert(worker.traits.process);
    }
  }
  return processes;
}

/// The worker of the group that computes this part if workers of the processes
/// `without` are left out; null: those that are left out now. −1: there is
/// none.
int CoordinatorPolicy::worker_of_part(std::size_t group, int part,
                                      const std::set<int>* without) const {
  const std::vector<int>& planned = groups_.group(group).workers;
  const auto first = static_cast<std::size_t>(part);
  for (std::size_t i = first; i < first + planned.size(); ++i) {
    const int w = planned[i % planned.size()];
    const Worker& worker = workers_[static_cast<std::size_t>(w)];
    const bool is_out = without == nullptr
                            ? worker.is_left_out
                            : without->contains(worker.traits.process);
    if (groups_.group_of(w) == group && worker.alive && !worker.drains &&
        !is_out) {
      return w;
    }
  }
  return -1;
}

/// For the log: the link between a process and the others of the group that
/// compute.
std::string CoordinatorPolicy::link_of(int process,
                                       const std::set<int>& others) const {
  const bool is_home = others.empty() || others.contains(kHomeProcess);
  return "its link (" +
         to_string(links_.between(process,
                                  is_home ? kHomeProcess : *others.begin())) +
         ")";
}

void CoordinatorPolicy::set_left_out(int index, bool is_left_out,
                                     const std::string& why) {
  Worker& worker = at(index);
  worker.is_left_out = is_left_out;
  note_load(index);
  commands_.push_back(
      LinkWeighed{index, worker.traits.process, is_left_out, why});
}

// ---- parts of a group

/// Leaves out the processes of the group without which a call is fastest.
void CoordinatorPolicy::weigh_parts(std::size_t group) {
  if (samplers::num_parts(options_.method) == 1) {
    return;
  }
  const std::set<int> processes = processes_of(group);
  std::set<int> out;  // now
  std::vector<int> workers;
  for (const int w : groups_.group(group).workers) {
    const Worker& worker = at(w);
    if (groups_.group_of(w) == group &&
        processes.contains(worker.traits.process)) {
      workers.push_back(w);
      if (worker.is_left_out) {
        out.insert(worker.traits.process);
      }
    }
  }
  if (out.empty() && !may_slow(group, processes)) {
    call_seconds_.erase(group);
    return;
  }
  const std::set<int> best = best_without(group, processes, out);
  const double fastest = seconds_per_call(group, best);
  call_seconds_[group] = fastest;
  if (best == out) {
    return;
  }
  for (const int w : workers) {
    const int process = at(w).traits.process;
    const bool is_out = best.contains(process);
    if (at(w).is_left_out == is_out) {
      continue;
    }
    std::set<int> otherwise = best;
    std::set<int> others = processes;
    std::erase_if(others, [&](int one) { return best.contains(one); });
    others.erase(process);
    if (is_out) {
      otherwise.erase(process);
    } else {
      otherwise.insert(process);
    }
    const std::string slower =
        otherwise.size() < processes.size()
            ? two_digits(seconds_per_call(group, otherwise)) + " s"
            : "longer";
    const std::string faster = two_digits(fastest) + " s";
    set_left_out(w, is_out,
                 is_out
                     ? link_of(process, others) + " would make a call take " +
                           slower + " instead of " + faster
                     : "with " + link_of(process, others) + " a call takes " +
                           faster + " instead of " + slower);
  }
  for (const std::uint64_t index : groups_.samples(group)) {
    recall_misplaced(samples_.at(index));
  }
}

/// Which processes are to be left out; `out`: those that are now. Searches from
/// all of them and from each alone, then changes one at a time: a link that is
/// as slow as another one costs nothing until the other one is left out.
std::set<int> CoordinatorPolicy::best_without(std::size_t group,
                                              const std::set<int>& processes,
                                              const std::set<int>& out) {
  if (!may_slow(group, processes)) {
    return {};
  }
  std::set<int> best;
  double fastest = seconds_per_call(group, best);
  const auto try_without = [&](const std::set<int>& without) {
    if (without.size() >= processes.size() || !has_memory(group, without)) {
      return false;
    }
    const double taken = seconds_per_call(group, without);
    const bool is_faster = taken < fastest;
    if (is_faster) {
      fastest = taken;
      best = without;
    }
    return is_faster;
  };
  for (const int process : processes) {
    std::set<int> others = processes;
    others.erase(process);
    (void)try_without(others);
  }
  bool changes = true;
  while (changes) {
    changes = false;
    for (const int process : processes) {
      std::set<int> changed = best;
      if (changed.erase(process) == 0) {
        changed.insert(process);
      }
      changes = try_without(changed) || changes;
    }
  }
  const bool is_possible =
      out.size() < processes.size() && has_memory(group, out);
  return is_possible && seconds_per_call(group, out) < kClearlyFaster * fastest
             ? out
             : best;
}

/// Whether links between the processes may take as long as something gained by
/// leaving one out; it costs less than to find out.
bool CoordinatorPolicy::may_slow(std::size_t group,
                                 const std::set<int>& processes) const {
  if (processes.size() < 2) {
    return false;
  }
  const ValueSizes& sizes = options_.value_sizes;
  std::uint64_t largest = std::max(sizes.state, sizes.output);
  largest = std::max(largest, sizes.boundary);
  double slowest = 0;
  for (const int from : processes) {
    for (const int to : processes) {
      slowest = std::max(slowest, links_.seconds(from, to, largest));
    }
  }
  const double ways = samplers::num_segments(options_.method) + 1;
  const double work = slowest_row(group);
  return work > 0 &&
         ways * slowest * kClearlyFaster > (kClearlyFaster - 1) * work;
}

/// Whether the memories of the others have room for the segments of those that
/// are left out. What is not known forbids nothing.
bool CoordinatorPolicy::has_memory(std::size_t group,
                                   const std::set<int>& without) const {
  if (without.empty() || options_.segments.size() < 2) {
    return true;
  }
  std::map<int, std::uint64_t> bytes;  // by worker
  for (std::size_t s = 0; s < options_.segments.size(); ++s) {
    const int part =
        samplers::part_of_segment(options_.method, static_cast<int>(s));
    bytes[worker_of_part(group, part, &without)] +=
        options_.segments[s].weights_bytes;
  }
  return std::ranges::all_of(bytes, [this](const auto& entry) {
    const WorkerTraits& traits =
        workers_[static_cast<std::size_t>(entry.first)].traits;
    const ProcessMeans* const means = tally_.means_of(traits.process);
    if (means == nullptr) {
      return true;
    }
    std::uint64_t memory = means->available_memory_bytes;
    if (traits.device.kind != DeviceKind::cpu) {
      const auto found = std::ranges::find(means->devices, traits.device,
                                           &DeviceMeans::device);
      memory = found == means->devices.end() ? 0 : found->memory_bytes;
    }
    return memory == 0 || static_cast<double>(entry.second) <=
                              kMemoryForWeights * static_cast<double>(memory);
  });
}

/// Predicted, with as many samples in flight as there will be. 0: not known.
double CoordinatorPolicy::seconds_per_call(std::size_t group,
                                           const std::set<int>& without) {
  if (!rehearsal_) {
    const auto cost_of = [this](const Task& task) {
      TaskCost cost{share_of(task.op, task.segment), {}};
      for (std::size_t i = 0; i < task.outputs.size(); ++i) {
        cost.output_bytes.push_back(output_bytes(task, i));
      }
      return cost;
    };
    rehearsal_.emplace(*options_.make_method(), kRehearsedCalls, cost_of);
  }
  std::vector<PartWorker> parts;
  for (int part = 0; part < samplers::num_parts(options_.method); ++part) {
    const int w = worker_of_part(group, part, &without);
    parts.push_back({w, at(w).traits.process});
  }
  const std::size_t waiting = options_.samples.size() - next_sample_;
  const std::size_t in_flight = std::clamp<std::size_t>(
      waiting + groups_.load(group), 1, groups_.most(group));
  return rehearsal_->seconds_per_call(parts, links_, slowest_row(group),
                                      in_flight);
}

// ---- whole samples, and rows that spread

/// What the group takes for its next sample, or row that spreads, as far as it
/// is known.
CoordinatorPolicy::GroupPace CoordinatorPolicy::pace_of(
    std::size_t group) const {
  const int first = worker_of_part(group, 0, &kNobody);
  const double row = first < 0 ? 0 : usual_row(first);
  if (row == 0) {
    return {};
  }
  const int process = workers_[static_cast<std::size_t>(first)].traits.process;
  if (options_.method.kind->spreads) {
    const auto link = row_links_.find(process);
    return {row, link == row_links_.end() ? 0 : link->second};
  }
  const auto of_parts = call_seconds_.find(group);
  const double call = of_parts == call_seconds_.end() ? row : of_parts->second;
  return {
      calls_per_sample_ * call,
      links_.seconds(process, kHomeProcess,
                     options_.value_sizes.state + options_.value_sizes.pixels)};
}

/// Seconds in which the other groups do so many samples, or rows; 0: not known.
double CoordinatorPolicy::time_of_others(std::size_t group,
                                         double units) const {
  const bool is_row = options_.method.kind->spreads;
  std::vector<double> each;
  double per_second = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (g == group || !groups_.is_open(g) || groups_.is_left_out(g) ||
        (is_row && groups_.class_of(g) != groups_.class_of(group))) {
      continue;
    }
    const GroupPace pace = pace_of(g);
    if (pace.work > 0) {
      each.push_back(is_row ? pace.work + pace.link
                            : std::max(pace.work, pace.link));
      per_second += 1 / each.back();
    }
  }
  if (each.empty()) {
    return 0;
  }
  // The least time in which these groups do as many whole samples, or rows.
  constexpr int kHalvings = 32;
  double low = units / per_second;
  double high = units * std::ranges::min(each);
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    double done = 0;
    for (const double one : each) {
      done += std::floor(middle / one);
    }
    (done >= units ? high : low) = middle;
  }
  return high;
}

/// Samples that the other groups have, or would have to do without this one; of
/// a method that spreads, rows of a round.
double CoordinatorPolicy::units_of_others(std::size_t group) const {
  if (!options_.method.kind->spreads) {
    return static_cast<double>(options_.samples.size() - next_sample_ +
                               samples_.size() - groups_.load(group));
  }
  const auto most_rows = options_.method.kind->most_rows;
  const int rows = most_rows == nullptr ? 1 : most_rows(options_.method);
  const auto in_flight =
      static_cast<double>(std::max<std::size_t>(samples_.size(), 1));
  return std::min(rows, calls_per_sample_) * in_flight;
}

/// Why the next sample, or a row, should not go to the group because of its
/// link: it would come after others have done all. Nothing: it may go there.
std::optional<std::string> CoordinatorPolicy::delay_of(
    std::size_t group) const {
  if (links_.empty()) {
    return std::nullopt;
  }
  const GroupPace own = pace_of(group);
  const double units = units_of_others(group);
  if (units == 0 || own.link <= (kClearlyFaster - 1) * own.work ||
      own.work == 0) {
    return std::nullopt;
  }
  const bool is_row = options_.method.kind->spreads;
  // While the values of one sample travel, the group computes the next.
  const double before = is_row ? 0 : static_cast<double>(groups_.load(group));
  const double taken =
      before * std::max(own.work, own.link) + own.work + own.link;
  const double others = time_of_others(group, units);
  const double least =
      groups_.is_left_out(group) ? others / kClearlyFaster : others;
  if (others == 0 || taken <= least || (before + 1) * own.work > others) {
    return std::nullopt;
  }
  const int process =
      workers_[static_cast<std::size_t>(worker_of_part(group, 0, &kNobody))]
          .traits.process;
  return link_of(process, {}) + " would make " +
         (is_row ? "a row take " : "its next sample take ") +
         two_digits(taken) +
         (is_row ? " s: the others do a round in "
                 : " s: the others do what is left in ") +
         two_digits(others) + " s";
}

/// Whether the group is left out from now on.
bool CoordinatorPolicy::weigh_group(std::size_t group) {
  const bool is_row = options_.method.kind->spreads;
  const bool was_out = groups_.is_left_out(group);
  if (links_.empty() || (!is_row && next_sample_ == options_.samples.size())) {
    return was_out;
  }
  const std::optional<std::string> why = delay_of(group);
  if (why.has_value() != was_out) {
    leave_out_group(group, why);
  }
  return why.has_value();
}

/// `why`: nothing if the group takes part again.
void CoordinatorPolicy::leave_out_group(std::size_t group,
                                        const std::optional<std::string>& why) {
  const bool is_row = options_.method.kind->spreads;
  groups_.set_left_out(group, why.has_value());
  const std::string text = why.value_or("its link delays nothing any more");
  for (const int w : groups_.group(group).workers) {
    if (groups_.group_of(w) != group) {
      continue;
    }
    if (!is_row) {  // it goes on with the samples that it has
      commands_.push_back(
          LinkWeighed{w, at(w).traits.process, why.has_value(), text});
      continue;
    }
    set_left_out(w, why.has_value(), text);
    for (const auto& [number, granted] : at(w).held) {
      if (why && spreads(granted.work.task) && !granted.work.alone) {
        recall(w, number);
      }
    }
  }
}

/// Moves samples that others would end much sooner, because the group's link
/// was not known or not weighed when they began.
void CoordinatorPolicy::move_delayed(std::size_t group) {
  const bool is_row = options_.method.kind->spreads;
  const GroupPace own = pace_of(group);
  while (own.link > 0 && own.work > 0 && groups_.load(group) > 0) {
    Sample& youngest = samples_.at(groups_.youngest(group));
    const std::optional<std::size_t> other = groups_.best(class_of(youngest));
    if (!other || *other == group || !groups_.is_open(*other) ||
        groups_.is_left_out(*other) || !fits(*other, youngest.room) ||
        (is_row && !groups_.is_left_out(group))) {
      return;
    }
    if (!is_row) {
      const samplers::Progress progress = youngest.method->progress();
      const double left = own.work * (progress.total - progress.accepted) /
                          std::max(progress.total, 1);
      const int from = worker_of_part(group, 0, &kNobody);
      const int to = worker_of_part(*other, 0, &kNobody);
      const double elsewhere =
          time_of_others(group, units_of_others(group) + 1);
      if (elsewhere == 0 || from < 0 || to < 0) {
        return;
      }
      const double there =
          kWorthMoving *
          (elsewhere + links_.seconds(at(from).traits.process,
                                      at(to).traits.process,
                                      options_.value_sizes.state));
      if (left > there || left + own.link <= there) {
        return;
      }
      if (!groups_.is_left_out(group)) {
        leave_out_group(group, link_of(at(from).traits.process, {}) +
                                   " would make a sample take " +
                                   two_digits(left + own.link) +
                                   " s more: the others do it in " +
                                   two_digits(elsewhere) + " s");
      }
    }
    place(youngest, *other);
  }
}

}  // namespace troupe::actors
