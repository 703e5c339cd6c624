#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/core/context.h"
#include "models/denoiser.h"
#include "models/dit_config.h"
#include "models/dit_weights.h"

namespace troupe::models {

/// The part of a DiT that depends on (timestep, class) alone: shift, scale and
/// gate of every block, shift and scale of the output layers. It uses a third
/// of the network's weights, but for one vector per row where the other weights
/// see hundreds of tokens. So it is best computed once, for all timesteps of a
/// job.
///
/// A row of a table holds consecutive parts side by side: for each block 6D
/// columns (shift, scale, gate of attention, then of the MLP), for the output
/// layers 2D (shift, scale). Parts have the numbers of their blocks; the output
/// layers are part `num_layers`. A segment has that part if it has the last
/// block.
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
  /// Columns of all parts of the segment: what a condition holds per timestep.
  [[nodiscard]] std::int64_t width() const;

  /// Prepares a condition: computes its rows of the table for `timesteps`.
  /// Errors: Errc::invalid_argument for a class outside [0, num_classes].
  [[nodiscard]] PreparedPtr prepare(ExecContext& ctx,
                                    const Condition& condition,
                                    std::span<const double> timesteps) const;

  /// Fills `table` [B, width(begin, end)] f32 for the batch's timesteps and
  /// conditions. Rows that a condition holds are copied, others computed; the
  /// bits are the same.
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
  /// One past the segment's last part.
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
