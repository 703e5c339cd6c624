// Processes that join a company while its job runs.

#include <gtest/gtest.h>

#include <caf/scheduler/test_coordinator.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "actors/shells.h"
#include "net/inproc_channel.h"
#include "samplers/noise_source.h"
#include "tests/actors/company_suite.h"
#include "tests/actors/job_support.h"
#include "tests/actors/toy_evaluator.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;

class TestConfig final : public caf::actor_system_config {
 public:
  TestConfig() {
    add_message_types<caf::id_block::troupe>();
    set("scheduler.policy", caf::atom("testing"));
  }
};

class JoinResults final : public Observer {
 public:
  void on_sample(const SampleOutcome& outcome) override {
    if (outcome.report.status == SampleStatus::done) {
      latents[outcome.report.sample_index] = outcome.latents;
    }
  }
  std::map<std::uint64_t, Tensor> latents;
};

/// Posts to a ManualExecutor that the test holds.
class Borrowed final : public Executor {
 public:
  explicit Borrowed(std::shared_ptr<ManualExecutor> inner)
      : inner_(std::move(inner)) {}
  void post(Job job) override { inner_->post(std::move(job)); }
  void post_when(Condition condition, Job job) override {
    inner_->post_when(std::move(condition), std::move(job));
  }

 private:
  std::shared_ptr<ManualExecutor> inner_;
};

/// A job of five samples with one worker in the coordinator's process, on CAF's
/// deterministic scheduler. Work runs when the test says so.
class JoinedJob {
 public:
  explicit JoinedJob(MethodKind kind, Detours detours = {})
      : method_{.kind = kind, .window_size = 3, .num_segments = 2},
        evaluator_(samplers::num_segments(method_)),
        detours_(std::move(detours)),
        system_(config_),
        scheduler_(dynamic_cast<caf::scheduler::test_coordinator&>(
            system_.scheduler())) {
    CoordinatorOptions options;
    options.samples = {0, 1, 2, 3, 4};
    options.make_method = [this] { return make_method(method_, schedule_); };
    options.method = method_;
    options.workers.resize(1);
    company_ = spawn_company(
        system_,
        {{&seen}, [this](JobHistory record) { record_ = std::move(record); }},
        {options, job_, store(kHomeProcess), {}, false}, {node(0)}, detours_);
    scheduler_.run();
  }
  JoinedJob(const JoinedJob&) = delete;
  JoinedJob& operator=(const JoinedJob&) = delete;

  ~JoinedJob() {
    for (const auto& [worker, executor] : executors_) {
      executor->run_all();
    }
    company_.dismiss();
    scheduler_.run();
  }

  /// The node of a process, which asks to join with one worker.
  NodeActor join(int process) {
    const bool is_known = stores_.contains(process);
    NodeSpec spec = node(process);
    if (is_known) {
      spec.store = make_store(*job_);  // each process has its own
    }
    spec.joins = true;
    spec.coordinator = detours_.coordinator
                           ? detours_.coordinator(system_, company_.coordinator)
                           : company_.coordinator;
    NodeActor joiner = spawn_node(system_, std::move(spec));
    caf::actor_cast<caf::abstract_actor*>(joiner)->attach_functor(
        [this](const caf::error& reason) {
          ends.push_back(system_.render(reason));
        });
    company_.nodes.push_back(joiner);
    scheduler_.run();
    return joiner;
  }

  void tell(const DrainProcess& drain) {
    caf::anon_send(company_.coordinator, CoordinatorEvent(drain));
    scheduler_.run();
  }

  /// Workers take turns, so many passes of each.
  void work(int passes) {
    for (int i = 0; i < passes && !record_; ++i) {
      for (const auto& [worker, executor] : std::map(executors_)) {
        passes_of[worker] += executor->run_one() ? 1 : 0;
        scheduler_.run();
      }
    }
  }
  [[nodiscard]] const EndJob& work_to_end() {
    work(10000);
    EXPECT_TRUE(record_);
    return record_.value().end;
  }

  JoinResults seen;
  std::map<int, int> passes_of;   ///< by worker
  std::vector<std::string> ends;  ///< of processes that joined

 private:
  std::shared_ptr<ValueStore> store(int process) {
    std::shared_ptr<ValueStore>& own = stores_[process];
    if (!own) {
      own = make_store(
          *job_, detours_.channel ? detours_.channel(channel_) : channel_);
      channel_->attach(process,
                       [store = std::weak_ptr(own)](const ValueName& name,
                                                    ValueChannel::Taker taker) {
                         store.lock()->give(name, std::move(taker));
                       });
    }
    return own;
  }
  NodeSpec node(int process) {
    return {.process = process,
            .workers = cpu_workers(1),
            .job = job_,
            .store = store(process),
            .make_executor = [this](int worker) -> std::unique_ptr<Executor> {
              auto& executor = executors_[worker];
              executor = std::make_shared<ManualExecutor>();
              return std::make_unique<Borrowed>(executor);
            }};
  }

  samplers::MethodOptions method_;
  samplers::Schedule schedule_{ddim_steps(8)};
  ToyEvaluator evaluator_;
  samplers::PhiloxNoise noise_{11};
  ManualClock clock_;
  std::shared_ptr<JobContext> job_ = std::make_shared<JobContext>(
      JobParts{unowned(schedule_), method_, unowned(evaluator_),
               unowned(noise_)},
      unowned(clock_));
  Detours detours_;
  std::shared_ptr<net::InprocValueChannel> channel_ =
      std::make_shared<net::InprocValueChannel>();
  std::map<int, std::shared_ptr<ValueStore>> stores_;
  std::map<int, std::shared_ptr<ManualExecutor>> executors_;  ///< by worker
  TestConfig config_;
  caf::actor_system system_;
  caf::scheduler::test_coordinator& scheduler_;
  Company company_;
  std::optional<JobHistory> record_;
};

void expect_same_as_alone(const std::map<std::uint64_t, Tensor>& got,
                          const std::map<std::uint64_t, Tensor>& expected) {
  ASSERT_EQ(got.size(), 5U);
  for (const auto& [index, latents] : expected) {
    EXPECT_TRUE(bytes_equal(got.at(index), latents)) << index;
  }
}

const MethodKind kJoinKinds[] = {MethodKind::sequential, MethodKind::batch,
                                 MethodKind::cfg,        MethodKind::picard,
                                 MethodKind::pipeline,   MethodKind::stale};

TEST(Joins, GiveTheJobWorkersAndTheBytesOfOneProcess) {
  for (const MethodKind kind : kJoinKinds) {
    JoinedJob alone(kind);
    EXPECT_FALSE(alone.work_to_end().failure);
    for (const bool by_wire : {false, true}) {
      for (const int passes : {0, 1, 7, 20}) {
        SCOPED_TRACE(std::string(kind->name) + ", after " +
                     std::to_string(passes) + (by_wire ? ", by wire" : ""));
        JoinedJob job(kind, by_wire ? wire_detours() : Detours{});
        job.work(passes);
        job.join(1);
        const EndJob& end = job.work_to_end();
        EXPECT_FALSE(end.failure);
        EXPECT_EQ(end.recoveries, 0);
        EXPECT_TRUE(job.ends.empty());
        EXPECT_GE(job.passes_of[1], 5);
        expect_same_as_alone(job.seen.latents, alone.seen.latents);
      }
    }
  }
}

TEST(Joins, ComeAndGoOneAfterTheOther) {
  JoinedJob alone(MethodKind::batch);
  EXPECT_FALSE(alone.work_to_end().failure);
  JoinedJob job(MethodKind::batch);
  for (int process = 1; process <= 2; ++process) {
    job.join(process);
    job.work(4);
    job.tell(DrainProcess{process});
    job.work(4);
    EXPECT_EQ(job.ends.size(), static_cast<std::size_t>(process));
  }
  EXPECT_FALSE(job.work_to_end().failure);
  for (int worker = 1; worker <= 2; ++worker) {
    EXPECT_GE(job.passes_of[worker], 1);
  }
  expect_same_as_alone(job.seen.latents, alone.seen.latents);
}

TEST(Joins, EndWithTheReasonWhenTheyAreRefused) {
  for (const bool by_wire : {false, true}) {
    JoinedJob job(MethodKind::batch, by_wire ? wire_detours() : Detours{});
    job.work(2);
    job.join(0);
    ASSERT_EQ(job.ends.size(), 1U);
    EXPECT_NE(job.ends[0].find("another process has its place in the job"),
              std::string::npos)
        << job.ends[0];
    // Who has the number stays.
    EXPECT_FALSE(job.work_to_end().failure);
    EXPECT_EQ(job.seen.latents.size(), 5U);
  }
}

TEST(Joins, EndWhenTheJobIsOver) {
  JoinedJob job(MethodKind::batch);
  EXPECT_FALSE(job.work_to_end().failure);
  job.join(1);
  EXPECT_EQ(job.ends.size(), 1U);
}

}  // namespace
}  // namespace troupe::actors
