#include "models/layers/timestep_embedding.h"

#include <vector>

#include "kernels/copy.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"

// R rows, F frequencies, E width.

namespace troupe::models {
namespace {

constexpr double kMaxPeriod = 10000.0;

}  // namespace

Tensor embed_timesteps(ExecContext& ctx, std::span<const TableRow> rows,
                       const TimestepEmbedding& how,
                       const kernels::PackedLinear& first,
                       const kernels::PackedLinear& second) {
  const auto count = static_cast<std::int64_t>(rows.size());
  const DType compute = first.compute();
  Tensor embedding =
      ctx.workspace().take({count, 1, second.out_features()}, DType::f32);
  const Workspace::Scope scope(ctx.workspace());
  std::vector<double> timesteps;
  for (const TableRow& row : rows) {
    timesteps.push_back(row.timestep);
  }
  Tensor frequencies =
      ctx.workspace().take({count, how.frequencies}, DType::f32);
  kernels::timestep_embedding(ctx, timesteps, how.shift, kMaxPeriod,
                              frequencies);
  Tensor in = ctx.workspace().take({count, 1, how.frequencies}, compute);
  kernels::convert(ctx, frequencies.reshape(in.shape()), in);  // [R, 1, F]
  Tensor hidden =
      ctx.workspace().take({count, 1, first.out_features()}, compute);
  kernels::linear(ctx, in, first, how.activation, hidden);  // [R, 1, E]
  kernels::linear(ctx, hidden, second, kernels::Activation::none,
                  embedding);  // [R, 1, E]
  return embedding;
}

void put_columns(ExecContext& ctx, const Tensor& made,
                 std::span<const TableRow> rows, std::int64_t column) {
  const std::int64_t width = made.dim(2);
  std::vector<Tensor> targets;
  for (const TableRow& row : rows) {
    targets.push_back(row.target.slice(column, column + width));
  }
  kernels::scatter(ctx, made.reshape({made.dim(0), width}), targets);
}

}  // namespace troupe::models
