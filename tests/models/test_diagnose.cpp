#include <cmath>

#include "kernels/elementwise.h"
#include "models/network/diagnose.h"
#include "tests/models/dit_fixtures.h"
#include "tests/models/helpers.h"

namespace troupe::models {
namespace {

/// A DiT that breaks in block 3, in a boundary of this type.
class Broken final : public Denoiser {
 public:
  Broken(const Denoiser& whole, DType dtype) : whole_(whole), dtype_(dtype) {}
  [[nodiscard]] const DenoiserInfo& info() const override {
    return whole_.info();
  }
  [[nodiscard]] PreparedPtr prepare(
      ExecContext& ctx, const Condition& condition,
      std::span<const double> /*timesteps*/) const override {
    return whole_.prepare(ctx, condition);
  }
  void predict(ExecContext& ctx, ShardContext& shard, const Batch& batch,
               std::span<Tensor> outputs) const override {
    whole_.predict(ctx, shard, batch, outputs);
  }
  void embed(ExecContext& ctx, ShardContext& shard, const Batch& batch,
             std::span<Boundary> boundaries) const override {
    whole_.embed(ctx, shard, batch, boundaries);
  }
  void run_blocks(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                  int begin, int end,
                  std::span<Boundary> boundaries) const override {
    whole_.run_blocks(ctx, shard, batch, begin, end, boundaries);
    if (begin <= 3 && end > 3) {
      Tensor& hidden = boundaries.back()[0].tensor;
      hidden.data<float>()[5] = INFINITY;
      if (dtype_ != DType::f32) {
        Tensor converted(hidden.shape(), dtype_);
        kernels::convert(ctx, hidden, converted);
        hidden = converted;
      }
    }
  }
  void finish(ExecContext& ctx, ShardContext& shard, const Batch& batch,
              std::span<const Boundary> boundaries,
              std::span<Tensor> outputs) const override {
    whole_.finish(ctx, shard, batch, boundaries, outputs);
  }

 private:
  const Denoiser& whole_;
  DType dtype_;
};

TEST(FirstNonFinite, NamesThePlace) {
  ExecContext ctx;
  ShardContext whole;
  const auto dit = small_dit(ctx);
  Rows rows = small_rows(ctx, *dit, 2);
  EXPECT_EQ(first_non_finite(ctx, whole, *dit, rows.batch()), "");
  for (const DType dtype : {DType::f32, DType::bf16}) {
    EXPECT_EQ(first_non_finite(ctx, whole, Broken(*dit, dtype), rows.batch()),
              "block 3");
  }
  rows.latents[1].data<float>()[3] = std::nanf("");
  EXPECT_EQ(first_non_finite(ctx, whole, *dit, rows.batch()), "latents");
}

}  // namespace
}  // namespace troupe::models
