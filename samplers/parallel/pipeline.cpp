#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/text.h"
#include "samplers/parallel/check_range.h"
#include "samplers/parallel/plan.h"

namespace troupe::samplers {
namespace {

/// Of --stale-at cuts, the last tenth of the calls is fresh: of 20 steps of the
/// demo model in bf16, eight classes, the median error falls from 0.168 to
/// 0.148 for 9 % of the speed; a fifth gives 0.141 for 16 %, two fifths 0.125
/// for 28 %. scripts/bench_error.sh measures it.
constexpr int kFreshShare = 10;

/// Of --stale-at latents, the ages of all cuts together are a 16th of the calls
/// at most, but one at least. Four segments over 20 steps of the demo model in
/// bf16, 32 runs, medians: with 1, 2 and 3 the error is 0.022, 0.089 and 0.15;
/// over 50 steps with 2 and 3 it is 0.017 and 0.030.
constexpr int kCallsPerAge = 16;

/// A preset is AsyncDiff's own.
MethodOptions stale_defaults(const MethodChoices& choices, int num_calls,
                             int /*num_workers*/) {
  MethodOptions options;
  options.stride = choices.preset == "asyncdiff2" ? 2 : 1;
  const bool is_published = !choices.preset.empty();
  options.stale_at = choices.stale_at.value_or(
      is_published || choices.stride.value_or(1) > 1 ? StaleAt::cuts
                                                     : StaleAt::latents);
  if (!is_published && options.stale_at == StaleAt::cuts) {
    options.final_fresh_steps = num_calls / kFreshShare;
  }
  const int num_cuts = choices.num_segments.value_or(2) - 1;
  const int most = std::max(num_calls / kCallsPerAge, 1);
  if (options.stale_at == StaleAt::latents && num_calls > 0 &&
      choices.ages.empty() && num_cuts > most) {
    options.ages.assign(static_cast<std::size_t>(num_cuts), 0);
    std::fill_n(options.ages.begin(), most, options.age);
  }
  return options;
}

/// How many calls old each segment's input is in stale calls. The input of the
/// first segment is latents, that of another one the boundary before it. Not
/// more than `num_calls`, which is as old as anything is.
/// Errors: Errc::invalid_argument with the option's name.
std::vector<int> ages_of_inputs(const MethodOptions& options, int num_calls) {
  check_range("num_segments", options.num_segments, 1, 1 << 20,
              "a pipeline has segments");
  check_range("stride", options.stride, 1, 2, "counts steps per round");
  require(options.cut == CutShape::chain || options.stride == 1,
          Errc::invalid_argument, "stride",
          "an onion has one executor for each part: got 2, expected 1");
  require(options.stale_at == StaleAt::cuts || options.stride == 1,
          Errc::invalid_argument, "stride",
          "drafts are made for every step: got 2, expected 1",
          "use --stale-at cuts for two steps per round");
  const auto num_cuts = static_cast<std::size_t>(options.num_segments - 1);
  std::vector<int> ages = options.ages;
  if (ages.empty()) {
    ages.assign(num_cuts, options.age);
  }
  require(ages.size() == num_cuts, Errc::invalid_argument, "ages",
          "one age per cut: got " + std::to_string(ages.size()) +
              ", expected " + std::to_string(num_cuts) + " for " +
              counted(options.num_segments, "part"),
          "give --ages with one number for all cuts, or as many as cuts");
  std::vector<int> of_inputs(static_cast<std::size_t>(num_segments(options)));
  for (std::size_t cut = 0; cut < num_cuts; ++cut) {
    require(ages[cut] >= 0, Errc::invalid_argument, "ages",
            "an age counts steps: got " + std::to_string(ages[cut]) +
                ", expected 0 or more");
    const int age = std::min(ages[cut], num_calls);
    if (options.stale_at == StaleAt::latents) {
      of_inputs[0] = std::min(of_inputs[0] + age, num_calls);
    } else if (options.cut == CutShape::chain) {
      of_inputs[cut + 1] = age;
    } else {  // what comes back over the cut
      of_inputs[of_inputs.size() - 1 - cut] = age;
    }
  }
  return of_inputs;
}

/// Values that one segment made, by call.
using ValuesOfCalls = std::map<int, Slots>;

/// Those of the newest call up to `call`; if there is none, of the oldest.
const Slots& newest_of(const ValuesOfCalls& values, int call) {
  const auto after = values.upper_bound(call);
  return after == values.begin() ? after->second : std::prev(after)->second;
}

/// What the network saw at a call, and its output.
struct Evaluation {
  Slot seen = kInitialSlot;
  Slot output = 0;
};

/// A stale pipeline (README.md). With StaleAt::latents the ages of all cuts
/// together are that of the latents which the first segment's draft begins at;
/// in an onion an age is that of what comes back over a cut.
///
/// A chain of stride 2 is AsyncDiff's: in stale calls all segments run every
/// second call, with the timestep of the call after. The last one runs for its
/// own call, and a second executor of it (part `num_segments`) for the call
/// after, whose input is one call older. The phase follows the warm-up, so any
/// warm-up is legal.
///
/// Ages are counted in model calls, so every solver can be carried; both calls
/// of a Heun step are stale alike.
TaskList plan_stale(const MethodOptions& options, int num_calls) {
  const std::vector<int> ages = ages_of_inputs(options, num_calls);
  check_fresh_steps(options, num_calls);
  const int last = num_segments(options) - 1;
  // The first call has nothing older to read.
  const int first_stale = std::max(1, options.warmup_steps);
  const int end_stale = num_calls - options.final_fresh_steps;

  TaskList list;
  std::vector<Slot> points = {kInitialSlot};  // by call
  std::vector<Evaluation> evaluations;        // by call
  std::vector<ValuesOfCalls> made(ages.size());
  // The latents that the network is given at a call, `age` calls old.
  const auto seen_at = [&](int call, int age) {
    // No draft begins before the first evaluation.
    const int from = std::max(call - age, std::min(call, 1));
    if (from == call) {
      return points.back();
    }
    const auto& newest = evaluations[static_cast<std::size_t>(from - 1)];
    Task coast = task_of(
        Op::coast, from, call,
        {points[static_cast<std::size_t>(from)], newest.seen, newest.output});
    coast.coefficients = {static_cast<double>(from - 1)};
    return list.add(std::move(coast));
  };
  for (int call = 0; call < num_calls; ++call) {
    const bool is_stale = call >= first_stale && call < end_stale;
    const bool is_second =
        is_stale && (call - first_stale) % options.stride == 1;
    Evaluation now{.seen = points.back()};
    for (int segment = is_second ? last : 0; segment <= last; ++segment) {
      const auto s = static_cast<std::size_t>(segment);
      const int age = (is_stale ? ages[s] : 0) + (is_second ? 1 : 0);
      const bool is_ahead = is_stale && options.stride == 2 && segment < last;
      if (segment == 0) {
        now.seen = seen_at(call, age);
      }
      Task task = task_of(
          Op::segment, call, call + 1,
          {segment == 0 ? now.seen : newest_of(made[s - 1], call - age).at(0)});
      task.segment = segment;
      task.part = is_second ? last + 1 : part_of_segment(options, segment);
      if (is_ahead) {
        task.timestep_call = std::min(call + 1, num_calls - 1);
      }
      if (takes_skips(options, segment)) {
        const auto mirror = static_cast<std::size_t>(last - segment);
        task.inputs.push_back(made[mirror].at(call).at(1));
      }
      const Slots values =
          list.add(std::move(task), keeps_skips(options, segment) ? 2 : 1);
      if (segment == last) {
        now.output = values.at(0);
      } else {
        made[s].emplace(call, values);
      }
    }
    Task step = task_of(Op::step, call, call + 1, {points.back(), now.output});
    if (now.seen != points.back()) {
      step.inputs.push_back(now.seen);
    }
    points.push_back(list.add(std::move(step)));
    list.accept(points.back(), call + 1);
    evaluations.push_back(now);
  }
  return list;
}

/// The network cut in parts, one worker each, all at age 0. One sample keeps
/// one worker busy; as many samples in flight as parts keep all workers busy.
TaskList plan_pipeline(const MethodOptions& options, int num_calls) {
  return plan_stale({.kind = options.kind,
                     .num_segments = options.num_segments,
                     .cut = options.cut,
                     .age = 0},
                    num_calls);
}

bool is_stale(const MethodOptions& options) {
  const auto lags = [](int age) { return age != 0; };
  return options.stride != 1 ||
         (options.ages.empty() ? lags(options.age)
                               : std::ranges::any_of(options.ages, lags));
}

/// A stride of 2 has the last part twice.
int stale_parts(const MethodOptions& options) {
  return options.num_segments + options.stride - 1;
}

}  // namespace

constexpr MethodRow kPipeline{
    .name = "pipeline",
    .snapshot_format = 5,
    .options = "segments segment-speeds cut",
    .plan = plan_pipeline,
    .parts = [](const MethodOptions& o) { return o.num_segments; },
    .useful_workers =
        [](const MethodOptions& o, std::uint64_t) {
          return static_cast<std::uint64_t>(o.num_segments);
        },
    .in_flight =
        [](int num_parts, int) {
          return InFlight{2 * num_parts, 2 * num_parts};
        }};
constinit const MethodKind MethodKind::pipeline{kPipeline};

constexpr MethodRow kStale{
    .name = "stale",
    .snapshot_format = 5,
    .options =
        "preset segments segment-speeds cut stale-at ages stride warmup "
        "final-fresh",
    .defaults = stale_defaults,
    .plan = plan_stale,
    .approximates = is_stale,
    .parts = stale_parts,
    .useful_workers = [](const MethodOptions& o, std::uint64_t) {
      return static_cast<std::uint64_t>(stale_parts(o));
    }};
constinit const MethodKind MethodKind::stale{kStale};

}  // namespace troupe::samplers
