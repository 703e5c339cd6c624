#include "models/row_groups.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/copy.h"
#include "kernels/core/error.h"

namespace troupe::models {

void check_whole(std::string_view place, const ShardContext& shard) {
  require(shard.world_size() == 1, Errc::unsupported, std::string(place),
          "token shards: got " + std::to_string(shard.world_size()) +
              " ranks, expected 1");
}

void check_rows(std::string_view place, const Batch& batch, std::size_t rows,
                bool has_latents) {
  require(batch.timesteps.size() == rows && batch.conditions.size() == rows,
          Errc::shape_mismatch, std::string(place),
          "timesteps, conditions and results differ in number");
  require(!has_latents || batch.latents.size() == rows, Errc::shape_mismatch,
          std::string(place), "latents and results differ in number");
}

Shape common_shape(std::string_view place, std::string_view what,
                   std::span<const Tensor> tensors) {
  const Shape shape = tensors.front().shape();
  for (const Tensor& tensor : tensors) {
    if (tensor.shape() != shape || tensor.dtype() != DType::f32) {
      throw Error(Errc::shape_mismatch, std::string(place),
                  std::string(what) + ": got " + to_string(tensor.shape()) +
                      " of " + std::string(to_string(tensor.dtype())) +
                      ", expected " + to_string(shape) + " of f32");
    }
  }
  return shape;
}

Batch rows_of(const Batch& batch, std::size_t begin, std::size_t count) {
  return {batch.latents.empty() ? batch.latents
                                : batch.latents.subspan(begin, count),
          batch.timesteps.subspan(begin, count),
          batch.conditions.subspan(begin, count), batch.latent_shape};
}

void for_each_group(
    ExecContext& ctx, std::size_t rows, std::int64_t most,
    const std::function<void(std::size_t begin, std::size_t count)>& fn) {
  const auto step = static_cast<std::size_t>(most);
  for (std::size_t begin = 0; begin < rows; begin += step) {
    const Workspace::Scope scope(ctx.workspace());
    fn(begin, std::min(step, rows - begin));
  }
}

std::vector<Tensor> boundary_tensors(std::string_view place,
                                     std::span<const Boundary> boundaries,
                                     std::size_t size, std::size_t index) {
  std::vector<Tensor> tensors;
  for (const Boundary& boundary : boundaries) {
    require(boundary.size() == size, Errc::shape_mismatch, std::string(place),
            "boundary: got " + std::to_string(boundary.size()) +
                " tensors, expected " + std::to_string(size));
    tensors.push_back(boundary[index].tensor);
  }
  (void)common_shape(place, "boundary", tensors);
  return tensors;
}

Tensor stack_rows(ExecContext& ctx, std::span<const Tensor> rows) {
  Tensor all = ctx.workspace().take(
      with_rows(static_cast<std::int64_t>(rows.size()), rows.front().shape()),
      DType::f32);
  std::vector<Tensor> here;
  for (const Tensor& source : rows) {
    here.push_back(kernels::on_device(ctx, source));
  }
  kernels::gather(ctx, here, all);
  return all;
}

void unstack_rows(ExecContext& ctx, const Tensor& stacked,
                  std::span<Tensor> rows) {
  const bool is_here = std::ranges::all_of(
      rows, [&](const Tensor& row) { return row.device() == ctx.device(); });
  if (is_here) {
    return kernels::scatter(ctx, stacked, rows);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    kernels::copy(ctx, stacked.item(static_cast<std::int64_t>(i)), rows[i]);
  }
}

}  // namespace troupe::models
