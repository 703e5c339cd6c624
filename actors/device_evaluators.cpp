#include "actors/device_evaluators.h"

#include "kernels/core/error.h"

namespace troupe::actors {

void DeviceEvaluators::add(Device device,
                           std::unique_ptr<samplers::Evaluator> evaluator) {
  evaluators_[{device.kind, device.index}] = std::move(evaluator);
}

samplers::Evaluator& DeviceEvaluators::of(Device device) const {
  const auto found = evaluators_.find({device.kind, device.index});
  if (found == evaluators_.end()) {
    throw Error(Errc::internal, to_string(device),
                "the model was not loaded there");
  }
  return *found->second;
}

samplers::Evaluator& DeviceEvaluators::any() const {
  require(!evaluators_.empty(), Errc::internal, "evaluator",
          "the model was loaded nowhere");
  return *evaluators_.begin()->second;
}

Shape DeviceEvaluators::latent_shape() const { return any().latent_shape(); }

std::int64_t DeviceEvaluators::out_channels() const {
  return any().out_channels();
}

int DeviceEvaluators::num_segments() const { return any().num_segments(); }

std::uint64_t DeviceEvaluators::ticks_per_row() const {
  return any().ticks_per_row();
}

void DeviceEvaluators::evaluate(ExecContext& ctx,
                                std::span<samplers::EvaluateRow> rows) {
  of(ctx.device()).evaluate(ctx, rows);
}

void DeviceEvaluators::combine(ExecContext& ctx, const Tensor& cond,
                               const Tensor& uncond, Tensor& out) {
  of(ctx.device()).combine(ctx, cond, uncond, out);
}

void DeviceEvaluators::run_segment(ExecContext& ctx, int segment,
                                   std::span<samplers::SegmentRow> rows) {
  of(ctx.device()).run_segment(ctx, segment, rows);
}

std::string DeviceEvaluators::first_non_finite(
    ExecContext& ctx, const samplers::EvaluateRow& row) {
  return of(ctx.device()).first_non_finite(ctx, row);
}

void DeviceEvaluators::decode(ExecContext& ctx, const Tensor& latents,
                              Tensor& pixels) {
  of(ctx.device()).decode(ctx, latents, pixels);
}

}  // namespace troupe::actors
