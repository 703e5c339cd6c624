// What the coordinator says of values: where values are, which are fetched and
// freed, and which samples start again when values are lost.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;

/// One worker in each of `count` processes, from `first` on.
CoordinatorOptions in_processes(int count, int first = 0, bool decode = false) {
  CoordinatorOptions options{.decode = decode};
  for (int w = 0; w < count; ++w) {
    options.workers.push_back({.process = first + w});
  }
  return options;
}

TEST(CoordinatorValues, NamesWhoHoldsAnInputThatTheWorkerLacks) {
  // Two segments, one in each process: what crosses the cut is fetched.
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 2, 1,
                  in_processes(2));
  company.raise_all();
  const Grant first = company.take(0);
  EXPECT_TRUE(first.sources.empty());
  const samplers::Slot boundary = first.tasks[0].task.outputs[0];
  company.on(company.answer(first));
  const Grant second = company.take(1);
  ASSERT_EQ(second.sources.size(), 1U);
  EXPECT_EQ(second.sources[0], (RemoteValue{{0, 0, boundary}, 0}));
}

TEST(CoordinatorValues, SaysWhoElseHoldsAValueOfARunUnderWay) {
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 2, 1,
                  in_processes(2));
  company.raise_all();
  const Grant first = company.take(0);
  const ValueName boundary{0, 0, first.tasks[0].task.outputs[0]};
  company.on(company.answer(first));
  const auto holder_of = [&company](const ValueName& name, int besides) {
    return company.policy().holder_of(name, besides);
  };
  EXPECT_EQ(holder_of(boundary, 1), 0);
  EXPECT_FALSE(holder_of(boundary, 0));
  EXPECT_FALSE(holder_of({0, 1, boundary.slot}, 1)) << "of another run";
  EXPECT_FALSE(holder_of({7, 0, boundary.slot}, 1)) << "of another sample";
}

TEST(CoordinatorValues, FreesADeadSlotWhereverItMayBe) {
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 2, 1,
                  in_processes(2));
  company.raise_all();
  const Grant first = company.take(0);
  const samplers::Slot boundary = first.tasks[0].task.outputs[0];
  company.on(company.answer(first));
  company.on(company.answer(company.take(1)));
  company.on(TimeTick{});
  const auto is_told = [&](const std::vector<FreedSlots>& frees) {
    return std::ranges::any_of(frees, [&](const FreedSlots& freed) {
      return std::ranges::find(freed.slots, boundary) != freed.slots.end();
    });
  };
  std::set<int> informed;
  for (const FreeValues& free : company.freed) {
    if (is_told(free.frees)) {
      informed.insert(free.process);
    }
  }
  for (const Grant& grant : company.grants) {
    if (is_told(grant.frees)) {
      informed.insert(grant.worker);
    }
  }
  EXPECT_EQ(informed, (std::set<int>{0, 1}));
}

TEST(CoordinatorValues, TellsAgainWhatALostGrantTookAlong) {
  Company company({.kind = MethodKind::sequential}, 1, 1, in_processes(1, 1));
  company.raise_all();
  company.run_one(0);
  const std::vector<FreedSlots> frees = company.grants.back().frees;
  ASSERT_FALSE(frees.empty());
  company.kill(0);
  company.on(TimeTick{});
  ASSERT_EQ(company.freed.size(), 1U);
  EXPECT_EQ(company.freed[0].process, 1);
  EXPECT_EQ(company.freed[0].frees.at(0).slots, frees[0].slots);
}

TEST(CoordinatorValues, EndsASampleWhenItsResultIsHome) {
  Company company({.kind = MethodKind::sequential}, 1, 1,
                  in_processes(1, 1, true));
  company.raise_all();
  while (company.run_one(0)) {
  }
  EXPECT_TRUE(company.reports.empty());
  ASSERT_EQ(company.fetches.size(), 1U);
  const FetchValues fetch = company.fetches.front();
  ASSERT_EQ(fetch.values.size(), 2U) << "latents and pixels";
  EXPECT_EQ(fetch.values[1].name.slot, kPixelsSlot);
  EXPECT_EQ(fetch.values[1].process, 1);
  company.on(
      ValuesFetched{fetch.sample_index, fetch.run + 1, fetch.number, {}});
  EXPECT_TRUE(company.reports.empty()) << "of another run";
  company.on(ValuesFetched{fetch.sample_index, fetch.run, fetch.number, {}});
  EXPECT_EQ(num_done(company), 1U);
  EXPECT_EQ(company.times_ended, 1);
  std::set<int> informed;
  for (const DropRuns& drop : company.dropped) {
    EXPECT_FALSE(drop.last_run);
    informed.insert(drop.process);
  }
  EXPECT_EQ(informed, (std::set<int>{0, 1}));
}

/// A company of one sample and two workers' processes, whose decode was granted
/// and has not run.
struct Decoding {
  Decoding() {
    company.raise_all();
    while (company.fetches.empty()) {
      const int w = company.mailboxes[0].empty() ? 1 : 0;
      EXPECT_TRUE(company.run_one(w));
    }
    decoder = company.mailboxes[0].empty() ? 1 : 0;
  }

  Company company{
      {.kind = MethodKind::sequential}, 2, 1, in_processes(2, 1, true)};
  int decoder = 0;
};

TEST(CoordinatorValues, AsksForPixelsWithTheGrantOfTheirDecode) {
  for (const bool comes_first : {false, true}) {
    Decoding job;
    const FetchValues fetch = job.company.fetches.at(0);
    EXPECT_FALSE(fetch.is_rescue);
    ASSERT_EQ(fetch.values.size(), 2U);
    EXPECT_EQ(fetch.values[1],
              (RemoteValue{{0, fetch.run, kPixelsSlot}, job.decoder + 1}));
    const ValuesFetched here{fetch.sample_index, fetch.run, fetch.number, {}};
    if (comes_first) {
      job.company.on(here);
      EXPECT_TRUE(job.company.reports.empty()) << "the decode has not ended";
    }
    EXPECT_TRUE(job.company.run_one(job.decoder));
    if (!comes_first) {
      EXPECT_TRUE(job.company.reports.empty()) << "the result is on its way";
      job.company.on(here);
    }
    EXPECT_EQ(job.company.fetches.size(), 1U);
    EXPECT_EQ(num_done(job.company), 1U);
  }
}

TEST(CoordinatorValues, AsksWhoeverIsToDecodeNext) {
  Decoding job;
  const int other = 1 - job.decoder;
  // Only the worker is lost: its process still has the latents.
  const FetchValues first = job.company.fetches.at(0);
  job.company.kill(job.decoder);
  ASSERT_EQ(job.company.fetches.size(), 2U);
  const FetchValues again = job.company.fetches.at(1);
  EXPECT_EQ(again.values.back().name.slot, kPixelsSlot);
  EXPECT_EQ(again.values.back().process, other + 1);
  EXPECT_TRUE(job.company.run_one(other));
  job.company.on(ValuesFetched{0, first.run, first.number, {}});
  EXPECT_EQ(num_done(job.company), 0U) << "an answer to the first question";
  EXPECT_EQ(job.company.fetches.size(), 2U);
  job.company.on(ValuesFetched{0, again.run, again.number, {}});
  EXPECT_EQ(num_done(job.company), 1U);
}

TEST(CoordinatorValues, BeginsASampleAnewWhoseResultIsGone) {
  Company company({.kind = MethodKind::sequential}, 1, 1, in_processes(1, 1));
  company.raise_all();
  while (company.run_one(0)) {
  }
  const FetchValues fetch = company.fetches.at(0);
  company.on(
      ValuesFetched{fetch.sample_index, fetch.run, fetch.number, fetch.values});
  EXPECT_TRUE(company.workers_of_run.contains({0, 1}));
  EXPECT_EQ(company.dropped.back().last_run, 0U);
  while (company.run_one(0)) {
  }
  const FetchValues again = company.fetches.at(1);
  EXPECT_EQ(again.run, 1U);
  company.on(ValuesFetched{again.sample_index, again.run, again.number, {}});
  EXPECT_EQ(num_done(company), 1U);
  EXPECT_EQ(company.end.recoveries, 1);
}

GrantResult nothing_ran(const Grant& grant) {
  GrantResult result;
  for (const SampleTask& work : grant.tasks) {
    result.grants.push_back(work.grant);
  }
  result.worker = grant.worker;
  result.epoch = grant.epoch;
  result.outcome = InputsGone{grant.sources};
  return result;
}

TEST(CoordinatorValues, BeginsASampleAnewWhoseInputNobodyHolds) {
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 2, 1,
                  in_processes(2));
  company.raise_all();
  company.run_one(0);
  company.on(nothing_ran(company.take(1)));
  EXPECT_TRUE(company.workers_of_run.contains({0, 1}));
  company.run_to_end();
  EXPECT_FALSE(company.end.failure);
  EXPECT_EQ(num_done(company), 1U);
  EXPECT_EQ(company.end.recoveries, 1);
}

TEST(CoordinatorValues, GivesUpASampleThatIsLostAgainAndAgain) {
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 2, 1,
                  in_processes(2));
  company.raise_all();
  for (int i = 0; i < 200 && company.times_ended == 0; ++i) {
    company.run_one(0);
    if (!company.mailboxes[1].empty()) {
      company.on(nothing_ran(company.take(1)));
    }
  }
  ASSERT_TRUE(company.end.failure);
  EXPECT_NE(company.end.failure->message.find("sample 0 were lost"),
            std::string::npos);
}

constexpr auto kGone = [](int process) {
  return ProcessDown{process, {Errc::job_failed, "node", "is gone", {}}};
};

/// A process ends, and with it the worker of the same number.
void lose(Company& company, int process) {
  company.on(kGone(process));
  company.forget(process);
}

TEST(CoordinatorValues, GoesOnWithoutAProcessAndBeginsAnewWhatItHeld) {
  Company company({.kind = MethodKind::batch}, 2, 2, in_processes(2));
  company.grant_duration = std::chrono::milliseconds(20);
  company.raise_all();
  company.run_one(0);
  company.run_one(1);
  lose(company, 1);
  EXPECT_FALSE(company.workers_of_run.contains({0, 1}));
  EXPECT_TRUE(company.workers_of_run.contains({1, 1}));
  company.run_to_end();
  EXPECT_EQ(num_done(company), 2U);
  EXPECT_FALSE(company.end.failure);
  ASSERT_EQ(company.end.lost.size(), 1U);
  EXPECT_EQ(company.end.lost[0].cause.place, "node");
  for (const DropRuns& drop : company.dropped) {
    EXPECT_EQ(drop.process, 0) << "nobody is there";
  }
}

TEST(CoordinatorValues, ListsNothingThatALostProcessSaysLate) {
  Company company({.kind = MethodKind::batch}, 2, 2, in_processes(2));
  company.grant_duration = std::chrono::milliseconds(20);
  company.raise_all();
  const Grant late = company.take(1);
  lose(company, 1);
  // Nothing of the sample had been made there: it goes on.
  EXPECT_FALSE(company.workers_of_run.contains({1, 1}));
  company.on(company.answer(late));
  company.run_to_end();
  EXPECT_EQ(num_done(company), 2U);
  for (const Grant& grant : company.grants) {
    for (const RemoteValue& source : grant.sources) {
      EXPECT_EQ(source.process, grant.worker) << "of a process that is gone";
    }
  }
}

TEST(CoordinatorValues, BeginsAnewWhatAProcessWithoutWorkersHeld) {
  // Its only worker is given up before the process ends.
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 3, 1,
                  in_processes(3));
  company.raise_all();
  company.run_one(0);
  company.run_one(1);
  company.kill(1);
  company.on(
      WorkerDown{1, 1, Failure{Errc::job_failed, "worker", "again", {}}});
  company.on(kGone(1));
  EXPECT_FALSE(company.end.failure);
  company.run_to_end();
  EXPECT_FALSE(company.end.failure);
  EXPECT_EQ(num_done(company), 1U);
}

TEST(CoordinatorValues, KeepsATaskOfALaterRunWhileNobodyIsAlive) {
  Company company({.kind = MethodKind::sequential}, 2, 2, in_processes(2));
  company.grant_duration = std::chrono::milliseconds(20);
  company.raise_all();
  company.run_one(1);
  company.kill(0);
  lose(company, 1);
  company.raise(0);
  EXPECT_TRUE(company.workers_of_run.contains({1, 1}));
  company.run_to_end();
  EXPECT_EQ(num_done(company), 2U);
}

TEST(CoordinatorValues, TakesALateGoneForWhatItIs) {
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 2, 1,
                  in_processes(2));
  company.raise_all();
  company.run_one(0);
  const GrantResult late = nothing_ran(company.take(1));
  company.kill(1);
  company.on(late);
  company.raise(1);
  company.run_to_end();
  EXPECT_FALSE(company.end.failure);
  EXPECT_EQ(num_done(company), 1U);
}

TEST(CoordinatorValues, EndsTheJobWithTheCoordinatorsProcess) {
  Company company({.kind = MethodKind::batch}, 2, 2, in_processes(2));
  company.raise_all();
  company.on(
      ProcessDown{kHomeProcess, {Errc::internal, "node", "is gone", {}}});
  ASSERT_TRUE(company.end.failure);
  EXPECT_EQ(company.end.failure->place, "node");
}

/// A worker of another process answers once with less than it made.
void expect_done_in_spite_of(MethodKind kind, samplers::Op op,
                             void (*leave_out)(GrantResult&)) {
  Company company({.kind = kind, .window_size = 3}, 1, 2, in_processes(1, 1));
  company.raise_all();
  while (company.mailboxes[0].at(0).tasks.at(0).task.op != op) {
    ASSERT_TRUE(company.run_one(0));
  }
  GrantResult less = company.answer(company.take(0));
  leave_out(less);
  company.on(less);
  EXPECT_EQ(company.fenced, std::vector<int>{0});
  company.forget(0);
  company.raise(0);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 2U);
  EXPECT_FALSE(company.end.failure);
}

TEST(CoordinatorValues, FencesAWorkerThatSaysLessThanItMade) {
  expect_done_in_spite_of(MethodKind::batch, samplers::Op::evaluate,
                          [](GrantResult& less) { less.held.pop_back(); });
  expect_done_in_spite_of(
      MethodKind::picard, samplers::Op::sweep, [](GrantResult& less) {
        auto& results = std::get<TasksDone>(less.outcome).results;
        results.back().scalars.pop_back();
      });
}

// ---- what observers get

std::vector<int> calls_of(const std::vector<ShowIntermediate>& shown,
                          bool is_preview) {
  std::vector<int> calls;
  for (const ShowIntermediate& show : shown) {
    if (show.is_preview == is_preview) {
      calls.push_back(show.call);
    }
  }
  return calls;
}

bool is_freed(const Company& company, samplers::Slot slot) {
  const auto has_it = [slot](const FreedSlots& freed) {
    return std::ranges::find(freed.slots, slot) != freed.slots.end();
  };
  return std::ranges::any_of(company.freed,
                             [&](const FreeValues& free) {
                               return std::ranges::any_of(free.frees, has_it);
                             }) ||
         std::ranges::any_of(company.grants, [&](const Grant& grant) {
           return std::ranges::any_of(grant.frees, has_it);
         });
}

CoordinatorOptions observed(int count, int first) {
  CoordinatorOptions options = in_processes(count, first);
  options.trajectory = true;
  return options;
}

TEST(CoordinatorIntermediates, AreAllShownBeforeTheirSampleEnds) {
  for (const MethodKind kind :
       {MethodKind::sequential, MethodKind::batch, MethodKind::cfg,
        MethodKind::picard, MethodKind::pipeline, MethodKind::stale}) {
    SCOPED_TRACE(std::string(kind->name));
    Company company({.kind = kind, .window_size = 3, .num_segments = 2}, 2, 1,
                    observed(2, 1));
    company.raise_all();
    for (int i = 0; i < 1000; ++i) {
      company.run_one(i % 2);
      answer_fetches(company);
    }
    EXPECT_TRUE(company.reports.empty()) << "points are on their way";
    ASSERT_FALSE(company.intermediates.empty());
    while (!company.intermediates.empty()) {
      company.copy();
    }
    EXPECT_EQ(num_done(company), 1U);
    EXPECT_EQ(company.times_ended, 1);
    EXPECT_EQ(calls_of(company.shown, false),
              (std::vector<int>{0, 1, 2, 3, 4, 5}));
  }
}

TEST(CoordinatorIntermediates, AreAPreviewEverySoManyCalls) {
  CoordinatorOptions options = in_processes(1);
  options.preview_every = 2;
  Company company({.kind = MethodKind::batch}, 1, 1, options);
  company.raise_all();
  while (company.run_one(0)) {
  }
  EXPECT_TRUE(company.reports.empty()) << "they are copied in no time";
  while (!company.intermediates.empty()) {
    company.copy();
  }
  EXPECT_EQ(num_done(company), 1U);
  EXPECT_EQ(calls_of(company.shown, true), (std::vector<int>{0, 2, 4}));
}

TEST(CoordinatorIntermediates, OfAnotherProcessDelayNoImage) {
  CoordinatorOptions options = in_processes(1, 1);
  options.preview_every = 1;
  Company company({.kind = MethodKind::batch}, 1, 2, options);
  company.raise_all();
  while (company.run_one(0)) {
    answer_fetches(company);
  }
  EXPECT_EQ(num_done(company), 2U);
  EXPECT_EQ(company.intermediates.size(), 2U) << "one of a sample at a time";
  while (!company.intermediates.empty()) {
    company.copy();
  }
  EXPECT_TRUE(company.shown.empty()) << "of samples that have ended";
}

TEST(CoordinatorIntermediates, KeepTheirValuesUntilTheyAreCopied) {
  Company company({.kind = MethodKind::sequential}, 1, 1, observed(1, 1));
  company.raise_all();
  for (int i = 0; i < 3; ++i) {
    company.run_one(0);
  }
  company.on(TimeTick{});
  (void)company.copy();  // the initial state
  const samplers::Slot first =
      company.intermediates.front().values.at(0).name.slot;
  EXPECT_EQ(company.intermediates.front().values.at(0).process, 1);
  EXPECT_FALSE(is_freed(company, first));
  (void)company.copy();
  company.on(TimeTick{});
  EXPECT_TRUE(is_freed(company, first));
}

TEST(CoordinatorIntermediates, BeginTheSampleAnewIfAPointIsLostBeforeItsCut) {
  CoordinatorOptions options = observed(2, 1);
  options.cuts = {.interval = std::chrono::milliseconds(10), .calls = 2};
  for (const bool is_late : {false, true}) {
    Company company({.kind = MethodKind::sequential}, 2, 1, options);
    company.raise_all();
    const int worker = company.mailboxes[0].empty() ? 1 : 0;
    for (int i = 0; i < 100 && company.cuts.empty(); ++i) {
      company.now += std::chrono::milliseconds(10);
      company.run_one(worker);
    }
    (void)company.take_cut();
    while (!company.intermediates.empty() && !is_late) {
      (void)company.copy();
    }
    const std::size_t shown = company.shown.size();
    company.on(ProcessDown{1 + worker, {Errc::unreachable, "p", "gone", {}}});
    // What the lost process held is not the point: it is not at home.
    EXPECT_EQ(company.restores.size(), is_late ? 0U : 1U);
    company.run_to_end();
    EXPECT_EQ(num_done(company), 1U);
    std::vector<int> calls = calls_of(company.shown, false);
    calls.erase(calls.begin(), calls.begin() + static_cast<int>(shown));
    EXPECT_EQ(calls.front(), is_late ? 0 : 3) << "later ones were shown";
    EXPECT_EQ(calls.back(), 5);
  }
}

TEST(CoordinatorIntermediates, OfAPreviewThatIsLostAreLeftOut) {
  CoordinatorOptions options = in_processes(1, 1);
  options.preview_every = 1;
  Company company({.kind = MethodKind::sequential}, 1, 1, options);
  company.raise_all();
  company.run_one(0);
  const auto values = company.copy(false).values;
  ASSERT_EQ(values.size(), 2U) << "the state and the network's output";
  company.run_to_end();
  EXPECT_EQ(num_done(company), 1U);
  EXPECT_EQ(company.reports.front().progress.nfe, 5) << "nothing was repeated";
  EXPECT_EQ(calls_of(company.shown, true).front(), 1);
}

TEST(CoordinatorIntermediates, OfAPointThatIsGoneAreMadeAnew) {
  Company company({.kind = MethodKind::sequential}, 1, 1, observed(1, 1));
  company.raise_all();
  company.run_one(0);
  (void)company.copy();
  const std::uint32_t run = company.copy(false).run;
  company.run_to_end();
  EXPECT_EQ(num_done(company), 1U);
  EXPECT_GT(company.workers_of_run.rbegin()->first.second, run);
  EXPECT_EQ(calls_of(company.shown, false),
            (std::vector<int>{0, 0, 1, 2, 3, 4, 5}));
}

TEST(CoordinatorIntermediates, ThatCanNeverBeCopiedEndTheJob) {
  Company company({.kind = MethodKind::sequential}, 1, 1, observed(1, 1));
  company.raise_all();
  for (int i = 0; i < 1000 && company.times_ended == 0; ++i) {
    company.run_one(0);
    if (!company.intermediates.empty()) {
      const bool is_initial = company.intermediates.front().call == 0;
      (void)company.copy(!is_initial);
    }
  }
  EXPECT_EQ(company.times_ended, 1);
  EXPECT_TRUE(company.end.failure);
  EXPECT_TRUE(company.reports.empty());
}

TEST(CoordinatorIntermediates, OfPicardAreOfTheNewestSweep) {
  CoordinatorOptions options = observed(1, 1);
  Company company({.kind = MethodKind::picard, .window_size = 3}, 1, 1,
                  options);
  company.raise_all();
  while (company.run_one(0)) {
    answer_fetches(company);
  }
  std::map<int, std::vector<FetchIntermediate>> by_call;
  while (!company.intermediates.empty()) {
    const FetchIntermediate fetch = company.copy();
    by_call[fetch.call].push_back(fetch);
  }
  EXPECT_EQ(by_call.size(), 6U);
  EXPECT_EQ(calls_of(company.shown, false).size(), 6U) << "each once";
}

}  // namespace
}  // namespace troupe::actors
