#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/core/error.h"
#include "samplers/evaluator.h"
#include "samplers/options.h"

namespace troupe::actors {

/// Options of a schedule with so many DDIM steps.
inline samplers::ScheduleOptions ddim_steps(int steps) {
  samplers::ScheduleOptions options;
  options.num_inference_steps = steps;
  return options;
}

/// A network of four element-wise stages with two guidance branches, cut into
/// segments; fast, and as sensitive to order and mix-ups as a real one. A skip
/// carries the tag of the segment that made it. The mirror segment refuses
/// skips with a different tag.
class ToyEvaluator final : public samplers::Evaluator {
 public:
  explicit ToyEvaluator(int num_segments = 1) : num_segments_(num_segments) {}

  /// This sample's output is NaN from this timestep down.
  std::optional<std::uint64_t> nan_sample;
  /// Called before each forward, for faults and delays.
  std::function<void(ExecContext&)> before_forward;
  std::atomic<int> most_rows{0};

  [[nodiscard]] Shape latent_shape() const override { return {3, 4, 4}; }
  [[nodiscard]] std::int64_t out_channels() const override { return 3; }
  [[nodiscard]] int num_segments() const override { return num_segments_; }

  void evaluate(ExecContext& ctx,
                std::span<samplers::EvaluateRow> rows) override {
    begin(ctx, rows.size());
    for (samplers::EvaluateRow& row : rows) {
      evaluate_row(ctx, row);
    }
  }

  /// A cache holds the latents and the output of its evaluation. This output is
  /// taken again where the latents are near to those of the cache.
  void evaluate_cached(ExecContext& ctx,
                       std::span<samplers::CachedRow> rows) override {
    begin(ctx, rows.size());
    for (samplers::CachedRow& row : rows) {
      double difference = 0;
      double norm = 0;
      for (std::int64_t i = 0;
           !row.cache.empty() && i < row.latents.num_elements(); ++i) {
        const double x = row.latents.data<float>()[i];
        const double y = row.cache[0].tensor.data<float>()[i];
        difference += (x - y) * (x - y);
        norm += y * y;
      }
      row.is_reused = difference < row.threshold * row.threshold * norm;
      if (row.is_reused) {
        copy(row.cache[1].tensor, row.output);
        continue;
      }
      evaluate_row(ctx, row);
      row.cache = {{"latents", row.latents.clone()},
                   {"output", row.output.clone()}};
    }
  }

  void combine(ExecContext& /*ctx*/, double /*timestep*/, const Tensor& cond,
               const Tensor& uncond, Tensor& out) override {
    for (std::int64_t i = 0; i < out.num_elements(); ++i) {
      const float c = cond.data<float>()[i];
      const float u = uncond.data<float>()[i];
      out.data<float>()[i] = u + 1.5F * (c - u);
    }
  }

  void run_segment(ExecContext& ctx, int segment,
                   std::span<samplers::SegmentRow> rows) override {
    begin(ctx, rows.size());
    for (samplers::SegmentRow& row : rows) {
      if (segment == 0) {
        row.boundary = {{"cond", row.latents.clone()},
                        {"uncond", row.latents.clone()}};
      }
      const int first = segment * kStages / num_segments_;
      const int last = (segment + 1) * kStages / num_segments_;
      for (int stage = first; stage < last; ++stage) {
        run_stage(stage, row.sample_index, row.timestep, true,
                  row.boundary[0].tensor);
        run_stage(stage, row.sample_index, row.timestep, false,
                  row.boundary[1].tensor);
      }
      take_skips(segment, row);
      if (segment + 1 == num_segments_) {
        combine(ctx, row.timestep, row.boundary[0].tensor,
                row.boundary[1].tensor, row.output);
        spoil(row.sample_index, row.output);
      }
    }
  }

  void decode(ExecContext& /*ctx*/, const Tensor& latents,
              Tensor& pixels) override {
    pixels = latents.clone();
  }

 private:
  static constexpr int kStages = 4;

  void begin(ExecContext& ctx, std::size_t rows) {
    int seen = most_rows;
    while (seen < static_cast<int>(rows) &&
           !most_rows.compare_exchange_weak(seen, static_cast<int>(rows))) {
    }
    if (before_forward) {
      before_forward(ctx);
    }
    ctx.tick();
  }

  void evaluate_row(ExecContext& ctx, samplers::EvaluateRow& row) {
    Tensor cond = row.latents.clone();
    Tensor uncond = row.latents.clone();
    for (int stage = 0; stage < kStages; ++stage) {
      run_stage(stage, row.sample_index, row.timestep, true, cond);
      run_stage(stage, row.sample_index, row.timestep, false, uncond);
    }
    if (row.branch == samplers::Branch::guided) {
      combine(ctx, row.timestep, cond, uncond, row.output);
    } else {
      const bool is_cond = row.branch == samplers::Branch::cond;
      copy(is_cond ? cond : uncond, row.output);
    }
    spoil(row.sample_index, row.output);
  }

  void spoil(std::uint64_t sample_index, Tensor& output) const {
    if (nan_sample == sample_index) {
      output.data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
    }
  }

  void take_skips(int segment, samplers::SegmentRow& row) const {
    const int outer = std::min(segment, num_segments_ - 1 - segment);
    const auto tag =
        Tensor::from<float>(std::vector{static_cast<float>(row.sample_index),
                                        static_cast<float>(row.timestep),
                                        static_cast<float>(outer)},
                            Shape{3});
    const bool is_mirror = 2 * segment + 1 > num_segments_;
    if (!row.skips.empty()) {
      require(is_mirror && bytes_equal(row.skips.at(0).tensor, tag),
              Errc::internal, "toy", "got the skips of another segment");
    }
    row.skips = row.keeps_skips ? Boundary{{"skip", tag}} : Boundary();
  }

  static void copy(const Tensor& from, Tensor& to) {
    std::memcpy(to.bytes().data(), from.bytes().data(), from.num_bytes());
  }

  static void run_stage(int stage, std::uint64_t sample_index, double timestep,
                        bool is_cond, Tensor& x) {
    const float t = static_cast<float>(timestep) * 1e-3F;
    const float c =
        is_cond ? 0.1F * static_cast<float>(sample_index % 7) : 0.05F;
    float left = c;
    for (float& value : x.span<float>()) {
      const float bent = value / (1.0F + value * value);
      value = 0.7F * bent + 0.2F * left + t * 0.3F +
              0.01F * static_cast<float>(stage);
      left = value;
    }
  }

  int num_segments_;
};

}  // namespace troupe::actors
