#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "kernels/core/device.h"
#include "kernels/core/error.h"
#include "samplers/evaluator.h"

namespace troupe::actors {

/// One evaluator per device, as one: a call goes to that of its context, whose
/// weights lie in that device's memory. All describe the same network.
/// Thread: any, once every device has been added.
class DeviceEvaluators final : public samplers::Evaluator {
 public:
  void add(Device device, std::unique_ptr<samplers::Evaluator> evaluator) {
    evaluators_[{device.kind, device.index}] = std::move(evaluator);
  }

  [[nodiscard]] Shape latent_shape() const override {
    return any().latent_shape();
  }
  [[nodiscard]] std::int64_t out_channels() const override {
    return any().out_channels();
  }
  void evaluate(ExecContext& ctx,
                std::span<samplers::EvaluateRow> rows) override {
    of(ctx).evaluate(ctx, rows);
  }
  void combine(ExecContext& ctx, const Tensor& cond, const Tensor& uncond,
               Tensor& out) override {
    of(ctx).combine(ctx, cond, uncond, out);
  }
  [[nodiscard]] int num_segments() const override {
    return any().num_segments();
  }
  void run_segment(ExecContext& ctx, int segment,
                   std::span<samplers::SegmentRow> rows) override {
    of(ctx).run_segment(ctx, segment, rows);
  }
  [[nodiscard]] std::uint64_t ticks_per_row() const override {
    return any().ticks_per_row();
  }
  [[nodiscard]] std::string first_non_finite(
      ExecContext& ctx, const samplers::EvaluateRow& row) override {
    return of(ctx).first_non_finite(ctx, row);
  }
  void decode(ExecContext& ctx, const Tensor& latents,
              Tensor& pixels) override {
    of(ctx).decode(ctx, latents, pixels);
  }

 private:
  /// Errors: Errc::internal for a device that was not added.
  [[nodiscard]] samplers::Evaluator& of(const ExecContext& ctx) const {
    const Device device = ctx.device();
    const auto found = evaluators_.find({device.kind, device.index});
    require(found != evaluators_.end(), Errc::internal, to_string(device),
            "the model was not loaded there");
    return *found->second;
  }
  [[nodiscard]] samplers::Evaluator& any() const {
    require(!evaluators_.empty(), Errc::internal, "evaluator",
            "the model was loaded nowhere");
    return *evaluators_.begin()->second;
  }

  std::map<std::pair<DeviceKind, int>, std::unique_ptr<samplers::Evaluator>>
      evaluators_;
};

}  // namespace troupe::actors
