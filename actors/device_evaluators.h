#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "kernels/core/device.h"
#include "samplers/evaluator.h"

namespace troupe::actors {

/// One evaluator per device, as one: a call goes to that of its context, whose
/// weights lie in that device's memory. All describe the same network.
/// Thread: any, once every device has been added.
class DeviceEvaluators final : public samplers::Evaluator {
 public:
  void add(Device device, std::unique_ptr<samplers::Evaluator> evaluator);

  [[nodiscard]] Shape latent_shape() const override;
  [[nodiscard]] std::int64_t out_channels() const override;
  void evaluate(ExecContext& ctx,
                std::span<samplers::EvaluateRow> rows) override;
  void combine(ExecContext& ctx, const Tensor& cond, const Tensor& uncond,
               Tensor& out) override;
  [[nodiscard]] int num_segments() const override;
  void run_segment(ExecContext& ctx, int segment,
                   std::span<samplers::SegmentRow> rows) override;
  [[nodiscard]] std::uint64_t ticks_per_row() const override;
  [[nodiscard]] std::string first_non_finite(
      ExecContext& ctx, const samplers::EvaluateRow& row) override;
  void decode(ExecContext& ctx, const Tensor& latents, Tensor& pixels) override;

 private:
  /// Errors: Errc::internal for a device that was not added.
  [[nodiscard]] samplers::Evaluator& of(Device device) const;
  [[nodiscard]] samplers::Evaluator& any() const;

  std::map<std::pair<DeviceKind, int>, std::unique_ptr<samplers::Evaluator>>
      evaluators_;
};

}  // namespace troupe::actors
