#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "kernels/residual_stream.h"
#include "models/denoiser.h"
#include "models/dit_config.h"
#include "models/dit_modulation.h"
#include "models/dit_weights.h"
#include "models/segment.h"

namespace troupe::models {

/// The diffusion transformer of Peebles & Xie 2023 (arXiv:2212.09748), with the
/// arithmetic of diffusers' DiTTransformer2DModel. (The authors' own code has
/// another eps and other timestep frequencies.)
///
/// The residual stream is f32; matrix products run in `compute`.
/// Boundary: one tensor "hidden_states" [N, D] f32 per row. Latents may be
/// squares of any size in whole patches. Positions are scaled to the range of
/// the size it was trained with, as in diffusers' PatchEmbed.
class Dit final : public Denoiser {
 public:
  /// Loads the weights of `segment`. Errors: Errc::invalid_argument for blocks
  /// that do not exist; as load_dit_weights.
  Dit(ExecContext& ctx, const DitConfig& config, SegmentRange segment,
      DType compute, WeightSource& source,
      WeightPlacement placement = WeightPlacement::resident);

  [[nodiscard]] const DitConfig& config() const noexcept { return config_; }
  [[nodiscard]] const DenoiserInfo& info() const override { return info_; }
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
  struct Activations;

  /// Position tables that were asked for so far, by height and width of the
  /// grid.
  struct Positions {
    std::mutex mutex;
    std::map<std::pair<std::int64_t, std::int64_t>, Tensor> tables;
  };

  /// These three throw Errc::shape_mismatch. The first two return the one shape
  /// of all rows, the third the hidden state [N, D] of each row.
  [[nodiscard]] Shape checked_latents(std::span<const Tensor> latents) const;
  [[nodiscard]] Shape checked_outputs(std::span<const Tensor> outputs,
                                      std::int64_t tokens) const;
  [[nodiscard]] std::vector<Tensor> checked_boundaries(
      std::span<const Boundary> boundaries) const;
  /// The position table [N, D] f32 for latents of this shape, on ctx's device.
  [[nodiscard]] Tensor positions_of(ExecContext& ctx,
                                    const Shape& latents) const;
  [[nodiscard]] static std::int64_t rows_at_once(ExecContext& ctx,
                                                 std::int64_t tokens);
  [[nodiscard]] Tensor take_hidden_states(ExecContext& ctx, std::size_t rows,
                                          std::int64_t tokens) const;
  [[nodiscard]] static Tensor take_images(ExecContext& ctx, std::size_t rows,
                                          const Shape& image);
  void embed_rows(ExecContext& ctx, const Tensor& latents,
                  const Tensor& positions, Tensor& hidden_states) const;
  /// ExecContext::replay; but with offloaded weights it calls fn each time.
  void replay(ExecContext& ctx, std::span<const std::uint64_t> key,
              const std::function<void()>& fn) const;
  /// Errors: Errc::invalid_argument for blocks this instance does not hold.
  void check_owned(int begin, int end) const;
  [[nodiscard]] DitModulation modulation() const {
    return {config_, weights_, compute_};
  }
  /// The rows' modulation [B, W]: a table of parts [begin, end), in the
  /// workspace.
  [[nodiscard]] Tensor modulation_of(ExecContext& ctx, const Batch& batch,
                                     int begin, int end) const;
  /// Runs blocks [begin, end) on hidden_states [B, N, D]. `modulation` is a
  /// table whose first part is `begin`.
  void run_rows(ExecContext& ctx, const Tensor& modulation, int begin, int end,
                Tensor& hidden_states) const;
  /// `column`: where the block's part of the modulation begins.
  void run_block(ExecContext& ctx, int index, std::int64_t column,
                 Activations& act, kernels::ResidualStream& stream) const;
  /// `modulation`: a table whose last part is that of the output layers.
  void finish_rows(ExecContext& ctx, const Tensor& modulation,
                   const Tensor& hidden_states, Tensor& images) const;

  DitConfig config_;
  DType compute_;
  DitWeights weights_;
  DenoiserInfo info_;
  std::unique_ptr<Positions> positions_ = std::make_unique<Positions>();
  /// The owner in ExecContext::replay.
  std::shared_ptr<const int> identity_ = std::make_shared<const int>(0);
};

}  // namespace troupe::models
