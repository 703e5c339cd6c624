#include <algorithm>
#include <cmath>
#include <deque>
#include <string>
#include <utility>

#include "samplers/parallel/anderson.h"
#include "samplers/parallel/cache.h"
#include "samplers/parallel/check_range.h"
#include "samplers/parallel/op_run.h"
#include "samplers/parallel/task_book.h"

namespace troupe::samplers {
namespace {

/// Iterates of a point that are mixed; 1: none.
int memory_of(const MethodOptions& options) {
  return options.kind.takes("memory") ? options.memory : 1;
}

/// Picard iteration over a sliding window [begin, end) of points (README.md). A
/// round evaluates the network at every point whose value changed, and sweeps
/// the window from left to right, one task per point (sweep.cpp).
/// Rounds overlap:
/// - a point is swept when the sweep of its left neighbour in this round and
///   its own evaluation are done;
/// - it is evaluated for the next round when its new value is there and the
///   begin of the next window is known (the first failing point decides);
/// - points that enter the window wait for the whole sweep.
/// The inputs of a round follow from the rounds before, never from the order of
/// arrival: so bytes, evaluations and rounds are those of a loop that ends one
/// round before the next. Results are taken in the order of the points; early
/// results wait for their turn.
///
/// Points pass from `begin` + 1 on by the accept rule. The first point that
/// fails becomes `begin` with its new value, whose inputs all passed: the point
/// may just have moved by any amount. A window of which all points pass is
/// final as a whole.
/// With a memory above 1 the points of the next round, but for its first and
/// those that kept their bytes, are mixed of what the last sweeps made
/// (samplers/parallel/anderson.h).
/// With +cache an evaluation may reuse what the point's last one left. That of
/// a point which was not evaluated before reads what the first point of the
/// round before left, which is final.
/// Source: first_failing is Shih et al. 2023, arXiv:2305.16317, in the carry
/// form, which unlike base + cumulative sum becomes bit-equal; settled is ours.
class Picard final : public BookedMethod {
 public:
  Picard(const MethodOptions& options, const Schedule& schedule)
      : BookedMethod(schedule.num_model_calls()),
        options_(options),
        memory_(static_cast<std::size_t>(memory_of(options))) {
    for (int call = 0; call < num_calls_; ++call) {
      coefficients_.push_back(sweep_coefficients(options, schedule, call));
    }
  }

  [[nodiscard]] std::vector<Task> ready(int max_open) override {
    if (num_rounds_ == 0) {
      const bool is_given = options_.initial_guess == InitialGuess::trajectory;
      // Guesses of clean samples need one evaluation to begin with.
      const int end =
          is_given || options_.initial_guess == InitialGuess::last_point
              ? std::min(options_.window_size, num_calls_)
              : 1;
      ++num_rounds_;
      rounds_.push_back({.end = end});
      const std::vector<Slot> guesses =
          is_given
              ? add_guesses(0, kInitialSlot, end)
              : std::vector<Slot>(static_cast<std::size_t>(end), kInitialSlot);
      enter(rounds_.back(), kInitialSlot);
      for (const Slot guess : guesses) {
        enter(rounds_.back(), guess);
      }
    }
    return book_.take(max_open);
  }

  [[nodiscard]] std::string snapshot() const override {
    ByteWriter out(options_.kind, {num_calls_, options_.window_size,
                                   static_cast<int>(memory_)});
    transfer(out, *this);
    return out.take();
  }

  void restore(const std::string& bytes) override {
    ByteReader in(
        bytes, options_.kind,
        {num_calls_, options_.window_size, static_cast<int>(memory_)});
    transfer(in, *this);
    in.expect_end();
    for (std::size_t r = 0; r < rounds_.size(); ++r) {
      const Round& round = rounds_[r];
      const int next = r + 1 < rounds_.size() ? rounds_[r + 1].begin : 0;
      require(is_whole(round) && round.next_begin == next && num_rounds_ > 0,
              Errc::corrupt_file, "snapshot", "has a window that cannot be");
    }
    require(rounds_.empty() == (num_rounds_ == 0 || done()) &&
                book_.has_slots(kept_slots()),
            Errc::corrupt_file, "snapshot", "has rounds that its book lacks");
  }

 private:
  /// No task writes the initial slot.
  static constexpr Slot kNoSlot = kInitialSlot;

  /// One point of the chain in one round.
  struct Point {
    Slot state = 0;         ///< its value when the round begins
    Slot output = kNoSlot;  ///< of the network there; none at the window's end
    Slot cache = kNoSlot;   ///< that the evaluation left, if it left one
    std::uint64_t evaluation = 0;  ///< task of this round for both; 0: none
    std::uint64_t sweep = 0;  ///< task from here to the next point; 0: none yet
    Slot swept = kNoSlot;     ///< the next point's new value
    bool has_change = false;  ///< the sweep's result is there
    bool is_same = false;     ///< the new value, in every byte as the old one
    bool passes = false;      ///< the new value: the same, or as good as that
    // Of the next point, with a memory above 1.
    std::uint64_t comparison = 0;  ///< task that makes the two; 0: none
    Slot residual = kNoSlot;
    MeanSquares squares = {};  ///< the first comes from the sweep
    /// Of this point, by the rounds before; the newest first.
    std::vector<Iterate> older = {};
  };
  struct Round {
    int begin = 0;
    int end = 0;
    /// What the evaluation of a point reads that was not evaluated before; none
    /// in the first round, and without +cache.
    Slot cache = kNoSlot;
    std::vector<Point> points = {};  ///< from begin on, as far as known
    std::vector<Slot> guesses = {};  ///< of points after end
    int num_swept = 0;               ///< points whose results are taken
    int next_begin = 0;              ///< of the round after it; 0: not known

    [[nodiscard]] Point& at(int index) {
      return points.at(static_cast<std::size_t>(index - begin));
    }
  };

  /// The sweep of its last point reads its first point, too, for the guesses.
  [[nodiscard]] bool draws_line(const Round& round) const {
    return options_.initial_guess == InitialGuess::linear_x0 &&
           round.begin + 1 < round.end && round.end < num_calls_;
  }

  /// The value of the round's next point is known, and the network's output
  /// there unless it is to be evaluated. cache: that its last evaluation left.
  void enter(Round& round, Slot state, Slot output = kNoSlot,
             Slot cache = kNoSlot, std::vector<Iterate> older = {}) {
    const int index = round.begin + static_cast<int>(round.points.size());
    round.points.push_back({.state = state,
                            .output = output,
                            .cache = cache,
                            .older = std::move(older)});
    if (output == kNoSlot && index < round.end) {
      evaluate(round, index);
    }
    if (index > round.begin) {
      add_sweep(round, index - 1);
    }
  }

  void evaluate(Round& round, int index) {
    Point& point = round.at(index);
    const Slot before = point.cache != kNoSlot ? point.cache : round.cache;
    Task task =
        evaluation(options_, index, num_calls_, point.state,
                   before != kNoSlot ? std::optional(before) : std::nullopt);
    point.output = book_.add_output(task);
    if (leaves_cache(options_, index, num_calls_)) {
      point.cache = book_.add_output(task);
    }
    point.evaluation = book_.add(std::move(task));
    ++evaluations_;
  }

  /// From a point to the next, whose values in this round are known.
  void add_sweep(Round& round, int index) {
    Point& point = round.at(index);
    const bool is_first = index == round.begin;
    const bool is_last = index + 1 == round.end;
    const bool is_given = options_.initial_guess == InitialGuess::trajectory;
    // Guesses for every point that may enter.
    const int num_guesses =
        is_last ? std::min(options_.window_size, num_calls_ - round.end) : 0;
    Task task = task_of(Op::sweep, index, index + 1,
                        {is_first ? point.state : round.at(index - 1).swept,
                         point.state, round.at(index + 1).state, point.output});
    point.swept = book_.add_output(task);
    for (int i = 0; i < num_guesses && !is_given; ++i) {
      round.guesses.push_back(book_.add_output(task));
    }
    task.coefficients = coefficients_.at(static_cast<std::size_t>(index));
    if (is_last && draws_line(round)) {
      const Point& first = round.points.front();
      task.inputs.push_back(first.state);
      task.inputs.push_back(first.output);
      task.coefficients.push_back(round.begin);
    }
    point.sweep = book_.add(std::move(task));
    if (num_guesses > 0 && is_given) {
      round.guesses = add_guesses(round.end, point.swept, num_guesses);
    }
    if (memory_ > 1) {
      compare(round, index);
    }
  }

  /// Guesses of so many points after `from`, from the job's trajectory.
  [[nodiscard]] std::vector<Slot> add_guesses(int from, Slot state, int count) {
    Task task = task_of(Op::guess, from, from + count, {state});
    task.is_on_chain = false;
    std::vector<Slot> guesses(static_cast<std::size_t>(count));
    std::ranges::generate(guesses, [&] { return book_.add_output(task); });
    book_.add(std::move(task));
    return guesses;
  }

  /// The residual of the next point, for later rounds, and its distances from
  /// those of the rounds before.
  void compare(Round& round, int index) {
    Point& point = round.at(index);
    const Point& next = round.at(index + 1);
    point.squares.resize(1 + next.older.size());
    Task task =
        task_of(Op::residual, index, index + 1, {point.swept, next.state});
    point.residual = book_.add_output(task);
    task.is_on_chain = false;
    for (const Iterate& iterate : next.older) {
      task.inputs.push_back(iterate.residual);
    }
    point.comparison = book_.add(std::move(task));
  }

  /// What the next round takes for a point that is not its first. The weights
  /// come from the residuals of this round's points up to it.
  [[nodiscard]] Slot mix(Round& round, int index) {
    const Point& left = round.at(index - 1);
    AndersonSums sums(round.at(index).older.size());
    for (int upstream = round.begin + 1; upstream <= index; ++upstream) {
      sums.add(round.at(upstream - 1).squares, round.at(upstream).older);
    }
    Coefficients weights = sums.weights();
    if (left.is_same || weights.empty()) {
      return left.swept;
    }
    Task task = task_of(Op::mix, index - 1, index, {left.swept});
    for (std::size_t i = 0; i < weights.size(); ++i) {
      task.inputs.push_back(round.at(index).older[i].state);
    }
    const Slot mixed = book_.add_output(task);
    task.coefficients = std::move(weights);
    task.is_on_chain = false;
    book_.add(std::move(task));
    return mixed;
  }

  void advance(const Task& done, const std::vector<double>& scalars) override {
    if (done.op == Op::sweep) {
      note_change(point_of(&Point::sweep, done.id), done, scalars);
    } else if (done.op == Op::residual) {
      Point& point = point_of(&Point::comparison, done.id);
      require(1 + scalars.size() == point.squares.size(), Errc::internal,
              "picard", "a comparison came back without its scalars");
      std::ranges::copy(scalars, point.squares.begin() + 1);
    }
    for (std::size_t r = 0; r < rounds_.size(); ++r) {
      while (r < rounds_.size() && take_change(r)) {
      }
    }
  }

  /// The point that such a task belongs to.
  [[nodiscard]] Point& point_of(std::uint64_t Point::*task, std::uint64_t id) {
    for (Round& round : rounds_) {
      const auto point = std::ranges::find(round.points, id, task);
      if (point != round.points.end()) {
        return *point;
      }
    }
    throw Error(Errc::corrupt_file, "picard", "a sweep of another window");
  }

  void note_change(Point& point, const Task& sweep,
                   const std::vector<double>& scalars) const {
    require(scalars.size() == 2, Errc::internal, "picard",
            "a sweep came back without its two scalars");
    if (!std::isfinite(scalars[0])) {
      throw Error(Errc::non_finite, "picard",
                  "the residual of point " + std::to_string(sweep.to) + " of " +
                      std::to_string(num_calls_) + " is not finite",
                  "use a smaller window, or --method sequential to see whether "
                  "the model itself fails");
    }
    point.has_change = true;
    point.is_same = scalars[1] != 0;
    point.passes = point.is_same ||
                   (options_.tolerance > 0 && scalars[0] <= options_.tolerance);
    if (!point.squares.empty()) {
      const double rms = scalars[0] * sweep.coefficients.at(1);
      point.squares[0] = rms * rms;
    }
  }

  /// The change of the next point of a round, in the order of the points. False
  /// if it is not there, or was the last. It waits for the results of the tasks
  /// that made the sweep's inputs and of those that make guesses with it, which
  /// may come later: so what waits for its answer is of the rounds under way,
  /// and most_live bounds it.
  [[nodiscard]] bool take_change(std::size_t r) {
    Round& round = rounds_[r];
    const auto next = round.points.begin() + round.num_swept + 1;
    if (next == round.points.end()) {
      return false;
    }
    const Point& point = *std::prev(next);
    const bool makes_guesses = round.begin + round.num_swept + 1 == round.end &&
                               !round.guesses.empty();
    if (!point.has_change || book_.is_open(point.evaluation) ||
        book_.is_open(point.comparison) || book_.is_to_come(next->state) ||
        (makes_guesses && book_.is_to_come(round.guesses.front()))) {
      return false;
    }
    const int changed = round.begin + ++round.num_swept;
    const bool is_last = changed == round.end;
    if (round.next_begin != 0) {
      pass_on(r, changed);
    } else if (is_last || !point.passes) {
      begin_next(r, changed);
    }
    if (is_last) {
      end_sweep(r);
    }
    return !is_last;
  }

  /// Points up to `begin`, the newest that is swept, are final.
  void begin_next(std::size_t r, int begin) {
    Round& round = rounds_[r];
    round.next_begin = begin;
    result_ = round.at(begin - 1).swept;
    begin_ = begin;
    if (done()) {
      return;
    }
    ++num_rounds_;
    rounds_.push_back(
        {.begin = begin,
         .end = std::min(begin + options_.window_size, num_calls_),
         .cache = round.points.front().cache});
    pass_on(r, begin);
  }

  /// A new value goes into the next round, with the network's output if that is
  /// still the one there.
  void pass_on(std::size_t r, int index) {
    Round& round = rounds_[r];
    const Point& left = round.at(index - 1);
    const Point& here = round.at(index);
    const Slot output = left.is_same ? here.output : kNoSlot;
    Round& next = rounds_[r + 1];
    if (memory_ == 1 || index == next.begin) {
      enter(next, left.swept, output, here.cache);
      return;
    }
    const Slot mixed = mix(round, index);
    std::vector<Iterate> older = here.older;
    older.insert(older.begin(), {left.swept, left.residual, left.squares});
    older.resize(std::min(older.size(), memory_ - 1));
    enter(next, mixed, output, here.cache, std::move(older));
  }

  /// All points of the oldest round are swept: others may enter the window.
  void end_sweep(std::size_t r) {
    require(r == 0, Errc::internal, "picard", "a round overtakes another");
    const Round& round = rounds_.front();
    int index = round.end;
    for (const Slot guess : round.guesses) {
      if (++index <= rounds_[1].end) {
        enter(rounds_[1], guess);
      }
    }
    rounds_.pop_front();
  }

  [[nodiscard]] std::vector<Slot> kept_slots() const override {
    std::vector<Slot> kept;
    for (const Round& round : rounds_) {
      kept.insert(kept.end(), round.guesses.begin(), round.guesses.end());
      const std::size_t known = round.points.size();
      const bool is_line_to_come =
          draws_line(round) &&
          round.begin + static_cast<int>(known) <= round.end;
      for (std::size_t i = 0; i < known; ++i) {
        const Point& point = round.points[i];
        const int index = round.begin + static_cast<int>(i);
        const bool is_sweep_to_come = point.sweep == 0 && index < round.end;
        if (is_sweep_to_come || (i == 0 && is_line_to_come)) {
          kept.insert(kept.end(), {point.state, point.output});
        }
        if (i == 0) {
          kept.push_back(point.cache);  // for points that enter the next round
          continue;
        }
        const Point& left = round.points[i - 1];
        if (is_sweep_to_come) {
          kept.push_back(left.swept);
        }
        // A round reads these until the point is final or in the next round.
        if (round.next_begin == 0 || index > round.begin + round.num_swept) {
          kept.insert(kept.end(),
                      {left.swept, left.residual, point.output, point.cache});
          for (const Iterate& iterate : point.older) {
            kept.insert(kept.end(), {iterate.state, iterate.residual});
          }
        }
      }
    }
    // kNoSlot is also the initial slot. No task still to come reads the initial
    // state: the tasks of the first round are all issued at once.
    std::erase(kept, kNoSlot);
    kept.push_back(result_);
    return kept;
  }

  [[nodiscard]] std::int64_t num_missing() const override {
    // A sweep reads the evaluation of its point. So once the sweep's result is
    // there, the evaluation has run, even if the evaluation's own result is
    // still on its way.
    std::int64_t missing = 0;
    for (const Round& round : rounds_) {
      for (const Point& point : round.points) {
        missing += !point.has_change && book_.is_open(point.evaluation) ? 1 : 0;
      }
    }
    return missing;
  }

  /// Writes or reads it all.
  template <typename Bytes, typename Self>
  static void transfer(Bytes& bytes, Self& self) {
    const bool has_caches = self.options_.kind.has(Modifier::cache);
    bytes.number(self.begin_, self.num_calls_);
    transfer_all(bytes, self.result_, self.evaluations_, self.num_rounds_);
    if (has_caches) {
      bytes.number(self.reused_);
    }
    bytes.length(self.rounds_);
    for (auto& round : self.rounds_) {
      bytes.length(round.points);
      if (has_caches) {
        bytes.number(round.cache);
      }
      transfer_all(bytes, round.begin, round.end, round.num_swept,
                   round.next_begin, round.guesses);
      for (auto& point : round.points) {
        transfer_all(bytes, point.state, point.output, point.evaluation,
                     point.sweep, point.swept, point.has_change, point.is_same,
                     point.passes, point.comparison, point.residual,
                     point.squares);
        bytes.length(point.older);
        for (auto& iterate : point.older) {
          transfer_all(bytes, iterate.state, iterate.residual, iterate.squares);
        }
        if (has_caches) {
          bytes.number(point.cache);
        }
      }
    }
    self.book_.transfer(bytes);
  }

  /// All that a round's arithmetic of places and lengths takes for granted.
  [[nodiscard]] bool is_whole(const Round& round) const {
    const std::vector<Point>& points = round.points;
    const int known = static_cast<int>(points.size());
    bool fits =
        round.begin < round.end && round.end <= num_calls_ &&
        known <= round.end - round.begin + 1 && round.num_swept < known &&
        round.next_begin <= round.end &&
        static_cast<int>(round.guesses.size()) <= num_calls_ - round.end;
    for (std::size_t i = 0; fits && i < points.size(); ++i) {
      const std::vector<Iterate>& older = points[i].older;
      const bool is_last = i + 1 == points.size();
      fits = older.size() < memory_ &&
             (is_last  // its sweep needs the next point
                  ? points[i].sweep == 0 && !points[i].has_change
                  : points[i].squares.size() ==
                        (memory_ > 1 ? 1 + points[i + 1].older.size() : 0));
      for (std::size_t k = 0; fits && k < older.size(); ++k) {
        fits = older[k].squares.size() >= older.size() - k;
      }
    }
    return fits;
  }

  MethodOptions options_;
  std::size_t memory_;  ///< iterates of a point that are mixed; 1: none
  std::vector<Coefficients> coefficients_;  ///< of the sweep from each call
  std::deque<Round> rounds_;                ///< under way; the oldest first
};

/// Of Accept::settled. 32 runs of 50 steps of the demo model in bf16, windows
/// of four: network calls by those of the sequential run, relative RMSE
/// (median, worst). 0.01: 1.56, 0.004, 0.18; 0.02: 1.29, 0.008, 0.24;
/// 0.03: 1.19, 0.009, 0.42. Initial noise moved by 1e-6 makes 0.004 to 0.009 of
/// a sequential run.
constexpr double kSettledTolerance = 0.02;
/// Each worker has a point. Wider windows take fewer rounds, but more network
/// calls: with two points 1.04 times those of the sequential run (50 steps,
/// bf16), with four 1.3 times, with eight 1.8 times.
constexpr int kMostSettled = 8;

/// With Accept::first_failing the carry and guess of ParaDiGMS; its tolerance
/// has no default.
MethodOptions picard_defaults(const MethodChoices& choices, int num_calls,
                              int num_workers) {
  MethodOptions options;
  options.accept = choices.accept.value_or(Accept::settled);
  if (options.accept == Accept::settled) {
    options.window_size = num_workers;
    options.tolerance = kSettledTolerance;
    options.carry = Carry::deviation;
    options.initial_guess = InitialGuess::linear_x0;
  }
  // Only a window that was asked for is refused.
  options.window_size =
      default_window(options.window_size, kMostSettled, num_calls);
  return options;
}

std::unique_ptr<Method> make_picard(const MethodOptions& options,
                                    const Schedule& schedule) {
  check_window(options, schedule.num_model_calls());
  require(std::isfinite(options.tolerance) && options.tolerance >= 0,
          Errc::invalid_argument, "tolerance",
          "got " + std::to_string(options.tolerance) +
              ", expected 0 (bit-equal to sequential) or more");
  check_range("memory", memory_of(options), 1, 1 + int{kMostCoefficients},
              "a mix has so many iterates");
  return std::make_unique<Picard>(options, schedule);
}

/// An evaluation and a sweep of each point of a window, and with a memory a
/// comparison and a mix. With tolerance 0 every round gives one point. With a
/// tolerance, four evaluations a point are more than measured runs take.
double picard_tasks(const MethodOptions& options, int num_calls) {
  const double evaluations =
      options.tolerance > 0 ? 4 : std::min(options.window_size, num_calls);
  return (memory_of(options) > 1 ? 4 : 2) * evaluations * num_calls;
}

/// Open rounds follow each other from right to left: a round can sweep only up
/// to the swept points of the round before, and begins at least one point
/// later. So the widths of open rounds add up to one window. A point's output
/// lives over its round's width; its value over that and the next one's.
/// Guesses are those of the oldest round alone. Where guesses follow a line,
/// the first point of each open round lives until the round ends.
/// With a memory, an iterate is two states: what a sweep made of a point, and
/// its residual. A point keeps the iterates that are mixed, and one that its
/// present sweep makes. It also has its value, the next one and a guess.
LiveValues picard_live(const MethodOptions& options, int num_calls,
                       int /*max_open*/) {
  const int window = std::min(rows_of_window(options), num_calls);
  const int firsts =
      options.initial_guess == InitialGuess::linear_x0 ? window - 1 : 0;
  const int each = memory_of(options) > 1 ? 2 * options.memory + 5 : 3;
  const bool caches = options.kind.has(Modifier::cache);
  return {.states = each * window + 2 + firsts,
          .outputs = window + firsts,
          .caches = caches ? 2 * window : 0};
}

}  // namespace

constexpr MethodRow kPicard{
    .name = "picard",
    .snapshot_format = 7,
    .options = "window tolerance carry guess guess-from accept",
    .modifiers = "cache",
    .spreads = true,
    .may_end_early = true,
    .defaults = picard_defaults,
    .make = make_picard,
    // picard+cache has other bytes than sequential+cache.
    .approximates =
        [](const MethodOptions& o) {
          return o.tolerance > 0 || leaves_out_blocks(o);
        },
    .note_if_exact =
        "tolerance 0 is exact and takes as many rounds as steps: it never "
        "gains; without --tolerance and --accept the method approximates in "
        "fewer rounds",
    .useful_workers = workers_of<rows_of_window>,
    .most_rows = rows_of_window,
    .turn = turn_of_window,
    .most_tasks = picard_tasks,
    .most_live = picard_live};
constinit const MethodKind MethodKind::picard{kPicard};

/// The same machine with a memory.
constexpr MethodRow kTaa = [] {
  MethodRow row = kPicard;
  row.name = "taa";
  row.snapshot_format = 2;
  row.options = "window memory tolerance carry guess guess-from accept";
  row.modifiers = "";
  return row;
}();
constinit const MethodKind MethodKind::taa{kTaa};

}  // namespace troupe::samplers
