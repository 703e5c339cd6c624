#pragma once

#include <string>
#include <vector>

#include "samplers/parallel/method.h"
#include "samplers/parallel/task_book.h"

namespace troupe::samplers {

/// Picard iteration over a sliding window [begin, end) of points. A round
/// evaluates the network at every point whose value changed, then one sweep
/// (samplers/parallel/sweep.h) corrects the window from left to right. The
/// whole round may be issued ahead; the next one waits for all results of this
/// one.
///
/// Points pass from `begin` + 1 on while rms(residual) ≤ tolerance · scale
/// (tolerance 0: while their bytes did not change). The first point that fails
/// decides where the window begins next:
/// - Accept::first_failing: it becomes `begin` with its new value, which was
///   computed from inputs that all passed. It may just have moved by any
///   amount. The scale is Schedule::residual_scale.
/// - Accept::settled: the last three points that passed stay in the window, so
///   what is final has neighbours that hardly move. But `begin` advances at
///   least to the first point whose bytes changed: its inputs did not change.
///   The scale is `settled_scale` (samplers/parallel/sweep.h).
/// Under both, a window of which all points pass is final as a whole.
/// Tolerance 0 is bit-equal to sequential and takes one round per model call.
/// Source: first_failing is Shih et al. 2023, arXiv:2305.16317, in the carry
/// form, which unlike base + cumulative sum becomes bit-equal; settled is ours.
class Picard final : public BookedMethod {
 public:
  Picard(const MethodOptions& options, int num_calls);

  [[nodiscard]] std::vector<Task> ready(int max_open) override;
  [[nodiscard]] bool done() const override { return begin_ == num_calls_; }
  [[nodiscard]] Progress progress() const override;
  [[nodiscard]] Slot result_slot() const override;
  [[nodiscard]] std::string snapshot() const override;
  void restore(const std::string& bytes) override;

 private:
  /// One point of the chain: its latest value, and the network's output there
  /// (kNoSlot: not evaluated since the value changed).
  struct Point {
    Slot state;
    Slot output;
  };
  static constexpr Slot kNoSlot = ~Slot{0};

  [[nodiscard]] Point& point(int index);
  void advance(const Task& done, const std::vector<double>& scalars) override;
  void issue_round();
  void add_sweep();
  void accept(const Task& sweep, const std::vector<double>& scalars);
  [[nodiscard]] int next_begin(const Task& sweep,
                               const std::vector<double>& scalars) const;
  void release_output(Point& point);

  int num_calls_;
  int window_size_;
  double tolerance_;
  int held_back_;  ///< passing points that stay in the window
  int begin_ = 0;
  int end_;
  std::vector<Point> points_;     ///< of begin_ … end_, both included
  std::uint64_t sweep_ = 0;       ///< id of the newest; 0: none
  std::int64_t evaluations_ = 0;  ///< issued
  std::int64_t rounds_ = 0;
};

}  // namespace troupe::samplers
