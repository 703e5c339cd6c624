// The part of Picard that advances rounds: the tasks that follow from results,
// and the release of values without readers.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "samplers/parallel/picard.h"

namespace troupe::samplers {

Picard::Point& Picard::at(Round& round, int index) {
  return round.points.at(static_cast<std::size_t>(index - round.begin));
}

void Picard::add_round(int begin, int end) {
  ++num_rounds_;
  rounds_.push_back({.begin = begin, .end = end});
}

/// The value of the round's next point is known, and the network's output there
/// unless it is to be evaluated.
void Picard::enter(Round& round, Slot state, Slot output) {
  const int index = round.begin + static_cast<int>(round.points.size());
  round.points.push_back({.state = state, .output = output});
  if (output == kNoSlot && index < round.end) {
    evaluate(round, index);
  }
  if (index > round.begin) {
    add_sweep(round, index - 1);
  }
}

void Picard::evaluate(Round& round, int index) {
  Point& point = at(round, index);
  point.output = book_.new_slot();
  point.evaluation = book_.add({.op = Op::evaluate,
                                .from = index,
                                .to = index + 1,
                                .timestep_call = index,
                                .inputs = {point.state},
                                .outputs = {point.output}});
  ++evaluations_;
}

/// From a point to the next, whose values in this round are known. Nobody reads
/// the point's old value after that.
void Picard::add_sweep(Round& round, int index) {
  Point& point = at(round, index);
  const bool is_first = index == round.begin;
  const bool is_last = index + 1 == round.end;
  const Slot next = at(round, index + 1).state;
  point.swept = book_.new_slot();
  Task task{
      .op = Op::sweep, .from = index, .to = index + 1, .timestep_call = index};
  task.inputs = {is_first ? point.state : at(round, index - 1).swept,
                 point.state, next, point.output};
  task.outputs = {point.swept};
  if (is_last) {  // guesses for every point that may enter
    const int last = std::min(round.end + window_size_, num_calls_);
    for (int guess = round.end + 1; guess <= last; ++guess) {
      round.guesses.push_back(book_.new_slot());
    }
    task.outputs.append(round.guesses.begin(), round.guesses.end());
  }
  point.sweep = book_.add(std::move(task));
  // The first point's value is the result until another is final. In the first
  // round all points have it.
  if (!is_first && point.state != result_) {
    book_.release(point.state);
  }
  if (is_last && next != result_) {
    book_.release(next);
  }
  if (is_first || point.drops_output) {
    book_.release(point.output);
  }
}

void Picard::advance(const Task& done, const std::vector<double>& scalars) {
  const auto task_of =
      done.op == Op::sweep ? &Point::sweep : &Point::evaluation;
  for (std::size_t r = 0; r < rounds_.size(); ++r) {
    const auto point = std::ranges::find(rounds_[r].points, done.id, task_of);
    if (point != rounds_[r].points.end()) {
      if (done.op == Op::sweep) {
        point->change = change_of(done, scalars);
        point->has_change = true;
      }
      while (take_change(r)) {
      }
      return;
    }
  }
  // In a cut of an earlier version a round may be over before that.
  require(done.op != Op::sweep, Errc::corrupt_file, "picard",
          "a sweep of another window");
}

Picard::Change Picard::change_of(const Task& sweep,
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
  const bool is_same = scalars[1] != 0;
  return {is_same, is_same || (tolerance_ > 0 && scalars[0] <= tolerance_)};
}

/// The change of the next point of a round, in the order of the points. False
/// if it is not there, or was the last. It waits for the result of the point's
/// evaluation, which may come later: so what waits for its answer is of the
/// rounds under way, and most_live bounds it.
bool Picard::take_change(std::size_t r) {
  Round& round = rounds_[r];
  const Point& point = round.points[static_cast<std::size_t>(round.num_swept)];
  if (!point.has_change || book_.is_open(point.evaluation)) {
    return false;
  }
  const int changed = round.begin + ++round.num_swept;
  const bool is_last = changed == round.end;
  if (round.next_begin != 0) {
    pass_on(r, changed);
  } else if (const int begin = begin_after(round); begin != 0) {
    begin_next(r, begin);
  }
  if (is_last) {
    end_sweep(r);
  }
  return !is_last;
}

/// Where the window begins after the round; 0: not known yet from its changes.
int Picard::begin_after(const Round& round) const {
  const int last = round.num_swept - 1;
  if (round.points[static_cast<std::size_t>(last)].change.passes) {
    return round.begin + round.num_swept == round.end ? round.end : 0;
  }
  const auto first_changed = std::ranges::find_if(
      round.points, [](const Point& point) { return !point.change.is_same; });
  const auto first = static_cast<int>(first_changed - round.points.begin());
  return round.begin + std::max(last - held_back_, first) + 1;
}

/// Points up to `begin` are final; later points go on.
void Picard::begin_next(std::size_t r, int begin) {
  Round& round = rounds_[r];
  round.next_begin = begin;
  for (int index = round.begin + 1; index < begin; ++index) {
    book_.release(at(round, index - 1).swept);
    release_output(round, index);
  }
  book_.release(result_);
  result_ = at(round, begin - 1).swept;
  begin_ = begin;
  if (done()) {
    return;
  }
  add_round(begin, std::min(begin + window_size_, num_calls_));
  for (int index = begin; index <= round.begin + round.num_swept; ++index) {
    pass_on(r, index);
  }
}

/// A new value goes into the next round, with the network's output if that is
/// still the one there.
void Picard::pass_on(std::size_t r, int index) {
  Round& round = rounds_[r];
  const Point& left = at(round, index - 1);
  Slot output = kNoSlot;
  if (left.change.is_same && index < round.end) {
    output = at(round, index).output;
  } else {
    release_output(round, index);
  }
  enter(rounds_[r + 1], left.swept, output);
}

/// All points of the oldest round are swept: others may enter the window.
void Picard::end_sweep(std::size_t r) {
  require(r == 0, Errc::internal, "picard", "a round overtakes another");
  const Round& round = rounds_.front();
  for (std::size_t i = 0; i < round.guesses.size(); ++i) {
    Round& next = rounds_[1];
    if (round.end + 1 + static_cast<int>(i) <= next.end) {
      enter(next, round.guesses[i], kNoSlot);
    } else {
      book_.release(round.guesses[i]);
    }
  }
  rounds_.pop_front();
}

/// No later round reads the output; this round may still read it.
void Picard::release_output(Round& round, int index) {
  if (index == round.end) {
    return;  // there is none
  }
  Point& point = at(round, index);
  if (point.sweep != 0) {
    book_.release(point.output);
  } else {
    point.drops_output = true;
  }
}

}  // namespace troupe::samplers
