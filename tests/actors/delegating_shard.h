#pragma once

#include <functional>

#include "kernels/core/shard_context.h"

namespace troupe::actors {

/// Does what another rank does. Tests override what is to differ.
class DelegatingShard : public ShardContext {
 public:
  explicit DelegatingShard(ShardContext& inner) : inner_(inner) {}

  [[nodiscard]] int rank() const override { return inner_.rank(); }
  [[nodiscard]] int world_size() const override { return inner_.world_size(); }
  [[nodiscard]] AttentionPlan plan() const override { return inner_.plan(); }
  [[nodiscard]] RowRange rows_of(int rank, std::int64_t rows) const override {
    return inner_.rows_of(rank, rows);
  }
  [[nodiscard]] Tensor share(
      const Shape& shape, DType dtype,
      const std::function<SharedBlocks(int rank)>& of_rank) override {
    return inner_.share(shape, dtype, of_rank);
  }
  [[nodiscard]] int phase() const override { return inner_.phase(); }
  void meet() override { inner_.meet(); }

 private:
  ShardContext& inner_;
};

}  // namespace troupe::actors
