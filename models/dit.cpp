#include "models/dit.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/norm.h"
#include "kernels/patchify.h"
#include "kernels/residual_stream.h"
#include "models/dit_description.h"
#include "models/dit_modulation.h"
#include "models/row_groups.h"

// B rows, N tokens, D width, C channels, p patch size.

namespace troupe::models {
namespace {

constexpr const char* kPlace = "dit";
constexpr float kFirstNormEps = 1e-6F;  // fixed in diffusers, not norm_eps

void check_whole(const ShardContext& shard) {
  require(shard.world_size() == 1, Errc::unsupported, kPlace,
          "token shards: got " + std::to_string(shard.world_size()) +
              " ranks, expected 1");
}

/// Names work that is the same whenever it comes again: which parts of the
/// network, for how many rows and tokens, on which memory.
std::array<std::uint64_t, 6> replay_key(int begin, int end,
                                        const Tensor& hidden_states,
                                        const Tensor& first,
                                        const Tensor& last) {
  const auto number = [](auto value) {
    return static_cast<std::uint64_t>(value);
  };
  const auto address = [](const Tensor& tensor) {
    return static_cast<std::uint64_t>(
        reinterpret_cast<std::uintptr_t>(tensor.bytes().data()));
  };
  return {number(begin),
          number(end),
          number(hidden_states.dim(0)),
          number(hidden_states.dim(1)),
          address(first),
          address(last)};
}

}  // namespace

/// Buffers of one forward pass, taken from the workspace.
struct Dit::Activations {
  Activations(Workspace& workspace, const DitConfig& config, DType compute,
              std::int64_t rows, std::int64_t tokens)
      : normed(workspace.take({rows, tokens, config.width()}, compute)),
        qkv(workspace.take({rows, tokens, 3 * config.width()}, compute)),
        mlp(workspace.take({rows, tokens, config.mlp_width()}, compute)) {
    if (config.gated_mlp) {
      gated_mlp =
          workspace.take({rows, tokens, 2 * config.mlp_width()}, compute);
    }
  }

  Tensor normed;     // [B, N, D], later the attended values
  Tensor qkv;        // [B, N, 3D]
  Tensor mlp;        // [B, N, 4D]
  Tensor gated_mlp;  // [B, N, 8D] of a gated MLP
};

Dit::Dit(ExecContext& ctx, const DitConfig& config, SegmentRange segment,
         DType compute, WeightSource& source, WeightPlacement placement)
    : config_(config),
      compute_(compute),
      weights_(load_dit_weights(ctx, config, checked_segment(config, segment),
                                compute, source, placement)),
      info_(DitDescription(config).info(config.latent_shape(), compute)) {
  info_.parameter_bytes = weights_.num_bytes;
  info_.weights_hash = weights_.hash;
  info_.bytes_per_timestep =
      static_cast<std::size_t>(modulation().width()) * sizeof(float);
  if (weights_.segment.begin == 0) {
    info_.parameter_bytes +=
        positions_of(ctx, config.latent_shape()).num_bytes();
  }
}

PreparedPtr Dit::prepare(ExecContext& ctx, const Condition& condition,
                         std::span<const double> timesteps) const {
  return modulation().prepare(ctx, condition, timesteps);
}

void Dit::predict(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                  std::span<Tensor> outputs) const {
  check_whole(shard);
  check_rows(kPlace, batch, outputs.size(), true);
  const auto num_layers = static_cast<int>(config_.num_layers);
  check_owned(0, num_layers);
  if (outputs.empty()) {
    return;
  }
  const Shape shape = checked_latents(batch.latents);
  const Shape result = checked_outputs(outputs, config_.num_tokens(shape));
  const Tensor positions = positions_of(ctx, shape);
  for_each_group(
      ctx, outputs.size(), rows_at_once(ctx, config_.num_tokens(shape)),
      [&](std::size_t at, std::size_t n) {
        const Batch rows = rows_of(batch, at, n);
        const Tensor latents = stack_rows(ctx, rows.latents);
        const Tensor modulation = modulation_of(ctx, rows, 0, num_layers + 1);
        Tensor hidden_states = take_hidden_states(ctx, n, positions.dim(0));
        Tensor images = take_images(ctx, n, result);
        const auto key =
            replay_key(0, num_layers + 1, hidden_states, latents, images);
        replay(ctx, key, [&] {
          embed_rows(ctx, latents, positions, hidden_states);
          run_rows(ctx, modulation, 0, num_layers, hidden_states);
          finish_rows(ctx, modulation, hidden_states, images);
        });
        unstack_rows(ctx, images, outputs.subspan(at, n));
      });
}

void Dit::embed(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                std::span<Boundary> boundaries) const {
  check_whole(shard);
  require(batch.latents.size() == boundaries.size(), Errc::shape_mismatch,
          kPlace, "latents and boundaries differ in number");
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
  std::vector<Tensor> rows = boundary_tensors(kPlace, boundaries, 1, 0);
  for_each_group(
      ctx, rows.size(), rows_at_once(ctx, positions.dim(0)),
      [&](std::size_t at, std::size_t n) {
        const Tensor latents = stack_rows(ctx, batch.latents.subspan(at, n));
        Tensor hidden_states = take_hidden_states(ctx, n, positions.dim(0));
        embed_rows(ctx, latents, positions, hidden_states);
        unstack_rows(ctx, hidden_states, std::span(rows).subspan(at, n));
      });
}

void Dit::run_blocks(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                     int begin, int end, std::span<Boundary> boundaries) const {
  check_whole(shard);
  check_rows(kPlace, batch, boundaries.size(), false);
  check_owned(begin, end);
  if (boundaries.empty()) {
    return;
  }
  std::vector<Tensor> rows = checked_boundaries(boundaries);
  for_each_group(
      ctx, rows.size(), rows_at_once(ctx, rows[0].dim(0)),
      [&](std::size_t at, std::size_t n) {
        Tensor hidden_states = stack_rows(ctx, std::span(rows).subspan(at, n));
        const Tensor modulation =
            modulation_of(ctx, rows_of(batch, at, n), begin, end);
        replay(ctx,
               replay_key(begin, end, hidden_states, hidden_states, modulation),
               [&] { run_rows(ctx, modulation, begin, end, hidden_states); });
        unstack_rows(ctx, hidden_states, std::span(rows).subspan(at, n));
      });
}

void Dit::finish(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                 std::span<const Boundary> boundaries,
                 std::span<Tensor> outputs) const {
  check_whole(shard);
  check_rows(kPlace, batch, outputs.size(), false);
  require(boundaries.size() == outputs.size(), Errc::shape_mismatch, kPlace,
          "boundaries and results differ in number");
  require(weights_.embedder_0 != nullptr, Errc::invalid_argument, kPlace,
          "finish: this segment does not hold the last block");
  if (outputs.empty()) {
    return;
  }
  const auto num_layers = static_cast<int>(config_.num_layers);
  const std::vector<Tensor> rows = checked_boundaries(boundaries);
  const Shape result = checked_outputs(outputs, rows[0].dim(0));
  for_each_group(ctx, outputs.size(), rows_at_once(ctx, rows[0].dim(0)),
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

Shape Dit::checked_latents(std::span<const Tensor> latents) const {
  const Shape shape = common_shape(kPlace, "latents", latents);
  const bool fits = shape.rank() == 3 && shape[1] == shape[2] && shape[1] > 0 &&
                    DitDescription(config_).nearest_latents(shape) == shape;
  require(fits, Errc::shape_mismatch, kPlace,
          "latents: got " + to_string(shape) + ", expected squares as " +
              to_string(config_.latent_shape()) + " in patches of " +
              std::to_string(config_.patch_size));
  return shape;
}

Shape Dit::checked_outputs(std::span<const Tensor> outputs,
                           std::int64_t tokens) const {
  const Shape shape = common_shape(kPlace, "output", outputs);
  require(shape.rank() == 3 && shape[0] == config_.out_channels &&
              config_.num_tokens(shape) == tokens && shape[1] == shape[2],
          Errc::shape_mismatch, kPlace,
          "output: got " + to_string(shape) + ", expected " +
              std::to_string(config_.out_channels) + " channels of " +
              std::to_string(tokens) + " patches in a square");
  return shape;
}

std::vector<Tensor> Dit::checked_boundaries(
    std::span<const Boundary> boundaries) const {
  std::vector<Tensor> rows = boundary_tensors(kPlace, boundaries, 1, 0);
  require(rows[0].shape().rank() == 2 && rows[0].dim(1) == config_.width(),
          Errc::shape_mismatch, kPlace,
          "boundary: got " + to_string(rows[0].shape()) +
              ", expected tokens of width " + std::to_string(config_.width()));
  return rows;
}

Tensor Dit::positions_of(ExecContext& ctx, const Shape& latents) const {
  const std::int64_t height = latents[1] / config_.patch_size;
  const std::int64_t width = latents[2] / config_.patch_size;
  const std::lock_guard lock(positions_->mutex);
  Tensor& table = positions_->tables[{height, width}];
  if (table.empty()) {
    table = kernels::on_device(
        ctx, kernels::sincos_2d(config_.width(), height, width,
                                config_.sample_size / config_.patch_size, 1.0));
    ctx.synchronize();  // other contexts read it too
  }
  return table;
}

std::int64_t Dit::rows_at_once(ExecContext& ctx, std::int64_t tokens) {
  return dit_rows_at_once(tokens, ctx.device().kind);
}

Tensor Dit::take_hidden_states(ExecContext& ctx, std::size_t rows,
                               std::int64_t tokens) const {
  return ctx.workspace().take(
      {static_cast<std::int64_t>(rows), tokens, config_.width()}, DType::f32);
}

Tensor Dit::take_images(ExecContext& ctx, std::size_t rows,
                        const Shape& image) {
  return ctx.workspace().take(with_rows(static_cast<std::int64_t>(rows), image),
                              DType::f32);
}

void Dit::embed_rows(ExecContext& ctx, const Tensor& latents,
                     const Tensor& positions, Tensor& hidden_states) const {
  require(weights_.segment.begin == 0, Errc::invalid_argument, kPlace,
          "embed: this segment does not hold block 0");
  const std::int64_t rows = latents.dim(0);
  const Workspace::Scope scope(ctx.workspace());
  Tensor patches = ctx.workspace().take(
      {rows, hidden_states.dim(1),
       config_.in_channels * config_.patch_size * config_.patch_size},
      compute_);
  kernels::patchify(ctx, latents, config_.patch_size, patches);  // [B, N, Cpp]
  kernels::linear(ctx, patches, weights_.patch, kernels::Activation::none,
                  hidden_states);  // [B, N, D]
  for (std::int64_t i = 0; i < rows; ++i) {
    Tensor target = hidden_states.item(i);
    kernels::add(ctx, positions, target);  // [N, D]
  }
}

void Dit::replay(ExecContext& ctx, std::span<const std::uint64_t> key,
                 const std::function<void()>& fn) const {
  if (weights_.offloaded.empty()) {
    ctx.replay(identity_, key, fn);
  } else {
    fn();
  }
}

void Dit::check_owned(int begin, int end) const {
  const SegmentRange own = weights_.segment;
  if (begin < own.begin || end > own.end || begin > end) {
    throw Error(Errc::invalid_argument, kPlace,
                "blocks: got " + std::to_string(begin) + " to " +
                    std::to_string(end) + ", expected a part of " +
                    std::to_string(own.begin) + " to " +
                    std::to_string(own.end));
  }
}

Tensor Dit::modulation_of(ExecContext& ctx, const Batch& batch, int begin,
                          int end) const {
  const auto rows = static_cast<std::int64_t>(batch.conditions.size());
  Tensor table =
      ctx.workspace().take({rows, modulation().width(begin, end)}, DType::f32);
  if (begin < end) {
    modulation().fill(ctx, batch, begin, end, table);
  }
  return table;
}

void Dit::run_rows(ExecContext& ctx, const Tensor& modulation, int begin,
                   int end, Tensor& hidden_states) const {
  if (begin == end) {
    return;
  }
  const Workspace::Scope scope(ctx.workspace());
  Activations act(ctx.workspace(), config_, compute_, hidden_states.dim(0),
                  hidden_states.dim(1));
  kernels::ResidualStream stream(ctx, hidden_states, modulation);
  for (int i = begin; i < end; ++i) {
    // After the last block the first: the next pass begins there.
    weights_.fetch_products(ctx, i, i + 1 == end ? begin : i + 1);
    run_block(ctx, i, this->modulation().width(begin, i), act, stream);
    ctx.tick(static_cast<std::uint64_t>(hidden_states.dim(0)));
  }
  stream.settle(ctx);
}

void Dit::run_block(ExecContext& ctx, int index, std::int64_t column,
                    Activations& act, kernels::ResidualStream& stream) const {
  using kernels::Activation;
  const DitBlockWeights& block =
      weights_.blocks[static_cast<std::size_t>(index - weights_.segment.begin)];
  const std::int64_t width = config_.width();
  const std::int64_t shift_msa = column;
  const std::int64_t scale_msa = column + width;
  const std::int64_t gate_msa = column + 2 * width;
  const std::int64_t shift_mlp = column + 3 * width;
  const std::int64_t scale_mlp = column + 4 * width;
  const std::int64_t gate_mlp = column + 5 * width;

  stream.layer_norm_modulate(ctx, shift_msa, scale_msa, kFirstNormEps,
                             act.normed);  // [B, N, D]
  kernels::linear(ctx, act.normed, block.qkv, Activation::none,
                  act.qkv);  // [B, N, 3D]
  kernels::attention(ctx, {act.qkv, 0}, {act.qkv, width}, {act.qkv, 2 * width},
                     config_.num_attention_heads, config_.attention_head_dim,
                     act.normed);  // [B, N, D]
  stream.add_gated_linear(ctx, act.normed, block.out, gate_msa);

  stream.layer_norm_modulate(ctx, shift_mlp, scale_mlp, config_.norm_eps,
                             act.normed);  // [B, N, D]
  if (config_.gated_mlp) {
    kernels::linear(ctx, act.normed, block.mlp_up, Activation::none,
                    act.gated_mlp);  // [B, N, 8D]
    kernels::activate_gated(ctx, act.gated_mlp, config_.activation,
                            act.mlp);  // [B, N, 4D]
  } else {
    kernels::linear(ctx, act.normed, block.mlp_up, config_.activation,
                    act.mlp);  // [B, N, 4D]
  }
  stream.add_gated_linear(ctx, act.mlp, block.mlp_down, gate_mlp);
}

void Dit::finish_rows(ExecContext& ctx, const Tensor& modulation,
                      const Tensor& hidden_states, Tensor& images) const {
  const std::int64_t rows = hidden_states.dim(0);
  const std::int64_t width = config_.width();
  const std::int64_t column = modulation.dim(1) - 2 * width;
  const Workspace::Scope scope(ctx.workspace());
  Tensor normed =
      ctx.workspace().take({rows, hidden_states.dim(1), width}, compute_);
  kernels::layer_norm_modulate(ctx, hidden_states, modulation, column,
                               column + width, kFirstNormEps,
                               normed);  // [B, N, D]
  Tensor patches = ctx.workspace().take(
      {rows, hidden_states.dim(1),
       config_.patch_size * config_.patch_size * config_.out_channels},
      DType::f32);
  kernels::linear(ctx, normed, weights_.proj_out_2, kernels::Activation::none,
                  patches);  // [B, N, ppC]
  kernels::unpatchify(ctx, patches, config_.patch_size,
                      images);  // [B, C, H, W]
}

}  // namespace troupe::models
