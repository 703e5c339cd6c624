#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/simulator/hazards.h"
#include "tests/simulator/link_sabotage.h"
#include "tests/simulator/no_faults.h"
#include "tests/simulator/sabotage.h"
#include "tests/simulator/simulate.h"

namespace troupe::actors::simulator {
namespace {

TEST(LinkedSimulator, EndsUndisturbedJobsWithPlainValues) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Scenario scenario =
        make_linked_scenario(seed, kNoFaults, kNoLinkFaults);
    const Outcome outcome = simulate(scenario);
    EXPECT_EQ(outcome.error.value_or(""), "") << to_string(scenario);
    EXPECT_FALSE(outcome.gave_up) << to_string(scenario);
    EXPECT_EQ(outcome.links.losses, 0) << to_string(scenario);
    EXPECT_EQ(outcome.fences, 0) << to_string(scenario);
  }
}

TEST(LinkedSimulator, GivesOneSeedTheSameOutcomeAgain) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Outcome first = simulate(make_linked_scenario(seed));
    const Outcome again = simulate(make_linked_scenario(seed));
    EXPECT_EQ(first.num_events, again.num_events);
    EXPECT_EQ(first.took, again.took);
    EXPECT_EQ(first.num_tasks, again.num_tasks);
  }
}

// Neither do connections that break and are made again, nor partitions that end
// within the lease.
TEST(LinkedSimulator, LosesNobodyWithinALease) {
  LinkFaultRates rates = kNoLinkFaults;
  rates.cuts = 3;
  rates.cuts_in_records = 1;
  rates.short_partitions = 1;
  int cuts = 0;
  int partitions = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Scenario scenario = make_linked_scenario(seed, kNoFaults, rates);
    // One at a time: two that follow each other may last longer than a lease.
    std::vector<LinkFault>& faults = scenario.links->faults;
    for (std::size_t i = 1; i < faults.size(); ++i) {
      faults[i].when =
          std::max(faults[i].when, faults[i - 1].when + faults[i - 1].length +
                                       scenario.links->times.lease);
    }
    const Outcome outcome = simulate(scenario);
    ASSERT_EQ(outcome.error.value_or(""), "") << to_string(scenario);
    EXPECT_EQ(outcome.links.losses, 0) << to_string(scenario);
    cuts += outcome.links.connections_lost;
    partitions += outcome.links.short_partitions;
  }
  EXPECT_GE(cuts, 200);
  EXPECT_GE(partitions, 50);
}

TEST(LinkedSimulator, FindsNoFaultThatChangesAValueOrHangsAJob) {
  constexpr std::uint64_t kSchedules = 700;  // .ci/run tries 2500
  Hazards hazards(true);
  std::uint64_t given_up = 0;
  int failed_samples = 0;
  for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
    const Scenario scenario = make_linked_scenario(seed);
    const Outcome outcome = simulate(scenario);
    ASSERT_EQ(outcome.error.value_or(""), "") << to_string(scenario);
    hazards.add(outcome);
    given_up += outcome.gave_up ? 1 : 0;
    failed_samples += outcome.failed_samples;
  }
  for (const Hazards::Count& hazard : hazards.counts()) {
    EXPECT_GE(hazard.times, kSchedules / 20) << hazard.name;
  }
  EXPECT_LT(given_up, kSchedules / 100);
  EXPECT_LT(failed_samples, kSchedules / 10);  // of 20 to 28 times as many
}

// Among many schedules, one reports the bug by its own law; others may break
// another law first.
TEST(LinkedSimulator, FindsPlantedBugs) {
  const std::vector<PlantedBug> bugs = {
      {"not sending again", not_sending_again(), "a record waits for ever"},
      {"not asking for what is missing", not_asking_for_what_is_missing(),
       "a record waits for ever"},
      {"delivering twice", delivering_twice(), "a record arrives twice"},
      {"leaving out records", leaving_out_records(), "a record is left out"},
      {"resuming a lost session", resuming_a_lost_session(),
       "a record of a lost session arrives"},
      {"not reporting a loss", not_reporting_a_loss(), "without a report"},
      {"not noticing silence", not_noticing_silence(), "without a report"},
      {"going on without a link", going_on_without_a_link(),
       "goes on that has lost its link"},
      {"keeping room", keeping_room(), "a record waits for ever"},
      {"forgetting to beat", forgetting_to_beat(), "without a fault"},
      {"acknowledging too much", acknowledging_too_much(), "do not agree"},
      {"giving no more credit", giving_no_more_credit(), "the job hangs"},
      {"never ending a lost question", never_ending_a_lost_question(),
       "a question to a lost process has no end"},
      {"mixing up answers", mixing_up_answers(), "another value"},
      {"not saying that a value is gone", not_saying_that_a_value_is_gone(),
       "the job hangs"},
      // Of the coordinator, over links.
      {"forgetting to free", forgetting_to_free(), "that nobody knows of"},
      {"granting twice", granting_twice(), "at two workers"},
      {"letting nobody in", letting_nobody_in(), "gets no answer"},
  };
  for (const PlantedBug& bug : bugs) {
    constexpr std::uint64_t kSchedules = 2000;
    bool found = false;
    std::string last = "nothing";
    for (std::uint64_t seed = 0; seed < kSchedules && !found; ++seed) {
      const auto error =
          simulate(make_linked_scenario(seed), bug.sabotage).error;
      last = error.value_or(last);
      found = last.find(bug.law) != std::string::npos;
    }
    EXPECT_TRUE(found) << bug.name << ": " << last;
  }
}

}  // namespace
}  // namespace troupe::actors::simulator
