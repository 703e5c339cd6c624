#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/core/context.h"
#include "models/condition.h"
#include "models/denoiser.h"
#include "models/unet_config.h"
#include "models/unet_layout.h"
#include "models/unet_weights.h"

namespace troupe::models {

/// Checks that the condition is "prompt_embeds" [L, cross_attention_dim] with 1
/// to 4096 tokens, f32, bf16 or f16; and of SDXL also "pooled" [pooled_width]
/// of such a type and "size_ids" [6] f32. Nothing else.
/// Errors: Errc::invalid_argument with the tensor's name.
void check_unet_condition(const UNetConfig& config, const Condition& condition);

/// A prompt made ready for a segment of the network. Immutable. Thread: any.
class UNetCondition final : public PreparedCondition {
 public:
  /// added: [1, 1, time_embed_dim] f32, or empty. timesteps: ascending; shifts:
  /// [T, W] f32, one row for each. key_values: of each transformer block
  /// [1, tokens, 2C] in the compute type.
  UNetCondition(SegmentRange segment, Tensor added,
                std::vector<double> timesteps, Tensor shifts,
                std::vector<Tensor> key_values);

  [[nodiscard]] SegmentRange segment() const noexcept { return segment_; }
  /// What the condition adds to the timestep's embedding.
  [[nodiscard]] const Tensor& added() const noexcept { return added_; }
  /// The shifts' row [W], or an empty tensor if the timestep was not announced.
  [[nodiscard]] Tensor find(double timestep) const;
  [[nodiscard]] const std::vector<Tensor>& key_values() const noexcept {
    return key_values_;
  }
  [[nodiscard]] std::size_t num_bytes() const override;

 private:
  SegmentRange segment_;
  Tensor added_;
  std::vector<double> timesteps_;
  Tensor shifts_;
  std::vector<Tensor> key_values_;
};

/// What of a UNet depends on the condition or the timestep alone: it is
/// computed once, not at every step. The prompt's keys and values of every
/// transformer block, and for each timestep what residual blocks add to their
/// channels ("shifts", the C columns of one block behind those of another).
/// Thread: any, one ctx per thread.
class UNetConditioner {
 public:
  /// Keeps references.
  UNetConditioner(const UNetConfig& config, const UNetLayout& layout,
                  const UNetWeights& weights, DType compute)
      : config_(config),
        layout_(layout),
        weights_(weights),
        compute_(compute) {}

  /// Columns of the shifts of units [begin, end).
  [[nodiscard]] static std::int64_t shift_width(const UNetLayout& layout,
                                                SegmentRange units);

  /// Errors: as check_unet_condition.
  [[nodiscard]] PreparedPtr prepare(ExecContext& ctx,
                                    const Condition& condition,
                                    std::span<const double> timesteps) const;

  /// The conditions of a batch. They live until the queue has read them.
  /// Errors: Errc::invalid_argument for a condition that another network or
  /// another segment prepared.
  [[nodiscard]] std::vector<const UNetCondition*> conditions_of(
      ExecContext& ctx, const Batch& batch) const;

  /// The shifts [B, W] f32 of the batch's rows, in the workspace. Shifts of
  /// prepared timesteps are looked up in the condition, other shifts are
  /// computed; the bits are the same.
  [[nodiscard]] Tensor shifts_of(
      ExecContext& ctx, const Batch& batch,
      std::span<const UNetCondition* const> conditions) const;

 private:
  /// [1, 1, time_embed_dim] f32; empty where there is no add_embedding.
  [[nodiscard]] Tensor added_embedding(ExecContext& ctx,
                                       const Condition& condition) const;
  /// shifts: [T, W], a row for each timestep.
  void fill_shifts(ExecContext& ctx, const Tensor& added,
                   std::span<const double> timesteps, Tensor& shifts) const;

  const UNetConfig& config_;
  const UNetLayout& layout_;
  const UNetWeights& weights_;
  DType compute_;
};

}  // namespace troupe::models
