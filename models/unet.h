#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/denoiser.h"
#include "models/segment.h"
#include "models/unet_conditioner.h"
#include "models/unet_config.h"
#include "models/unet_layout.h"
#include "models/unet_pass.h"
#include "models/unet_weights.h"

namespace troupe::models {

/// The UNet of Stable Diffusion 1.5, 2.1 and XL, with the arithmetic of
/// diffusers' UNet2DConditionModel.
///
/// A condition is what check_unet_condition says. Blocks are the units of
/// UNetLayout. A boundary holds the skips that exist there, "skip.0" and so on,
/// and "hidden" unless that is the newest of them itself; each is [H, W, C] in
/// the compute type. The oldest skips may be missing (see run_blocks), and the
/// batch tells the latents' sides. These may be any: an odd side is rounded up
/// where it is halved, and the way up goes back to the same sides, as in
/// diffusers. Rows are computed in groups. Source: Rombach et al. 2022,
/// arXiv:2112.10752; Podell et al. 2023, arXiv:2307.01952.
class UNet final : public Denoiser {
 public:
  /// Loads the weights of `segment`. Errors: Errc::invalid_argument for blocks
  /// that do not exist; as load_unet_weights.
  UNet(ExecContext& ctx, const UNetConfig& config, SegmentRange segment,
       DType compute, WeightSource& source);

  [[nodiscard]] const DenoiserInfo& info() const override { return info_; }
  /// Memory: 2C numbers in the compute type for each token of the prompt and
  /// each transformer block; `info().bytes_per_timestep` for each timestep.
  [[nodiscard]] PreparedPtr prepare(
      ExecContext& ctx, const Condition& condition,
      std::span<const double> timesteps = {}) const override;
  void predict(ExecContext& ctx, ShardContext& shard, const Batch& batch,
               std::span<Tensor> outputs) const override;
  void embed(ExecContext& ctx, ShardContext& shard, const Batch& batch,
             std::span<Boundary> boundaries) const override;
  void run_blocks(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                  int begin, int end,
                  std::span<Boundary> boundaries) const override;
  void finish(ExecContext& ctx, ShardContext& shard, const Batch& batch,
              std::span<const Boundary> boundaries,
              std::span<Tensor> outputs) const override;

 private:
  [[nodiscard]] UNetConditioner conditioner() const {
    return {config_, layout_, weights_, compute_};
  }
  /// These throw Errc::shape_mismatch. They return the one shape of all rows.
  [[nodiscard]] Shape checked_latents(std::span<const Tensor> latents) const;
  [[nodiscard]] Shape checked_outputs(std::span<const Tensor> outputs) const;
  void check_latent_shape(const Shape& shape) const;
  /// Boundaries at `cut`, for units from there to `end`, of latents of these
  /// sides. Returns the oldest skip that they hold.
  [[nodiscard]] int checked_boundaries(std::span<const Boundary> boundaries,
                                       int cut, int end,
                                       const UNetSides& sides) const;

  /// [B, C, H, W] f32 to [B, H, W, C'], in the workspace.
  [[nodiscard]] Tensor embed_rows(ExecContext& ctx,
                                  const Tensor& latents) const;
  void run_rows(ExecContext& ctx, const Batch& rows, int begin, int end,
                const UNetSides& sides, UNetState& state) const;
  /// `images`: [B, C, H, W] f32.
  void finish_rows(ExecContext& ctx, const Tensor& hidden,
                   Tensor& images) const;
  /// The state of rows that lies in their boundaries, in the workspace.
  [[nodiscard]] UNetState load_state(
      ExecContext& ctx, std::span<const Boundary> boundaries) const;
  /// The reverse, at `cut`, with the skips from `first_skip` on. Tensors of the
  /// right shape are written in place.
  void store_state(ExecContext& ctx, const UNetState& state, int cut,
                   int first_skip, std::span<Boundary> boundaries) const;

  UNetConfig config_;
  UNetLayout layout_;
  SegmentRange segment_;
  DType compute_;
  UNetWeights weights_;
  DenoiserInfo info_;
};

/// Rows that are computed together: many small pictures or one large one.
[[nodiscard]] std::int64_t unet_rows_at_once(std::int64_t pixels,
                                             DeviceKind kind) noexcept;

}  // namespace troupe::models
