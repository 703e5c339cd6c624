#include "models/patch_denoiser.h"

#include <string>

#include "kernels/activation.h"
#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/norm.h"
#include "kernels/patchify.h"
#include "models/row_groups.h"

// B rows, N tokens, D width, C channels, p patch size.

namespace troupe::models {
namespace {

constexpr float kOutputNormEps = 1e-6F;  // fixed in diffusers, not norm_eps

}  // namespace

std::uint64_t PatchDenoiser::address_of(const Tensor& tensor) {
  return static_cast<std::uint64_t>(
      reinterpret_cast<std::uintptr_t>(tensor.bytes().data()));
}

void PatchDenoiser::set_info(ExecContext& ctx, DenoiserInfo info) {
  info_ = std::move(info);
  if (layout_.segment.begin == 0) {
    info_.parameter_bytes +=
        positions_of(ctx, layout_.grid.latent_shape()).num_bytes();
  }
}

void PatchDenoiser::predict(ExecContext& ctx, ShardContext& shard,
                            const Batch& batch,
                            std::span<Tensor> outputs) const {
  check_whole(layout_.place, shard);
  check_rows(layout_.place, batch, outputs.size(), true);
  const auto num_layers = static_cast<int>(layout_.num_layers);
  check_owned(layout_.place, layout_.segment, 0, num_layers);
  if (outputs.empty()) {
    return;
  }
  const Shape shape = checked_latents(batch.latents);
  const Shape result = checked_outputs(outputs, layout_.grid.num_tokens(shape));
  const Tensor positions = positions_of(ctx, shape);
  for_each_group(
      ctx, outputs.size(), rows_at_once(positions.dim(0), ctx.device().kind),
      [&](std::size_t at, std::size_t n) {
        const Batch rows = rows_of(batch, at, n);
        const Tensor latents = stack_rows(ctx, rows.latents);
        const Tensor modulation = modulation_of(ctx, rows, 0, num_layers + 1);
        Tensor hidden_states = take_hidden_states(ctx, n, positions.dim(0));
        Tensor images = take_images(ctx, n, result);
        // Images of as many tokens may have other sides, but not the same
        // positions.
        replay(ctx, rows, 0, num_layers + 1, hidden_states,
               {latents, images, positions}, [&] {
                 embed_rows(ctx, latents, positions, hidden_states);
                 run_rows(ctx, rows, modulation, 0, num_layers, hidden_states);
                 finish_rows(ctx, modulation, hidden_states, images);
               });
        unstack_rows(ctx, images, outputs.subspan(at, n));
      });
}

void PatchDenoiser::embed(ExecContext& ctx, ShardContext& shard,
                          const Batch& batch,
                          std::span<Boundary> boundaries) const {
  check_whole(layout_.place, shard);
  require(batch.latents.size() == boundaries.size(), Errc::shape_mismatch,
          layout_.place, "latents and boundaries differ in number");
  if (boundaries.empty()) {
    return;
  }
  const Tensor positions = positions_of(ctx, checked_latents(batch.latents));
  for (Boundary& boundary : boundaries) {
    if (boundary.size() != 1 ||
        boundary[0].tensor.shape() != positions.shape() ||
        boundary[0].tensor.dtype() != DType::f32 ||
        !(boundary[0].tensor.device() == ctx.device())) {
      boundary.assign(
          1, {"hidden_states", ctx.empty(positions.shape(), DType::f32)});
    }
  }
  std::vector<Tensor> rows = boundary_tensors(layout_.place, boundaries, 1, 0);
  for_each_group(
      ctx, rows.size(), rows_at_once(positions.dim(0), ctx.device().kind),
      [&](std::size_t at, std::size_t n) {
        const Tensor latents = stack_rows(ctx, batch.latents.subspan(at, n));
        Tensor hidden_states = take_hidden_states(ctx, n, positions.dim(0));
        embed_rows(ctx, latents, positions, hidden_states);
        unstack_rows(ctx, hidden_states, std::span(rows).subspan(at, n));
      });
}

void PatchDenoiser::run_blocks(ExecContext& ctx, ShardContext& shard,
                               const Batch& batch, int begin, int end,
                               std::span<Boundary> boundaries) const {
  check_whole(layout_.place, shard);
  check_rows(layout_.place, batch, boundaries.size(), false);
  check_owned(layout_.place, layout_.segment, begin, end);
  if (boundaries.empty()) {
    return;
  }
  std::vector<Tensor> rows = checked_boundaries(boundaries);
  for_each_group(
      ctx, rows.size(), rows_at_once(rows[0].dim(0), ctx.device().kind),
      [&](std::size_t at, std::size_t n) {
        Tensor hidden_states = stack_rows(ctx, std::span(rows).subspan(at, n));
        const Batch group = rows_of(batch, at, n);
        const Tensor modulation = modulation_of(ctx, group, begin, end);
        replay(ctx, group, begin, end, hidden_states,
               {hidden_states, modulation}, [&] {
                 run_rows(ctx, group, modulation, begin, end, hidden_states);
               });
        unstack_rows(ctx, hidden_states, std::span(rows).subspan(at, n));
      });
}

void PatchDenoiser::finish(ExecContext& ctx, ShardContext& shard,
                           const Batch& batch,
                           std::span<const Boundary> boundaries,
                           std::span<Tensor> outputs) const {
  check_whole(layout_.place, shard);
  check_rows(layout_.place, batch, outputs.size(), false);
  require(boundaries.size() == outputs.size(), Errc::shape_mismatch,
          layout_.place, "boundaries and results differ in number");
  require(layout_.segment.end == layout_.num_layers, Errc::invalid_argument,
          layout_.place, "finish: this segment does not hold the last block");
  if (outputs.empty()) {
    return;
  }
  const auto num_layers = static_cast<int>(layout_.num_layers);
  const std::vector<Tensor> rows = checked_boundaries(boundaries);
  const Shape result = checked_outputs(outputs, rows[0].dim(0));
  for_each_group(ctx, outputs.size(),
                 rows_at_once(rows[0].dim(0), ctx.device().kind),
                 [&](std::size_t at, std::size_t n) {
                   const Tensor hidden_states =
                       stack_rows(ctx, std::span(rows).subspan(at, n));
                   const Tensor modulation = modulation_of(
                       ctx, rows_of(batch, at, n), num_layers, num_layers + 1);
                   Tensor images = take_images(ctx, n, result);
                   finish_rows(ctx, modulation, hidden_states, images);
                   unstack_rows(ctx, images, outputs.subspan(at, n));
                 });
}

Shape PatchDenoiser::checked_latents(std::span<const Tensor> latents) const {
  const PatchGrid& grid = layout_.grid;
  const Shape shape = common_shape(layout_.place, "latents", latents);
  require(grid.fits(shape), Errc::shape_mismatch, layout_.place,
          "latents: got " + to_string(shape) + ", expected " +
              (grid.squares_only ? "squares as " : "sides as ") +
              to_string(grid.latent_shape()) + " in patches of " +
              std::to_string(grid.patch_size));
  return shape;
}

Shape PatchDenoiser::checked_outputs(std::span<const Tensor> outputs,
                                     std::int64_t tokens) const {
  const PatchGrid& grid = layout_.grid;
  const Shape shape = common_shape(layout_.place, "output", outputs);
  const bool fits = shape.rank() == 3 && shape[0] == grid.out_channels &&
                    shape[1] % grid.patch_size == 0 &&
                    shape[2] % grid.patch_size == 0 &&
                    grid.num_tokens(shape) == tokens &&
                    (!grid.squares_only || shape[1] == shape[2]);
  require(fits, Errc::shape_mismatch, layout_.place,
          "output: got " + to_string(shape) + ", expected " +
              std::to_string(grid.out_channels) + " channels of " +
              std::to_string(tokens) + " patches" +
              (grid.squares_only ? " in a square" : ""));
  return shape;
}

std::vector<Tensor> PatchDenoiser::checked_boundaries(
    std::span<const Boundary> boundaries) const {
  std::vector<Tensor> rows = boundary_tensors(layout_.place, boundaries, 1, 0);
  require(rows[0].shape().rank() == 2 && rows[0].dim(1) == layout_.width,
          Errc::shape_mismatch, layout_.place,
          "boundary: got " + to_string(rows[0].shape()) +
              ", expected tokens of width " + std::to_string(layout_.width));
  return rows;
}

Tensor PatchDenoiser::positions_of(ExecContext& ctx,
                                   const Shape& latents) const {
  const std::int64_t height = latents[1] / layout_.grid.patch_size;
  const std::int64_t width = latents[2] / layout_.grid.patch_size;
  const std::lock_guard lock(positions_->mutex);
  Tensor& table = positions_->tables[{height, width}];
  if (table.empty()) {
    table = kernels::on_device(
        ctx,
        kernels::sincos_2d(layout_.width, height, width,
                           layout_.grid.sample_size / layout_.grid.patch_size,
                           layout_.interpolation));
    ctx.synchronize();  // other contexts read it too
  }
  return table;
}

Tensor PatchDenoiser::take_hidden_states(ExecContext& ctx, std::size_t rows,
                                         std::int64_t tokens) const {
  return ctx.workspace().take(
      {static_cast<std::int64_t>(rows), tokens, layout_.width}, DType::f32);
}

Tensor PatchDenoiser::take_images(ExecContext& ctx, std::size_t rows,
                                  const Shape& image) {
  return ctx.workspace().take(with_rows(static_cast<std::int64_t>(rows), image),
                              DType::f32);
}

void PatchDenoiser::embed_rows(ExecContext& ctx, const Tensor& latents,
                               const Tensor& positions,
                               Tensor& hidden_states) const {
  require(layout_.segment.begin == 0, Errc::invalid_argument, layout_.place,
          "embed: this segment does not hold block 0");
  const std::int64_t rows = latents.dim(0);
  const Workspace::Scope scope(ctx.workspace());
  Tensor patches =
      ctx.workspace().take({rows, hidden_states.dim(1),
                            layout_.grid.in_channels * layout_.grid.patch_size *
                                layout_.grid.patch_size},
                           layout_.compute);
  kernels::patchify(ctx, latents, layout_.grid.patch_size,
                    patches);  // [B, N, Cpp]
  kernels::linear(ctx, patches, patch_layer(), kernels::Activation::none,
                  hidden_states);  // [B, N, D]
  for (std::int64_t i = 0; i < rows; ++i) {
    Tensor target = hidden_states.item(i);
    kernels::add(ctx, positions, target);  // [N, D]
  }
}

void PatchDenoiser::replay(ExecContext& ctx, const Batch& rows, int begin,
                           int end, const Tensor& hidden_states,
                           std::initializer_list<Tensor> operands,
                           const std::function<void()>& fn) const {
  if (!is_recordable()) {
    return fn();
  }
  // Which parts of the network, for how many rows and tokens, on which memory.
  ReplayKey key = {static_cast<std::uint64_t>(begin),
                   static_cast<std::uint64_t>(end),
                   static_cast<std::uint64_t>(hidden_states.dim(0)),
                   static_cast<std::uint64_t>(hidden_states.dim(1))};
  for (const Tensor& operand : operands) {
    key.push_back(address_of(operand));
  }
  append_operands(ctx, rows, key);
  ctx.replay(identity_, key, fn);
}

void PatchDenoiser::finish_rows(ExecContext& ctx, const Tensor& modulation,
                                const Tensor& hidden_states,
                                Tensor& images) const {
  const std::int64_t rows = hidden_states.dim(0);
  const std::int64_t width = layout_.width;
  const std::int64_t column = modulation.dim(1) - 2 * width;
  const Workspace::Scope scope(ctx.workspace());
  Tensor normed = ctx.workspace().take({rows, hidden_states.dim(1), width},
                                       layout_.compute);
  kernels::layer_norm_modulate(ctx, hidden_states, modulation, column,
                               column + width, kOutputNormEps,
                               normed);  // [B, N, D]
  Tensor patches =
      ctx.workspace().take({rows, hidden_states.dim(1),
                            layout_.grid.patch_size * layout_.grid.patch_size *
                                layout_.grid.out_channels},
                           DType::f32);
  kernels::linear(ctx, normed, output_layer(), kernels::Activation::none,
                  patches);  // [B, N, ppC]
  kernels::unpatchify(ctx, patches, layout_.grid.patch_size,
                      images);  // [B, C, H, W]
}

}  // namespace troupe::models
