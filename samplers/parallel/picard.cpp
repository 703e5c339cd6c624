#include "samplers/parallel/picard.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "samplers/parallel/check_range.h"

namespace troupe::samplers {
namespace {

// Of 20 steps of the demo model, eight classes, tolerance 0.03: with none the
// worst error is 0.07 of the latents, with two 0.05, with three 0.03, for a
// round more.
constexpr int kHeldBack = 3;

}  // namespace

Picard::Picard(const MethodOptions& options, int num_calls)
    : num_calls_(num_calls),
      window_size_(options.window_size),
      tolerance_(options.tolerance),
      held_back_(options.accept == Accept::settled ? kHeldBack : 0),
      // The constant-x0 guess needs one evaluation to extrapolate from.
      end_(options.initial_guess == InitialGuess::constant_x0
               ? 1
               : std::min(options.window_size, num_calls)),
      points_(static_cast<std::size_t>(end_) + 1,
              Point{kInitialSlot, kNoSlot}) {}

Picard::Point& Picard::point(int index) {
  return points_[static_cast<std::size_t>(index - begin_)];
}

Slot Picard::result_slot() const { return points_.front().state; }

Progress Picard::progress() const {
  // A sweep reads every evaluation of its round, so once it is there all have
  // run, whatever has not arrived.
  const bool is_swept = !book_.is_open(sweep_);
  return {.accepted = begin_,
          .total = num_calls_,
          .nfe = evaluations_ - (is_swept ? 0 : book_.num_open() - 1),
          .rounds = rounds_};
}

std::vector<Task> Picard::ready(int max_open) {
  if (book_.num_open() == 0 && !done()) {
    issue_round();
  }
  return book_.take(max_open);
}

void Picard::issue_round() {
  for (int index = begin_; index < end_; ++index) {
    Point& at = point(index);
    if (at.output != kNoSlot) {
      continue;
    }
    at.output = book_.new_slot();
    book_.add({.op = Op::evaluate,
               .from = index,
               .to = index + 1,
               .timestep_call = index,
               .inputs = {at.state},
               .outputs = {at.output}});
    ++evaluations_;
  }
  add_sweep();
  ++rounds_;
}

void Picard::add_sweep() {
  Task task{
      .op = Op::sweep, .from = begin_, .to = end_, .timestep_call = begin_};
  for (int index = begin_; index <= end_; ++index) {
    task.inputs.push_back(point(index).state);
  }
  for (int index = begin_; index < end_; ++index) {
    task.inputs.push_back(point(index).output);
  }
  // New values of (begin, end], then guesses for every point that may enter.
  const int last = std::min(end_ + window_size_, num_calls_);
  for (int index = begin_ + 1; index <= last; ++index) {
    task.outputs.push_back(book_.new_slot());
  }
  sweep_ = book_.add(std::move(task));
}

void Picard::advance(const Task& done, const std::vector<double>& scalars) {
  if (done.op == Op::sweep) {
    accept(done, scalars);
  }
}

int Picard::next_begin(const Task& sweep,
                       const std::vector<double>& scalars) const {
  const int size = sweep.to - sweep.from;
  require(scalars.size() == 2 * static_cast<std::size_t>(size), Errc::internal,
          "picard", "a sweep came back without two scalars per point");
  for (int i = 0; i < size; ++i) {
    const double residual = scalars[2 * static_cast<std::size_t>(i)];
    if (!std::isfinite(residual)) {
      throw Error(Errc::non_finite, "picard",
                  "the residual of point " +
                      std::to_string(sweep.from + i + 1) + " of " +
                      std::to_string(num_calls_) + " is not finite",
                  "use a smaller window, or --method sequential to see whether "
                  "the model itself fails");
    }
  }
  int first_changed = size;
  for (int i = 0; i < size; ++i) {
    const bool same = scalars[2 * static_cast<std::size_t>(i) + 1] != 0;
    const double residual = scalars[2 * static_cast<std::size_t>(i)];
    if (!same) {
      first_changed = std::min(first_changed, i);
      if (!(tolerance_ > 0 && residual <= tolerance_)) {
        return sweep.from + std::max(i - held_back_, first_changed) + 1;
      }
    }
  }
  return sweep.to;
}

void Picard::release_output(Point& point) {
  if (point.output != kNoSlot) {
    book_.release(point.output);
    point.output = kNoSlot;
  }
}

void Picard::accept(const Task& sweep, const std::vector<double>& scalars) {
  require(sweep.from == begin_ && sweep.to == end_ &&
              sweep.outputs.size() >= points_.size() - 1,
          Errc::corrupt_file, "picard", "a sweep of another window");
  const int new_begin = next_begin(sweep, scalars);
  const int new_end = std::min(new_begin + window_size_, num_calls_);
  // At first all points share the initial slot, which is the result then.
  for (int index = begin_ + 1; index <= end_; ++index) {
    if (point(index).state != result_slot()) {
      book_.release(point(index).state);
    }
  }
  for (int index = begin_ + 1; index <= end_; ++index) {
    const auto i = static_cast<std::size_t>(index - begin_ - 1);
    if (scalars[2 * i + 1] == 0) {
      release_output(point(index));
    }
    point(index).state = sweep.outputs[i];
  }
  for (std::size_t i = points_.size() - 1; i < sweep.outputs.size(); ++i) {
    if (begin_ + 1 + static_cast<int>(i) <= new_end) {
      points_.push_back({sweep.outputs[i], kNoSlot});
    } else {
      book_.release(sweep.outputs[i]);
    }
  }
  const auto retired = points_.begin() + (new_begin - begin_);
  for (auto at = points_.begin(); at != retired; ++at) {
    book_.release(at->state);
    release_output(*at);
  }
  points_.erase(points_.begin(), retired);
  begin_ = new_begin;
  end_ = new_end;
}

std::string Picard::snapshot() const {
  ByteWriter out(MethodKind::picard, {num_calls_, window_size_});
  out.number(begin_);
  out.number(end_);
  out.number(sweep_);
  out.number(evaluations_);
  out.number(rounds_);
  for (const Point& at : points_) {
    out.number(at.state);
    out.number(at.output);
  }
  book_.save(out);
  return out.take();
}

void Picard::restore(const std::string& bytes) {
  ByteReader in(bytes, MethodKind::picard, {num_calls_, window_size_});
  in.number(begin_, num_calls_);
  in.number(end_, num_calls_);
  require(begin_ <= end_ && end_ - begin_ <= window_size_, Errc::corrupt_file,
          "snapshot", "has a window that cannot be");
  in.number(sweep_);
  in.number(evaluations_);
  in.number(rounds_);
  points_.assign(static_cast<std::size_t>(end_ - begin_) + 1, {});
  for (Point& at : points_) {
    in.number(at.state);
    in.number(at.output);
  }
  book_.load(in);
  in.expect_end();
}

namespace {

/// Of Accept::settled: 0.15 / √N for N model calls, because what points are
/// left with adds up over the run. Not below 0.022: there 100 steps took up to
/// 56 rounds instead of 47 and came no closer. scripts/bench_picard.sh measures
/// what this and the settings below give.
double settled_tolerance(int num_calls) {
  constexpr int kFewest = 20;
  constexpr double kLeast = 0.022;
  const auto calls = static_cast<double>(std::max(num_calls, kFewest));
  return std::max(0.15 / std::sqrt(calls), kLeast);
}

/// A tolerance that is named without a rule belongs to the rule that was once
/// the only one, with the carry and guess of that time: such commands keep
/// their bytes.
MethodOptions picard_defaults(const MethodChoices& choices, int num_calls) {
  MethodOptions options;
  options.accept = choices.accept.value_or(
      choices.tolerance ? Accept::first_failing : Accept::settled);
  if (options.accept == Accept::settled) {
    options.tolerance = settled_tolerance(num_calls);
    options.carry = Carry::deviation;
    options.initial_guess = InitialGuess::constant_x0;
  }
  if (num_calls > 0) {  // only a window that was asked for is refused
    options.window_size = std::min(options.window_size, num_calls);
  }
  return options;
}

std::string_view picard_note(const MethodChoices& choices,
                             const MethodOptions& options) {
  if (options.tolerance == 0) {
    return "picard at tolerance 0 is exact and takes as many rounds as steps; "
           "without --tolerance it takes at most about half of them";
  }
  return choices.tolerance
             ? ""
             : "picard comes within a few percent of the sequential latents; "
               "--tolerance 0 gives their bytes";
}

std::unique_ptr<Method> make_picard(const MethodOptions& options,
                                    const Schedule& schedule) {
  const int calls = schedule.num_model_calls();
  check_range("window_size", options.window_size, 1, calls,
              "a window is a number of model calls of this run");
  if (!std::isfinite(options.tolerance) || options.tolerance < 0) {
    throw Error(Errc::invalid_argument, "tolerance",
                "got " + std::to_string(options.tolerance) +
                    ", expected 0 (bit-equal to sequential) or more");
  }
  return std::make_unique<Picard>(options, calls);
}

/// Every round a whole window, one point accepted.
Turn picard_turn(const MethodOptions& options, const TurnShape& shape) {
  Turn turn;
  for (int accepted = 0; accepted < shape.num_calls; ++accepted) {
    const int points =
        std::min(options.window_size, shape.num_calls - accepted);
    turn.evaluations += points;
    turn.latency += (points + shape.num_workers - 1) / shape.num_workers;
  }
  turn.busy = turn.evaluations / shape.num_workers;
  return turn;
}

/// With tolerance 0 every round of a window gives one point. Else four
/// evaluations a point are more than the README's figures.
double picard_tasks(const MethodOptions& options, int num_calls) {
  const double evaluations =
      options.tolerance > 0 ? 4 : std::min(options.window_size, num_calls);
  return (evaluations + 1) * num_calls;
}

int window_of(const MethodOptions& options) {
  return std::max(options.window_size, 1);
}

}  // namespace

extern constinit const MethodRow kPicard{
    .name = "picard",
    .snapshot_format = 2,
    .options = "window tolerance carry guess accept",
    .spreads = true,
    .may_end_early = true,
    .defaults = picard_defaults,
    .note = picard_note,
    .make = make_picard,
    .approximates = [](const MethodOptions& o) { return o.tolerance > 0; },
    .useful_workers =
        [](const MethodOptions& o, std::uint64_t samples) {
          return samples * static_cast<std::uint64_t>(window_of(o));
        },
    .most_rows = window_of,
    .turn = picard_turn,
    .most_tasks = picard_tasks};

}  // namespace troupe::samplers
