#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "samplers/options.h"
#include "samplers/parallel/anderson.h"
#include "samplers/parallel/method.h"
#include "samplers/parallel/task_book.h"
#include "samplers/schedule.h"

namespace troupe::samplers {

/// Coefficients of the sweep that leads on from a call: J, by the policy of
/// MethodOptions::carry, and the scale of its residual, by the accept rule
/// (README.md). J is 0 for call 0, where every round has the same state, and
/// for Carry::deviation where a step begins at SolverRow's anchor, which the
/// sweep has corrected already: with 1 no change of UniPC's latents ever fades.
[[nodiscard]] Coefficients sweep_coefficients(const MethodOptions& options,
                                              const Schedule& schedule,
                                              int call);

/// What a change at a point is compared with under Accept::settled:
/// Schedule::residual_scale, but at least a tenth of the deviation √(α² + σ²)
/// of the latents. What a step makes of a change differs from J times it by
/// about the share of the noise that the step removes. That share is small
/// where much noise is left, and there the scale is large, larger than what a
/// network's rounding moves: ε in bf16 differs by 0.0035 after any change of
/// its input, which over √8 steps is 0.005, and the scale is 0.57. The last
/// scales of a run fall towards 0, faster than what a change does there. Always
/// > 0. 1 ≤ point ≤ num_model_calls().
[[nodiscard]] double settled_scale(const Schedule& schedule, int point);

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
  Picard(const MethodOptions& options, const Schedule& schedule);

  [[nodiscard]] std::vector<Task> ready(int max_open) override;
  [[nodiscard]] std::string snapshot() const override;
  void restore(const std::string& bytes) override;

 private:
  /// No task writes the initial slot.
  static constexpr Slot kNoSlot = kInitialSlot;

  /// One point of the chain in one round.
  struct Point {
    Slot state = 0;         ///< its value when the round begins
    Slot output = kNoSlot;  ///< of the network there; none at the window's end
    Slot cache = kNoSlot;   ///< that the evaluation left, if it left one
    std::uint64_t evaluation =
        0;                    ///< task that makes it in this round; 0: none
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
    std::vector<Point> points =
        {};  ///< from begin on, as far as they are known
    std::vector<Slot> guesses = {};  ///< of points after end
    int num_swept = 0;               ///< points whose results are taken
    int next_begin = 0;              ///< of the round after it; 0: not known

    [[nodiscard]] Point& at(int index) {
      return points.at(static_cast<std::size_t>(index - begin));
    }
  };

  /// The sweep of its last point reads its first point, too, for the guesses.
  [[nodiscard]] bool draws_line(const Round& round) const;
  // Tasks.
  void enter(Round& round, Slot state, Slot output = kNoSlot,
             Slot cache = kNoSlot, std::vector<Iterate> older = {});
  void evaluate(Round& round, int index);
  void add_sweep(Round& round, int index);
  [[nodiscard]] std::vector<Slot> add_guesses(int from, Slot state, int count);
  void compare(Round& round, int index);
  [[nodiscard]] Slot mix(Round& round, int index);
  // Results.
  [[nodiscard]] Point& point_of(std::uint64_t Point::*task, std::uint64_t id);
  void advance(const Task& done, const std::vector<double>& scalars) override;
  [[nodiscard]] std::vector<Slot> kept_slots() const override;
  [[nodiscard]] std::int64_t num_missing() const override;
  void note_change(Point& point, const Task& sweep,
                   const std::vector<double>& scalars) const;
  [[nodiscard]] bool take_change(std::size_t r);
  void begin_next(std::size_t r, int begin);
  void pass_on(std::size_t r, int index);
  void end_sweep(std::size_t r);

  [[nodiscard]] bool is_whole(const Round& round) const;
  /// Writes or reads it all.
  template <typename Bytes, typename Self>
  static void transfer(Bytes& bytes, Self& self);

  MethodOptions options_;
  std::size_t memory_;  ///< iterates of a point that are mixed; 1: none
  std::vector<Coefficients> coefficients_;  ///< of the sweep from each call
  std::deque<Round> rounds_;                ///< under way; the oldest first
};

}  // namespace troupe::samplers
