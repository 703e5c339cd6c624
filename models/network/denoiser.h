#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/boundary.h"
#include "kernels/core/context.h"
#include "kernels/core/shard_context.h"
#include "kernels/core/tensor.h"
#include "models/condition.h"

namespace troupe::models {

/// One transformer block, or another unit between which a network can be cut.
struct BlockInfo {
  double flops = 0;                 ///< per row of a batch
  std::size_t parameter_bytes = 0;  ///< as packed
  /// Bytes of one row's hidden state in front of the block. The block's other
  /// inputs are skips.
  std::size_t hidden_bytes = 0;
};

/// The hidden state in front of one block, or a part of it, which a later one
/// takes, too.
struct SkipInfo {
  int made_before = 0;  ///< the block that it stands in front of
  int taken_by = 0;
  std::size_t bytes = 0;  ///< of one row
};

/// The order in which a model's authors stack the two guidance branches.
enum class BranchOrder : std::uint8_t { cond_uncond, uncond_cond };

struct DenoiserInfo {
  std::string class_name;            ///< e.g. "DiTTransformer2DModel"
  Shape latent_shape;                ///< [C, …], one sample
  std::int64_t out_channels = 0;     ///< C or 2C (learned variance)
  std::int64_t guided_channels = 0;  ///< leading channels that guidance mixes
  BranchOrder branch_order = BranchOrder::cond_uncond;
  std::int64_t num_classes = 0;  ///< 0: unconditional
  DType compute = DType::f32;
  std::vector<BlockInfo> blocks;
  std::vector<SkipInfo> skips;      ///< in the order in which they are made
  double embed_flops = 0;           ///< per row
  double finish_flops = 0;          ///< per row
  std::size_t parameter_bytes = 0;  ///< of what this instance holds
  /// Bytes that a prepared condition holds for each timestep given to
  /// `prepare`.
  std::size_t bytes_per_timestep = 0;
  /// Bytes that it holds beside, of the longest prompt that pipelines give.
  std::size_t bytes_per_prompt = 0;
  std::uint64_t weights_hash = 0;  ///< XXH3-64: tensors, config

  /// Floating-point operations of one row through the whole network.
  [[nodiscard]] double flops() const {
    double sum = embed_flops + finish_flops;
    for (const BlockInfo& block : blocks) {
      sum += block.flops;
    }
    return sum;
  }
  /// Of one row's Boundary in front of block `cut`.
  [[nodiscard]] std::size_t boundary_bytes(int cut) const {
    std::size_t sum = hidden_bytes(cut);
    for (const SkipInfo& skip : skips) {
      if (skip.made_before < cut && cut <= skip.taken_by) {
        sum += skip.bytes;
      }
    }
    return sum;
  }
  /// The largest of them.
  [[nodiscard]] std::size_t boundary_bytes() const {
    std::size_t most = 0;
    for (std::size_t cut = 0; cut < blocks.size(); ++cut) {
      most = std::max(most, boundary_bytes(static_cast<int>(cut)));
    }
    return most;
  }
  [[nodiscard]] std::size_t hidden_bytes(int cut) const {
    return blocks[static_cast<std::size_t>(cut)].hidden_bytes;
  }
  /// How many ranks may divide its tokens (ShardContext); 1: none may.
  std::int64_t most_shards = 1;
  /// How many blocks of keys its attention can have (Batch::ring_blocks).
  std::int64_t most_ring_blocks = 1;
};

/// The rows of one forward pass. Rows are independent: neither the values nor
/// the bits of a row depend on the rows beside it.
struct Batch {
  std::span<const Tensor> latents;    ///< B times [C, …] f32
  std::span<const double> timesteps;  ///< B, in units of training timesteps
  std::span<const PreparedCondition* const> conditions;  ///< B
  /// [C, …] of every row's latents, for run_blocks and finish. A boundary does
  /// not tell it: halved, a side of 3 may come from 5 or from 6.
  Shape latent_shape = {};
  /// Keys of attention over tokens are cut into so many blocks, which are
  /// merged (kernels::AttentionMask::key_blocks). It decides bits, as the rows
  /// do; ranks do not. Above 1: on CPUs alone.
  std::int64_t ring_blocks = 1;
};

/// A network that predicts noise (or velocity, or the clean sample) from noisy
/// latents. Weights are immutable: one instance serves all workers of a node,
/// each with its own ExecContext.
///
/// `predict` equals embed, run_blocks(0, n), finish, bit for bit, also when
/// run_blocks is called for several ranges in turn. An instance that holds
/// blocks [begin, end) alone (a segment) has only their weights, and those of
/// `embed` or `finish` if it holds the first or last block.
/// Errors (all): Errc::shape_mismatch; Errc::interrupted when ctx asks to stop.
/// Thread: any, one ctx per thread.
class Denoiser {
 public:
  virtual ~Denoiser() = default;

  /// The costs in it are for latents of the size the network was trained with.
  [[nodiscard]] virtual const DenoiserInfo& info() const = 0;

  /// Checks and prepares a condition. `timesteps`: the known timesteps of later
  /// calls. Values that depend only on timestep and condition are computed here
  /// for all of these timesteps at once. Calls at other timesteps are allowed.
  /// The bits are the same in any case.
  /// Errors: Errc::invalid_argument for a condition that lacks a tensor, or a
  /// class outside [0, num_classes]. Memory: `info().bytes_per_timestep` for
  /// each of the timesteps.
  [[nodiscard]] virtual PreparedPtr prepare(
      ExecContext& ctx, const Condition& condition,
      std::span<const double> timesteps = {}) const = 0;

  /// outputs: B times [out_channels, …] f32, allocated by the caller.
  virtual void predict(ExecContext& ctx, ShardContext& shard,
                       const Batch& batch, std::span<Tensor> outputs) const = 0;

  /// Writes the hidden state before block 0, one Boundary per row. Tensors of
  /// the right shape that the boundaries hold are written in place, others
  /// replaced.
  virtual void embed(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                     std::span<Boundary> boundaries) const = 0;
  /// Runs blocks [begin, end) in place on the boundaries. A boundary may lack
  /// the oldest skips if none of these blocks takes them; then the result lacks
  /// these skips, too (split_skips).
  virtual void run_blocks(ExecContext& ctx, ShardContext& shard,
                          const Batch& batch, int begin, int end,
                          std::span<Boundary> boundaries) const = 0;
  /// Writes the outputs (as `predict`) from the hidden state after the last
  /// block. `batch` needs no latents here, nor in run_blocks: its latent_shape
  /// is enough.
  virtual void finish(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                      std::span<const Boundary> boundaries,
                      std::span<Tensor> outputs) const = 0;
};

}  // namespace troupe::models
