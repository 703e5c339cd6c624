#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/shard_context.h"

namespace troupe::models {

/// One of several equal ranks on a meter (kernels/core/meter.h). It exchanges
/// nothing, and counts what it would. Thread: that of the context.
class MeteredRank final : public ShardContext {
 public:
  MeteredRank(ExecContext& ctx, AttentionPlan plan, int rank, int world_size);

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int world_size() const override { return world_size_; }
  [[nodiscard]] AttentionPlan plan() const override { return plan_; }
  [[nodiscard]] RowRange rows_of(int rank, std::int64_t rows) const override;
  [[nodiscard]] Tensor share(
      const Shape& shape, DType dtype,
      const std::function<SharedBlocks(int rank)>& of_rank) override;
  void meet() override;

  [[nodiscard]] int exchanges() const noexcept { return exchanges_; }
  /// Bytes that this rank reads of other ranks' blocks.
  [[nodiscard]] std::uint64_t received_bytes() const noexcept {
    return received_bytes_;
  }
  /// Of the tensors that it shares: those of two exchanges at a time.
  [[nodiscard]] std::uint64_t shared_bytes() const noexcept;

 private:
  ExecContext& ctx_;
  AttentionPlan plan_;
  int rank_;
  int world_size_;
  int exchanges_ = 0;
  std::uint64_t received_bytes_ = 0;
  std::size_t shared_ = 0;           ///< tensors since the last exchange
  std::vector<std::uint64_t> most_;  ///< bytes of the largest at each place
};

}  // namespace troupe::models
