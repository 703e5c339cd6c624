// Runs many scenarios one after another and says what they met. Stops at the
// first that breaks a law, with its seed: scripts/simulate.sh.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "actors/simulator/simulate.h"

namespace {

using namespace troupe::actors::simulator;

struct Totals {
  std::uint64_t scenarios = 0;
  std::uint64_t tasks = 0;
  std::uint64_t events = 0;
  std::uint64_t given_up = 0;
  int failed_samples = 0;
  int struck[kNumFaultKinds] = {};
  int fences = 0;
  int late = 0;
  int empty_pulls = 0;
  int cuts = 0;
  int restores = 0;
  int rebuilds = 0;
  int releases = 0;

  void add(const Outcome& one) {
    ++scenarios;
    tasks += one.num_tasks;
    events += one.num_events;
    given_up += one.gave_up ? 1 : 0;
    failed_samples += one.failed_samples;
    for (int kind = 0; kind < kNumFaultKinds; ++kind) {
      struck[kind] += one.struck[static_cast<std::size_t>(kind)];
    }
    fences += one.fences;
    late += one.late_results;
    empty_pulls += one.empty_pulls;
    cuts += one.cuts;
    restores += one.restores;
    rebuilds += one.rebuilds;
    releases += one.releases;
  }
};

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t count =
      argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  const std::uint64_t first =
      argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (count == 0) {
    std::fprintf(stderr, "usage: simulate_schedules COUNT [FIRST_SEED]\n");
    return 2;
  }
  const auto start = std::chrono::steady_clock::now();
  Totals totals;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Scenario scenario = make_scenario(seed);
    const Outcome outcome = simulate(scenario);
    if (outcome.error) {
      std::fprintf(stderr, "%s: %s\n", to_string(scenario).c_str(),
                   outcome.error->c_str());
      return 1;
    }
    totals.add(outcome);
  }
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  std::printf(
      "%llu schedules, all with the undisturbed values, in %.1f s (%.0f a "
      "minute): %llu tasks, %llu events; %d kills, %d freezes, %d slow "
      "workers, %d processes ended, "
      "%d past their lease, %d late results, %d empty pulls, %d cuts, %d "
      "samples that went back to one, %d companies put up again, %d of %d "
      "processes "
      "that wanted to leave let go; %d "
      "samples failed, %llu jobs given up\n",
      static_cast<unsigned long long>(totals.scenarios), took.count(),
      60.0 * static_cast<double>(totals.scenarios) / took.count(),
      static_cast<unsigned long long>(totals.tasks),
      static_cast<unsigned long long>(totals.events), totals.struck[0],
      totals.struck[1], totals.struck[2], totals.struck[3], totals.fences,
      totals.late, totals.empty_pulls, totals.cuts, totals.restores,
      totals.rebuilds, totals.releases, totals.struck[4], totals.failed_samples,
      static_cast<unsigned long long>(totals.given_up));
  return 0;
}
