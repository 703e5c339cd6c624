// Companies of several processes: which values travel, and what becomes of a
// job when a process ends.

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "actors/shells.h"
#include "samplers/noise_source.h"
#include "tests/actors/job_support.h"
#include "tests/actors/toy_evaluator.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;

class Results final : public Observer {
 public:
  void on_sample(const SampleOutcome& outcome) override {
    if (outcome.report.status == SampleStatus::done) {
      latents[outcome.report.sample_index] = outcome.latents;
    }
  }
  std::map<std::uint64_t, Tensor> latents;
};

class Passes final : public Observer {
 public:
  void on_pass(const TracePass& pass) override { all.push_back(pass); }
  std::vector<TracePass> all;
};

struct Counts {
  std::atomic<int> asked = 0;
  std::atomic<int> in_vain = 0;
};

/// Counts what is asked of another channel.
class CountingChannel final : public ValueChannel {
 public:
  CountingChannel(std::shared_ptr<ValueChannel> inner, Counts& counts)
      : inner_(std::move(inner)), counts_(counts) {}
  void get(int holder, const ValueName& name, Taker taker) override {
    ++counts_.asked;
    inner_->get(holder, name,
                [&counts = counts_,
                 taker = std::move(taker)](std::optional<Parcel> parcel) {
                  counts.in_vain += parcel ? 0 : 1;
                  taker(std::move(parcel));
                });
  }

 private:
  std::shared_ptr<ValueChannel> inner_;
  Counts& counts_;
};

auto counting(Counts& counts) {
  return [&counts](std::shared_ptr<ValueChannel> inner) {
    return std::make_shared<CountingChannel>(std::move(inner), counts);
  };
}

enum class Fate { end, drain, cancel };

/// Passes everything on to the coordinator, and behind the n-th result that
/// comes ends the node of a process, says that it wants to leave, or cancels
/// the sample of that number. Results that come while a process ends wait: else
/// the job might be done first.
class Executioner final : public CoordinatorActor::base {
 public:
  Executioner(caf::actor_config& config, CoordinatorActor coordinator,
              int whose, int results, Fate fate = Fate::end)
      : CoordinatorActor::base(config),
        coordinator_(std::move(coordinator)),
        whose_(whose),
        results_left_(results),
        fate_(fate) {
    monitor(coordinator_);
    set_down_handler([this](const caf::down_msg& down) {
      if (victim_ && down.source == victim_.address()) {
        is_ending_ = false;
        send(coordinator_, CoordinatorEvent(ProcessDown{whose_, {}}));
        for (CoordinatorEvent& result : std::exchange(held_back_, {})) {
          send(coordinator_, std::move(result));
        }
      } else {
        quit(down.reason);
      }
    });
  }
  void on_exit() override {
    coordinator_ = nullptr;
    victim_ = nullptr;
  }

 protected:
  behavior_type make_behavior() override {
    return {
        [this](int process, const ProcessActor& actor) {
          if (process == whose_) {
            victim_ = actor;
          }
          send(coordinator_, process, actor);
        },
        [this](const ProcessJoined& joined, const ProcessActor& actor) {
          send(coordinator_, joined, actor);
        },
        [this](const WorkerUp& up, const WorkerActor& worker) {
          send(coordinator_, up, worker);
        },
        [this](const CoordinatorEvent& event) {
          const bool is_result = std::holds_alternative<GrantResult>(event);
          if (is_result && is_ending_) {
            held_back_.push_back(event);
            return;
          }
          send(coordinator_, event);
          if (!is_result || --results_left_ != 0) {
            return;
          }
          if (fate_ == Fate::end) {
            is_ending_ = true;
            monitor(victim_);
            send_exit(victim_, caf::exit_reason::kill);
          } else if (fate_ == Fate::cancel) {
            send(coordinator_, CoordinatorEvent(CancelSample{
                                   static_cast<std::uint64_t>(whose_)}));
          } else {
            send(coordinator_, CoordinatorEvent(DrainProcess{whose_}));
          }
        },
        [this](const HolderAsked& news) { send(coordinator_, news); },
        [this](halt_atom) { send(coordinator_, halt_atom{}); },
        [](pulse_atom) {},
        [](drain_atom) {},  // there is no inbox
    };
  }

 private:
  CoordinatorActor coordinator_;
  ProcessActor victim_;
  int whose_;
  int results_left_;
  Fate fate_;
  bool is_ending_ = false;  ///< the victim
  std::vector<CoordinatorEvent> held_back_;
};

MethodOptions method_of(MethodKind kind) {
  return {.kind = kind, .window_size = 3, .num_segments = 2};
}

/// A job of five samples over the toy network, with a process for each of three
/// workers.
struct ToyRun {
  explicit ToyRun(MethodKind kind)
      : evaluator(
            kind == MethodKind::pipeline || kind == MethodKind::stale ? 2 : 1) {
    spec.parts = {unowned(schedule), method_of(kind), unowned(evaluator),
                  unowned(noise)};
    spec.end = 5;
    spec.observers = {&seen};
    for (int process : {0, 1, 2}) {
      spec.workers.resize(static_cast<std::size_t>(process) + 1);
      spec.workers.back().process = process;
    }
  }

  samplers::Schedule schedule{ddim_steps(8)};
  ToyEvaluator evaluator;
  samplers::PhiloxNoise noise{11};
  Results seen;
  JobSpec spec;
};

/// As one process gives it.
std::map<std::uint64_t, Tensor> undisturbed(MethodKind kind) {
  ToyRun run(kind);
  run.spec.workers.resize(1);
  EXPECT_FALSE(run_job(run.spec).failure);
  EXPECT_EQ(run.seen.latents.size(), 5U);
  return std::move(run.seen.latents);
}

void expect_same_latents(const std::map<std::uint64_t, Tensor>& got,
                         const std::map<std::uint64_t, Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [index, latents] : expected) {
    EXPECT_TRUE(bytes_equal(got.at(index), latents)) << index;
  }
}

const MethodKind kKinds[] = {MethodKind::sequential, MethodKind::batch,
                             MethodKind::cfg,        MethodKind::picard,
                             MethodKind::pipeline,   MethodKind::stale};

TEST(Processes, FetchFromEachOtherAndGiveTheBytesOfOne) {
  for (const MethodKind kind : kKinds) {
    SCOPED_TRACE(std::string(kind->name));
    ToyRun run(kind);
    Counts counts;
    const JobResult result =
        run_company(run.spec, {.channel = counting(counts)});
    EXPECT_FALSE(result.failure);
    EXPECT_EQ(result.recoveries, 0);
    EXPECT_GE(counts.asked, 3) << "results are brought home";
    if (kind == MethodKind::pipeline || kind == MethodKind::stale) {
      EXPECT_GE(counts.asked, 2 * 8)
          << "a boundary for every call, but for samples "
             "that the third worker took over";
    }
    expect_same_latents(run.seen.latents, undisturbed(kind));
  }
}

TEST(Processes, AreTracedWithTheValuesThatMovedBetweenThem) {
  for (const MethodKind kind : kKinds) {
    SCOPED_TRACE(std::string(kind->name));
    ToyRun run(kind);
    Passes seen;
    run.spec.observers.push_back(&seen);
    run.spec.trace = true;
    EXPECT_FALSE(run_company(run.spec, {}).failure);
    expect_same_latents(run.seen.latents, undisturbed(kind));
    std::map<ValueName, TraceSpan> makers;
    for (const TracePass& pass : seen.all) {
      EXPECT_EQ(pass.span.process, pass.span.worker);
      for (const ValueName& name : pass.made) {
        EXPECT_TRUE(makers.emplace(name, pass.span).second);
      }
    }
    int arrows = 0;
    for (const TracePass& pass : seen.all) {
      for (const ReadValue& read : pass.reads) {
        const auto maker = makers.find(read.name);
        if (maker == makers.end()) {
          continue;  // it was done when the sample had ended
        }
        const TraceSpan& made = maker->second;
        EXPECT_LE(made.start + made.duration, pass.span.start);
        if (made.process == pass.span.process) {
          continue;  // rare, beside other programs: an arrow within a process
        }
        EXPECT_GT(read.bytes, 0U);
        ++arrows;
      }
    }
    if (kind == MethodKind::pipeline || kind == MethodKind::stale) {
      EXPECT_GT(arrows, 0);  // how many: a process that comes late has no part
    }
  }
}

TEST(Processes, GoOnWithTheSameBytesWhenOneOfThemEnds) {
  Counts counts;
  for (const MethodKind kind : kKinds) {
    const auto expected = undisturbed(kind);
    for (const int results : {1, 7, 20}) {
      SCOPED_TRACE(std::string(kind->name) + ", after " +
                   std::to_string(results));
      ToyRun run(kind);
      Detours detours{.channel = counting(counts)};
      detours.coordinator = [results](caf::actor_system& system,
                                      CoordinatorActor coordinator) {
        return CoordinatorActor(
            system.spawn<Executioner>(std::move(coordinator), 1, results));
      };
      const JobResult result = run_company(run.spec, detours);
      EXPECT_FALSE(result.failure) << result.failure->message;
      EXPECT_EQ(result.lost.size(), 1U);
      EXPECT_GE(result.recoveries, 1);
      expect_same_latents(run.seen.latents, expected);
    }
  }
  EXPECT_GT(counts.in_vain, 0) << "values went with the process";
}

TEST(Processes, GoOnFromTheirCutsWhenOneOfThemEnds) {
  for (const MethodKind kind : kKinds) {
    const auto expected = undisturbed(kind);
    for (const int results : {7, 20}) {
      SCOPED_TRACE(std::string(kind->name) + ", after " +
                   std::to_string(results));
      ToyRun run(kind);
      run.spec.cuts = {.interval = {}, .calls = 1};
      Detours detours;
      detours.coordinator = [results](caf::actor_system& system,
                                      CoordinatorActor coordinator) {
        return CoordinatorActor(
            system.spawn<Executioner>(std::move(coordinator), 1, results));
      };
      const JobResult result = run_company(run.spec, detours);
      EXPECT_FALSE(result.failure) << result.failure->message;
      expect_same_latents(run.seen.latents, expected);
    }
  }
}

TEST(Processes, LeaveWithoutACostWhenTheyWantTo) {
  for (const MethodKind kind : kKinds) {
    const auto expected = undisturbed(kind);
    for (const int results : {1, 7, 20}) {
      SCOPED_TRACE(std::string(kind->name) + ", after " +
                   std::to_string(results));
      ToyRun run(kind);
      Detours detours;
      detours.coordinator = [results](caf::actor_system& system,
                                      CoordinatorActor coordinator) {
        return CoordinatorActor(system.spawn<Executioner>(
            std::move(coordinator), 1, results, Fate::drain));
      };
      const JobResult result = run_company(run.spec, detours);
      EXPECT_FALSE(result.failure) << result.failure->message;
      EXPECT_TRUE(result.lost.empty());
      EXPECT_EQ(result.recoveries, 0);
      expect_same_latents(run.seen.latents, expected);
    }
  }
}

// Behind the first result: sample 0 is in flight, and none has ended.
TEST(Processes, GoOnWithTheOthersWhenASampleIsCancelled) {
  for (const MethodKind kind : kKinds) {
    const auto all = undisturbed(kind);
    for (const int sample : {0, 4}) {
      SCOPED_TRACE(std::string(kind->name) + ", sample " +
                   std::to_string(sample));
      ToyRun run(kind);
      Detours detours;
      detours.coordinator = [sample](caf::actor_system& system,
                                     CoordinatorActor coordinator) {
        return CoordinatorActor(system.spawn<Executioner>(
            std::move(coordinator), sample, 1, Fate::cancel));
      };
      const JobResult result = run_company(run.spec, detours);
      EXPECT_FALSE(result.failure) << result.failure->message;
      EXPECT_FALSE(result.stopped);
      auto expected = all;
      expected.erase(static_cast<std::uint64_t>(sample));
      expect_same_latents(run.seen.latents, expected);
      ASSERT_EQ(result.samples.size(), 5U);
      for (const SampleReport& report : result.samples) {
        EXPECT_EQ(report.status,
                  report.sample_index == static_cast<std::uint64_t>(sample)
                      ? SampleStatus::cancelled
                      : SampleStatus::done);
      }
    }
  }
}

TEST(Processes, EndTheJobWithTheCoordinatorsOwn) {
  ToyRun run(MethodKind::batch);
  const JobResult result =
      run_company(run.spec, {.coordinator = [](caf::actor_system& system,
                                               CoordinatorActor coordinator) {
                    return CoordinatorActor(system.spawn<Executioner>(
                        std::move(coordinator), 0, 4));
                  }});
  // The cause is the end of the process, or a worker's report of lost values.
  EXPECT_TRUE(result.failure);
  EXPECT_LT(run.seen.latents.size(), 5U);
}

TEST(Processes, AreNumberedInOrder) {
  ToyRun run(MethodKind::batch);
  run.spec.workers[1].process = 2;
  EXPECT_THROW((void)run_job(run.spec), Error);
  run.spec.workers[1].process = -1;
  EXPECT_THROW((void)run_job(run.spec), Error);
}

}  // namespace
}  // namespace troupe::actors
