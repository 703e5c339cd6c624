#pragma once

#include <array>
#include <span>

#include "kernels/copy.h"
#include "kernels/elementwise.h"
#include "samplers/evaluator.h"

namespace troupe::actors {

/// A network of scalings and sums, which have the same bits on every device.
class Scaling : public samplers::Evaluator {
 public:
  explicit Scaling(int num_segments) : num_segments_(num_segments) {}

  [[nodiscard]] Shape latent_shape() const override { return {3, 5, 7}; }
  [[nodiscard]] std::int64_t out_channels() const override { return 3; }
  [[nodiscard]] int num_segments() const override { return num_segments_; }

  void evaluate(ExecContext& ctx,
                std::span<samplers::EvaluateRow> rows) override {
    for (samplers::EvaluateRow& row : rows) {
      const double weight =
          row.branch == samplers::Branch::uncond ? 0.4 : weight_of(row);
      stage(ctx, row.timestep, weight, row.latents, row.output);
      for (int s = 1; s < num_segments_; ++s) {
        stage(ctx, row.timestep, weight, row.output, row.output);
      }
    }
    ctx.tick(rows.size());
  }
  void combine(ExecContext& ctx, double /*timestep*/, const Tensor& cond,
               const Tensor& uncond, Tensor& out) override {
    const std::array terms{kernels::Term{1.5, &cond},
                           kernels::Term{-0.5, &uncond}};
    kernels::combine(ctx, terms, out);
  }
  void run_segment(ExecContext& ctx, int segment,
                   std::span<samplers::SegmentRow> rows) override {
    for (samplers::SegmentRow& row : rows) {
      const bool is_last = segment + 1 == num_segments_;
      const Tensor& from =
          segment == 0 ? row.latents : row.boundary.at(0).tensor;
      Tensor to = is_last ? row.output : ctx.empty(latent_shape(), DType::f32);
      stage(ctx, row.timestep, weight_of(row), from, to);
      ctx.keep(from);
      if (!is_last) {
        row.boundary = {{"x", to}};
      }
    }
    ctx.tick(rows.size());
  }
  void decode(ExecContext& ctx, const Tensor& latents,
              Tensor& pixels) override {
    pixels = kernels::clone(ctx, latents);
  }

 private:
  template <typename Row>
  static double weight_of(const Row& row) {
    return 0.5 + 0.01 * static_cast<double>(row.sample_index % 7);
  }
  static void stage(ExecContext& ctx, double timestep, double weight,
                    const Tensor& from, Tensor& to) {
    const std::array terms{kernels::Term{weight, &from},
                           kernels::Term{timestep * 1e-4, &from}};
    kernels::combine(ctx, terms, to);
  }

  int num_segments_;
};

}  // namespace troupe::actors
