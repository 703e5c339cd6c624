#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "samplers/parallel/check_range.h"
#include "samplers/parallel/plan.h"

namespace troupe::samplers {
namespace {

/// The point that each core begins at, core 0 at the first. The last core
/// begins at 0.48 (two cores), 0.56, 0.64, 0.68, 0.72, 0.76 and 0.8 (eight) of
/// the run. The starts before it stand at equal distances; near core 0 the
/// distance halves, once from three cores on and twice from six on. Source: the
/// released schedules of CHORDS for 50 steps and 4, 6 and 8 cores; the others
/// are interpolated.
std::vector<int> core_starts(int cores, int num_calls) {
  const double last =
      cores <= 4 ? 0.32 + 0.08 * cores : std::min(0.48 + 0.04 * cores, 0.9);
  const int halves = cores >= 6 ? 2 : cores >= 3 ? 1 : 0;
  const double gap = last / (cores - 1 - halves);
  std::vector<int> starts = {0};
  for (int core = 1; core < cores; ++core) {
    const int gaps = core - halves;
    const double share = gaps > 0 ? gap * gaps : std::ldexp(gap, gaps - 1);
    starts.push_back(static_cast<int>(std::lround(share * num_calls)));
  }
  return starts;
}

bool all_differ(const std::vector<int>& starts) {
  return std::ranges::adjacent_find(starts) == starts.end();
}

/// The core whose output is the result.
int result_core(const MethodOptions& options) {
  return std::max(options.window_size - options.num_outputs, 0);
}

/// Cores of the plan: up to the result's, since a core reads slower cores
/// alone; all with early results.
int num_planned(const MethodOptions& options) {
  return options.has_early_results ? options.window_size
                                   : result_core(options) + 1;
}

struct Core {
  int point = 0;
  int base = 0;  ///< where it began, or was last corrected
  Slot state = kInitialSlot;
  /// By point: the state that the network was given, and its output.
  std::map<int, Slots> seen = {};
};

/// CHORDS (README.md). Every core but the first begins where the core before it
/// jumps to with its first model output. When that core comes to the point
/// where this one began or was last corrected, its jump from there takes the
/// place of this one's own: x + (newer jump − older jump). The difference of
/// the jumps is formed first, so no byte changes where both are equal.
TaskList plan_chords(const MethodOptions& options, int num_calls) {
  check_range("window_size", options.window_size, 1, num_calls,
              "chords has so many cores");
  check_range("num_outputs", options.num_outputs, 1, options.window_size,
              "each core of chords ends with an output");
  const std::vector<int> starts = core_starts(options.window_size, num_calls);
  require(all_differ(starts), Errc::invalid_argument, "window_size",
          "cores of chords begin at different points: got " +
              std::to_string(options.window_size) + " cores for " +
              std::to_string(num_calls) + " model calls",
          "use a smaller window, or more steps");
  TaskList list;
  const auto jump = [&list](const Core& core, int from, int to) {
    return list.add(task_of(Op::jump, from, to, core.seen.at(from)));
  };
  const auto wanted = static_cast<std::size_t>(result_core(options));
  std::vector<Core> cores(static_cast<std::size_t>(num_planned(options)));
  for (std::size_t round = 0; cores[wanted].point < num_calls; ++round) {
    // A core is read by the next one after it has gone on.
    for (std::size_t i = 0; i < std::min(round + 1, cores.size()); ++i) {
      Core& core = cores[i];
      const int here = core.point;
      const int next = here + 1;
      if (here == num_calls) {
        continue;
      }
      const Slots made =
          list.add(task_of(Op::evaluate, here, next, {core.state}), 2);
      core.seen[here] = {core.state, made.at(0)};
      core.state = made.at(1);
      core.point = next;
      if (i > 0 && cores[i - 1].point == core.base + 1) {
        const Slot newer = jump(cores[i - 1], core.base, next);
        const Slot older = jump(core, core.base, next);
        core.state = list.add(
            task_of(Op::carry, here, next, {core.state, newer, older}));
        core.base = next;
      }
      if (i == round && i + 1 < cores.size()) {
        const int start = starts[i + 1];
        cores[i + 1] = {start, start, jump(core, here, start)};
      }
      if (i == wanted) {
        list.accept(core.state, next);
      } else if (i > wanted && next == num_calls) {
        list.show(core.state);
      }
    }
  }
  return list;
}

/// A core for each worker, or for each output that is waited for.
MethodOptions chords_defaults(const MethodChoices& choices, int num_calls,
                              int num_workers) {
  MethodOptions options{
      .window_size =
          default_window(std::max(num_workers, choices.num_outputs.value_or(1)),
                         8, num_calls)};
  while (num_calls > 0 &&
         !all_differ(core_starts(options.window_size, num_calls))) {
    --options.window_size;
  }
  return options;
}

/// Core 0 alone goes through all of them.
bool goes_past_points(const MethodOptions& options) {
  return options.num_outputs < options.window_size;
}

}  // namespace

constexpr MethodRow kChords{.name = "chords",
                            .options = "window outputs",
                            .spreads = true,
                            .defaults = chords_defaults,
                            .plan = plan_chords,
                            .check = check_one_call_without_noise,
                            .approximates = goes_past_points,
                            .note_if_exact =
                                "chords with as many outputs as cores is exact "
                                "and as slow as one worker",
                            .skips_points = goes_past_points,
                            .useful_workers = workers_of<num_planned>,
                            .most_rows = num_planned};
constinit const MethodKind MethodKind::chords{kChords};

}  // namespace troupe::samplers
