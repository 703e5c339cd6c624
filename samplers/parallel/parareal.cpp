#include <algorithm>
#include <utility>
#include <vector>

#include "samplers/parallel/check_range.h"
#include "samplers/parallel/plan.h"

namespace troupe::samplers {
namespace {

/// One block of steps.
struct Block {
  Slot coarse = 0;  ///< the next block's begin by one jump
  Slot fine = 0;    ///< the same by all steps
};

/// Parareal (README.md). Each iteration corrects where blocks begin, from left
/// to right:
///
///   begin[n + 1] = steps(old begin[n]) + (jump(new begin[n]) −
///                                         jump(old begin[n]))
///
/// with the difference formed first. A jump and the first step of its block
/// share one evaluation of the network. A block's steps begin as soon as its
/// begin is there, not when all begins are. Where the last block ends is an
/// early result of each iteration.
/// Source: Lions, Maday, Turinici 2001; for diffusion models SRDS,
/// arXiv:2412.08292.
TaskList plan_parareal(const MethodOptions& options, int num_calls) {
  check_range("window_size", options.window_size, 1, num_calls,
              "parareal has so many blocks");
  check_range("iterations", options.iterations, 1, options.window_size,
              "after as many iterations as blocks the run is exact");
  const auto num_blocks = static_cast<std::size_t>(options.window_size);
  const auto first_call = [&](std::size_t block) {
    return static_cast<int>(static_cast<std::int64_t>(block) * num_calls /
                            options.window_size);
  };
  TaskList list;
  const auto compute = [&](std::size_t n, Slot begin) {
    const int first = first_call(n);
    const int end = first_call(n + 1);
    Block block{.fine = begin};
    for (int call = first; call < end; ++call) {
      const Slots made =
          list.add(task_of(Op::evaluate, call, call + 1, {block.fine}), 2);
      if (call == first) {
        block.coarse =
            list.add(task_of(Op::jump, call, end, {begin, made.at(0)}));
      }
      block.fine = made.at(1);
    }
    return block;
  };
  std::vector<Block> blocks(num_blocks);
  Slot begin = kInitialSlot;
  for (std::size_t n = 0; n < num_blocks; ++n) {
    blocks[n] = compute(n, begin);
    begin = blocks[n].coarse;
  }
  const auto iterations = static_cast<std::size_t>(options.iterations);
  for (std::size_t k = 0; k < iterations; ++k) {
    // Blocks before k are exact, so block k begins exactly and ends so.
    list.accept(blocks[k].fine, first_call(k + 1));
    begin = blocks[k].fine;
    for (std::size_t n = k + 1; n < num_blocks; ++n) {
      const Block old = std::exchange(blocks[n], compute(n, begin));
      begin = list.add(task_of(Op::carry, first_call(n), first_call(n + 1),
                               {old.fine, blocks[n].coarse, old.coarse}));
    }
    if (options.has_early_results && k + 1 < iterations) {
      list.show(begin);
    }
  }
  if (iterations < num_blocks) {
    list.accept(begin, num_calls);
  }
  return list;
}

}  // namespace

constexpr MethodRow kParareal{
    .name = "parareal",
    .options = "window iterations",
    .spreads = true,
    .defaults =
        [](const MethodChoices& choices, int num_calls, int num_workers) {
          const int blocks =
              std::max(num_workers, choices.iterations.value_or(1));
          return MethodOptions{.window_size =
                                   default_window(blocks, 8, num_calls)};
        },
    .plan = plan_parareal,
    .check = check_one_call_without_noise,
    .approximates =
        [](const MethodOptions& o) { return o.iterations < o.window_size; },
    .note_if_exact =
        "parareal with as many iterations as blocks is exact and as slow as "
        "one worker",
    .skips_points = [](const MethodOptions&) { return true; },
    .useful_workers = workers_of<rows_of_window>,
    .most_rows = rows_of_window};
constinit const MethodKind MethodKind::parareal{kParareal};

}  // namespace troupe::samplers
