#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "samplers/options.h"

namespace troupe::samplers::testing {

/// What a sweep makes of a point, and what the accept rule knows of it.
template <typename State>
struct BarrierPoint {
  State state;
  double residual = 0;
  bool is_same = false;
};

template <typename State>
struct BarrierEnd {
  State state;
  std::int64_t nfe = 0;
  std::int64_t rounds = 0;
};

/// Picard in its plain form: a round ends before the next one begins. What
/// overlapped rounds are compared with. The network has
///   State, Output
///   Output evaluate(call, state)
///   BarrierPoint<State> sweep(call, is_first, new left state, old state, old
///                             next state, output)
///   State guess(point, window's first call, its state and output, evaluated
///               call, last state, old state there, output)
///   State given_guess(point, last point, last state): of a trajectory
template <typename Network>
class Barrier {
 public:
  using State = typename Network::State;
  using Output = typename Network::Output;

  Barrier(const MethodOptions& options, int calls, Network& network,
          const State& start)
      : options_(options),
        calls_(calls),
        network_(network),
        end_(options.initial_guess == InitialGuess::last_point || is_given()
                 ? std::min(options.window_size, calls)
                 : 1),
        states_(static_cast<std::size_t>(calls) + 1, start),
        outputs_(static_cast<std::size_t>(calls) + 1) {}

  [[nodiscard]] BarrierEnd<State> run() {
    std::int64_t nfe = 0;
    std::int64_t rounds = 0;
    for (int point = 1; is_given() && point <= end_; ++point) {
      state(point) = network_.given_guess(point, 0, state(0));
    }
    for (; begin_ < calls_; ++rounds) {
      for (int call = begin_; call < end_; ++call) {
        if (!output(call)) {
          output(call) = network_.evaluate(call, state(call));
          ++nfe;
        }
      }
      move_to(next_begin(sweep()));
    }
    return {state(calls_), nfe, rounds};
  }

 private:
  using Points = std::vector<BarrierPoint<State>>;

  bool is_given() const {
    return options_.initial_guess == InitialGuess::trajectory;
  }
  State& state(int point) { return states_[static_cast<std::size_t>(point)]; }
  std::optional<Output>& output(int call) {
    return outputs_[static_cast<std::size_t>(call)];
  }

  Points sweep() {
    const std::vector<State> old = states_;
    Points swept;
    for (int call = begin_; call < end_; ++call) {
      const auto at = static_cast<std::size_t>(call);
      swept.push_back(network_.sweep(call, call == begin_, state(call), old[at],
                                     old[at + 1], *output(call)));
      state(call + 1) = swept.back().state;
    }
    const auto last = static_cast<std::size_t>(end_ - 1);
    for (int point = end_ + 1;
         point <= std::min(end_ + options_.window_size, calls_); ++point) {
      state(point) =
          is_given() ? network_.given_guess(point, end_, state(end_))
                     : network_.guess(point, begin_,
                                      old[static_cast<std::size_t>(begin_)],
                                      *output(begin_), end_ - 1, state(end_),
                                      old[last], *outputs_[last]);
    }
    for (int call = begin_; call < end_; ++call) {
      if (!swept[static_cast<std::size_t>(call - begin_)].is_same) {
        output(call + 1).reset();
      }
    }
    return swept;
  }

  int next_begin(const Points& swept) const {
    for (int i = 0; i < end_ - begin_; ++i) {
      const BarrierPoint<State>& point = swept[static_cast<std::size_t>(i)];
      if (!point.is_same &&
          (options_.tolerance == 0 || point.residual > options_.tolerance)) {
        return begin_ + i + 1;
      }
    }
    return end_;
  }

  void move_to(int begin) {
    begin_ = begin;
    end_ = std::min(begin + options_.window_size, calls_);
  }

  const MethodOptions& options_;
  int calls_;
  Network& network_;
  int begin_ = 0;
  int end_;
  std::vector<State> states_;
  std::vector<std::optional<Output>> outputs_;
};

}  // namespace troupe::samplers::testing
