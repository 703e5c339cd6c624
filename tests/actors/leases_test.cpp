#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Ticks four times a second, as the shells do.
void pass_time(Company& company, Duration time) {
  const TimePoint end = company.now + time;
  while (company.now < end) {
    company.now += milliseconds(250);
    company.on(TimeTick{});
  }
}

TEST(Leases, AreTenTimesTheSlowestPass) {
  Company company({.kind = MethodKind::batch}, 1, 4,
                  {.lease = {.least = seconds(1)}});
  company.raise_all();
  company.grant_duration = milliseconds(500);
  company.run_one(0);
  pass_time(company, milliseconds(4750));
  EXPECT_TRUE(company.fenced.empty());
  pass_time(company, milliseconds(500));
  EXPECT_EQ(company.fenced, std::vector<int>{0});
}

TEST(Leases, AreLongForWhatNobodyHasDoneYet) {
  Company company({.kind = MethodKind::batch}, 1, 1,
                  {.lease = {.least = seconds(1), .unmeasured = seconds(60)}});
  company.raise_all();
  pass_time(company, seconds(59));
  EXPECT_TRUE(company.fenced.empty());
  pass_time(company, seconds(2));
  EXPECT_EQ(company.fenced, std::vector<int>{0});
}

TEST(Leases, OfADecodeAreLongUntilOneWasDone) {
  Company company({.kind = MethodKind::batch}, 1, 1,
                  {.lease = {.least = seconds(1), .unmeasured = seconds(60)}});
  company.raise_all();
  while (company.mailboxes[0].at(0).tasks[0].task.op != samplers::Op::decode) {
    company.run_one(0);
  }
  pass_time(company, seconds(30));
  EXPECT_TRUE(company.fenced.empty());
}

TEST(Leases, AreRenewedAfterAGapInTime) {
  Company company({.kind = MethodKind::batch}, 2, 4,
                  {.lease = {.least = seconds(10)}});
  company.raise_all();
  company.on(TimeTick{});
  company.now += seconds(3600);  // the machine slept
  company.on(TimeTick{});
  pass_time(company, seconds(9));
  EXPECT_TRUE(company.fenced.empty());
  pass_time(company, seconds(2));
  EXPECT_EQ(company.fenced, (std::vector<int>{0, 1}));
}

TEST(Leases, AreNotRenewedByBeatsOfAnEarlierIncarnation) {
  Company company({.kind = MethodKind::batch}, 1, 1,
                  {.lease = {.least = seconds(10)}});
  company.raise_all();
  company.kill(0);
  company.raise(0);
  company.now += seconds(8);
  company.on(WorkerBeat{0, 1, 99, true});
  company.now += seconds(4);
  company.on(TimeTick{});
  EXPECT_EQ(company.fenced, std::vector<int>{0});
}

/// Whether the pass has the third call of the first sample.
bool is_poison(const Grant& pass) {
  return pass.tasks.at(0).sample_index == 0 && pass.tasks.at(0).task.from == 2;
}

/// The values of a run may be missed before their process is known to be lost.
TEST(Losses, ThatDoNotCountEndNoJobHoweverMany) {
  Company company({.kind = MethodKind::batch}, 0, 1,
                  {.waits_for_processes = true});
  for (int process = 1; process <= 50; ++process) {
    company.join(process, alike(1, 1));
    const int worker = process - 1;
    company.raise(worker);
    company.run_one(worker);
    company.run_one(worker);
    ASSERT_FALSE(company.mailboxes.back().empty()) << process;
    const Grant next = company.take(worker);
    ASSERT_FALSE(next.tasks.at(0).task.inputs.empty());
    GrantResult gone = company.answer(next);
    gone.held.clear();
    gone.outcome = InputsGone{
        {{{0, next.tasks[0].run, next.tasks[0].task.inputs.front()}, process}}};
    company.on(gone);
    company.forget(worker);
    company.on(ProcessDown{process, {}});
    ASSERT_EQ(company.times_ended, 0) << process;
  }
  company.join(51, alike(1, 1));
  company.raise(50);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 1U);
}

/// Samples of which the third call of the first one ends its workers.
struct Poisoned {
  explicit Poisoned(CoordinatorOptions options = {}, int workers = 0,
                    std::uint64_t samples = 2)
      : company({.kind = MethodKind::batch}, workers, samples, [&] {
          options.waits_for_processes = workers == 0;
          return options;
        }()) {}

  /// The worker of the next process, which has just come.
  int join(std::uint64_t machine = 0) {
    company.join(++last_process, alike(1, 1), {.machine = machine});
    const int worker = static_cast<int>(company.mailboxes.size()) - 1;
    company.raise(worker);
    return worker;
  }
  /// Whether the worker comes to the poison.
  bool run_to_poison(int worker) {
    auto& box = company.mailboxes[static_cast<std::size_t>(worker)];
    while (!box.empty() && !is_poison(box.front())) {
      company.run_one(worker);
    }
    return !box.empty();
  }
  void lose(int worker, int process, bool has_ended) {
    company.forget(worker);
    company.on(ProcessDown{process,
                           {Errc::unreachable,
                            "process",
                            "process " + std::to_string(process) + " is lost",
                            {}},
                           has_ended});
  }
  /// Processes of these machines come and are lost in the pass, one after the
  /// other. Returns how many the sample outlived.
  int lose_one_by_one(int count, bool has_ended, Duration between,
                      std::uint64_t machine = 0) {
    int outlived = 0;
    for (; outlived < count; ++outlived) {
      company.now += between;
      const int worker = join(machine);
      if (!run_to_poison(worker)) {
        break;
      }
      lose(worker, last_process, has_ended);
    }
    return outlived;
  }
  /// Another process finishes what is left.
  void finish() {
    const int worker = join();
    do {
      answer_fetches(company);
    } while (company.run_one(worker));
  }
  [[nodiscard]] std::optional<Failure> failure() const {
    const auto found = std::ranges::find(company.reports, SampleStatus::failed,
                                         &SampleReport::status);
    return found == company.reports.end() ? std::nullopt : found->failure;
  }

  Company company;
  int last_process = 0;
};

TEST(Losses, OfProcessesThatEndParkASampleThatRunsAlone) {
  Poisoned job;
  EXPECT_EQ(job.lose_one_by_one(9, true, seconds(3)), 4)
      << "once among others, and three times alone";
  ASSERT_TRUE(job.failure());
  EXPECT_EQ(job.failure()->code, Errc::items_failed);
  EXPECT_EQ(job.failure()->place, "sample 0");
  for (const std::string process : {"1", "2", "3", "4"}) {
    EXPECT_NE(job.failure()->message.find("process " + process + " is lost"),
              std::string::npos)
        << job.failure()->message;
  }
  job.finish();
  EXPECT_EQ(num_done(job.company), 1U);
  EXPECT_FALSE(job.company.end.failure);
}

TEST(Losses, AreAsManyAsTheJobAllows) {
  Poisoned once({.max_losses = 1});
  EXPECT_EQ(once.lose_one_by_one(9, true, seconds(3)), 2);
  Poisoned never({.max_losses = 0});
  EXPECT_EQ(never.lose_one_by_one(25, true, seconds(3)), 25);
  never.finish();
  EXPECT_EQ(num_done(never.company), 2U);
}

TEST(Losses, OfProcessesThatAreSilentOrLeaveDoNotCount) {
  Poisoned job;
  EXPECT_EQ(job.lose_one_by_one(25, false, seconds(3)), 25);
  job.finish();
  EXPECT_EQ(num_done(job.company), 2U);
}

TEST(Losses, OfProcessesThatDrainDoNotCount) {
  Poisoned job;
  for (int i = 0; i < 9; ++i) {
    const int worker = job.join();
    ASSERT_TRUE(job.run_to_poison(worker));
    job.company.on(DrainProcess{job.last_process});
    job.lose(worker, job.last_process, true);
  }
  job.finish();
  EXPECT_EQ(num_done(job.company), 2U);
}

TEST(Losses, OnOneHostWithinTwoSecondsCountOnce) {
  Poisoned close;
  EXPECT_EQ(close.lose_one_by_one(9, true, milliseconds(600), 7), 9)
      << "lost at 0.6, 1.2, … 5.4 s: these are three incidents";
  Poisoned apart;
  EXPECT_EQ(apart.lose_one_by_one(9, true, milliseconds(2100), 7), 4);
  Poisoned unknown;
  EXPECT_EQ(unknown.lose_one_by_one(9, true, milliseconds(600)), 4)
      << "who does not say its machine has one of its own";
}

TEST(Losses, ByALeaseCountWhereTheProcessStillBeats) {
  for (const bool beats : {true, false}) {
    Poisoned job({.workers = alike(1, 1), .lease = {.least = seconds(10)}}, 1);
    int losses = 0;
    for (; losses < 12 && !job.failure(); ++losses) {
      job.company.raise(0);
      if (!job.run_to_poison(0)) {
        break;
      }
      while (static_cast<int>(job.company.fenced.size()) == losses) {
        job.company.now += milliseconds(500);
        if (beats) {
          job.company.on(WorkerBeat{0, job.company.epochs[0], 1});
        }
        job.company.on(TimeTick{});
      }
      job.company.kill(0);
    }
    EXPECT_EQ(losses, beats ? 4 : 12);
    EXPECT_EQ(job.failure().has_value(), beats);
  }
}

TEST(Losses, SendATaskToAnotherHostAlone) {
  for (const int other : {1, 2, 3}) {
    Poisoned job;
    const int lost = job.join(7);
    for (const int worker : {1, 2, 3}) {
      job.join(worker == other ? 8 : 7);
    }
    ASSERT_TRUE(job.run_to_poison(lost));
    job.company.grants.clear();
    job.lose(lost, 1, true);
    // The sample begins anew. What it does until there may run anywhere.
    for (int i = 0; i < 40; ++i) {
      for (const int worker : {1, 2, 3}) {
        const auto& box =
            job.company.mailboxes[static_cast<std::size_t>(worker)];
        if (!box.empty() && !is_poison(box.front())) {
          job.company.run_one(worker);
        }
      }
    }
    int times = 0;
    for (const Grant& grant : job.company.grants) {
      for (const SampleTask& work : grant.tasks) {
        if (work.sample_index == 0 && work.task.from == 2) {
          ++times;
          EXPECT_TRUE(work.alone);
          EXPECT_EQ(grant.worker, other);
        }
      }
    }
    EXPECT_EQ(times, 1);
  }
}

TEST(Losses, OfTwoTasksWithOneProcessLetThemRunInAnotherOneByOne) {
  Company company({.kind = MethodKind::batch}, 0, 2,
                  {.waits_for_processes = true});
  const auto join = [&company](int process) {
    company.join(process, alike(2, 1));
    for (const int child : {0, 1}) {
      company.raise(2 * (process - 1) + child);
    }
  };
  join(1);
  ASSERT_FALSE(company.mailboxes[0].empty());
  ASSERT_FALSE(company.mailboxes[1].empty());
  join(2);
  company.forget(0);
  company.forget(1);
  company.on(ProcessDown{1, {Errc::unreachable, "process", "lost", {}}, true});
  EXPECT_NE(company.mailboxes[2].empty(), company.mailboxes[3].empty());
  for (int i = 0; i < 100 && company.times_ended == 0; ++i) {
    for (const int worker : {2, 3}) {
      company.run_one(worker);
      answer_fetches(company);
    }
  }
  EXPECT_EQ(num_done(company), 2U);
}

TEST(Losses, SpareTheCoordinatorsProcess) {
  // Its worker is the first. What has ended a process alone does not run there.
  Poisoned job({.workers = alike(1, 1)}, 1);
  job.company.raise(0);
  const auto run_home = [&job] {
    while (!job.company.mailboxes[0].empty() &&
           !is_poison(job.company.mailboxes[0].front())) {
      job.company.run_one(0);
    }
  };
  for (const int process : {1, 2}) {
    const int worker = job.join();
    if (process == 1) {
      job.company.kill(0);  // its task goes to the other process
    }
    ASSERT_TRUE(job.run_to_poison(worker)) << process;
    if (process == 1) {
      job.company.raise(0);
    }
    EXPECT_FALSE(job.failure());
    job.lose(worker, process, true);
    if (process == 1) {
      EXPECT_FALSE(job.failure()) << "one end may be an accident";
      job.company.kill(0);
    }
  }
  job.company.raise(0);
  run_home();
  ASSERT_TRUE(job.failure());
  EXPECT_EQ(job.failure()->code, Errc::items_failed);
  while (job.company.run_one(0)) {
    answer_fetches(job.company);
  }
  EXPECT_EQ(num_done(job.company), 1U);
  EXPECT_FALSE(job.company.end.failure);
}

TEST(Losses, OfOneTaskFailItsSampleAlone) {
  Company company({.kind = MethodKind::batch}, 1, 3);
  company.raise_all();
  int deaths = 0;
  while (company.times_ended == 0) {
    const Grant pass = company.mailboxes[0].at(0);
    if (pass.tasks[0].sample_index == 1 && pass.tasks[0].task.from == 2) {
      ++deaths;
      company.kill(0);
      company.raise(0);
    } else {
      company.run_one(0);
    }
  }
  EXPECT_EQ(deaths, 4) << "once among others, and three times alone";
  EXPECT_FALSE(company.end.failure);
  ASSERT_EQ(company.reports.size(), 3U);
  for (const SampleReport& report : company.reports) {
    const bool is_parked = report.sample_index == 1;
    EXPECT_EQ(report.status,
              is_parked ? SampleStatus::failed : SampleStatus::done);
    ASSERT_EQ(report.failure.has_value(), is_parked);
    if (is_parked) {
      EXPECT_NE(report.failure->message.find("4 times"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace troupe::actors
