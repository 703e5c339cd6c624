#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "models/denoiser.h"
#include "models/dit_config.h"
#include "models/dit_modulation.h"
#include "models/dit_weights.h"
#include "models/segment.h"

namespace troupe::models {

/// The diffusion transformer of Peebles & Xie 2023 (arXiv:2212.09748), with
/// the arithmetic of diffusers' DiTTransformer2DModel (model-specific eps and
/// timestep frequencies differ from the authors' own code).
///
/// The residual stream is f32; matrix products run in `compute`.
/// Boundary: one tensor "hidden_states" [N, D] f32 per row.
class Dit final : public Denoiser {
 public:
  /// Loads the weights of `segment`. Errors: Errc::invalid_argument for blocks
  /// that do not exist; as load_dit_weights.
  Dit(ExecContext& ctx, const DitConfig& config, SegmentRange segment,
      DType compute, WeightSource& source,
      WeightPlacement placement = WeightPlacement::resident);

  [[nodiscard]] const DitConfig& config() const noexcept { return config_; }
  [[nodiscard]] const DenoiserInfo& info() const override { return info_; }
  [[nodiscard]] PreparedPtr prepare(ExecContext& ctx,
                                    const Condition& condition) const override;
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

  /// Rows' latents side by side in the workspace, [B, C, H, W].
  [[nodiscard]] Tensor gather_latents(ExecContext& ctx,
                                      std::span<const Tensor> latents) const;
  [[nodiscard]] Tensor take_hidden_states(ExecContext& ctx,
                                          std::size_t rows) const;
  [[nodiscard]] Tensor take_images(ExecContext& ctx, std::size_t rows) const;
  void scatter_images(ExecContext& ctx, const Tensor& images,
                      std::span<Tensor> outputs) const;
  void embed_rows(ExecContext& ctx, const Tensor& latents,
                  Tensor& hidden_states) const;
  /// ExecContext::replay, unless weights come and go.
  void replay(ExecContext& ctx, std::span<const std::uint64_t> key,
              const std::function<void()>& fn) const;
  /// Errors: Errc::invalid_argument for blocks this instance does not hold.
  void check_owned(int begin, int end) const;
  [[nodiscard]] DitModulation modulation() const {
    return {config_, weights_, compute_};
  }
  /// The rows' modulation: a table of parts [begin, end), in the workspace.
  [[nodiscard]] Tensor modulation_of(ExecContext& ctx, const Batch& batch,
                                     int begin, int end) const;
  /// `modulation`: a table from part `begin` on.
  void run_rows(ExecContext& ctx, const Tensor& modulation, int begin, int end,
                Tensor& hidden_states) const;
  /// Takes its first norm's result in act.normed and, unless it is the last,
  /// leaves the next block's there: the residual is read once for both.
  /// Columns from `column` on: shift, scale, gate of attention, the same of the
  /// MLP, then what the next block has.
  void run_block(ExecContext& ctx, int index, const Tensor& modulation,
                 std::int64_t column, bool is_last, Activations& act,
                 Tensor& hidden_states) const;
  /// `modulation`: a table up to the output's part.
  void finish_rows(ExecContext& ctx, const Tensor& modulation,
                   const Tensor& hidden_states, Tensor& images) const;

  DitConfig config_;
  DType compute_;
  DitWeights weights_;
  DenoiserInfo info_;
  /// Whose recordings they are: see ExecContext::replay.
  std::shared_ptr<const int> identity_ = std::make_shared<const int>(0);
};

}  // namespace troupe::models
