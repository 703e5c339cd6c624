#include "samplers/parallel/plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "samplers/parallel/bytes.h"

namespace troupe::samplers {
namespace {

/// Of a sample: a task takes some 200 bytes of the job.
constexpr std::size_t kMostTasks = std::size_t{1} << 19U;

std::int64_t rounded_up(std::int64_t part, std::int64_t whole) {
  return (part + whole - 1) / whole;
}

}  // namespace

Slots TaskList::add(Task task, int num_outputs) {
  require(tasks_.size() < kMostTasks, Errc::unsupported, "method",
          "a sample would take more than half a million tasks");
  for (int i = 0; i < num_outputs; ++i) {
    task.outputs.push_back(next_slot_++);
  }
  tasks_.push_back(std::move(task));
  return tasks_.back().outputs;
}

Plan::Plan(const MethodOptions& options, int num_calls)
    : options_(options),
      list_(options.kind->plan(options, num_calls)),
      num_segments_(samplers::num_segments(options)),
      makers_(list_.next_slot_, kNoTask),
      readers_(makers_.size()) {
  drop_unneeded();
  if (kind()->spreads) {
    sort_by_rounds();
  }
  connect();
}

void Plan::drop_unneeded() {
  std::vector<bool> is_needed(list_.next_slot_);
  for (const TaskList::Point& point : list_.points_) {
    is_needed[point.state] = true;
  }
  for (const Slot slot : list_.early_results_) {
    is_needed[slot] = true;
  }
  const auto is_task_needed = [&](const Task& task) {
    return std::ranges::any_of(task.outputs,
                               [&](Slot slot) { return is_needed[slot]; });
  };
  for (std::size_t i = list_.tasks_.size(); i-- > 0;) {
    if (const Task& task = list_.tasks_[i]; is_task_needed(task)) {
      for (const Slot slot : task.inputs) {
        is_needed[slot] = true;
      }
    }
  }
  std::erase_if(list_.tasks_, std::not_fn(is_task_needed));
}

void Plan::sort_by_rounds() {
  std::vector<int> round_of(list_.next_slot_);
  for (const Task& task : list_.tasks_) {
    int round = 0;
    for (const Slot slot : task.inputs) {
      round = std::max(round, round_of[slot]);
    }
    for (const Slot slot : task.outputs) {
      round_of[slot] = round + (task.op->joins() ? 1 : 0);
    }
  }
  std::ranges::stable_sort(list_.tasks_, {}, [&](const Task& task) {
    return round_of[task.outputs.front()];
  });
}

void Plan::connect() {
  nodes_.resize(list_.tasks_.size());
  std::vector<int> point_in(makers_.size(), -1);  // by slot; −1: none
  for (int p = 0; p < num_points(); ++p) {
    point_in[slot_of_point(p)] = p;
  }
  std::map<std::pair<int, int>, int> depths;  // by part and segment
  for (int i = 0; i < size(); ++i) {
    Node& node = nodes_[static_cast<std::size_t>(i)];
    Task& task = list_.tasks_[static_cast<std::size_t>(i)];
    task.id = static_cast<std::uint64_t>(i) + 1;
    for (const Slot slot : task.outputs) {
      makers_[slot] = i;
      node.point = std::max(node.point, point_in[slot]);
      task.is_early_result |=
          std::ranges::count(list_.early_results_, slot) > 0;
    }
    task.is_on_chain = node.point >= 0;
    for (const Slot slot : task.inputs) {
      readers_[slot].push_back(i);
      if (const int maker = maker_of(slot); maker != kNoTask) {
        const Node& before = this->node(maker);
        node.after = std::max({node.after, before.after, before.point});
        node.depth = std::max(node.depth, before.depth);
      }
    }
    if (task.op->joins()) {
      const int segments = task.op->work == Work::network ? num_segments_ : 1;
      node.units = task.branch == Branch::guided ? 2 * segments : segments;
      int& last = depths[{task.part, task.segment}];
      node.depth = (kind()->spreads ? node.depth : std::max(node.depth, last)) +
                   segments;
      last = node.depth;
    }
  }
  if (kind()->spreads) {
    for (Node& node : nodes_) {
      node.needed_by = std::max(node.depth / num_segments_ - 1, 0);
      node.after = node.needed_by - 1;
      num_steps_ = std::max(num_steps_, node.needed_by + 1);
    }
    return;
  }
  num_steps_ = num_points();
  for (int i = size() - 1; i >= 0; --i) {
    Node& node = nodes_[static_cast<std::size_t>(i)];
    node.needed_by = node.point < 0 ? num_points() : node.point;
    for (const Slot slot : task(i).outputs) {
      for (const int reader : readers_of(slot)) {
        node.needed_by = std::min(node.needed_by, this->node(reader).needed_by);
      }
    }
  }
}

int Plan::steps_ahead(int max_open) const {
  // Who is free first is not known long before.
  if (kind()->spreads) {
    return 1;
  }
  const int per_step = std::max(size() / std::max(num_steps_, 1), 1);
  return (std::max(max_open, 1) + per_step - 1) / per_step;
}

/// A value is there, at most, from when the step that it needs may be there
/// until all tasks are done that the steps of its readers need.
LiveValues Plan::most_live(int max_open) const {
  const int ahead = steps_ahead(max_open);
  // How the counts change when a step is complete, from step −1 on.
  std::vector<LiveValues> changes(static_cast<std::size_t>(num_steps_) + 2);
  const auto live = [&](Slot slot, ValueKind kind, int after, int until) {
    for (const int reader : readers_of(slot)) {
      until = std::max(until, node(reader).needed_by);
    }
    const auto count = kind == ValueKind::state    ? &LiveValues::states
                       : kind == ValueKind::output ? &LiveValues::outputs
                       : kind == ValueKind::skips  ? &LiveValues::skips
                       : kind == ValueKind::cache  ? &LiveValues::caches
                                                   : &LiveValues::boundaries;
    const int first = std::max(after - ahead, -1) + 1;
    ++(changes[static_cast<std::size_t>(first)].*count);
    --(changes[static_cast<std::size_t>(until) + 1].*count);
  };
  // The initial state is the result until the first point is there.
  live(kInitialSlot, ValueKind::state, -1,
       node(maker_of(slot_of_point(0))).needed_by);
  for (int i = 0; i < size(); ++i) {
    for (std::size_t place = 0; place < task(i).outputs.size(); ++place) {
      const Slot slot = task(i).outputs.at(place);
      // A point is the result until the next one is there.
      const int point = node(i).point;
      const bool is_point = point >= 0 && slot == slot_of_point(point);
      live(slot, output_kind(task(i), place, num_segments_), node(i).after,
           !is_point ? node(i).needed_by
           : point + 1 == num_points()
               ? num_steps_
               : node(maker_of(slot_of_point(point + 1))).needed_by);
    }
  }
  LiveValues now;
  LiveValues most;
  for (const LiveValues& change : changes) {
    for (const auto kind :
         {&LiveValues::states, &LiveValues::outputs, &LiveValues::boundaries,
          &LiveValues::skips, &LiveValues::caches}) {
      now.*kind += change.*kind;
      most.*kind = std::max(most.*kind, now.*kind);
    }
  }
  return most;
}

double Plan::cost_of(int index, const TurnShape& shape) const {
  const Task& one = task(index);
  if (one.op->work != Work::segment) {
    return static_cast<double>(node(index).units) /
           static_cast<double>(units());
  }
  const int parts = num_network_parts(options_);
  const int part = part_of_segment(options_, one.segment);
  const double share = shape.part_shares.empty()
                           ? 1.0 / parts
                           : shape.part_shares[static_cast<std::size_t>(part)];
  return keeps_skips(options_, part) ? share / 2 : share;  // inward and outward
}

/// Goes through the tasks in their order, each on the worker of its part, or on
/// the one that is free first.
Turn Plan::turn(const TurnShape& shape) const {
  std::vector<double> busy(static_cast<std::size_t>(shape.num_workers));
  std::vector<double> free(busy.size());
  std::vector<double> made(num_slots());
  Turn turn;
  for (int i = 0; i < size(); ++i) {
    double time = 0;
    for (const Slot slot : task(i).inputs) {
      time = std::max(time, made[slot]);
    }
    if (const double cost = cost_of(i, shape); cost > 0) {
      const std::size_t worker =
          kind()->spreads
              ? static_cast<std::size_t>(std::ranges::min_element(free) -
                                         free.begin())
              : static_cast<std::size_t>(task(i).part) % free.size();
      time = std::max(time, free[worker]) + cost;
      free[worker] = time;
      busy[worker] += cost;
      turn.evaluations += cost;
    }
    for (const Slot slot : task(i).outputs) {
      made[slot] = time;
    }
  }
  turn.busy = std::ranges::max(busy);
  turn.latency = made[slot_of_point(num_points() - 1)];
  return turn;
}

PlannedMethod::PlannedMethod(std::shared_ptr<const Plan> plan)
    : plan_(std::move(plan)),
      tasks_(static_cast<std::size_t>(plan_->size())),
      slots_(plan_->num_slots()),
      missing_(static_cast<std::size_t>(plan_->num_steps())) {
  for (Slot slot = 0; slot < slots_.size(); ++slot) {
    slots_[slot].readers_left =
        static_cast<int>(plan_->readers_of(slot).size());
  }
  slots_[kInitialSlot].is_live = true;
  for (int i = 0; i < plan_->size(); ++i) {
    ++missing_[static_cast<std::size_t>(plan_->node(i).needed_by)];
    at(i).inputs_missing = static_cast<int>(std::ranges::count_if(
        plan_->task(i).inputs, [](Slot slot) { return slot != kInitialSlot; }));
    if (at(i).inputs_missing == 0) {
      startable_.push_back(i);
    }
  }
}

std::vector<Task> PlannedMethod::ready(int max_open) {
  std::vector<Task> tasks;
  const int newest = complete_ + plan_->steps_ahead(max_open);
  const auto hand_out = [&](int index) {
    if (at(index).state == State::waiting &&
        plan_->node(index).after <= newest) {
      at(index).state = State::out;
      ++num_out_;
      tasks.push_back(plan_->task(index));
      tasks.back().version = version_;
    }
    return at(index).state != State::waiting;
  };
  std::erase_if(startable_, hand_out);
  // A task stands behind the tasks that make its inputs.
  while (next_ahead_ < plan_->size() &&
         (at(next_ahead_).state != State::waiting || num_out_ < max_open) &&
         hand_out(next_ahead_)) {
    ++next_ahead_;
  }
  return tasks;
}

std::optional<Slots> PlannedMethod::apply(const TaskResult& result) {
  if (result.id == 0 || result.id > tasks_.size()) {
    return std::nullopt;
  }
  const int index = static_cast<int>(result.id) - 1;
  if (at(index).state != State::out || result.version != version_) {
    return std::nullopt;
  }
  --num_out_;
  reused_ += has_reused(plan_->task(index), result.scalars) ? 1 : 0;
  const Slot old_result = result_;
  finish(index);
  Slots dead;
  bury_if_dead(old_result, dead);
  for (const auto* slots :
       {&plan_->task(index).outputs, &plan_->task(index).inputs}) {
    for (const Slot slot : *slots) {
      bury_if_dead(slot, dead);
    }
  }
  return dead;
}

void PlannedMethod::finish(int index) {
  const Task& task = plan_->task(index);
  const Plan::Node& node = plan_->node(index);
  at(index).state = State::done;
  for (const Slot slot : task.outputs) {
    slots_[slot].is_live = true;
    for (const int reader : plan_->readers_of(slot)) {
      if (--at(reader).inputs_missing == 0) {
        startable_.push_back(reader);
      }
    }
  }
  for (const Slot slot : task.inputs) {
    --slots_[slot].readers_left;
  }
  if (node.point >= points_) {
    points_ = node.point + 1;
    result_ = plan_->slot_of_point(node.point);
  }
  early_results_ += task.is_early_result ? 1 : 0;
  --missing_[static_cast<std::size_t>(node.needed_by)];
  while (complete_ + 1 < plan_->num_steps() &&
         missing_[static_cast<std::size_t>(complete_ + 1)] == 0) {
    ++complete_;
  }
  note_run(index);
}

void PlannedMethod::note_run(int index) {
  std::vector<int> noted = {index};
  while (!noted.empty()) {
    const int next = noted.back();
    noted.pop_back();
    if (next == Plan::kNoTask || std::exchange(at(next).has_run, true)) {
      continue;
    }
    units_run_ += plan_->node(next).units;
    depth_ = std::max(depth_, plan_->node(next).depth);
    for (const Slot slot : plan_->task(next).inputs) {
      noted.push_back(plan_->maker_of(slot));
    }
  }
}

void PlannedMethod::bury_if_dead(Slot slot, Slots& dead) {
  SlotStatus& status = slots_[slot];
  if (status.is_live && status.readers_left == 0 && slot != result_) {
    status.is_live = false;
    dead.push_back(slot);
  }
}

Progress PlannedMethod::progress() const {
  return {.accepted = accepted(),
          .total = plan_->calls_of(plan_->num_points()),
          .nfe = rounded_up(units_run_, plan_->units()),
          .rounds = rounded_up(depth_, plan_->num_segments()),
          .reused = reused_};
}

std::vector<int> PlannedMethod::points() const {
  std::vector<int> calls;
  for (int point = 0; point <= points_; ++point) {
    calls.push_back(plan_->calls_of(point));
  }
  return calls;
}

std::vector<Slot> PlannedMethod::live_slots() const {
  std::vector<Slot> live;
  for (Slot slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].is_live) {
      live.push_back(slot);
    }
  }
  return live;
}

std::string PlannedMethod::snapshot() const {
  ByteWriter out(plan_->kind(), {plan_->num_points(), plan_->size(),
                                 static_cast<int>(plan_->num_slots())});
  out.number(version_);
  if (plan_->kind().has(Modifier::cache)) {
    out.number(reused_);
  }
  // Nearly all tasks that are done stand before the first that is not.
  const auto is_done = [](const TaskStatus& task) {
    return task.state == State::done;
  };
  const auto first = std::ranges::find_if_not(tasks_, is_done);
  out.number(first - tasks_.begin());
  std::vector<std::ptrdiff_t> beyond;
  for (auto task = first; task != tasks_.end(); ++task) {
    if (is_done(*task)) {
      beyond.push_back(task - first);
    }
  }
  transfer_all(out, beyond);
  return out.take();
}

void PlannedMethod::restore(const std::string& bytes) {
  ByteReader in(bytes, plan_->kind(),
                {plan_->num_points(), plan_->size(),
                 static_cast<int>(plan_->num_slots())});
  std::uint32_t version = 0;
  in.number(version, std::numeric_limits<std::uint32_t>::max() - 1);
  std::int64_t reused = 0;
  if (plan_->kind().has(Modifier::cache)) {
    in.number(reused, plan_->size());
  }
  int first = 0;
  in.number(first, plan_->size());
  std::vector<int> beyond;
  transfer_all(in, beyond);
  in.expect_end();
  std::vector<bool> is_done(tasks_.size());
  std::fill_n(is_done.begin(), first, true);
  for (const int place : beyond) {
    require(place < plan_->size() - first, Errc::corrupt_file, "snapshot",
            "has a task that is not in the plan");
    is_done[static_cast<std::size_t>(first + place)] = true;
  }
  *this = PlannedMethod(plan_);
  version_ = version + 1;
  reused_ = reused;
  for (int i = 0; i < plan_->size(); ++i) {
    if (is_done[static_cast<std::size_t>(i)]) {
      finish(i);
    }
  }
  for (Slot slot = 0; slot < slots_.size(); ++slot) {
    Slots dead;
    bury_if_dead(slot, dead);
  }
  std::erase_if(startable_,
                [this](int index) { return at(index).state == State::done; });
}

}  // namespace troupe::samplers
