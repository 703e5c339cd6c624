#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/core/tensor.h"

namespace troupe {

/// Port: what a model knows of sequence parallelism. Tokens are cut over
/// `world_size()` ranks in uneven, contiguous shards. The default is the
/// whole: one rank, no exchange.
class ShardContext {
 public:
  virtual ~ShardContext() = default;

  [[nodiscard]] virtual int rank() const { return 0; }
  [[nodiscard]] virtual int world_size() const { return 1; }
  /// Tokens of each rank for a sequence of `num_tokens`.
  [[nodiscard]] virtual std::vector<std::int64_t> counts(
      std::int64_t num_tokens) const {
    return {num_tokens};
  }
  /// Global index of this rank's first token.
  [[nodiscard]] virtual std::int64_t token_offset(
      std::int64_t /*num_tokens*/) const {
    return 0;
  }
  /// Begins the exchange of values, so that it overlaps the projections of
  /// queries and keys; then of queries and keys. [B, N_local, D].
  virtual void start(const Tensor& v) { v_ = v; }
  virtual void start(const Tensor& q, const Tensor& k) {
    q_ = q;
    k_ = k;
  }
  /// Operands of this rank's attention, complete.
  struct Operands {
    Tensor q, k, v;
  };
  [[nodiscard]] virtual Operands finish() { return {q_, k_, v_}; }
  /// Sums `values` over ranks in rank order (statistics of global norms).
  virtual void reduce(std::span<double> /*values*/) {}

 private:
  Tensor q_, k_, v_;
};

}  // namespace troupe
