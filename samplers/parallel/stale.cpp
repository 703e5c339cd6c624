#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "samplers/parallel/check_range.h"
#include "samplers/parallel/marked_graph.h"
#include "samplers/parallel/plan.h"

namespace troupe::samplers {
namespace {

/// Of --stale-at cuts, the last tenth of the calls is fresh: of 20 steps of the
/// demo model in bf16, eight classes, the median error falls from 0.168 to
/// 0.148 for 9 % of the speed; a fifth gives 0.141 for 16 %, two fifths 0.125
/// for 28 %. scripts/bench_error.sh measures it.
constexpr int kFreshShare = 10;

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
  return options;
}

/// What the network saw at a call, and its output.
struct Evaluation {
  Slot seen = kInitialSlot;
  Slot output = 0;
  bool is_of_draft = false;
};

/// A stale pipeline with deterministic ages: the firings of a marked graph. A
/// late worker stalls its readers; no older value is read instead.
///
/// Where the first segment is to read older latents than those of its own step,
/// it reads a draft of its step's: from the older ones on by the solver's own
/// steps, as if the clean sample stayed as it was last seen. The draft goes
/// through all segments, and the step is corrected for its distance from what
/// the latents have become meanwhile.
///
/// Steps are counted in model calls, so every solver can be carried; both calls
/// of a Heun step are stale alike.
TaskList plan_stale(const MethodOptions& options, int num_calls) {
  check_fresh_steps(options, num_calls);
  if (options.graph != nullptr) {
    check_stale_graph(*options.graph, options, num_calls);
  }
  const MarkedGraph graph = make_stale_graph(options);
  // By node, for each input: the output of the earlier firing that it is.
  std::vector<std::vector<std::size_t>> places(graph.nodes().size());
  for (const GraphEdge& edge : graph.edges()) {
    places[static_cast<std::size_t>(edge.to)].push_back(
        reads_skips(graph.table(), edge) ? 1 : 0);
  }
  TaskList list;
  std::vector<Slots> made;  // by firing
  std::vector<Slot> points = {kInitialSlot};
  std::vector<Evaluation> evaluations(static_cast<std::size_t>(num_calls));
  const std::vector<Firing> firings = graph.firings(num_calls);
  for (const Firing& firing : firings) {
    const GraphNode& node = graph.node_of(firing);
    Task task{.op = node.is_step() ? Op::step : Op::segment,
              .segment = std::max(0, node.segment),
              .part = node.part,
              .from = firing.step,
              .to = firing.step + 1,
              .timestep_call = firing.timestep_call};
    for (std::size_t i = 0; i < firing.inputs.size(); ++i) {
      const int input = firing.inputs[i];
      task.inputs.push_back(
          input == Firing::kInitial
              ? kInitialSlot
              : made[static_cast<std::size_t>(input)].at(
                    places[static_cast<std::size_t>(firing.node)][i]));
    }
    Evaluation& now = evaluations[static_cast<std::size_t>(firing.step)];
    if (node.segment == 0) {
      // No draft begins before the first evaluation.
      const int from = std::max(
          std::min(firing.step, 1),
          firing.inputs[0] == Firing::kInitial
              ? 0
              : firings[static_cast<std::size_t>(firing.inputs[0])].step + 1);
      now.seen = points[static_cast<std::size_t>(from)];
      if (from < firing.step) {
        const int call = from - 1;
        const Evaluation& last = evaluations[static_cast<std::size_t>(call)];
        now.seen = list.add({.op = Op::coast,
                             .from = from,
                             .to = firing.step,
                             .timestep_call = from,
                             .inputs = {now.seen, last.seen, last.output},
                             .coefficients = {static_cast<double>(call)}})
                       .at(0);
        now.is_of_draft = true;
      }
      task.inputs[0] = now.seen;
    } else if (node.is_step()) {
      now.output = task.inputs[1];
      if (now.is_of_draft) {
        task.inputs.push_back(now.seen);
      }
    }
    const bool keeps = !node.is_step() && keeps_skips(options, node.segment);
    made.push_back(list.add(std::move(task), keeps ? 2 : 1));
    if (node.is_step()) {
      points.push_back(made.back().at(0));
      list.accept(points.back(), firing.step + 1);
    }
  }
  return list;
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

extern constinit const MethodRow kStale{
    .name = "stale",
    .snapshot_format = 5,
    .options =
        "preset segments segment-speeds cut stale-at ages stride warmup "
        "final-fresh",
    .defaults = stale_defaults,
    .plan = plan_stale,
    .approximates = is_stale,
    .graph =
        [](const MethodOptions& o) {
          return std::make_shared<const GraphTable>(
              make_stale_graph(o).table());
        },
    .parts = stale_parts,
    .useful_workers =
        [](const MethodOptions& o, std::uint64_t) {
          return static_cast<std::uint64_t>(stale_parts(o));
        }};

}  // namespace troupe::samplers
