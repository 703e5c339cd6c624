// WorkerPolicy beside a plain model of it, under events in any order: held
// grants, ready tasks and answers must agree.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/random.h"
#include "actors/worker_policy.h"

namespace troupe::actors {
namespace {

class RandomWorker {
 public:
  explicit RandomWorker(std::uint64_t seed)
      : random_(seed),
        max_passes_(random_.between(1, 2)),
        policy_(kWorker, kEpoch, kProcess, max_passes_) {}

  void run(int events) {
    for (int i = 0; i < events && !testing::Test::HasFailure(); ++i) {
      act();
      expect_alike();
    }
    finish();
  }
  [[nodiscard]] int num_answers() const { return num_answers_; }
  [[nodiscard]] int num_gone() const { return num_gone_; }
  [[nodiscard]] int num_returned() const { return num_returned_; }
  [[nodiscard]] int num_redirected() const { return num_redirected_; }

 private:
  static constexpr int kWorker = 3;
  static constexpr std::uint32_t kEpoch = 2;
  static constexpr int kProcess = 1;

  struct Held {
    SampleTask work;
    std::set<ValueName> missing;
    std::vector<RemoteValue> sources;  ///< of its inputs, but its process
    bool is_running = false;
  };

  void act() {
    switch (random_.below(13)) {
      case 0:
      case 1:
      case 2:
        return grant();
      case 3:
      case 4:
        return input_here(some_name());
      case 5:
        return input_gone();
      case 6:
      case 7:
        return begin_pass();
      case 8:
      case 9:
        return end_pass();
      case 10:
        return recall();
      case 11:
        return redirect();
      default:
        return drop();
    }
  }

  [[nodiscard]] std::uint64_t some_number() {
    return 1 + random_.below(next_ + 2);
  }
  /// Often one that somebody waits for.
  [[nodiscard]] ValueName some_name() {
    std::vector<ValueName> missing;
    for (const auto& [number, one] : held_) {
      missing.insert(missing.end(), one.missing.begin(), one.missing.end());
    }
    if (!missing.empty() && random_.chance(0.9)) {
      return missing[random_.below(missing.size())];
    }
    return {random_.below(4), static_cast<std::uint32_t>(random_.below(3)),
            static_cast<samplers::Slot>(random_.below(9))};
  }

  [[nodiscard]] SampleTask new_task() {
    const samplers::Op ops[] = {samplers::Op::evaluate, samplers::Op::step,
                                samplers::Op::sweep, samplers::Op::segment,
                                samplers::Op::decode};
    SampleTask work;
    work.sample_index = random_.below(4);
    work.run = static_cast<std::uint32_t>(random_.below(3));
    work.grant = next_ += 1 + random_.below(3);
    work.alone = random_.chance(0.1);
    work.task.id = work.grant;
    work.task.op = ops[random_.below(std::size(ops))];
    for (std::uint64_t n = random_.below(4); n > 0; --n) {
      // Also what tasks before it make.
      work.task.inputs.push_back(
          static_cast<samplers::Slot>(1 + random_.below(next_)));
    }
    work.task.outputs = {static_cast<samplers::Slot>(next_)};
    return work;
  }

  /// New tasks, some that it has had, and where their inputs come from.
  void grant() {
    Grant grant;
    grant.worker = random_.chance(0.05) ? kWorker + 1 : kWorker;
    grant.epoch = random_.chance(0.05) ? kEpoch - 1 : kEpoch;
    grant.max_rows = random_.between(1, 3);
    const bool counts = grant.worker == kWorker && grant.epoch == kEpoch;
    for (int n = random_.between(1, 4); n > 0; --n) {
      if (random_.chance(0.2)) {
        SampleTask again = new_task();
        again.grant = some_number();
        if (const auto known = held_.find(again.grant); known != held_.end()) {
          again = known->second.work;
        } else if (again.grant > newest_) {
          continue;
        }
        grant.tasks.push_back(again);
      } else {
        grant.tasks.push_back(new_task());
      }
    }
    for (const SampleTask& work : grant.tasks) {
      for (const samplers::Slot slot : work.task.inputs) {
        const ValueName name{work.sample_index, work.run, slot};
        if (random_.chance(0.5)) {
          grant.sources.push_back({name, random_.between(0, 2)});
        }
      }
    }
    std::ranges::sort(grant.tasks, {}, &SampleTask::grant);
    if (counts) {
      max_rows_ = grant.max_rows;
      for (const SampleTask& work : grant.tasks) {
        note_granted(grant, work);
      }
    }
    expect_questions_of(grant.sources, policy_.on(grant), counts);
  }

  void note_granted(const Grant& grant, const SampleTask& work) {
    if (work.grant > newest_) {
      newest_ = work.grant;
      held_[work.grant].work = work;
      note_sources(grant.sources, held_[work.grant]);
    }
  }

  void note_sources(const std::vector<RemoteValue>& sources, Held& one) {
    for (const RemoteValue& value : sources) {
      const ValueName& name = value.name;
      if (name.sample_index == one.work.sample_index &&
          name.run == one.work.run &&
          std::ranges::count(one.work.task.inputs, name.slot) > 0) {
        one.missing.insert(name);
        if (value.process != kProcess) {
          one.sources.push_back(value);
        }
      }
    }
  }

  /// Of a task that waits, is ready, runs, is back, or never came.
  void redirect() {
    Redirect redirect{
        kWorker, random_.chance(0.1) ? kEpoch + 1 : kEpoch, some_number(), {}};
    const auto known = held_.find(redirect.grant);
    for (int n = random_.between(0, 3); n > 0; --n) {
      ValueName name = some_name();
      if (known != held_.end() && random_.chance(0.8)) {
        const SampleTask& work = known->second.work;
        const samplers::Slots& inputs = work.task.inputs;
        name = {work.sample_index, work.run,
                inputs.empty() ? 1 : inputs[random_.below(inputs.size())]};
      }
      redirect.sources.push_back({name, random_.between(0, 2)});
    }
    const bool counts = redirect.epoch == kEpoch && known != held_.end() &&
                        !known->second.missing.empty();
    if (counts) {
      note_sources(redirect.sources, known->second);
      ++num_redirected_;
    }
    expect_questions_of(redirect.sources, policy_.on(redirect), counts);
  }

  static void expect_questions_of(const std::vector<RemoteValue>& sources,
                                  const std::vector<WorkerCommand>& commands,
                                  bool counts) {
    EXPECT_TRUE(counts || commands.empty());
    for (const WorkerCommand& command : commands) {
      for (const RemoteValue& value : std::get<FetchInputs>(command).values) {
        EXPECT_GE(std::ranges::count(sources, value), 1);
      }
    }
  }

  void input_here(const ValueName& name) {
    EXPECT_TRUE(policy_.on(InputHere{name}).empty());
    for (auto& [number, one] : held_) {
      if (!one.is_running) {
        one.missing.erase(name);
      }
    }
  }

  void input_gone() {
    const ValueName name = some_name();
    for (WorkerCommand& command :
         policy_.on(InputGone{{name, random_.between(0, 3)}})) {
      const auto& result = std::get<GrantResult>(command);
      EXPECT_FALSE(result.grants.empty());
      EXPECT_EQ(std::get<InputsGone>(result.outcome).values.at(0).name, name);
      for (const std::uint64_t number : result.grants) {
        EXPECT_TRUE(held_.at(number).missing.contains(name));
        held_.erase(number);
        ++num_gone_;
      }
    }
  }

  void begin_pass() {
    std::optional<Grant> pass = policy_.next();
    if (!pass) {
      return;
    }
    ASSERT_FALSE(pass->tasks.empty());
    std::set<ValueName> made;
    std::vector<RemoteValue> sources;
    for (const SampleTask& work : pass->tasks) {
      Held& one = held_.at(work.grant);
      EXPECT_FALSE(std::exchange(one.is_running, true));
      EXPECT_TRUE(std::ranges::includes(made, one.missing));
      EXPECT_TRUE(!work.alone || pass->tasks.size() == 1);
      one.missing.clear();
      sources.insert(sources.end(), one.sources.begin(), one.sources.end());
      for (const samplers::Slot slot : work.task.outputs) {
        made.insert({work.sample_index, work.run, slot});
      }
    }
    const bool is_forward = pass->tasks.front().task.op->is_heavy();
    EXPECT_TRUE(!is_forward || std::cmp_less_equal(pass->tasks.size(),
                                                   std::max(max_rows_, 1)));
    for (const RemoteValue& value : pass->sources) {
      EXPECT_GE(std::ranges::count(sources, value), 1);
    }
    running_.push_back(*std::move(pass));
  }

  void end_pass() {
    if (running_.empty()) {
      return;
    }
    WorkDone done;
    for (const SampleTask& work : running_.front().tasks) {
      done.result.grants.push_back(work.grant);
      held_.erase(work.grant);
      ++num_answers_;
    }
    running_.pop_front();
    const auto grants = done.result.grants;
    const auto commands = policy_.on(std::move(done));
    ASSERT_EQ(commands.size(), 1U);
    EXPECT_EQ(std::get<GrantResult>(commands.front()).grants, grants);
  }

  void recall() {
    Recall recall{kWorker, random_.chance(0.1) ? kEpoch + 1 : kEpoch, {}};
    std::set<std::uint64_t> expected;
    for (int n = random_.between(0, 5); n > 0; --n) {
      recall.grants.push_back(some_number());
      const auto known = held_.find(recall.grants.back());
      if (recall.epoch == kEpoch && known != held_.end() &&
          !known->second.is_running) {
        expected.insert(known->first);
      }
    }
    std::multiset<std::uint64_t> returned;
    for (WorkerCommand& command : policy_.on(recall)) {
      const auto& result = std::get<GrantResult>(command);
      EXPECT_TRUE(std::holds_alternative<TasksReturned>(result.outcome));
      returned.insert(result.grants.begin(), result.grants.end());
    }
    EXPECT_TRUE(std::ranges::equal(returned, expected));
    for (const std::uint64_t number : expected) {
      held_.erase(number);
      ++num_returned_;
    }
  }

  void drop() {
    DropRuns drop;
    drop.sample_index = random_.below(5);
    if (random_.chance(0.7)) {
      drop.last_run = static_cast<std::uint32_t>(random_.below(3));
    }
    EXPECT_TRUE(policy_.on(drop).empty());
    std::erase_if(held_, [&drop](const auto& entry) {
      const Held& one = entry.second;
      return !one.is_running && one.work.sample_index == drop.sample_index &&
             one.work.run <= drop.last_run.value_or(one.work.run);
    });
  }

  void expect_alike() {
    bool is_ready = false;
    bool is_waiting = false;
    std::vector<std::uint64_t> numbers;
    for (const auto& [number, one] : held_) {
      numbers.push_back(number);
      is_ready = is_ready || (!one.is_running && one.missing.empty());
      is_waiting = is_waiting || !one.missing.empty();
    }
    EXPECT_EQ(policy_.held(), numbers);
    EXPECT_EQ(policy_.has_next(),
              is_ready && std::cmp_less(running_.size(), max_passes_));
    const auto beat = policy_.on(BeatAsked{17});
    ASSERT_EQ(beat.size(), 1U);
    EXPECT_EQ(std::get<WorkerBeat>(beat[0]).waits,
              running_.empty() && !is_ready && is_waiting);
  }

  /// All inputs come: nothing stays.
  void finish() {
    for (int i = 0; i < 10'000 && !held_.empty(); ++i) {
      std::set<ValueName> missing;
      for (const auto& [number, one] : held_) {
        missing.insert(one.missing.begin(), one.missing.end());
      }
      std::ranges::for_each(missing,
                            [this](const ValueName& n) { input_here(n); });
      begin_pass();
      end_pass();
    }
    EXPECT_TRUE(policy_.held().empty());
    while (!running_.empty()) {
      end_pass();
    }
    EXPECT_EQ(policy_.on(StopWork{}).size(), 1U);
    Grant late;
    late.worker = kWorker;
    late.epoch = kEpoch;
    late.tasks = {new_task()};
    EXPECT_TRUE(policy_.on(late).empty());
    EXPECT_FALSE(policy_.next());
  }

  Random random_;
  int max_passes_;
  WorkerPolicy policy_;
  std::map<std::uint64_t, Held> held_;  ///< by grant
  std::deque<Grant> running_;
  std::uint64_t next_ = 0;
  std::uint64_t newest_ = 0;
  int max_rows_ = 1;
  int num_answers_ = 0;
  int num_gone_ = 0;
  int num_returned_ = 0;
  int num_redirected_ = 0;
};

TEST(WorkerPolicy, DoesAsItsModelUnderEventsInAnyOrder) {
  int answers = 0;
  int gone = 0;
  int returned = 0;
  int redirected = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWorker worker(seed);
    worker.run(200);
    ASSERT_FALSE(testing::Test::HasFailure());
    answers += worker.num_answers();
    gone += worker.num_gone();
    returned += worker.num_returned();
    redirected += worker.num_redirected();
  }
  EXPECT_GE(answers, 1000);
  EXPECT_GE(gone, 100);
  EXPECT_GE(returned, 1000);
  EXPECT_GE(redirected, 100);
}

}  // namespace
}  // namespace troupe::actors
