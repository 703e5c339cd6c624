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

/// The diffusion transformer of Peebles & Xie 2023 (arXiv:2212.09748), with
/// the arithmetic of diffusers' DiTTransformer2DModel (model-specific eps and
/// timestep frequencies differ from the authors' own code).
///
/// The residual stream is f32; matrix products run in `compute`.
/// Boundary: one tensor "hidden_states" [N, D] f32 per row.
/// Latents may be squares of any size; positions then lie between those of the
/// size it was trained with, as in diffusers' PatchEmbed.
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

  /// Tables of positions by the grid's height and width: one of each shape
  /// that was asked for.
  struct Positions {
    std::mutex mutex;
    std::map<std::pair<std::int64_t, std::int64_t>, Tensor> tables;
  };

  /// The one shape of all rows. Errors (all): Errc::shape_mismatch.
  [[nodiscard]] Shape checked_latents(std::span<const Tensor> latents) const;
  [[nodiscard]] Shape checked_outputs(std::span<const Tensor> outputs,
                                      std::int64_t tokens) const;
  [[nodiscard]] std::vector<Tensor> checked_boundaries(
      std::span<const Boundary> boundaries) const;
  /// [N, D] f32 on ctx's device.
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
  /// The block's part of the modulation begins at `column`.
  void run_block(ExecContext& ctx, int index, std::int64_t column,
                 Activations& act, kernels::ResidualStream& stream) const;
  /// `modulation`: a table up to the output's part.
  void finish_rows(ExecContext& ctx, const Tensor& modulation,
                   const Tensor& hidden_states, Tensor& images) const;

  DitConfig config_;
  DType compute_;
  DitWeights weights_;
  DenoiserInfo info_;
  std::unique_ptr<Positions> positions_ = std::make_unique<Positions>();
  /// Whose recordings they are: see ExecContext::replay.
  std::shared_ptr<const int> identity_ = std::make_shared<const int>(0);
};

}  // namespace troupe::models
