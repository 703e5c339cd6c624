#include <algorithm>
#include <utility>
#include <vector>

#include "samplers/parallel/cache.h"
#include "samplers/parallel/check_range.h"
#include "samplers/parallel/plan.h"

namespace troupe::samplers {
namespace {

/// Points that are drafted together from the anchor on. Beside the first calls
/// and the last ones it is one.
int window_at(const MethodOptions& options, int anchor, int num_calls) {
  const int end = num_calls - 1 - options.final_fresh_steps;
  return anchor + 1 < options.warmup_steps || anchor >= end
             ? 1
             : std::min(options.window_size, end - anchor);
}

/// Draft and refine (README.md). With Anchor::draft the last draft's output is
/// that of the next anchor. With Anchor::fresh the next anchor is one step
/// further and evaluated anew, which takes one more round for each window.
///
/// With +cache the evaluations of a window may reuse what the anchor's left,
/// and the last of them leaves what the next ones may reuse.
/// Source: DRiffusion, arXiv:2603.25872 (aggressive and conservative); drafts
/// by the solver's steps, with their noise, and the correction are ours.
TaskList plan_draft(const MethodOptions& options, int num_calls) {
  check_window(options, num_calls);
  check_fresh_steps(options, num_calls);
  struct Evaluation {
    Slot seen = kInitialSlot;  ///< by the network
    Slot output = 0;
    std::optional<Slot> cache = {};
  };
  TaskList list;
  const auto evaluate = [&](int call, Slot seen, std::optional<Slot> cache,
                            bool is_last) {
    const bool leaves = is_last && leaves_cache(options, call, num_calls);
    const Slots made = list.add(
        evaluation(options, call, num_calls, seen, cache), leaves ? 2 : 1);
    return Evaluation{seen, made.at(0),
                      leaves ? std::optional(made.at(1)) : std::nullopt};
  };
  int anchor = 0;
  Slot state = kInitialSlot;
  Evaluation newest = evaluate(0, state, {}, true);
  const auto step = [&](int call, const Evaluation& with) {
    Task task = task_of(Op::step, call, call + 1, {state, with.output});
    if (with.seen != state) {
      task.inputs.push_back(with.seen);
    }
    state = list.add(std::move(task));
    list.accept(state, call + 1);
  };
  while (true) {
    step(anchor, newest);
    const int last =
        std::min(anchor + window_at(options, anchor, num_calls), num_calls - 1);
    if (last == anchor) {
      return list;
    }
    Slots points = {state};
    if (last > anchor + 1) {
      Task coast = task_of(Op::coast, anchor + 1, last,
                           {state, newest.seen, newest.output});
      coast.coefficients = {static_cast<double>(anchor)};
      const Slots drafts = list.add(std::move(coast), last - anchor - 1);
      points.append(drafts.begin(), drafts.end());
    }
    std::vector<Evaluation> evaluations;
    for (std::size_t i = 0; i < points.size(); ++i) {
      evaluations.push_back(evaluate(anchor + 1 + static_cast<int>(i),
                                     points.at(i), newest.cache,
                                     i + 1 == points.size()));
    }
    const bool is_fresh = options.anchor == Anchor::fresh;
    const int end = is_fresh ? last + 1 : last;
    for (int call = anchor + 1; call < end; ++call) {
      step(call, evaluations[static_cast<std::size_t>(call - anchor - 1)]);
    }
    if (end == num_calls) {
      return list;
    }
    newest = is_fresh ? evaluate(end, state, evaluations.back().cache, true)
                      : evaluations.back();
    anchor = end;
  }
}

/// The error grows with the part of the run that a window spans: 0.006 for a
/// 25th, 0.012 for a 16th, 0.026 for a 12th (50 steps, bundled model). But
/// windows of three are taken however short the run is: over 20 steps they are
/// nearer than windows of four, also with as many rounds.
MethodOptions draft_defaults(const MethodChoices& /*choices*/, int num_calls,
                             int num_workers) {
  constexpr int kLeast = 3;
  constexpr int kMost = 8;
  constexpr int kPartOfRun = 16;
  return {.window_size = default_window(
              num_workers, std::clamp(num_calls / kPartOfRun, kLeast, kMost),
              num_calls)};
}

}  // namespace

constexpr MethodRow kDraft{
    .name = "draft",
    .options = "window anchor warmup final-fresh",
    .modifiers = "cache",
    .spreads = true,
    .defaults = draft_defaults,
    .plan = plan_draft,
    .approximates = [](const MethodOptions& o) { return o.window_size > 1; },
    .useful_workers = workers_of<rows_of_window>,
    .most_rows = rows_of_window};
constinit const MethodKind MethodKind::draft{kDraft};

}  // namespace troupe::samplers
