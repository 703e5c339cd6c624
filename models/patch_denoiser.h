#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/linear.h"
#include "models/denoiser.h"
#include "models/patch_grid.h"
#include "models/segment.h"

namespace troupe::models {

/// A transformer over the patches of an image: what DiT and PixArt have in
/// common around their blocks. Each row of a batch is one sequence of tokens.
///
/// The residual stream is f32; matrix products run in `compute`.
/// Boundary: one tensor "hidden_states" [N, D] f32 per row. Positions are
/// scaled to the range of the size it was trained with, as in diffusers'
/// PatchEmbed. Rows are computed in groups (`rows_at_once`).
class PatchDenoiser : public Denoiser {
 public:
  [[nodiscard]] const DenoiserInfo& info() const override { return info_; }
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

 protected:
  struct Layout {
    std::string place;  ///< in error messages
    PatchGrid grid;
    std::int64_t width = 0;
    std::int64_t num_layers = 0;
    double interpolation = 1.0;  ///< of positions
    SegmentRange segment;
    DType compute = DType::f32;
  };
  /// Numbers that name work for ExecContext::replay.
  using ReplayKey = std::vector<std::uint64_t>;
  [[nodiscard]] static std::uint64_t address_of(const Tensor& tensor);

  explicit PatchDenoiser(Layout layout) : layout_(std::move(layout)) {}

  [[nodiscard]] DType compute() const noexcept { return layout_.compute; }
  [[nodiscard]] SegmentRange segment() const noexcept {
    return layout_.segment;
  }
  /// To be called by the constructor, with weights loaded. Positions are
  /// counted where there is an embedding.
  void set_info(ExecContext& ctx, DenoiserInfo info);

  [[nodiscard]] virtual const kernels::PackedLinear& patch_layer() const = 0;
  [[nodiscard]] virtual const kernels::PackedLinear& output_layer() const = 0;
  /// Whether every weight stays at its address.
  [[nodiscard]] virtual bool is_recordable() const = 0;
  /// Appends addresses that `run_rows` reads beside weights and its arguments.
  virtual void append_operands(ExecContext& /*ctx*/, const Batch& /*rows*/,
                               ReplayKey& /*key*/) const {}
  /// The rows' modulation [B, W]: a table of parts [begin, end), in the
  /// workspace. Part num_layers is that of the output layers; it comes last,
  /// and its last 2D columns are shift and scale.
  [[nodiscard]] virtual Tensor modulation_of(ExecContext& ctx,
                                             const Batch& rows, int begin,
                                             int end) const = 0;
  /// Runs blocks [begin, end) on hidden_states [B, N, D]. `modulation` is a
  /// table whose first part is `begin`.
  virtual void run_rows(ExecContext& ctx, const Batch& rows,
                        const Tensor& modulation, int begin, int end,
                        Tensor& hidden_states) const = 0;

 private:
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
  [[nodiscard]] Tensor take_hidden_states(ExecContext& ctx, std::size_t rows,
                                          std::int64_t tokens) const;
  [[nodiscard]] static Tensor take_images(ExecContext& ctx, std::size_t rows,
                                          const Shape& image);
  /// ExecContext::replay of blocks [begin, end) on `operands`; with offloaded
  /// weights, fn is called each time.
  void replay(ExecContext& ctx, const Batch& rows, int begin, int end,
              const Tensor& hidden_states,
              std::initializer_list<Tensor> operands,
              const std::function<void()>& fn) const;
  void embed_rows(ExecContext& ctx, const Tensor& latents,
                  const Tensor& positions, Tensor& hidden_states) const;
  /// `modulation`: a table whose last part is that of the output layers.
  void finish_rows(ExecContext& ctx, const Tensor& modulation,
                   const Tensor& hidden_states, Tensor& images) const;

  Layout layout_;
  DenoiserInfo info_;
  std::unique_ptr<Positions> positions_ = std::make_unique<Positions>();
  /// The owner in ExecContext::replay.
  std::shared_ptr<const int> identity_ = std::make_shared<const int>(0);
};

}  // namespace troupe::models
