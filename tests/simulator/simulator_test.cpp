#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "samplers/parallel/method_row.h"
#include "tests/simulator/hazards.h"
#include "tests/simulator/no_faults.h"
#include "tests/simulator/sabotage.h"
#include "tests/simulator/simulate.h"

namespace troupe::actors::simulator {
namespace {

TEST(Simulator, TriesEveryMethodAsOftenAsTheOthers) {
  const std::size_t methods = samplers::method_table().size();
  std::map<std::string_view, int> times;
  for (std::uint64_t seed = 0; seed < 10 * methods; ++seed) {
    const Scenario scenario = make_scenario(seed);
    ++times[scenario.variant->method.kind->name];
    EXPECT_GE(scenario.num_samples, 20);
    EXPECT_GE(scenario.variant->schedule->num_model_calls(), 12);
    EXPECT_GE(scenario.workers.size(), 4U);
  }
  EXPECT_EQ(times.size(), methods);
  for (const auto& [name, count] : times) {
    EXPECT_EQ(count, 10) << name;
  }
}

TEST(Simulator, EndsUndisturbedJobsWithPlainValues) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const Scenario scenario = make_scenario(seed, kNoFaults);
    const Outcome outcome = simulate(scenario);
    EXPECT_EQ(outcome.error.value_or(""), "") << to_string(scenario);
    EXPECT_FALSE(outcome.gave_up) << to_string(scenario);
    EXPECT_EQ(outcome.fences, 0) << to_string(scenario);
  }
}

TEST(Simulator, GivesOneSeedTheSameOutcomeAgain) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const Outcome first = simulate(make_scenario(seed));
    const Outcome again = simulate(make_scenario(seed));
    EXPECT_EQ(first.num_events, again.num_events);
    EXPECT_EQ(first.took, again.took);
    EXPECT_EQ(first.num_tasks, again.num_tasks);
  }
}

TEST(Simulator, FindsNoFaultThatChangesAValueOrHangsAJob) {
  constexpr std::uint64_t kSchedules = 1200;
  Hazards hazards;
  std::uint64_t given_up = 0;
  int failed_samples = 0;
  for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
    const Scenario scenario = make_scenario(seed);
    const Outcome outcome = simulate(scenario);
    ASSERT_EQ(outcome.error.value_or(""), "") << to_string(scenario);
    hazards.add(outcome);
    given_up += outcome.gave_up ? 1 : 0;
    failed_samples += outcome.failed_samples;
  }
  // The faults were there, and jobs outlived them.
  for (const Hazards::Count& hazard : hazards.counts()) {
    EXPECT_GE(hazard.times, 100U) << hazard.name;
  }
  EXPECT_LT(given_up, kSchedules / 100);
  EXPECT_LT(failed_samples, kSchedules / 10);  // of 20 to 28 times as many
}

TEST(Simulator, LetsProcessesLeaveWithoutACost) {
  int releases = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Scenario scenario = make_scenario(seed, {.kills = 0,
                                             .freezes = 0,
                                             .slows = 0,
                                             .process_ends = 0,
                                             .drains = 0.5,
                                             .joins = 0,
                                             .cancels = 0});
    scenario.rebuild_at = 0;
    if (scenario.workers.back().execution_class != 0) {
      continue;  // a class that has lost its last worker begins samples anew
    }
    const Outcome outcome = simulate(scenario);
    ASSERT_EQ(outcome.error.value_or(""), "") << to_string(scenario);
    EXPECT_EQ(outcome.new_runs, 0) << to_string(scenario);
    releases += outcome.releases;
  }
  EXPECT_GE(releases, 100);
}

TEST(Simulator, EndsJobsEarlierWithProcessesThatJoin) {
  FaultRates joins = kNoFaults;
  joins.joins = 2;
  Duration alone{};
  Duration together{};
  int num_joins = 0;
  std::uint64_t idle = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    Scenario scenario = make_scenario(seed, joins);
    scenario.rebuild_at = 0;
    // What all of them hold must fit into the coordinator's process, too.
    std::ranges::fill(scenario.value_budgets, 0);
    const Outcome outcome = simulate(scenario);
    ASSERT_EQ(outcome.error.value_or(""), "") << to_string(scenario);
    EXPECT_FALSE(outcome.gave_up) << to_string(scenario);
    together += outcome.took;
    const int joined =
        outcome.struck[static_cast<std::size_t>(FaultKind::join)];
    num_joins += joined;
    idle += joined > 0 && outcome.tasks_of_joined == 0 ? 1 : 0;
    scenario.faults.clear();
    alone += simulate(scenario).took;
  }
  EXPECT_GE(num_joins, 200);
  // They may come too late, or as half of a group.
  EXPECT_LT(idle, 12U);
  EXPECT_LT(together, alone * 9 / 10);
}

// Samples begin one after the other where there is room for one alone. Faults
// or not, every job ends.
TEST(Simulator, EndsJobsWithRoomForOneSample) {
  Duration with_room{};
  Duration together{};
  for (std::uint64_t seed = 0; seed < 240; ++seed) {
    const bool has_faults = seed % 2 == 1;
    Scenario scenario =
        has_faults ? make_scenario(seed) : make_scenario(seed, kNoFaults);
    for (int process = 0; process < scenario.num_processes; ++process) {
      scenario.value_budgets[static_cast<std::size_t>(process)] = sample_bytes(
          scenario, process, least_ahead(scenario.variant->method));
    }
    const Outcome outcome = simulate(scenario);
    ASSERT_EQ(outcome.error.value_or(""), "") << to_string(scenario);
    if (!has_faults) {
      together += outcome.took;
      std::ranges::fill(scenario.value_budgets, 0);
      with_room += simulate(scenario).took;
    }
  }
  EXPECT_GT(together, with_room * 3 / 2);
}

TEST(Simulator, BeginsJobsWithoutWorkersThatComeLate) {
  int num_jobs = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    Scenario scenario = make_scenario(seed, kNoFaults);
    std::vector<int> classes;
    for (const WorkerTraits& traits : scenario.workers) {
      classes.push_back(traits.execution_class);
    }
    const int parts = samplers::num_parts(scenario.variant->method);
    // One group is what the plan needs. The others may take as long as half of
    // the worker's delay.
    if (group_workers(classes, parts).size() < 2 ||
        simulate(scenario).took > std::chrono::seconds(12)) {
      continue;
    }
    ++num_jobs;
    scenario.delays.back() = std::chrono::seconds(50);
    const Outcome outcome = simulate(scenario);
    EXPECT_EQ(outcome.error.value_or(""), "") << to_string(scenario);
    EXPECT_LT(outcome.took, std::chrono::seconds(50)) << to_string(scenario);
  }
  EXPECT_GE(num_jobs, 60);
}

// Whatever else goes on, and if a sample is cancelled twice.
TEST(Simulator, CancelsMostSamplesOfAJob) {
  int cancelled_samples = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Scenario scenario = make_scenario(seed, {.cancels = 1.5});
    const Outcome outcome = simulate(scenario);
    ASSERT_EQ(outcome.error.value_or(""), "") << to_string(scenario);
    cancelled_samples += outcome.cancelled_samples;
  }
  EXPECT_GE(cancelled_samples, 1000);
}

// What a journal will hold is enough, whenever it is needed: the job, the
// samples that have ended and the cuts.
TEST(Simulator, GoesOnWithARebuiltCompanyAtEveryEvent) {
  std::uint64_t num_rebuilds = 0;
  std::uint64_t num_restores = 0;
  for (std::uint64_t seed = 0; seed < samplers::method_table().size(); ++seed) {
    Scenario scenario = make_scenario(seed);
    scenario.num_samples = 3;
    for (scenario.rebuild_at = 1;; ++scenario.rebuild_at) {
      const Outcome outcome = simulate(scenario);
      ASSERT_EQ(outcome.error.value_or(""), "")
          << to_string(scenario) << ", rebuilt at " << scenario.rebuild_at;
      if (outcome.rebuilds == 0) {
        break;  // the job had ended
      }
      ++num_rebuilds;
      num_restores += static_cast<std::uint64_t>(outcome.restores);
    }
  }
  EXPECT_GE(num_rebuilds, 1000);
  EXPECT_GE(num_restores, num_rebuilds);
}

// Among many schedules, one reports the bug by its own law; others may break
// another law first.
TEST(Simulator, FindsPlantedBugs) {
  const std::vector<PlantedBug> bugs = {
      {"forgetting to free", forgetting_to_free(), "that nobody knows of"},
      {"forgetting to drop", forgetting_to_drop(), "that nobody knows of"},
      {"freeing before the result", freeing_before_the_result(),
       "a worker finds no input"},
      {"fetching nothing", fetching_nothing(), "before its inputs are there"},
      {"fetching from somebody else", fetching_from_somebody_else(),
       "the job hangs"},
      {"redirecting nobody", redirecting_nobody(), "the job hangs"},
      {"ending before the result is home", ending_before_the_result_is_home(),
       "other latents"},
      {"dropping one run too many", dropping_one_run_too_many(),
       "lacks a value"},
      {"showing what is elsewhere", showing_what_is_elsewhere(),
       "what did not come is shown"},
      {"leaving out points", leaving_out_points(), "other points"},
      {"freeing what is shown", freeing_what_is_shown(),
       "lacks a value that is waited for"},
      {"ending a sample twice", ending_a_sample_twice(), "ends twice"},
      {"ending with another slot", ending_with_another_slot(), "other latents"},
      {"ending the job early", ending_the_job_early(), "the job ends with"},
      {"never ending the job", never_ending_the_job(), "the job hangs"},
      {"ending the job again", ending_the_job_again(), "the job ends twice"},
      {"naming another class", naming_another_class(),
       "reported in another execution class"},
      {"fencing whoever gets a grant", fencing_whoever_gets_a_grant(),
       "shows life is fenced"},
      {"never fencing", never_fencing(), "at two workers"},
      {"granting twice", granting_twice(), "at two workers"},
      {"granting to the first incarnation", granting_to_the_first_incarnation(),
       "incarnation that is not there"},
      {"not counting runs", not_counting_runs(), "before its inputs are there"},
      {"mixing up inputs", mixing_up_inputs(), "other latents"},
      {"freeing what is cut", freeing_what_is_cut(), "a worker finds no input"},
      {"going back to the cut before", going_back_to_the_cut_before(),
       "a cut that is not kept"},
      {"restoring in the run before", restoring_in_the_run_before(),
       "before its inputs are there"},
      {"parking after one loss", parking_after_one_loss(), "failed"},
      {"letting go before the work is back",
       letting_go_before_the_work_is_back(), "a process is let go that"},
      {"numbering workers twice", numbering_workers_twice(),
       "number is given twice"},
      {"letting nobody in", letting_nobody_in(), "gets no answer"},
      {"ignoring a cancel", ignoring_a_cancel(),
       "a sample goes on that is cancelled"},
      {"cancelling the sample beside", cancelling_the_sample_beside(),
       "and nobody asked for it"},
      {"keeping what is cancelled", keeping_what_is_cancelled(),
       "that nobody knows of"},
      {"showing what is cancelled", showing_what_is_cancelled(),
       "what did not come is shown"},
      {"knowing no budget", knowing_no_budget(),
       "a process holds more than it keeps room for"},
      {"counting a third of a value", counting_a_third_of_a_value(),
       "a process holds more than it keeps room for"},
      {"knowing no budget of cuts", knowing_no_budget(),
       "cuts take more than there is room for"},
      {"telling another timestep", telling_another_timestep(), "other latents"},
  };
  EXPECT_GE(bugs.size(), 20U);
  for (const PlantedBug& bug : bugs) {
    constexpr std::uint64_t kSchedules = 2000;
    bool found = false;
    std::string last = "nothing";
    for (std::uint64_t seed = 0; seed < kSchedules && !found; ++seed) {
      const auto error = simulate(make_scenario(seed), bug.sabotage).error;
      last = error.value_or(last);
      found = last.find(bug.law) != std::string::npos;
    }
    EXPECT_TRUE(found) << bug.name << ": " << last;
  }
}

}  // namespace
}  // namespace troupe::actors::simulator
