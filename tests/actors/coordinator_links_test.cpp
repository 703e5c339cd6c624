// Links that are too slow for a job: who is left out, and who is not.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;
using std::chrono::milliseconds;

constexpr Duration kFarTrip = milliseconds(40);
constexpr double kSlowRate = 250e3;   // bytes per second: 2 Mbit/s
constexpr double kFastRate = 1250e6;  // 10 Gbit/s

/// Worker w in process w, each with `row_seconds` in an earlier job.
std::vector<WorkerTraits> one_per_process(int workers, double row_seconds = 0) {
  std::vector<WorkerTraits> all;
  for (int w = 0; w < workers; ++w) {
    all.push_back({.max_rows = 1, .process = w, .row_seconds = row_seconds});
  }
  return all;
}

CoordinatorOptions of_processes(int workers, double row_seconds = 0) {
  CoordinatorOptions options{.workers = one_per_process(workers, row_seconds)};
  options.value_sizes = {
      .state = 16384, .output = 16384, .boundary = 65536, .pixels = 50000};
  return options;
}

MethodOptions pipeline_of(int segments) {
  return {.kind = MethodKind::pipeline, .num_segments = segments};
}

/// Tasks that pass the network, by the worker that computed them.
using Rows = std::map<int, int>;

/// The worker computes its grants until none is left.
bool run_worker(Company& company, int worker, Rows& rows) {
  auto& box = company.mailboxes[static_cast<std::size_t>(worker)];
  const bool has_work = !box.empty();
  while (!box.empty() && company.times_ended == 0) {
    const Grant pass = company.take(worker);
    for (const SampleTask& work : pass.tasks) {
      rows[worker] += work.task.op == samplers::Op::evaluate ||
                              work.task.op == samplers::Op::segment
                          ? 1
                          : 0;
    }
    company.on(company.answer(pass));
    answer_fetches(company);
  }
  return has_work;
}

/// The first worker computes as long as it can: that shows what a row takes.
/// Then all compute, to the end.
Rows run_all(Company& company) {
  Rows rows;
  bool goes_on = true;
  while (goes_on && company.times_ended == 0) {
    goes_on = false;
    for (int w = 0; w < static_cast<int>(company.mailboxes.size()); ++w) {
      goes_on = run_worker(company, w, rows) || goes_on;
    }
  }
  return rows;
}

void measure_all(Company& company, int processes, double bytes_per_second) {
  for (int process = 1; process < processes; ++process) {
    company.on(LinkMeasured{process, kFarTrip, bytes_per_second});
  }
}

TEST(LinkTable, TakesALinkThatWasNotMeasuredForTheSlowerWayToTheFirst) {
  LinkTable links;
  EXPECT_EQ(links.seconds(0, 1, 1000), 0);
  links.set(1, kHomeProcess, {milliseconds(10), 1000});
  links.set(2, kHomeProcess, {milliseconds(40), 4000});
  EXPECT_EQ(links.between(0, 1), (LinkPace{milliseconds(10), 1000}));
  EXPECT_EQ(links.between(2, 1), (LinkPace{milliseconds(40), 1000}));
  EXPECT_EQ(links.between(1, 3), (LinkPace{milliseconds(10), 1000}));
  EXPECT_EQ(links.between(1, 1), LinkPace{});
  EXPECT_DOUBLE_EQ(links.seconds(1, 2, 500), 0.02 + 0.5);
  links.set(2, 1, {milliseconds(1), 8000});
  EXPECT_EQ(links.between(1, 2), (LinkPace{milliseconds(1), 8000}));
  EXPECT_EQ(links.longest_round_trip(), milliseconds(40));
  links.remove(2);
  EXPECT_EQ(links.between(0, 2), LinkPace{});
  EXPECT_EQ(links.between(1, 2), (LinkPace{milliseconds(10), 1000}));
}

/// Half of the network each. What the first sends to the second has 1000 bytes,
/// what comes back 500.
TaskCost cost_in_halves(const samplers::Task& task) {
  const bool is_segment = task.op == samplers::Op::segment;
  return {
      is_segment ? 0.5 : 0,
      std::vector<std::uint64_t>(task.outputs.size(),
                                 is_segment && task.segment == 0 ? 1000 : 500)};
}

TEST(Rehearsal, PredictsACallFromWorkAndLinks) {
  const auto method = samplers::make_method(pipeline_of(2), short_schedule());
  const Rehearsal rehearsal(*method, 4, cost_in_halves);
  LinkTable links;
  const std::vector<PartWorker> two = {{0, 0}, {1, 1}};
  EXPECT_DOUBLE_EQ(rehearsal.seconds_per_call(two, links, 2, 1), 2.0);
  // Two samples: both work, but for the half of the first call.
  EXPECT_DOUBLE_EQ(rehearsal.seconds_per_call(two, links, 2, 2), 9.0 / 8);
  links.set(0, 1, {milliseconds(20), 1000});
  EXPECT_NEAR(rehearsal.seconds_per_call(two, links, 2, 1), 2 + 1.01 + 0.51,
              0.1);
  // With many, a direction of the link carries one value after the other, or
  // the workers decide where they take longer.
  EXPECT_NEAR(rehearsal.seconds_per_call(two, links, 2, 8), 1.0, 0.15);
  EXPECT_NEAR(rehearsal.seconds_per_call(two, links, 6, 8), 3.0, 0.2);
  // One worker computes both halves: nothing travels.
  EXPECT_DOUBLE_EQ(rehearsal.seconds_per_call({{0, 0}, {0, 0}}, links, 2, 2),
                   2.0);
}

TEST(CoordinatorLinks, LeaveOutAWorkerWhoseLinkTakesLongerThanItsPartSaves) {
  for (const MethodOptions& method :
       {pipeline_of(2),
        MethodOptions{.kind = MethodKind::stale, .num_segments = 2},
        MethodOptions{.kind = MethodKind::cfg}}) {
    Company company(method, 2, 4, of_processes(2));
    company.grant_duration = milliseconds(10);
    measure_all(company, 2, kSlowRate);
    company.raise_all();
    EXPECT_TRUE(company.link_lines.empty()) << "nothing is known of rows";
    Rows rows = run_all(company);
    ASSERT_EQ(company.link_lines.size(), 1U) << method.kind->name;
    EXPECT_EQ(company.link_lines[0].worker, 1);
    EXPECT_EQ(company.link_lines[0].process, 1);
    EXPECT_TRUE(company.link_lines[0].is_left_out);
    EXPECT_TRUE(company.link_lines[0].why.starts_with(
        "its link (2 Mbit/s, 40 ms) would make a call take 0."))
        << company.link_lines[0].why;
    EXPECT_EQ(num_done(company), 4U);
    // The states that samples begin with are made in every process.
    EXPECT_LE(rows[1], 2) << method.kind->name;
    EXPECT_EQ(company.end.recoveries, 0) << "nothing was lost";
  }
}

TEST(CoordinatorLinks, DoNotMatterWhereComputingTakesLonger) {
  for (const MethodOptions& method :
       {pipeline_of(2), MethodOptions{.kind = MethodKind::cfg}}) {
    for (const double speed : {kSlowRate, kFastRate}) {
      Company company(method, 2, 4, of_processes(2));
      company.grant_duration =
          speed == kSlowRate ? milliseconds(10000) : milliseconds(200);
      measure_all(company, 2, speed);
      company.raise_all();
      Rows rows = run_all(company);
      EXPECT_EQ(num_done(company), 4U);
      EXPECT_TRUE(company.link_lines.empty()) << company.link_lines[0].why;
      EXPECT_GT(rows[1], 0);
    }
  }
}

TEST(CoordinatorLinks, LeaveOutAllSlowOnesOfAGroup) {
  for (const int helpers : {2, 3}) {
    Company company(pipeline_of(helpers + 1), helpers + 1, 1,
                    of_processes(helpers + 1));
    company.grant_duration = milliseconds(10);
    measure_all(company, helpers + 1, kSlowRate);
    company.raise_all();
    Rows rows = run_all(company);
    EXPECT_EQ(num_done(company), 1U);
    EXPECT_EQ(rows[0], 5 * (helpers + 1)) << "of all calls";
    EXPECT_EQ(company.link_lines.size(), static_cast<std::size_t>(helpers));
  }
}

TEST(CoordinatorLinks, AreThoseBetweenTheWorkersOfAPart) {
  // The first process has no workers and slow links to both others.
  CoordinatorOptions options = of_processes(3);
  options.workers.erase(options.workers.begin());
  Company company(pipeline_of(2), 2, 4, std::move(options));
  company.grant_duration = milliseconds(10);
  measure_all(company, 3, kSlowRate);
  company.on(LinkMeasured{2, milliseconds(0), kFastRate, 1});
  company.raise_all();
  Rows rows = run_all(company);
  EXPECT_EQ(num_done(company), 4U);
  EXPECT_TRUE(
      std::ranges::none_of(company.link_lines, [](const LinkWeighed& line) {
        return line.why.find("make a call take") != std::string::npos;
      }));
  EXPECT_GT(rows[1], 0);
}

TEST(CoordinatorLinks, BringAWorkerBackThatHasABetterOne) {
  Company company(pipeline_of(2), 2, 4, of_processes(2));
  company.grant_duration = milliseconds(10);
  measure_all(company, 2, kSlowRate);
  company.raise_all();
  ASSERT_TRUE(company.run_one(0));
  ASSERT_EQ(company.link_lines.size(), 1U);
  company.on(LinkMeasured{1, milliseconds(1), kFastRate});
  ASSERT_EQ(company.link_lines.size(), 2U);
  EXPECT_FALSE(company.link_lines[1].is_left_out);
  EXPECT_TRUE(company.link_lines[1].why.starts_with(
      "with its link (10000 Mbit/s, 1 ms) a call takes 0."))
      << company.link_lines[1].why;
  Rows rows = run_all(company);
  EXPECT_EQ(num_done(company), 4U);
  EXPECT_GT(rows[1], 0);
}

TEST(CoordinatorLinks, ReturnTheLastOneThatIsLeft) {
  Company company(pipeline_of(2), 2, 2, of_processes(2));
  company.grant_duration = milliseconds(10);
  measure_all(company, 2, kSlowRate);
  company.raise_all();
  ASSERT_TRUE(company.run_one(0));
  ASSERT_EQ(company.link_lines.size(), 1U);
  company.on(WorkerDown{0, company.epochs[0],
                        Failure{Errc::job_failed, "test", "gone", {}}});
  company.forget(0);
  company.run_to_end();
  EXPECT_EQ(num_done(company), 2U);
}

TEST(CoordinatorLinks, LeaveNobodyOutWhoseSegmentHasNoOtherMemory) {
  for (const bool has_room : {false, true}) {
    CoordinatorOptions options = of_processes(2);
    const std::uint64_t segment = std::uint64_t{10} << 30U;
    options.segments = {{0.5, 65536, segment}, {0.5, 0, segment}};
    options.means.memory_bytes = (has_room ? 4 : 2) * segment;
    options.means.available_memory_bytes = options.means.memory_bytes;
    options.workers.pop_back();
    Company company(pipeline_of(2), 1, 2, std::move(options));
    company.join(1, one_per_process(1),
                 {.memory_bytes = segment, .available_memory_bytes = segment});
    company.grant_duration = milliseconds(10);
    measure_all(company, 2, kSlowRate);
    company.raise_all();
    ASSERT_TRUE(company.run_one(0));
    EXPECT_EQ(company.link_lines.size(), has_room ? 1U : 0U);
  }
}

TEST(CoordinatorLinks, KeepRowsThatSpreadNear) {
  Company company({.kind = MethodKind::picard, .window_size = 4}, 3, 1,
                  of_processes(3));
  company.grant_duration = milliseconds(10);
  measure_all(company, 3, kSlowRate);
  company.raise_all();
  Rows rows = run_all(company);
  EXPECT_EQ(company.link_lines.size(), 2U);
  EXPECT_EQ(num_done(company), 1U);
  EXPECT_LE(rows[1] + rows[2], 3) << "what they had begun";
  for (const LinkWeighed& line : company.link_lines) {
    EXPECT_TRUE(line.why.starts_with(
        "its link (2 Mbit/s, 40 ms) would make a row take 0.1"))
        << line.why;
  }
}

TEST(CoordinatorLinks, GiveASlowOneTheRowsThatItHasTimeFor) {
  // A row takes 100 ms, and 171 ms more on the way: of the five of a round the
  // near worker does three in the time in which the far one does one or two.
  Company company({.kind = MethodKind::picard, .window_size = 5}, 2, 1,
                  of_processes(2, 0.1));
  company.grant_duration = milliseconds(100);
  company.raise(0);
  measure_all(company, 2, kSlowRate);
  company.raise(1);
  Rows rows = run_all(company);
  EXPECT_EQ(num_done(company), 1U);
  EXPECT_TRUE(company.link_lines.empty()) << company.link_lines[0].why;
  EXPECT_GT(rows[1], 0);
  EXPECT_GT(rows[0], rows[1]);
}

/// How many samples each worker began.
std::map<int, std::size_t> samples_by_worker(const Company& company) {
  std::map<int, std::size_t> samples;
  for (const auto& [run, workers] : company.workers_of_run) {
    for (const int worker : workers) {
      ++samples[worker];
    }
  }
  return samples;
}

TEST(CoordinatorLinks, LeaveSamplesToThoseWhoEndThemSooner) {
  // Five calls of 0.1 s. The pixels take 48 s to come home.
  CoordinatorOptions options = of_processes(2, 0.1);
  options.value_sizes.pixels = 12000000;
  Company company({.kind = MethodKind::batch}, 2, 8, std::move(options));
  company.grant_duration = milliseconds(100);
  measure_all(company, 2, kSlowRate);
  company.raise_all();
  company.run_to_end();
  EXPECT_EQ(num_done(company), 8U);
  EXPECT_EQ(samples_by_worker(company)[1], 0U);
  ASSERT_EQ(company.link_lines.size(), 1U);
  EXPECT_EQ(company.link_lines[0].why,
            "its link (2 Mbit/s, 40 ms) would make its next sample take 49 s: "
            "the others do what is left in 4 s");
}

TEST(CoordinatorLinks, UseASlowOneForSamplesThatTakeLong) {
  // Five calls of 12 s. A sample takes 0.3 s to come home.
  Company company({.kind = MethodKind::batch}, 2, 8, of_processes(2, 12));
  company.grant_duration = std::chrono::seconds(12);
  measure_all(company, 2, kSlowRate);
  company.raise_all();
  company.run_to_end();
  EXPECT_EQ(num_done(company), 8U);
  EXPECT_GE(samples_by_worker(company)[1], 3U);
}

TEST(CoordinatorLinks, UseASlowOneWhileManySamplesWait) {
  // A sample of the far worker takes 0.5 s to compute, and 5 s to come home.
  // That pays while the near worker needs longer for all waiting samples.
  CoordinatorOptions options = of_processes(2, 0.1);
  options.value_sizes.pixels = 1250000;
  Company company({.kind = MethodKind::batch}, 2, 40, std::move(options));
  company.grant_duration = milliseconds(100);
  measure_all(company, 2, kSlowRate);
  company.raise_all();
  for (int i = 0; i < 10000 && company.times_ended == 0; ++i) {
    company.run_one(0);
    // The far one ends a sample while the near one ends ten.
    if (i % 10 == 0) {
      company.run_one(1);
    }
    answer_fetches(company);
  }
  EXPECT_EQ(num_done(company), 40U);
  EXPECT_GE(samples_by_worker(company)[1], 2U);
  EXPECT_LE(samples_by_worker(company)[1], 8U);
  EXPECT_EQ(company.link_lines.size(), 1U) << "at the end";
}

TEST(CoordinatorLinks, MoveASampleThatWasBegunBeforeTheyWereKnown) {
  CoordinatorOptions options = of_processes(2);
  options.value_sizes.pixels = 12000000;
  Company company({.kind = MethodKind::batch}, 2, 2, std::move(options));
  company.grant_duration = milliseconds(100);
  company.raise_all();
  EXPECT_EQ(samples_by_worker(company)[1], 1U);
  ASSERT_TRUE(company.run_one(0));
  measure_all(company, 2, kSlowRate);
  Rows rows = run_all(company);
  EXPECT_EQ(num_done(company), 2U);
  EXPECT_EQ(company.link_lines.size(), 1U);
  EXPECT_LE(rows[1], 1) << "what it had begun";
}

}  // namespace
}  // namespace troupe::actors
