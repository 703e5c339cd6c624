#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

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

/// Draft and refine. From the newest point, the anchor, and a model output
/// there, the solver makes the next point, and the points after it are drafted
/// as if the clean sample stayed the same. The network evaluates all of them at
/// once, and the solver takes its own steps with these outputs. So the network
/// is called once for each step, and a window of one point is the sequential
/// run.
///
/// Anchor::draft: the last draft's output is that of the next anchor.
/// Anchor::fresh: the next anchor is one step further and evaluated anew, which
/// takes one more round for each window.
/// Source: DRiffusion, arXiv:2603.25872 (aggressive and conservative).
TaskList plan_draft(const MethodOptions& options, int num_calls) {
  check_range("window_size", options.window_size, 1, num_calls,
              "a window is a number of model calls of this run");
  check_fresh_steps(options, num_calls);
  TaskList list;
  const auto add = [&](Op op, int from, int to, Slots inputs) {
    return list
        .add({.op = op,
              .from = from,
              .to = to,
              .timestep_call = from,
              .inputs = std::move(inputs)})
        .at(0);
  };
  int anchor = 0;
  Slot state = kInitialSlot;
  Slot output = add(Op::evaluate, 0, 1, {state});
  const auto step = [&](int point, Slot with) {
    state = add(Op::step, point, point + 1, {state, with});
    list.accept(state, point + 1);
  };
  while (true) {
    const Slot anchor_state = state;
    step(anchor, output);
    const int last =
        std::min(anchor + window_at(options, anchor, num_calls), num_calls - 1);
    if (last == anchor) {
      return list;
    }
    std::vector<Slot> outputs;
    for (int point = anchor + 1; point <= last; ++point) {
      const Slot draft = point == anchor + 1 ? state
                                             : add(Op::jump, anchor, point,
                                                   {anchor_state, output});
      outputs.push_back(add(Op::evaluate, point, point + 1, {draft}));
    }
    const bool is_fresh = options.anchor == Anchor::fresh;
    const int end = is_fresh ? last + 1 : last;
    for (int point = anchor + 1; point < end; ++point) {
      step(point, outputs[static_cast<std::size_t>(point - anchor - 1)]);
    }
    if (end == num_calls) {
      return list;
    }
    output =
        is_fresh ? add(Op::evaluate, end, end + 1, {state}) : outputs.back();
    anchor = end;
  }
}

/// Windows of four end further away over 20 steps than windows of three, also
/// with as many rounds.
MethodOptions draft_defaults(const MethodChoices& /*choices*/, int num_calls,
                             int num_workers) {
  constexpr int kMost = 3;
  return {.window_size = default_window(num_workers, kMost, num_calls)};
}

/// Figures of scripts/bench_error.sh.
std::string_view draft_note(const MethodChoices& /*choices*/,
                            const MethodOptions& options, int num_calls) {
  if (options.window_size == 1) {
    return {};
  }
  const bool is_usual = options.anchor == Anchor::draft &&
                        options.warmup_steps <= 1 &&
                        options.final_fresh_steps == 0;
  if (is_usual && options.window_size == 2 && num_calls == 20) {
    return "draft approximates: relative RMSE from the sequential latents on "
           "the demo model, 20 steps, bf16, 32 runs: 0.015 (median), above "
           "0.07 in 6; troupe bench measures others; --window 1 gives their "
           "bytes";
  }
  return "draft approximates: troupe bench measures how far its latents are "
         "from the sequential run's; --window 1 gives their bytes";
}

}  // namespace

extern constinit const MethodRow kDraft{
    .name = "draft",
    .options = "window anchor warmup final-fresh",
    .spreads = true,
    .defaults = draft_defaults,
    .note = draft_note,
    .plan = plan_draft,
    .approximates = [](const MethodOptions& o) { return o.window_size > 1; },
    .useful_workers = workers_of_window,
    .most_rows = rows_of_window};

}  // namespace troupe::samplers
