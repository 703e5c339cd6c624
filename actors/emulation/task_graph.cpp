#include "actors/emulation/task_graph.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

#include "actors/plan.h"

namespace troupe::actors::emulation {
namespace {

using samplers::Task;

bool spreads(const Placement& placement, const Task& task) {
  return placement.spreads && task.op->spreads;
}

/// Whether two parts of a sample are on different devices in every group.
bool are_apart(const Placement& placement, std::size_t num_devices,
               const Task& a, const Task& b) {
  const auto parts = static_cast<std::size_t>(placement.num_parts);
  const std::size_t left_over = num_devices % parts;
  const auto smallest = static_cast<int>(left_over > 0 ? left_over : parts);
  return !spreads(placement, a) && !spreads(placement, b) &&
         a.part % smallest != b.part % smallest;
}

double critical_path(const TaskGraph& graph, const Machine& machine,
                     const Placement& placement) {
  const double fastest = std::ranges::max(machine.speeds);
  std::vector<double> ends;
  for (const TaskGraph::Node& node : graph.nodes) {
    double ready = 0;
    for (const TaskGraph::Input& input : node.inputs) {
      const Task& maker = graph.nodes[input.maker].task;
      const bool travels =
          are_apart(placement, machine.num_workers(), maker, node.task);
      const double way =
          travels
              ? to_seconds(machine.transfer(input.bytes) + machine.latency())
              : 0;
      ready = std::max(ready, ends[input.maker] + way);
    }
    const int rows = machine.rows_of(node.task);
    const double alone = machine.pass_seconds(node.task, rows) *
                         graph.passes[node.pass].slowness;
    ends.push_back(ready + alone / fastest +
                   machine.exchange_seconds(node.task, rows));
  }
  return ends.empty() ? 0 : std::ranges::max(ends);
}

/// Who may run a part of a sample.
std::vector<std::size_t> hosts_of(int part, const Machine& machine,
                                  const Placement& placement) {
  std::vector<std::size_t> hosts;
  for (const WorkerGroup& group : group_workers(
           std::vector<int>(machine.num_workers(), 0), placement.num_parts)) {
    const auto place = static_cast<std::size_t>(part) % group.workers.size();
    hosts.push_back(static_cast<std::size_t>(group.workers[place]));
  }
  return hosts;
}

/// The larger of two: all work over the sum of all speeds, and a part's work
/// over the speeds of the devices that host the part.
double work(const TaskGraph& graph, const Machine& machine,
            const Placement& placement, int max_rows) {
  const double slowest = std::ranges::min(machine.speeds);
  double all = 0;
  std::map<int, double> by_part;
  for (const TaskGraph::Node& node : graph.nodes) {
    const int rows = machine.rows_of(node.task);
    const double alone = machine.pass_seconds(node.task, rows);
    const double joined =
        machine.pass_seconds(node.task, rows * max_rows) / max_rows;
    // An exchange takes the slowest device at least so much of its work.
    const double seconds =
        std::min(alone, joined) * graph.passes[node.pass].slowness +
        machine.exchange_seconds(node.task, rows) * slowest;
    all += seconds;
    if (!spreads(placement, node.task)) {
      by_part[node.task.part] += seconds;
    }
  }
  double most =
      all / std::accumulate(machine.speeds.begin(), machine.speeds.end(), 0.0);
  for (const auto& [part, seconds] : by_part) {
    double speed = 0;
    for (const std::size_t host : hosts_of(part, machine, placement)) {
      speed += machine.speeds[host];
    }
    most = std::max(most, seconds / speed);
  }
  return most;
}

/// Graham's list scheduling, with links.
class ListSchedule {
 public:
  ListSchedule(const TaskGraph& graph, const Machine& machine,
               const Placement& placement)
      : graph_(graph),
        machine_(machine),
        placement_(placement),
        links_(machine),
        busy_(machine.num_workers()),
        ends_(graph.nodes.size()),
        devices_(graph.nodes.size()),
        unmade_(graph.passes.size()),
        readers_(graph.nodes.size()) {
    for (int part = 0; part < placement.num_parts; ++part) {
      hosts_.push_back(hosts_of(part, machine, placement));
    }
  }

  [[nodiscard]] double makespan() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (const TaskGraph::Input& input : graph_.nodes[n].inputs) {
        ++unmade_[graph_.nodes[n].pass];
        readers_[input.maker].push_back(graph_.nodes[n].pass);
      }
    }
    for (std::size_t p = 0; p < graph_.passes.size(); ++p) {
      if (unmade_[p] == 0) {
        ready_.emplace(TimePoint{}, p);
      }
    }
    TimePoint last{};
    while (!ready_.empty()) {
      const auto [when, pass] = ready_.top();
      ready_.pop();
      last = std::max(last, run(pass));
    }
    return to_seconds(last - TimePoint{});
  }

 private:
  struct Busy {
    TimePoint begin;
    TimePoint end;
  };

  /// When the pass could begin there, its inputs being there at `arrival`. What
  /// takes no time waits for the pass that runs, and no longer.
  [[nodiscard]] TimePoint start(std::size_t device, Duration length,
                                TimePoint arrival) const {
    const std::vector<Busy>& busy = busy_[device];
    if (length > Duration{}) {
      return busy.empty() ? arrival : std::max(arrival, busy.back().end);
    }
    const auto later = std::ranges::upper_bound(busy, arrival, {}, &Busy::end);
    return later == busy.end() || later->begin >= arrival ? arrival
                                                          : later->end;
  }

  /// When all inputs of the pass would be there.
  [[nodiscard]] TimePoint arrival(const TaskGraph::Pass& pass,
                                  std::size_t device) const {
    TimePoint last{};
    for (const std::size_t node : pass.nodes) {
      for (const TaskGraph::Input& input : graph_.nodes[node].inputs) {
        last = std::max(last, here(input, device));
      }
    }
    return last;
  }

  /// When an input is there, or would be.
  [[nodiscard]] TimePoint here(const TaskGraph::Input& input,
                               std::size_t device) const {
    const std::size_t from = devices_[input.maker];
    const TimePoint made = ends_[input.maker];
    if (from == device) {
      return made;
    }
    const auto sent = sent_.find({input.maker, device});
    return sent != sent_.end()
               ? sent->second
               : links_.arrival(from, device, input.bytes, made);
  }

  [[nodiscard]] Duration length(const TaskGraph::Pass& pass,
                                std::size_t device) const {
    int rows = 0;
    for (const std::size_t node : pass.nodes) {
      rows += machine_.rows_of(graph_.nodes[node].task);
    }
    const Task& first = graph_.nodes[pass.nodes.front()].task;
    return to_duration(machine_.pass_seconds(first, rows) * pass.slowness /
                           machine_.speeds[device] +
                       machine_.exchange_seconds(first, rows));
  }

  [[nodiscard]] std::vector<std::size_t> candidates(
      const TaskGraph::Pass& pass) const {
    const Task& first = graph_.nodes[pass.nodes.front()].task;
    if (spreads(placement_, first)) {
      std::vector<std::size_t> all(machine_.num_workers());
      std::iota(all.begin(), all.end(), std::size_t{0});
      return all;
    }
    return hosts_.at(static_cast<std::size_t>(first.part));
  }

  /// Returns its end.
  TimePoint run(std::size_t number) {
    const TaskGraph::Pass& pass = graph_.passes[number];
    std::size_t best = 0;
    TimePoint end = TimePoint::max();
    for (const std::size_t device : candidates(pass)) {
      const Duration time = length(pass, device);
      const TimePoint there = start(device, time, arrival(pass, device)) + time;
      if (there < end) {
        end = there;
        best = device;
      }
    }
    for (const std::size_t node : pass.nodes) {
      for (const TaskGraph::Input& input : graph_.nodes[node].inputs) {
        bring(input, best);
      }
    }
    const Duration time = length(pass, best);
    const TimePoint begin = start(best, time, arrival(pass, best));
    end = begin + time;
    if (time > Duration{}) {
      busy_[best].push_back({begin, end});
    }
    for (const std::size_t node : pass.nodes) {
      ends_[node] = end;
      devices_[node] = best;
      for (const std::size_t reader : readers_[node]) {
        if (--unmade_[reader] == 0) {
          ready_.emplace(end, reader);
        }
      }
    }
    return end;
  }

  void bring(const TaskGraph::Input& input, std::size_t device) {
    const std::size_t from = devices_[input.maker];
    if (from != device && !sent_.contains({input.maker, device})) {
      sent_[{input.maker, device}] =
          links_.send(from, device, input.bytes, ends_[input.maker]);
    }
  }

  using Ready = std::pair<TimePoint, std::size_t>;

  const TaskGraph& graph_;
  const Machine& machine_;
  const Placement& placement_;
  Links links_;
  std::vector<std::vector<std::size_t>> hosts_;  ///< by part
  std::vector<std::vector<Busy>> busy_;  ///< by device, one after the other
  std::vector<TimePoint> ends_;          ///< by node
  std::vector<std::size_t> devices_;     ///< by node
  std::vector<std::size_t> unmade_;      ///< inputs, by pass
  std::vector<std::vector<std::size_t>> readers_;  ///< passes, by node
  std::map<std::pair<std::size_t, std::size_t>, TimePoint> sent_;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready_;
};

}  // namespace

void GraphRecorder::begin(std::span<const SampleTask> tasks, double slowness) {
  const std::size_t number = graph_.passes.size();
  TaskGraph::Pass& pass = graph_.passes.emplace_back();
  pass.slowness = slowness;
  for (const SampleTask& work : tasks) {
    pass.nodes.push_back(graph_.nodes.size());
    TaskGraph::Node& node = graph_.nodes.emplace_back();
    node.task = work.task;
    node.pass = number;
    for (const samplers::Slot slot : work.task.inputs) {
      const auto value = values_.find({work.sample_index, work.run, slot});
      if (value != values_.end()) {
        node.inputs.push_back(value->second);
      }
    }
    for (const samplers::Slot slot : work.task.outputs) {
      values_[{work.sample_index, work.run, slot}] = {pass.nodes.back(), 0};
    }
  }
}

void GraphRecorder::made(const ValueName& name, std::uint64_t bytes) {
  values_.at(name).bytes = bytes;
}

double Bounds::lower() const {
  return std::max({critical_path, work, traffic});
}

Bounds bounds_of(const TaskGraph& graph, const Machine& machine,
                 const Placement& placement, int max_rows,
                 std::uint64_t bytes_sent) {
  return {.critical_path = critical_path(graph, machine, placement),
          .work = work(graph, machine, placement, max_rows),
          .traffic = to_seconds(machine.transfer(bytes_sent)) /
                     static_cast<double>(machine.num_workers()),
          .list_schedule = ListSchedule(graph, machine, placement).makespan()};
}

}  // namespace troupe::actors::emulation
