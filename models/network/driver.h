#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/network/denoiser.h"
#include "models/network/image_pass.h"
#include "models/network/network.h"

namespace troupe::models {

class NetworkMeter;
struct TensorKind;

/// The Denoiser of every Network: checks, groups of rows that are computed
/// together, boundaries, the timestep table of conditions, and on a GPU the
/// recording of a pass.
///
/// A boundary holds the skips that exist there, "skip.0" and so on, and then
/// the streams by name. Where the first stream is the newest skip itself, the
/// skip alone stands there. The oldest skips may be missing (run_blocks).
///
/// Where a context has a team (ShardTeam), every rank calls with the same
/// batch. Latents, boundaries and outputs are the whole's and shared by the
/// ranks; each reads and writes its own tokens, and rank 0 the outputs. Rank 0
/// alone computes what has fewer than kLeastTokens tokens for each rank.
///
/// A GPU pass is recorded for each number of rows, size of latents, and address
/// and length of the prompts, unless weights are offloaded
/// (ExecContext::replay). With several ranks the recording is cut where they
/// meet, and only `predict` is recorded.
class NetworkDriver final : public Denoiser {
 public:
  /// Tokens that each rank has at least of the longest stream. Ranks with fewer
  /// tokens would wait longer than they compute.
  static constexpr std::int64_t kLeastTokens = ImagePass::kLeastPixels;

  /// meter: what boundaries are checked against; null on a meter's own network.
  NetworkDriver(std::unique_ptr<const Network> network, DenoiserInfo info,
                std::shared_ptr<const NetworkMeter> meter);

  [[nodiscard]] const DenoiserInfo& info() const override { return info_; }
  [[nodiscard]] int num_blocks() const noexcept {
    return network_->num_blocks();
  }
  [[nodiscard]] std::int64_t out_channels() const noexcept {
    return network_->layout().out_channels;
  }
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
  struct Group;

  /// Who computes this call with this rank: `shard`, or one rank where rank 0
  /// computes alone; null for the ranks that then do nothing. Errors:
  /// Errc::unsupported for a network without shards.
  [[nodiscard]] ShardContext* ranks_of(ShardContext& shard,
                                       const Shape& latents) const;
  /// Tokens of each stream of the state, on all ranks.
  [[nodiscard]] std::vector<std::int64_t> tokens_of(const Shape& latents) const;
  /// The rows' one shape of latents. Errors: Errc::shape_mismatch.
  [[nodiscard]] Shape checked_latents(const Batch& batch) const;
  void check_outputs(std::span<const Tensor> outputs,
                     const Shape& latents) const;
  /// Boundaries at `cut`, for blocks from there to `end`. Returns the oldest
  /// skip that they hold.
  [[nodiscard]] int checked_boundaries(std::span<const Boundary> boundaries,
                                       int cut, int end,
                                       const Shape& latents) const;
  /// Skips that exist in front of block `cut`: made and not yet taken.
  [[nodiscard]] int live_skips(int cut) const;
  /// The tensors of a boundary there that has the skips from `first_skip` on.
  [[nodiscard]] std::vector<TensorKind> expected_at(int cut, int first_skip,
                                                    const Shape& latents) const;
  /// Where a recording of blocks from begin to end leaves its results.
  /// `before`: the state that it begins with.
  [[nodiscard]] Boundary place_results(ExecContext& ctx, const Boundary& before,
                                       int begin, int end, int first_skip,
                                       const Group& group,
                                       const Shape& latents) const;
  [[nodiscard]] bool is_residual(std::string_view stream) const;

  /// The conditions of rows. They live until the queue has read them.
  [[nodiscard]] std::vector<const Prepared*> prepared_of(
      ExecContext& ctx, const Batch& rows) const;
  [[nodiscard]] Tensor modulation_of(ExecContext& ctx, const Batch& rows,
                                     std::span<const Prepared* const> prepared,
                                     int begin, int end) const;
  /// Calls fn(begin, rows, pass) for each group of rows, for stages from
  /// `begin` to `end`.
  template <typename Fn>
  void for_each_group(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                      const Shape& latents, int begin, int end,
                      const Fn& fn) const;
  /// Runs blocks, with their ticks.
  void run_stages(Pass& pass, const Group& group, State& state) const;
  /// Copies the state behind the group's stages, with skips from `first_skip`
  /// on, to its boundaries.
  void keep(ExecContext& ctx, const Group& group, const State& state,
            int first_skip, std::span<Boundary> boundaries) const;
  /// Calls fn, or plays what it queued before for the same operands.
  void replay(ExecContext& ctx, const Group& group,
              std::span<const Tensor> operands,
              const std::function<void()>& fn) const;
  [[nodiscard]] bool records(ExecContext& ctx) const;

  [[nodiscard]] State load(ExecContext& ctx, const ShardContext& shard,
                           std::span<const Boundary> boundaries) const;
  /// The state's tensors by name, with skips from `first_skip` on.
  [[nodiscard]] Boundary named(const State& state, int first_skip) const;

  std::string place_;
  std::unique_ptr<const Network> network_;
  DenoiserInfo info_;
  std::shared_ptr<const NetworkMeter> meter_;
  /// The owner in ExecContext::replay.
  std::shared_ptr<const int> identity_ = std::make_shared<const int>(0);
};

}  // namespace troupe::models
