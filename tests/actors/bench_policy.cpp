// The coordinator's policy alone: no thread, no actor, no network. Workers are
// simulated in the same thread, and only the policy is timed. Prints
// microseconds per task for 64 and 1,024 workers, medians of 5.
//   bench_policy [tasks] [microseconds of a pass] [method [workers]]
// With a number of workers it runs once, with that many. README.md says how to
// count its instructions.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/coordinator_policy.h"
#include "samplers/schedule.h"

namespace {

using namespace troupe;
using namespace troupe::actors;

constexpr int kCalls = 50;

// An event that took longer was interrupted: another program had the core.
constexpr auto kInterrupted = std::chrono::milliseconds(1);

const samplers::Schedule& schedule() {
  static const samplers::Schedule one([] {
    samplers::ScheduleOptions options;
    options.num_inference_steps = kCalls;
    return options;
  }());
  return one;
}

/// One process whose workers run a task when its inputs are made, one at a
/// time, in the order in which they became ready. All passes take equally long.
class Workshop {
 public:
  Workshop(const samplers::MethodOptions& method, int workers,
           std::uint64_t samples, Duration pass)
      : pass_(pass), ready_(static_cast<std::size_t>(workers)), policy_([&] {
          CoordinatorOptions options;
          for (std::uint64_t i = 0; i < samples; ++i) {
            options.samples.push_back(i);
          }
          options.make_method = [method] {
            return samplers::make_method(method, schedule());
          };
          options.method = method;
          options.workers.resize(static_cast<std::size_t>(workers));
          options.decode = false;
          options.ticks_per_call = 1;
          return options;
        }()) {
    for (int w = 0; w < workers; ++w) {
      feed(WorkerUp{w, 1});
    }
  }

  /// Microseconds of the policy for each task.
  double run() {
    while (!is_over_) {
      std::vector<int> workers;
      for (std::size_t w = 0; w < ready_.size(); ++w) {
        if (!ready_[w].empty()) {
          workers.push_back(static_cast<int>(w));
        }
      }
      if (workers.empty() && recalls_.empty()) {
        std::fprintf(stderr, "bench_policy: nobody has anything to do\n");
        std::exit(1);
      }
      for (const Recall& recall : std::exchange(recalls_, {})) {
        feed(give_back(recall));
      }
      // An answer is made just before the policy takes it. An answer made a
      // thousand answers earlier would have left the caches, and the cost of
      // that is not the policy's.
      std::ranges::shuffle(workers, random_);
      for (const int w : workers) {
        if (!ready_[static_cast<std::size_t>(w)].empty()) {
          feed(answer(w));
        }
      }
      if (now_ - last_tick_ > std::chrono::milliseconds(250)) {
        last_tick_ = now_;
        feed(TimeTick{});
      }
      now_ += pass_;
    }
    return std::chrono::duration<double>(spent_).count() * 1e6 /
           static_cast<double>(num_tasks_);
  }

 private:
  struct Waiting {
    int worker = 0;
    SampleTask work;
    int missing = 0;
  };
  using Value = std::pair<std::uint64_t, samplers::Slot>;

  void feed(const CoordinatorEvent& event) {
    const auto begin = std::chrono::steady_clock::now();
    policy_.take(event, now_, commands_);
    policy_.give_grants(grants_);
    const auto spent = std::chrono::steady_clock::now() - begin;
    if (spent < kInterrupted) {
      spent_ += spent;
    }
    for (CoordinatorCommand& command : std::exchange(grants_, {})) {
      if (auto* grant = std::get_if<Grant>(&command)) {
        take(*grant);
      } else if (const auto* recall = std::get_if<Recall>(&command)) {
        recalls_.push_back(*recall);
      }
    }
    for (const CoordinatorCommand& command : commands_) {
      if (const auto* end = std::get_if<EndSample>(&command)) {
        const std::uint64_t index = end->report.sample_index;
        made_.erase(made_.lower_bound({index, 0}),
                    made_.lower_bound({index + 1, 0}));
      } else if (std::holds_alternative<EndJob>(command)) {
        is_over_ = true;
      }
    }
  }

  void take(Grant& grant) {
    for (const FreedSlots& freed : grant.frees) {
      for (const samplers::Slot slot : freed.slots) {
        made_.erase({freed.sample_index, slot});
      }
    }
    for (SampleTask& work : grant.tasks) {
      auto waiting = std::make_shared<Waiting>();
      waiting->worker = grant.worker;
      for (const samplers::Slot slot : work.task.inputs) {
        std::vector<std::shared_ptr<Waiting>>* waiters =
            waiters_of({work.sample_index, slot});
        if (waiters != nullptr) {
          waiters->push_back(waiting);
          ++waiting->missing;
        }
      }
      waiting->work = std::move(work);
      make_ready(*waiting);
    }
  }
  /// Null: the value is made.
  std::vector<std::shared_ptr<Waiting>>* waiters_of(const Value& value) {
    if (value.second == samplers::kInitialSlot) {
      return nullptr;
    }
    Made& made = made_[value];
    return made.is_made ? nullptr : &made.waiters;
  }
  void make_ready(Waiting& waiting) {
    if (waiting.missing == 0) {
      ready_[static_cast<std::size_t>(waiting.worker)].push_back(
          std::move(waiting.work));
    }
  }

  GrantResult answer(int worker) {
    auto& ready = ready_[static_cast<std::size_t>(worker)];
    const SampleTask work = std::move(ready.front());
    ready.pop_front();
    ++num_tasks_;
    GrantResult result;
    result.worker = worker;
    result.epoch = 1;
    result.grants = {work.grant};
    result.ticks = ++ticks_;
    result.span.op = work.task.op;
    result.span.duration = pass_;
    auto& results = std::get<TasksDone>(result.outcome).results;
    results = {{work.task.id, work.task.version, {}}};
    for (int i = work.task.from;
         work.task.op == samplers::Op::sweep && i < work.task.to; ++i) {
      // Every round of a window settles one point.
      auto& scalars = results.front().scalars;
      scalars.insert(scalars.end(), {1.0, 0.0});
    }
    for (const samplers::Slot slot : work.task.outputs) {
      result.held.push_back({{work.sample_index, work.run, slot}, {}});
      Made& made = made_[{work.sample_index, slot}];
      made.is_made = true;
      for (const auto& waiting : std::exchange(made.waiters, {})) {
        --waiting->missing;
        make_ready(*waiting);
      }
    }
    return result;
  }

  /// Of what lies ready; what waits for its inputs stays.
  GrantResult give_back(const Recall& recall) {
    GrantResult result;
    result.worker = recall.worker;
    result.epoch = recall.epoch;
    result.outcome = TasksReturned{};
    std::erase_if(ready_[static_cast<std::size_t>(recall.worker)],
                  [&](const SampleTask& work) {
                    const bool goes =
                        std::ranges::find(recall.grants, work.grant) !=
                        recall.grants.end();
                    if (goes) {
                      result.grants.push_back(work.grant);
                    }
                    return goes;
                  });
    return result;
  }

  struct Made {
    bool is_made = false;
    std::vector<std::shared_ptr<Waiting>> waiters;
  };

  Duration pass_;
  std::vector<std::deque<SampleTask>> ready_;  ///< by worker
  std::map<Value, Made> made_;
  std::mt19937 random_{1};
  TimePoint now_{};
  TimePoint last_tick_{};
  std::uint64_t num_tasks_ = 0;
  std::uint64_t ticks_ = 0;
  std::chrono::steady_clock::duration spent_{};
  bool is_over_ = false;
  std::vector<CoordinatorCommand> commands_;  ///< of an event
  std::vector<CoordinatorCommand> grants_;
  std::vector<Recall> recalls_;  ///< to be answered
  CoordinatorPolicy policy_;
};

double median_of_5(const samplers::MethodOptions& method, int workers,
                   std::uint64_t samples, Duration pass) {
  std::vector<double> each;
  for (int i = 0; i < 5; ++i) {
    each.push_back(Workshop(method, workers, samples, pass).run());
  }
  std::ranges::nth_element(each, each.begin() + 2);
  return each[2];
}

}  // namespace

int main(int argc, char** argv) {
  const long tasks = argc > 1 ? std::atol(argv[1]) : 100000;
  const Duration pass =
      std::chrono::microseconds(argc > 2 ? std::atol(argv[2]) : 5000);
  const std::string only = argc > 3 ? argv[3] : "";
  const int workers = argc > 4 ? std::atoi(argv[4]) : 0;
  struct Row {
    samplers::MethodOptions method;
    long tasks_per_call;
  };
  const Row rows[] = {
      {{.kind = samplers::MethodKind::batch}, 1},
      {{.kind = samplers::MethodKind::picard, .window_size = 8}, 9},
      {{.kind = samplers::MethodKind::pipeline, .num_segments = 4}, 5},
  };
  for (const Row& row : rows) {
    const std::string name(row.method.kind->name);
    if (!only.empty() && only != name) {
      continue;
    }
    const auto samples =
        static_cast<std::uint64_t>(tasks / (row.tasks_per_call * kCalls));
    if (workers > 0) {
      std::printf("%-8s  %d workers %.2f us per task\n", name.c_str(), workers,
                  Workshop(row.method, workers, samples, pass).run());
      continue;
    }
    const double few = median_of_5(row.method, 64, samples, pass);
    const double many = median_of_5(row.method, 1024, samples, pass);
    std::printf(
        "%-8s  64 workers %.2f us per task  1,024 workers %.2f us per task  "
        "ratio %.2f\n",
        name.c_str(), few, many, many / few);
    std::fflush(stdout);
  }
}
