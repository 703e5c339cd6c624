// Runs the same job again and again by every method, with workers that are
// killed, frozen and slowed, and compares each run's bytes with those of the
// undisturbed run. Names the seed of a run that differs: it shows the same
// faults again.
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "samplers/parallel/method_row.h"
#include "tests/actors/disturbed_job.h"
#include "tests/actors/observed_job.h"

namespace {

using namespace troupe;
using namespace troupe::actors;

/// Runs wait for leases more than they compute.
constexpr int kRunsAtOnce = 8;

struct Totals {
  std::array<int, std::size(kDisturbances)> struck{};
  int late_passes = 0;
  std::int64_t recoveries = 0;
  int runs = 0;

  void add(const DisturbedRun& run) {
    for (std::size_t kind = 0; kind < struck.size(); ++kind) {
      struck[kind] += run.struck[kind];
    }
    late_passes += run.late_passes;
    recoveries += run.result.recoveries;
    ++runs;
  }
};

/// What differs from the undisturbed run; empty: nothing.
std::string difference(const DisturbedRun& run, const DisturbedRun& plain) {
  if (run.result.failure) {
    return "the job failed: " + run.result.failure->message;
  }
  for (const auto& [index, latents] : plain.latents) {
    const auto found = run.latents.find(index);
    if (found == run.latents.end()) {
      return "sample " + std::to_string(index) + " was not done";
    }
    if (!bytes_equal(latents, found->second)) {
      return "sample " + std::to_string(index) + " has other bytes";
    }
    for (const auto& [call, point] : plain.points.at(index)) {
      const auto& points = run.points.at(index);
      if (!points.contains(call) || !bytes_equal(point, points.at(call))) {
        return "sample " + std::to_string(index) + " has another point " +
               std::to_string(call);
      }
    }
  }
  if (run.result.nfe != plain.result.nfe ||
      run.result.rounds != plain.result.rounds) {
    return "got " + std::to_string(run.result.nfe) + " evaluations and " +
           std::to_string(run.result.rounds) + " rounds, expected " +
           std::to_string(plain.result.nfe) + " and " +
           std::to_string(plain.result.rounds);
  }
  return {};
}

/// `count` runs of one method, several at a time. Returns whether all are the
/// undisturbed one's.
bool run_method(const samplers::MethodOptions& method, int count,
                std::uint64_t first, Totals& totals) {
  const DisturbedRun plain =
      run_disturbed(method, plan_disturbances(kUndisturbed));
  std::atomic<int> next{0};
  std::atomic<bool> all_equal{!plain.result.failure &&
                              plain.latents.size() == 5};
  std::mutex mutex;
  const auto work = [&] {
    for (int i = next++; i < count; i = next++) {
      const DisturbancePlan plan =
          plan_disturbances(first + static_cast<std::uint64_t>(i));
      const DisturbedRun run = run_disturbed(method, plan);
      const std::string what = difference(run, plain);
      const std::lock_guard lock(mutex);
      totals.add(run);
      if (!what.empty()) {
        all_equal = false;
        std::fprintf(stderr, "%s, %s: %s\n", method.kind->name.data(),
                     to_string(plan).c_str(), what.c_str());
      }
    }
  };
  std::vector<std::jthread> threads;
  for (int t = 0; t < kRunsAtOnce; ++t) {
    threads.emplace_back(work);
  }
  threads.clear();
  return all_equal;
}

void print(std::string_view method, const Totals& totals) {
  std::printf("%.*s: %d runs", static_cast<int>(method.size()), method.data(),
              totals.runs);
  for (std::size_t kind = 0; kind < totals.struck.size(); ++kind) {
    std::printf(", %d %s", totals.struck[kind], kDisturbances[kind].data());
  }
  std::printf("; %d late passes, %lld recoveries\n", totals.late_passes,
              static_cast<long long>(totals.recoveries));
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 0;
  const std::uint64_t first =
      argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (count <= 0) {
    std::fprintf(stderr, "usage: disturb_runs COUNT_PER_METHOD [FIRST_SEED]\n");
    return 2;
  }
  bool is_good = true;
  std::set<std::string_view> tried;
  Totals all;
  for (const samplers::MethodOptions& method : every_method()) {
    Totals totals;
    is_good = run_method(method, count, first, totals) && is_good;
    print(method.kind->name, totals);
    tried.insert(method.kind->name);
    for (std::size_t kind = 0; kind < all.struck.size(); ++kind) {
      all.struck[kind] += totals.struck[kind];
    }
  }
  if (tried.size() != samplers::method_table().size()) {
    std::fprintf(stderr, "a method of the table was not tried\n");
    is_good = false;
  }
  for (std::size_t kind = 0; kind < all.struck.size(); ++kind) {
    if (count >= 20 && all.struck[kind] == 0) {
      std::fprintf(stderr, "no worker was %s\n", kDisturbances[kind].data());
      is_good = false;
    }
  }
  return is_good ? 0 : 1;
}
