#include "actors/rehearsal.h"

#include <algorithm>
#include <map>
#include <utility>

namespace troupe::actors {

using samplers::Slot;
using samplers::Task;

Rehearsal::Rehearsal(samplers::Method& method, int calls,
                     const std::function<TaskCost(const Task&)>& cost_of)
    : calls_(std::min(calls, method.progress().total)) {
  std::map<Slot, std::size_t> places;
  while (method.accepted() < calls_) {
    const std::vector<Task> ready = method.ready(samplers::kNothingAhead);
    if (ready.empty()) {
      break;
    }
    for (const Task& task : ready) {
      TaskCost cost = cost_of(task);
      Step step{.part = static_cast<std::size_t>(task.part),
                .share = cost.share,
                .inputs = {},
                .first_output = values_.size(),
                .num_outputs = cost.output_bytes.size()};
      for (const Slot slot : task.inputs) {
        if (const auto found = places.find(slot); found != places.end()) {
          step.inputs.push_back(found->second);
        }
      }
      for (std::size_t i = 0; i < task.outputs.size(); ++i) {
        places[task.outputs[i]] = values_.size() + i;
      }
      values_.insert(values_.end(), cost.output_bytes.begin(),
                     cost.output_bytes.end());
      steps_.push_back(std::move(step));
      (void)method.apply({task.id, task.version,
                          std::vector<double>(samplers::num_scalars(task))});
    }
    steps_.back().is_last_of_its_wave = true;
  }
}

/// One prediction.
class Rehearsal::Play {
 public:
  Play(const Rehearsal& of, const std::vector<PartWorker>& parts,
       const LinkTable& links, double row_seconds, std::size_t in_flight)
      : of_(of),
        links_(links),
        row_seconds_(row_seconds),
        in_flight_(in_flight) {
    for (const PartWorker& part : parts) {
      workers_.push_back(place_of(part.worker, known_workers_));
      processes_.push_back(place_of(part.process, known_processes_));
    }
    free_at_.resize(known_workers_.size());
    sent_at_.resize(known_processes_.size() * known_processes_.size());
    made_.resize(of_.values_.size() * in_flight_);
    there_.resize(made_.size() * known_processes_.size(), kNotSent);
  }

  /// When all is done. The samples take turns.
  double run() {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < of_.steps_.size(); ++i) {
      if (!of_.steps_[i].is_last_of_its_wave) {
        continue;
      }
      for (std::size_t sample = 0; sample < in_flight_; ++sample) {
        for (std::size_t s = begin; s <= i; ++s) {
          compute(of_.steps_[s], sample * of_.values_.size());
        }
      }
      begin = i + 1;
    }
    return end_;
  }

 private:
  static constexpr double kNotSent = -1;

  struct Made {
    double when = 0;
    std::size_t part = 0;
  };

  static std::size_t place_of(int number, std::vector<int>& known) {
    const auto found = std::ranges::find(known, number);
    const auto place = static_cast<std::size_t>(found - known.begin());
    if (found == known.end()) {
      known.push_back(number);
    }
    return place;
  }

  /// When the value is where the part is computed. A message's way does not
  /// keep the link from what is sent next; a value's bytes do.
  double arrival(std::size_t value, std::uint64_t bytes, std::size_t part) {
    const Made& made = made_[value];
    const std::size_t from = processes_[made.part];
    const std::size_t to = processes_[part];
    if (from == to) {
      return made.when;
    }
    double& there = there_[value * known_processes_.size() + to];
    if (there == kNotSent) {
      const int sender = known_processes_[from];
      const int taker = known_processes_[to];
      const double message = links_.seconds(sender, taker, 0);
      double& sent = sent_at_[from * known_processes_.size() + to];
      sent = std::max(sent, made.when) +
             (links_.seconds(sender, taker, bytes) - message);
      there = sent + message;
    }
    return there;
  }

  void compute(const Step& step, std::size_t first_value) {
    const double work = step.share * row_seconds_;
    double& free = free_at_[workers_[step.part]];
    // What takes no time does not wait for the worker.
    double begin = work > 0 ? free : 0;
    for (const std::size_t input : step.inputs) {
      begin = std::max(
          begin, arrival(first_value + input, of_.values_[input], step.part));
    }
    if (work > 0) {
      free = begin + work;
    }
    end_ = std::max(end_, begin + work);
    for (std::size_t i = 0; i < step.num_outputs; ++i) {
      made_[first_value + step.first_output + i] = {begin + work, step.part};
    }
  }

  const Rehearsal& of_;
  const LinkTable& links_;
  double row_seconds_;
  std::size_t in_flight_;
  // By part: places in what is known.
  std::vector<std::size_t> workers_;
  std::vector<std::size_t> processes_;
  std::vector<int> known_workers_;
  std::vector<int> known_processes_;
  std::vector<double> free_at_;  ///< by worker
  std::vector<double> sent_at_;  ///< by sender and taker
  std::vector<Made> made_;       ///< by sample and value
  std::vector<double> there_;    ///< by sample, value and taker
  double end_ = 0;
};

double Rehearsal::seconds_per_call(const std::vector<PartWorker>& parts,
                                   const LinkTable& links, double row_seconds,
                                   std::size_t in_flight) const {
  return Play(*this, parts, links, row_seconds, in_flight).run() /
         (static_cast<double>(calls_) * static_cast<double>(in_flight));
}

}  // namespace troupe::actors
