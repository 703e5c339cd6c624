// Work ahead of its inputs, in any order of arrival, cut anywhere: the same
// values, evaluations and rounds as the plain loop.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
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
using actors::simulator::plain_end;
using actors::simulator::PlainEnd;
using actors::simulator::Symbol;
using actors::simulator::SymbolTable;

constexpr std::uint64_t kSample = 3;
constexpr int kAll = 1000;  ///< more tasks than a method here ever has open

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRuns = 50;  // it takes twenty times as long there
#else
constexpr int kRuns = 1000;
#endif

/// One run of a method on symbolic values, in an order that a seed decides: how
/// much is handed out ahead, which task runs next, when its result arrives and
/// how often, where the run is cut and goes on in another instance, and when it
/// goes back to an earlier cut.
class RandomRun {
 public:
  RandomRun(const MethodOptions& options, const Schedule& schedule,
            std::uint64_t seed)
      : options_(options), schedule_(schedule), random_(seed) {
    begin_with(make_method(options, schedule));
    take_cut();
  }

  void run() {
    while (!method_->done() && !::testing::Test::HasFailure()) {
      if (const Progress now = method_->progress(); now.accepted < now.total) {
        came_by_.insert(now.accepted);
      }
      act(below(100));
    }
    progress_ = method_->progress();
    // What is still open; after a cut it may not have been handed out again.
    do {
      hand_out();
    } while (!::testing::Test::HasFailure() && (deliver() || work()));
  }

  /// When the result was there.
  [[nodiscard]] const Progress& progress() const { return progress_; }
  [[nodiscard]] Symbol result() const {
    return table_->find(method_->result_slot()).value();
  }
  [[nodiscard]] std::size_t slots_left() const { return table_->size(); }
  [[nodiscard]] int num_ahead() const { return num_ahead_; }
  [[nodiscard]] int num_dropped() const { return num_dropped_; }
  [[nodiscard]] int num_cuts() const { return num_cuts_; }
  /// Numbers of accepted calls that it came by, but for the last.
  [[nodiscard]] const std::set<int>& came_by() const { return came_by_; }
  /// Numbers of accepted calls at which the run went on in another instance.
  [[nodiscard]] const std::set<int>& went_on_at() const { return went_on_at_; }

 private:
  using Values = std::map<Slot, Symbol>;

  [[nodiscard]] std::size_t below(std::size_t bound) {
    return random_() % bound;
  }

  void begin_with(std::unique_ptr<Method> method) {
    method_ = std::move(method);
    table_ = std::make_unique<SymbolTable>(kSample);
    pending_.clear();
    out_.clear();
  }

  void act(std::size_t choice) {
    if (choice < 30) {
      hand_out();
    } else if (choice < 65) {
      (void)work();
    } else if (choice < 97) {
      (void)deliver();
    } else if (choice == 97) {
      take_cut();
    } else if (choice == 98) {
      go_on_from(snapshot_, values_);  // of a while ago: another run
      in_flight_.clear();
    } else {
      take_cut();
      go_on_from(snapshot_, values_);  // results on their way come too late
    }
  }

  void hand_out() {
    static constexpr int kLimits[] = {kNothingAhead, 1, 2, 5, kAll};
    const int most = kLimits[below(std::size(kLimits))];
    const std::vector<Slot> live = method_->live_slots();
    const std::set<Slot> made(live.begin(), live.end());
    for (const Task& task : method_->ready(most)) {
      bool is_ahead = false;
      for (const Slot slot : task.inputs) {
        is_ahead = is_ahead || !made.contains(slot);
        EXPECT_TRUE(made.contains(slot) || is_promised(slot))
            << "task " << task.id << " reads what nobody is to make";
      }
      EXPECT_TRUE(!is_ahead || static_cast<int>(out_.size()) < most);
      num_ahead_ += is_ahead ? 1 : 0;
      out_[task.id] = task;
      pending_.push_back(task);
    }
    EXPECT_TRUE(method_->ready(kNothingAhead).empty())
        << "a task whose inputs are made was kept back";
    // Nor does the next call wait for results that it does not need, but for
    // those of calls before the last.
    const int accepted = method_->progress().accepted;
    EXPECT_TRUE(method_->done() || options_.kind->spreads ||
                options_.kind == MethodKind::stale ||
                std::ranges::any_of(out_, [&](const auto& entry) {
                  return entry.second.to > accepted ||
                         entry.second.to < accepted;
                }));
  }

  [[nodiscard]] bool is_promised(Slot slot) const {
    return std::ranges::any_of(out_, [&](const auto& entry) {
      return std::ranges::count(entry.second.outputs, slot) > 0;
    });
  }

  /// False if no task can run. A finished task may run again.
  bool work() {
    std::erase_if(pending_, [&](const Task& task) {
      return applied_here_.contains({task.id, task.version}) && below(4) != 0;
    });
    std::vector<std::size_t> can_run;
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      if (std::ranges::all_of(pending_[i].inputs, [&](Slot slot) {
            return table_->find(slot).has_value();
          })) {
        can_run.push_back(i);
      }
    }
    if (can_run.empty()) {
      return false;
    }
    const std::size_t chosen = can_run[below(can_run.size())];
    const Task task = pending_[chosen];
    const auto made = compute(task, *table_, options_);
    for (std::size_t k = 0; k < task.outputs.size(); ++k) {
      EXPECT_TRUE(table_->put(task.outputs[k], made->outputs[k]));
    }
    for (std::size_t copies = 1 + below(5) / 4; copies > 0; --copies) {
      in_flight_.push_back(made->result);
    }
    if (below(5) != 0) {
      pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
    return true;
  }

  bool deliver() {
    if (in_flight_.empty()) {
      return false;
    }
    std::swap(in_flight_[below(in_flight_.size())], in_flight_.back());
    const TaskResult result = std::move(in_flight_.back());
    in_flight_.pop_back();
    if (const auto dead = method_->apply(result)) {
      out_.erase(result.id);
      applied_here_.insert({result.id, result.version});
      EXPECT_TRUE(table_->erase(*dead)) << "a slot died twice";
      for (const Slot slot : method_->live_slots()) {
        EXPECT_TRUE(table_->find(slot).has_value()) << "slot " << slot;
      }
    } else {
      ++num_dropped_;
    }
    return true;
  }

  void take_cut() {
    snapshot_ = method_->snapshot();
    values_.clear();
    for (const Slot slot : method_->live_slots()) {
      values_[slot] = table_->find(slot).value();
    }
    ++num_cuts_;
  }

  void go_on_from(const std::string& snapshot, const Values& values) {
    auto method = make_method(options_, schedule_);
    method->restore(snapshot);
    begin_with(std::move(method));
    applied_here_.clear();
    if (!values.contains(kInitialSlot)) {
      EXPECT_TRUE(table_->erase(std::vector<Slot>{kInitialSlot}));
    }
    for (const auto& [slot, value] : values) {
      EXPECT_TRUE(table_->put(slot, value));
    }
    std::vector<Slot> live = method_->live_slots();
    EXPECT_EQ(live.size(), values.size());
    went_on_at_.insert(method_->progress().accepted);
  }

  const MethodOptions& options_;
  const Schedule& schedule_;
  std::mt19937_64 random_;
  std::unique_ptr<Method> method_;
  std::unique_ptr<SymbolTable> table_;
  std::vector<Task> pending_;          ///< handed out; some have run
  std::map<std::uint64_t, Task> out_;  ///< handed out, and not applied
  std::vector<TaskResult> in_flight_;  ///< on their way
  std::set<std::pair<std::uint64_t, std::uint32_t>> applied_here_;
  std::string snapshot_;
  Values values_;
  Progress progress_;
  std::set<int> came_by_;
  std::set<int> went_on_at_;
  int num_ahead_ = 0;
  int num_dropped_ = 0;
  int num_cuts_ = 0;
};

/// Runs of so many calls, of every method and of the smallest and the largest
/// window.
void expect_plain_values(int calls, std::uint64_t runs) {
  std::vector<MethodOptions> cases = method_cases();
  cases.push_back(picard(1, 0.1));
  cases.push_back(picard(calls, 0.1));
  int ahead = 0;
  int dropped = 0;
  int cuts = 0;
  for (MethodOptions& options : cases) {
    options.window_size = std::min(options.window_size, calls);
    options.num_outputs = std::min(options.num_outputs, options.window_size);
    options.iterations = std::min(options.iterations, options.window_size);
    options.warmup_steps = std::min(options.warmup_steps, calls);
    options.final_fresh_steps = std::min(options.final_fresh_steps, calls);
    const Schedule schedule(steps_for(options, calls));
    const PlainEnd plain = plain_end(options, schedule, kSample);
    std::set<int> came_by;
    std::set<int> went_on_at;
    for (std::uint64_t seed = 0; seed < runs; ++seed) {
      SCOPED_TRACE("method " + std::string(options.kind->name) + ", seed " +
                   std::to_string(seed));
      RandomRun run(options, schedule, seed);
      run.run();
      ASSERT_FALSE(::testing::Test::HasFailure());
      ASSERT_EQ(run.result(), plain.latents);
      ASSERT_EQ(run.progress().nfe, plain.progress.nfe);
      ASSERT_EQ(run.progress().rounds, plain.progress.rounds);
      ASSERT_EQ(run.slots_left(), plain.slots_left);
      ahead += run.num_ahead();
      dropped += run.num_dropped();
      cuts += run.num_cuts();
      came_by.insert(run.came_by().begin(), run.came_by().end());
      went_on_at.insert(run.went_on_at().begin(), run.went_on_at().end());
    }
    // A cut at every point of the run has been gone on from.
    EXPECT_TRUE(std::ranges::includes(went_on_at, came_by))
        << options.kind->name;
  }
  const auto least = static_cast<int>(runs);
  EXPECT_GT(ahead, least);
  EXPECT_GT(dropped, least);
  EXPECT_GT(cuts, least);
}

TEST(Ahead, AnyOrderOfArrivalGivesTheValuesOfThePlainLoop) {
  expect_plain_values(9, kRuns);
}

TEST(Ahead, ShortRunsGiveTheValuesOfThePlainLoop) {
  expect_plain_values(1, 100);
  expect_plain_values(2, 100);
}

TEST(Ahead, AWholeRunIsIssuedWhereNoScalarDecidesIt) {
  for (const MethodOptions& options : method_cases()) {
    const Schedule schedule(steps_for(options, 9));
    const auto method = make_method(options, schedule);
    std::vector<Task> tasks = method->ready(kAll);
    if (options.kind->plan != nullptr && options.kind->spreads) {
      // One round ahead of what can run.
      EXPECT_GT(tasks.size(),
                make_method(options, schedule)->ready(kNothingAhead).size());
      continue;
    }
    const bool waits = options.kind->plan == nullptr;
    if (waits) {
      EXPECT_TRUE(std::ranges::any_of(tasks, num_scalars));  // a round
    } else {
      EXPECT_EQ(tasks.back().to, 9);
    }
    EXPECT_TRUE(method->ready(kAll).empty());
    // From the last task to the first: whoever reports first.
    for (std::size_t i = tasks.size(); i-- > 0;) {
      if (num_scalars(tasks[i]) == 0) {
        EXPECT_TRUE(method->apply({tasks[i].id, tasks[i].version, {}}));
      }
    }
    EXPECT_EQ(method->done(), !waits);
  }
}

TEST(Ahead, NoMoreIsOutThanAskedFor) {
  for (const MethodOptions& options : method_cases()) {
    const Schedule schedule(steps_for(options, 9));
    for (const int most : {1, 2, 4}) {
      const auto method = make_method(options, schedule);
      const std::size_t can_run =
          make_method(options, schedule)->ready(kNothingAhead).size();
      const std::size_t expected =
          std::max(can_run, static_cast<std::size_t>(most));
      EXPECT_LE(method->ready(most).size(), expected);
      EXPECT_TRUE(method->ready(most).empty());
    }
  }
}

}  // namespace
}  // namespace troupe::samplers::testing
