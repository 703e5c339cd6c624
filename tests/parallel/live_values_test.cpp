// What one sample holds at once: never more than its method's row says, in any
// order of results, and in the worst ones at least half of that.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/parallel/support.h"
#include "tests/simulator/symbols.h"

namespace troupe::samplers::testing {
namespace {

using actors::simulator::compute;
using actors::simulator::kind_of;
using actors::simulator::SymbolTable;
using actors::simulator::ValueKind;

constexpr std::uint64_t kCounted = 3;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kCountingRuns =
    20;  // it takes twenty times as long there
#else
constexpr std::uint64_t kCountingRuns = 60;
#endif

/// Which task runs next, and which result is taken next.
enum class Order { in_order, any, newest_first, some_late, one_kind_late };
constexpr std::array kOrders = {Order::in_order, Order::any,
                                Order::newest_first, Order::some_late,
                                Order::one_kind_late};

/// One run of a method on symbolic values. Counts the values of a process that
/// does all the work, with the knowledge of the coordinator: a value counts
/// from the hand-out of its task until the first hand-out after its death.
class CountingRun {
 public:
  CountingRun(const MethodOptions& options, const Schedule& schedule,
              Order order, int max_open, std::uint64_t seed)
      : options_(options),
        order_(order),
        max_open_(max_open),
        random_(seed),
        late_op_(kOpTable[seed % 5]),
        method_(make_method(options, schedule)) {}

  [[nodiscard]] LiveValues run() {
    hand_out();
    while (!method_->done()) {
      const bool can_take = !in_flight_.empty() && !all_late();
      if ((can_take && below(2) == 0) || !work()) {
        take_result();
      }
      if (below(3) != 0 || (in_flight_.empty() && pending_.empty())) {
        hand_out();
      }
    }
    return most_;
  }

 private:
  [[nodiscard]] std::size_t below(std::size_t bound) {
    return random_() % bound;
  }

  /// Its result comes when nothing else can go on.
  [[nodiscard]] bool is_late(const Task& task) const {
    return (order_ == Order::some_late &&
            (task.id * 0x9E3779B97F4A7C15U >> 60U) < 6) ||
           (order_ == Order::one_kind_late && task.op == late_op_);
  }
  [[nodiscard]] bool all_late() const {
    return std::ranges::all_of(
        in_flight_, [this](const Task& task) { return is_late(task); });
  }

  void hand_out() {
    // Not always as many: the bound is that of the most.
    const int most = below(4) == 0 ? max_open_ / 2 : max_open_;
    std::vector<Task> tasks = method_->ready(most);
    if (tasks.empty()) {
      return;
    }
    for (const Slot slot : dead_) {
      held_.erase(slot);
    }
    dead_.clear();
    for (Task& task : tasks) {
      held_.insert(task.outputs.begin(), task.outputs.end());
      held_.insert(task.inputs.begin(), task.inputs.end());
      pending_.push_back(std::move(task));
    }
    count();
  }

  /// The kinds of values are known when the values are made; those to come
  /// count with the tasks that are out.
  void count() {
    std::set<Slot> left = held_;
    LiveValues now;
    const auto add = [&](Slot slot, ValueKind kind) {
      if (left.erase(slot) > 0) {
        ++(kind == ValueKind::state    ? now.states
           : kind == ValueKind::output ? now.outputs
           : kind == ValueKind::skips  ? now.skips
           : kind == ValueKind::cache  ? now.caches
                                       : now.boundaries);
      }
    };
    for (const Task& task : pending_) {
      for (std::size_t k = 0; k < task.outputs.size(); ++k) {
        add(task.outputs[k], output_kind(task, k, num_segments(options_)));
      }
    }
    for (const Slot slot : std::set<Slot>(left)) {
      add(slot, kind_of(table_.find(slot).value()));
    }
    most_ = {.states = std::max(most_.states, now.states),
             .outputs = std::max(most_.outputs, now.outputs),
             .boundaries = std::max(most_.boundaries, now.boundaries),
             .skips = std::max(most_.skips, now.skips),
             .caches = std::max(most_.caches, now.caches)};
  }

  bool work() {
    std::vector<std::size_t> can_run;
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      if (std::ranges::all_of(pending_[i].inputs, [&](Slot slot) {
            return table_.find(slot).has_value();
          })) {
        can_run.push_back(i);
      }
    }
    if (can_run.empty()) {
      return false;
    }
    const std::size_t chosen = choose(can_run.size());
    const Task task = pending_[can_run[chosen]];
    pending_.erase(pending_.begin() +
                   static_cast<std::ptrdiff_t>(can_run[chosen]));
    EXPECT_TRUE(is_whole(task));
    for (std::size_t i = 0; i < task.inputs.size(); ++i) {
      const ValueKind kind = task.op->inputs.kinds.at(i);
      const bool is_start = kind == ValueKind::boundary && task.segment == 0;
      EXPECT_EQ(kind_of(table_.find(task.inputs[i]).value()),
                is_start ? ValueKind::state : kind)
          << task.op->name;
    }
    const auto made = compute(task, table_, options_);
    for (std::size_t k = 0; k < task.outputs.size(); ++k) {
      EXPECT_TRUE(table_.put(task.outputs[k], made->outputs[k]));
    }
    in_flight_.push_back(task);
    results_.push_back(made->result);
    return true;
  }

  [[nodiscard]] std::size_t choose(std::size_t count) {
    return order_ == Order::in_order       ? 0
           : order_ == Order::newest_first ? count - 1
                                           : below(count);
  }

  void take_result() {
    std::size_t chosen = choose(in_flight_.size());
    if (!all_late()) {
      while (is_late(in_flight_[chosen])) {
        chosen = (chosen + 1) % in_flight_.size();
      }
    }
    const auto at = static_cast<std::ptrdiff_t>(chosen);
    const auto dead = method_->apply(results_[chosen]);
    in_flight_.erase(in_flight_.begin() + at);
    results_.erase(results_.begin() + at);
    ASSERT_TRUE(dead.has_value());
    dead_.insert(dead_.end(), dead->begin(), dead->end());
  }

  const MethodOptions& options_;
  Order order_;
  int max_open_;
  std::mt19937_64 random_;
  Op late_op_;
  std::unique_ptr<Method> method_;
  SymbolTable table_{kCounted};
  std::vector<Task> pending_;        ///< handed out, have not run
  std::vector<Task> in_flight_;      ///< have run
  std::vector<TaskResult> results_;  ///< theirs
  std::vector<Slot> dead_;           ///< since tasks were last handed out
  std::set<Slot> held_{kInitialSlot};
  LiveValues most_;
};

std::vector<MethodOptions> cases() {
  std::vector<MethodOptions> all = method_cases();
  all.push_back(picard(1, 0.1));
  all.push_back(picard(10, 0.1));
  all.push_back({.kind = MethodKind::pipeline, .num_segments = 2});
  all.push_back({.kind = MethodKind::stale,
                 .num_segments = 3,
                 .ages = {2, 1},
                 .warmup_steps = 3,
                 .final_fresh_steps = 2});
  all.push_back({.kind = MethodKind::stale, .num_segments = 2, .stride = 2});
  all.push_back({.kind = MethodKind::stale,
                 .num_segments = 4,
                 .stale_at = StaleAt::latents,
                 .warmup_steps = 3});
  all.push_back({.kind = MethodKind::pipeline,
                 .num_segments = 3,
                 .cut = CutShape::onion});
  all.push_back({.kind = MethodKind::stale,
                 .num_segments = 3,
                 .cut = CutShape::onion,
                 .warmup_steps = 3,
                 .final_fresh_steps = 2});
  return all;
}

void expect_bound(const MethodOptions& options, int max_open) {
  const Schedule schedule(steps_for(options, 24));
  SCOPED_TRACE(std::string(options.kind->name) + ", " +
               std::to_string(options.num_segments) + " segments, window " +
               std::to_string(options.window_size) + ", up to " +
               std::to_string(max_open) + " open");
  const LiveValues bound =
      most_live(options, schedule.num_model_calls(), max_open);
  LiveValues worst;
  for (std::uint64_t seed = 0; seed < kCountingRuns; ++seed) {
    const Order order = kOrders.at(seed % kOrders.size());
    const LiveValues most =
        CountingRun(options, schedule, order, max_open, seed).run();
    worst = {.states = std::max(worst.states, most.states),
             .outputs = std::max(worst.outputs, most.outputs),
             .boundaries = std::max(worst.boundaries, most.boundaries),
             .skips = std::max(worst.skips, most.skips),
             .caches = std::max(worst.caches, most.caches)};
  }
  EXPECT_LE(worst.states, bound.states);
  EXPECT_LE(worst.outputs, bound.outputs);
  EXPECT_LE(worst.boundaries, bound.boundaries);
  EXPECT_LE(worst.skips, bound.skips);
  EXPECT_LE(worst.caches, bound.caches);
  EXPECT_LE(bound.states, 2 * worst.states + 3);
  EXPECT_LE(bound.outputs, 2 * worst.outputs + 1);
  // Where little is ahead, few of an onion's many segments are under way.
  const bool is_idle = options.cut == CutShape::onion && max_open < 4;
  EXPECT_LE(bound.boundaries, (is_idle ? 4 : 2) * worst.boundaries);
  EXPECT_LE(bound.skips, 2 * worst.skips);
  EXPECT_LE(bound.caches, 2 * worst.caches + 1);
}

TEST(LiveValues, AreAtMostWhatTheRowSaysInAnyOrderOfResults) {
  for (const MethodOptions& options : cases()) {
    for (const int max_open : {0, 1, 4, 9, 40}) {
      expect_bound(options, max_open);
    }
  }
}

TEST(LiveValues, OfAShortRunAreFewer) {
  for (MethodOptions options : cases()) {
    const Schedule schedule(steps_for(options, 2));
    options.window_size = std::min(options.window_size, 2);
    options.num_outputs = std::min(options.num_outputs, options.window_size);
    options.iterations = std::min(options.iterations, options.window_size);
    options.warmup_steps = std::min(options.warmup_steps, 2);
    options.final_fresh_steps = std::min(options.final_fresh_steps, 2);
    const LiveValues few = most_live(options, 2, 64);
    const LiveValues more = most_live(options, 24, 64);
    EXPECT_LE(few.states, more.states) << options.kind->name;
    EXPECT_LE(few.outputs + few.boundaries, more.outputs + more.boundaries);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const LiveValues most =
          CountingRun(options, schedule, Order::any, 64, seed).run();
      EXPECT_LE(most.states, few.states) << options.kind->name;
      EXPECT_LE(most.outputs, few.outputs) << options.kind->name;
      EXPECT_LE(most.boundaries, few.boundaries) << options.kind->name;
      EXPECT_LE(most.skips, few.skips) << options.kind->name;
      EXPECT_LE(most.caches, few.caches) << options.kind->name;
    }
  }
}

TEST(LiveValues, AStateHoldsAsManyTensorsAsTheSolversRowSays) {
  for (const SolverCase& solver : solver_cases(9)) {
    Bench bench(solver.options);
    const Tensor output =
        Tensor::zeros(with_channels(bench.evaluator.latent_shape(),
                                    bench.evaluator.out_channels()),
                      DType::f32);
    SolverState state = bench.start(kCounted);
    int most = 1;
    for (int call = 0; call < bench.calls(); ++call) {
      state = step(bench.ctx, bench.schedule, call, call + 1, state, output,
                   kCounted, bench.noise);
      most = std::max(most, 1 + static_cast<int>(state.history.size()) +
                                (state.anchor.empty() ? 0 : 1) +
                                (state.slope.empty() ? 0 : 1));
    }
    EXPECT_EQ(most_state_tensors(bench.schedule), most) << solver.name;
  }
}

}  // namespace
}  // namespace troupe::samplers::testing
