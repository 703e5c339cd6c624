#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/core/context.h"
#include "models/condition.h"
#include "models/denoiser.h"
#include "models/pixart_config.h"
#include "models/pixart_weights.h"

namespace troupe::models {

/// Checks that the condition is "prompt_embeds" [L, caption channels] alone,
/// f32, bf16 or f16, with 1 to 4096 tokens that are no padding. Returns it.
/// Errors: Errc::invalid_argument with the tensor's name.
const ConditionTensor& checked_prompt(const PixArtConfig& config,
                                      const Condition& condition);

/// A prompt made ready for a segment of the network. Immutable. Thread: any.
class PixArtCondition final : public PreparedCondition {
 public:
  /// timesteps: ascending; table: [T, 8D], one row for each; key_values:
  /// [blocks, tokens, 2D] in the compute type.
  PixArtCondition(SegmentRange segment, std::vector<double> timesteps,
                  Tensor table, Tensor key_values);

  /// The table's row [8D], or an empty tensor if the timestep was not
  /// announced.
  [[nodiscard]] Tensor find(double timestep) const;
  /// Keys and values [1, tokens, 2D] of a block of the segment: D columns each.
  [[nodiscard]] Tensor key_values(int block) const;
  /// Those of all blocks.
  [[nodiscard]] const Tensor& all_key_values() const noexcept {
    return key_values_;
  }
  [[nodiscard]] SegmentRange segment() const noexcept { return segment_; }
  [[nodiscard]] std::size_t num_bytes() const override {
    return table_.num_bytes() + key_values_.num_bytes();
  }

 private:
  SegmentRange segment_;
  std::vector<double> timesteps_;
  Tensor table_;
  Tensor key_values_;
};

/// What of a PixArt depends on the prompt or the timestep alone: it is computed
/// once, not at every step.
///
/// The prompt's keys and values are most of it: 39 MB for 300 tokens of a
/// PixArt-Sigma in bf16. Only tokens that are no padding have some. The
/// timestep's part is adaLN-single: one vector of 6D for all blocks and one of
/// D for the output layers. So a condition holds its own copy, of 8D numbers a
/// timestep (37 KB), and the rows of a modulation table are put together for
/// each pass: the timestep's part plus the learned table of each block.
///
/// A row of a modulation table holds parts side by side, with the numbers of
/// their blocks: for each block 6D columns (shift, scale, gate of attention,
/// then of the MLP), for the output layers, part num_layers, 2D (shift, scale).
/// Source: Chen et al. 2023, arXiv:2310.00426, section 2.3.
/// Thread: any, one ctx per thread.
class PixArtConditioner {
 public:
  /// Keeps references to both.
  PixArtConditioner(const PixArtConfig& config, const PixArtWeights& weights,
                    DType compute)
      : config_(config), weights_(weights), compute_(compute) {}

  /// Columns of a table of parts [begin, end).
  [[nodiscard]] std::int64_t width(int begin, int end) const;

  /// Errors: as checked_prompt.
  [[nodiscard]] PreparedPtr prepare(ExecContext& ctx,
                                    const Condition& condition,
                                    std::span<const double> timesteps) const;

  /// The conditions of a batch. They live until the queue has read them.
  /// Errors: Errc::invalid_argument for a condition that another network or
  /// another segment prepared.
  [[nodiscard]] std::vector<const PixArtCondition*> conditions_of(
      ExecContext& ctx, const Batch& batch) const;

  /// Fills `table` [B, width(begin, end)] f32 for the batch's timesteps. Rows
  /// of prepared timesteps are looked up in the condition, other rows are
  /// computed; the bits are the same.
  void fill(ExecContext& ctx, const Batch& batch, int begin, int end,
            Tensor& table) const;

 private:
  /// For each row of the batch its timestep's part [8D]; equal timesteps that
  /// no condition holds share one, in the workspace.
  [[nodiscard]] std::vector<Tensor> bases_of(
      ExecContext& ctx, const Batch& batch,
      std::span<const PixArtCondition* const> conditions) const;
  /// base [T, 8D]: six D of all blocks, twice the embedding.
  void embed(ExecContext& ctx, std::span<const double> timesteps,
             Tensor& base) const;
  /// The prompt's valid tokens as the blocks see them: [1, tokens, D], in the
  /// workspace.
  [[nodiscard]] Tensor project(ExecContext& ctx,
                               const ConditionTensor& prompt) const;

  const PixArtConfig& config_;
  const PixArtWeights& weights_;
  DType compute_;
};

}  // namespace troupe::models
