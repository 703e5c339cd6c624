#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/core/tensor.h"

namespace troupe {

/// Port: what a model knows of sequence parallelism. The tokens are divided
/// among `world_size()` ranks in contiguous shards, not always of one size. The
/// default is one rank that has all tokens and exchanges nothing.
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
  /// Begins the exchange of values [B, N_local, D]. Called before queries and
  /// keys are projected, so that both go on at once.
  virtual void start(const Tensor& v) { v_ = v; }
  /// Begins the exchange of queries and keys [B, N_local, D].
  virtual void start(const Tensor& q, const Tensor& k) {
    q_ = q;
    k_ = k;
  }
  /// What this rank's attention reads, after the exchange.
  struct Operands {
    Tensor q, k, v;
  };
  /// Ends the exchange.
  [[nodiscard]] virtual Operands finish() { return {q_, k_, v_}; }
  /// Replaces `values` by their sums over all ranks, added in rank order (for
  /// the statistics of norms over all tokens).
  virtual void reduce(std::span<double> /*values*/) {}

 private:
  Tensor q_, k_, v_;
};

}  // namespace troupe
