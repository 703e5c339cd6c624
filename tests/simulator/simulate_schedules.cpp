// Runs many scenarios in sequence and counts the hazards that occurred. Stops
// at the first scenario that breaks a law, with its seed. Given a least count,
// it fails if a hazard occurred less often: scripts/simulate.sh.
#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/simulator/hazards.h"
#include "tests/simulator/simulate.h"

namespace {

using namespace troupe::actors::simulator;

struct Totals {
  explicit Totals(bool linked) : hazards(linked) {}

  Hazards hazards;
  std::uint64_t tasks = 0;
  std::uint64_t events = 0;
  std::uint64_t given_up = 0;
  int failed_samples = 0;

  void add(const Outcome& one) {
    hazards.add(one);
    tasks += one.num_tasks;
    events += one.num_events;
    given_up += one.gave_up ? 1 : 0;
    failed_samples += one.failed_samples;
  }
};

std::uint64_t argument(int argc, char** argv, int place) {
  return argc > place ? std::strtoull(argv[place], nullptr, 10) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_linked = argc > 1 && std::string_view(argv[1]) == "--links";
  if (is_linked) {
    --argc;
    ++argv;
  }
  const std::uint64_t count = argument(argc, argv, 1);
  const std::uint64_t first = argument(argc, argv, 2);
  const std::uint64_t least = argument(argc, argv, 3);
  if (count == 0) {
    std::fprintf(
        stderr,
        "usage: simulate_schedules [--links] COUNT [FIRST_SEED [LEAST]]\n"
        "  --links: processes reach each other over links\n"
        "  LEAST: an error if a hazard was met less often\n");
    return 2;
  }
  // The memory of one company is kept for the next. Over links, giving it back
  // to the system took some 7 % of the time.
  constexpr int kKept = 256 << 20;
  mallopt(M_TRIM_THRESHOLD, kKept);
  mallopt(M_TOP_PAD, kKept / 4);
  mallopt(M_MMAP_THRESHOLD, kKept / 8);  // glibc takes no more
  const auto start = std::chrono::steady_clock::now();
  Totals totals(is_linked);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Scenario scenario =
        is_linked ? make_linked_scenario(seed) : make_scenario(seed);
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
      "minute): %llu tasks, %llu events",
      static_cast<unsigned long long>(count), took.count(),
      60.0 * static_cast<double>(count) / took.count(),
      static_cast<unsigned long long>(totals.tasks),
      static_cast<unsigned long long>(totals.events));
  for (const Hazards::Count& hazard : totals.hazards.counts()) {
    std::printf(", %llu %s", static_cast<unsigned long long>(hazard.times),
                hazard.name.data());
  }
  std::printf("; %d samples failed, %llu jobs given up\n",
              totals.failed_samples,
              static_cast<unsigned long long>(totals.given_up));
  const Hazards::Count& rarest = totals.hazards.rarest();
  if (rarest.times < least) {
    std::fprintf(stderr, "%s: met %llu times, expected %llu at least\n",
                 rarest.name.data(),
                 static_cast<unsigned long long>(rarest.times),
                 static_cast<unsigned long long>(least));
    return 1;
  }
  return 0;
}
