#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "samplers/parallel/method.h"
#include "tests/parallel/run_local.h"

namespace troupe::samplers::testing {

/// A cheap nonlinear network of `num_segments` layers. Neighbouring elements
/// mix, so nothing is element-wise; only +, ·, / and |x| are used, so its bits
/// are the same everywhere. Rows are independent. With `learns_variance` the
/// output has as many channels again, which lie in [−1, 1] and are not guided.
class ToyEvaluator : public Evaluator {
 public:
  explicit ToyEvaluator(Shape shape = Shape{1, 3, 5}, int num_segments = 3,
                        bool learns_variance = false);

  [[nodiscard]] Shape latent_shape() const override { return shape_; }
  [[nodiscard]] std::int64_t out_channels() const override {
    return (learns_variance_ ? 2 : 1) * shape_[0];
  }
  void evaluate(ExecContext& ctx, std::span<EvaluateRow> rows) override;
  /// Its first layer decides; without skips.
  void evaluate_cached(ExecContext& ctx, std::span<CachedRow> rows) override;
  void combine(ExecContext& ctx, double timestep, const Tensor& cond,
               const Tensor& uncond, Tensor& out) override;
  [[nodiscard]] int num_segments() const override { return num_segments_; }
  void run_segment(ExecContext& ctx, int segment,
                   std::span<SegmentRow> rows) override;
  void decode(ExecContext& ctx, const Tensor& latents, Tensor& pixels) override;

  /// How strongly the output depends on the latents; per sample, default 1.
  std::map<std::uint64_t, float> strength;
  /// Layers of the first half also feed the second half, mirrored: the last of
  /// the first half feeds the first of the second. `skip_weight` scales the
  /// added input.
  float skip_weight = 0;

  /// Rows seen so far.
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t segment_rows() const { return segment_rows_; }
  [[nodiscard]] std::int64_t forwards() const { return forwards_; }
  /// How often the most repeated row was evaluated: same sample, timestep,
  /// branch and bytes of latents.
  [[nodiscard]] int largest_repeat() const;

 private:
  [[nodiscard]] Tensor layer(int segment, std::uint64_t sample_index,
                             Branch branch, double timestep,
                             const Tensor& hidden) const;
  [[nodiscard]] Tensor with_skip(const Tensor& hidden,
                                 const Tensor& skip) const;
  [[nodiscard]] Tensor output_of(const Tensor& hidden) const;
  [[nodiscard]] Tensor forward(const EvaluateRow& row, Branch branch) const;
  void note(const EvaluateRow& row);

  Shape shape_;
  int num_segments_;
  bool learns_variance_;
  std::atomic<std::int64_t> rows_{0};
  std::atomic<std::int64_t> segment_rows_{0};
  std::atomic<std::int64_t> forwards_{0};
  std::map<std::string, int> seen_;
};

/// Noise from a hash of (seed, sample, call, element); unit variance. So are
/// the points of the trajectory, unless some are given.
class ToyNoise : public NoiseSource {
 public:
  explicit ToyNoise(std::uint64_t seed = 1) : seed_(seed) {}
  void initial(std::uint64_t sample_index, Tensor& out) override;
  void step(std::uint64_t sample_index, int call, Tensor& out) override;
  double uniform(std::uint64_t sample_index, int call) override;
  void guess(std::uint64_t sample_index, int point, Tensor& out) override;

  std::vector<Tensor> trajectory;  ///< of every sample

 private:
  std::uint64_t seed_;
};

/// A solver with the options that make it interesting, by name.
struct SolverCase {
  std::string name;
  ScheduleOptions options;
};
/// Every solver with every option that changes how it steps.
[[nodiscard]] std::vector<SolverCase> solver_cases(int num_inference_steps);
/// Whether it is a DPM-Solver that cannot end at sigma 0.
[[nodiscard]] bool predicts_noise(const ScheduleOptions& options);

/// Everything one run needs besides the method.
struct Bench {
  explicit Bench(const ScheduleOptions& options, Shape shape = Shape{1, 3, 5},
                 int num_segments = 3)
      : schedule(options),
        evaluator(shape, num_segments, learns_variance(options)) {}

  [[nodiscard]] SolverState start(std::uint64_t sample_index);
  [[nodiscard]] SolverState run(const MethodOptions& options,
                                std::uint64_t sample_index = 0);
  [[nodiscard]] SolverState run(Method& method, const MethodOptions& options,
                                std::uint64_t sample_index = 0);
  [[nodiscard]] int calls() const { return schedule.num_model_calls(); }

  Schedule schedule;
  ToyEvaluator evaluator;
  ToyNoise noise;
  ExecContext ctx;
};

/// Latents after every call of a method over `network`, by the call that comes
/// next.
[[nodiscard]] std::map<int, Tensor> points_of(Bench& bench, Evaluator& network,
                                              const MethodOptions& options);

[[nodiscard]] ScheduleOptions steps(int num_inference_steps,
                                    Solver solver = Solver::ddim);
/// DDIM with as many steps; of a method that needs noise in them, with η = 1.
[[nodiscard]] ScheduleOptions steps_for(const MethodOptions& options,
                                        int num_inference_steps);
/// A Picard method with its other options at their defaults.
[[nodiscard]] MethodOptions picard(
    int window, double tolerance = 0,
    InitialGuess guess = InitialGuess::last_point);
/// One of every kind of method, with the options that make it interesting.
[[nodiscard]] std::vector<MethodOptions> method_cases();
/// Whether the method takes the schedule's solver.
[[nodiscard]] bool can_carry(const MethodOptions& options,
                             const Schedule& schedule);
[[nodiscard]] double rmse(const Tensor& a, const Tensor& b);

}  // namespace troupe::samplers::testing
