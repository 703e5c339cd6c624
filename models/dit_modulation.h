#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/core/context.h"
#include "models/denoiser.h"
#include "models/dit_config.h"
#include "models/dit_weights.h"

namespace troupe::models {

/// What a DiT reads of (timestep, class): shift, scale and gate of every block
/// and shift and scale of the output layers. The weights that make it are a
/// third of the network's, but see one row per pass where all others see
/// hundreds of tokens; so a job's timesteps are best done together, once.
///
/// A table row holds consecutive parts side by side: 6D columns (shift, scale,
/// gate of attention, then of the MLP) per block, 2D (shift, scale) of the
/// output layers. Parts are numbered as blocks; part `num_layers` is the
/// output's, and of a segment only if it owns the last block.
/// Source: Peebles & Xie 2023, arXiv:2212.09748 (adaLN-zero).
/// Thread: any, one ctx per thread.
class DitModulation {
 public:
  /// Keeps references to both.
  DitModulation(const DitConfig& config, const DitWeights& weights,
                DType compute)
      : config_(config), weights_(weights), compute_(compute) {}

  /// Columns of a table of parts [begin, end).
  [[nodiscard]] std::int64_t width(int begin, int end) const;
  /// Of all parts of the segment: what a condition remembers per timestep.
  [[nodiscard]] std::int64_t width() const;

  /// A condition that remembers its table for these timesteps.
  /// Errors: Errc::invalid_argument for a class outside [0, num_classes].
  [[nodiscard]] PreparedPtr prepare(ExecContext& ctx,
                                    const Condition& condition,
                                    std::span<const double> timesteps) const;

  /// Fills `table` [B, width(begin, end)] f32 for the batch's timesteps and
  /// conditions: remembered rows are copied, the others computed. The bits are
  /// the same.
  /// Errors: Errc::invalid_argument for a condition of another network.
  void fill(ExecContext& ctx, const Batch& batch, int begin, int end,
            Tensor& table) const;

 private:
  struct Row {
    double timestep;
    std::int64_t class_label;
    Tensor target;  // row [W] of a table
  };
  struct Embedding;
  /// Behind the segment's last part.
  [[nodiscard]] int end() const;
  void compute(ExecContext& ctx, std::span<const Row> rows, int begin,
               int end) const;
  void embed(ExecContext& ctx, std::span<const Row> rows,
             const DitEmbedder& embedder, Embedding& embedding) const;

  const DitConfig& config_;
  const DitWeights& weights_;
  DType compute_;
};

}  // namespace troupe::models
