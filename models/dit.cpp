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
#include "kernels/norm.h"
#include "kernels/patchify.h"
#include "models/dit_info.h"
#include "models/dit_modulation.h"

// B rows, N tokens, D width, C channels, p patch size.

namespace troupe::models {
namespace {

constexpr float kFirstNormEps = 1e-6F;  // fixed in diffusers, not norm_eps

void check_rows(const Batch& batch, std::size_t results) {
  require(batch.timesteps.size() == batch.conditions.size() &&
              batch.timesteps.size() == results,
          Errc::shape_mismatch, "dit",
          "timesteps, conditions and results differ in number");
}

void check_whole(const ShardContext& shard) {
  require(shard.world_size() == 1, Errc::unsupported, "dit",
          "token shards: got " + std::to_string(shard.world_size()) +
              " ranks, expected 1");
}

/// Names work that is the same whenever it comes again: which parts of the
/// network, for how many rows, on which memory.
std::array<std::uint64_t, 5> replay_key(int begin, int end, const Tensor& first,
                                        const Tensor& last) {
  const auto address = [](const Tensor& tensor) {
    return static_cast<std::uint64_t>(
        reinterpret_cast<std::uintptr_t>(tensor.bytes().data()));
  };
  return {static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end),
          static_cast<std::uint64_t>(first.dim(0)), address(first),
          address(last)};
}

Batch rows_of(const Batch& batch, std::size_t begin, std::size_t count) {
  return {batch.latents.empty() ? batch.latents
                                : batch.latents.subspan(begin, count),
          batch.timesteps.subspan(begin, count),
          batch.conditions.subspan(begin, count)};
}

/// The one tensor of each row's boundary. Errors: Errc::shape_mismatch.
std::vector<Tensor> hidden_states_of(std::span<const Boundary> boundaries,
                                     const Shape& row) {
  std::vector<Tensor> rows;
  for (const Boundary& boundary : boundaries) {
    require(boundary.size() == 1 && boundary[0].tensor.shape() == row &&
                boundary[0].tensor.dtype() == DType::f32,
            Errc::shape_mismatch, "dit",
            "boundary: expected one tensor " + to_string(row) + " of f32");
    rows.push_back(boundary[0].tensor);
  }
  return rows;
}

/// Rows' boundaries side by side, [B, N, D].
void gather(ExecContext& ctx, std::span<const Boundary> boundaries,
            Tensor& hidden_states) {
  kernels::gather(ctx,
                  hidden_states_of(boundaries, hidden_states.item(0).shape()),
                  hidden_states);
}

/// And back.
void scatter(ExecContext& ctx, const Tensor& hidden_states,
             std::span<const Boundary> boundaries) {
  std::vector<Tensor> rows =
      hidden_states_of(boundaries, hidden_states.item(0).shape());
  kernels::scatter(ctx, hidden_states, rows);
}

/// Calls fn(begin, count) for groups of at most `most` rows.
template <typename Fn>
void in_groups(std::size_t rows, std::int64_t most, const Fn& fn) {
  const auto step = static_cast<std::size_t>(most);
  for (std::size_t begin = 0; begin < rows; begin += step) {
    fn(begin, std::min(step, rows - begin));
  }
}

}  // namespace

/// Buffers of one forward pass, taken from the workspace.
struct Dit::Activations {
  Activations(Workspace& workspace, const DitConfig& config, DType compute,
              std::int64_t rows)
      : normed(workspace.take({rows, config.num_tokens(), config.width()},
                              compute)),
        qkv(workspace.take({rows, config.num_tokens(), 3 * config.width()},
                           compute)),
        mlp(workspace.take({rows, config.num_tokens(), config.mlp_width()},
                           compute)) {
    if (config.gated_mlp) {
      gated_mlp = workspace.take(
          {rows, config.num_tokens(), 2 * config.mlp_width()}, compute);
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
      info_(dit_info(config, compute)) {
  info_.parameter_bytes = weights_.num_bytes;
  info_.weights_hash = weights_.hash;
  info_.bytes_per_timestep =
      static_cast<std::size_t>(modulation().width()) * sizeof(float);
}

PreparedPtr Dit::prepare(ExecContext& ctx, const Condition& condition) const {
  return modulation().prepare(ctx, condition);
}

void Dit::predict(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                  std::span<Tensor> outputs) const {
  check_whole(shard);
  check_rows(batch, outputs.size());
  require(batch.latents.size() == outputs.size(), Errc::shape_mismatch, "dit",
          "latents and results differ in number");
  const auto num_layers = static_cast<int>(config_.num_layers);
  check_owned(0, num_layers);
  in_groups(outputs.size(), dit_rows_at_once(config_, ctx.device().kind),
            [&](std::size_t at, std::size_t n) {
              const Workspace::Scope scope(ctx.workspace());
              const Batch rows = rows_of(batch, at, n);
              const Tensor latents = gather_latents(ctx, rows.latents);
              const Tensor modulation =
                  modulation_of(ctx, rows, 0, num_layers + 1);
              Tensor hidden_states = take_hidden_states(ctx, n);
              Tensor images = take_images(ctx, n);
              replay(ctx, replay_key(0, num_layers + 1, latents, images), [&] {
                embed_rows(ctx, latents, hidden_states);
                run_rows(ctx, modulation, 0, num_layers, hidden_states);
                finish_rows(ctx, modulation, hidden_states, images);
              });
              scatter_images(ctx, images, outputs.subspan(at, n));
            });
}

void Dit::embed(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                std::span<Boundary> boundaries) const {
  check_whole(shard);
  require(batch.latents.size() == boundaries.size(), Errc::shape_mismatch,
          "dit", "latents and boundaries differ in number");
  const Shape row{config_.num_tokens(), config_.width()};
  for (Boundary& boundary : boundaries) {
    if (boundary.size() != 1 || boundary[0].tensor.shape() != row ||
        boundary[0].tensor.dtype() != DType::f32 ||
        !(boundary[0].tensor.device() == ctx.device())) {
      boundary.assign(1, {"hidden_states", ctx.empty(row, DType::f32)});
    }
  }
  in_groups(boundaries.size(), dit_rows_at_once(config_, ctx.device().kind),
            [&](std::size_t at, std::size_t n) {
              const Workspace::Scope scope(ctx.workspace());
              const Tensor latents =
                  gather_latents(ctx, batch.latents.subspan(at, n));
              Tensor hidden_states = take_hidden_states(ctx, n);
              embed_rows(ctx, latents, hidden_states);
              scatter(ctx, hidden_states, boundaries.subspan(at, n));
            });
}

void Dit::run_blocks(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                     int begin, int end, std::span<Boundary> boundaries) const {
  check_whole(shard);
  check_rows(batch, boundaries.size());
  check_owned(begin, end);
  in_groups(
      boundaries.size(), dit_rows_at_once(config_, ctx.device().kind),
      [&](std::size_t at, std::size_t n) {
        const Workspace::Scope scope(ctx.workspace());
        Tensor hidden_states = take_hidden_states(ctx, n);
        gather(ctx, boundaries.subspan(at, n), hidden_states);
        const Tensor modulation =
            modulation_of(ctx, rows_of(batch, at, n), begin, end);
        replay(ctx, replay_key(begin, end, hidden_states, modulation),
               [&] { run_rows(ctx, modulation, begin, end, hidden_states); });
        scatter(ctx, hidden_states, boundaries.subspan(at, n));
      });
}

void Dit::finish(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                 std::span<const Boundary> boundaries,
                 std::span<Tensor> outputs) const {
  check_whole(shard);
  check_rows(batch, outputs.size());
  require(boundaries.size() == outputs.size(), Errc::shape_mismatch, "dit",
          "boundaries and results differ in number");
  require(weights_.embedder_0 != nullptr, Errc::invalid_argument, "dit",
          "finish: this segment does not hold the last block");
  const auto num_layers = static_cast<int>(config_.num_layers);
  in_groups(outputs.size(), dit_rows_at_once(config_, ctx.device().kind),
            [&](std::size_t at, std::size_t n) {
              const Workspace::Scope scope(ctx.workspace());
              Tensor hidden_states = take_hidden_states(ctx, n);
              gather(ctx, boundaries.subspan(at, n), hidden_states);
              Tensor images = take_images(ctx, n);
              finish_rows(ctx,
                          modulation_of(ctx, rows_of(batch, at, n), num_layers,
                                        num_layers + 1),
                          hidden_states, images);
              scatter_images(ctx, images, outputs.subspan(at, n));
            });
}

Tensor Dit::gather_latents(ExecContext& ctx,
                           std::span<const Tensor> latents) const {
  const Shape row = info_.latent_shape;
  const auto rows = static_cast<std::int64_t>(latents.size());
  Tensor gathered =
      ctx.workspace().take({rows, row[0], row[1], row[2]}, DType::f32);
  std::vector<Tensor> sources;
  for (const Tensor& source : latents) {
    if (source.shape() != row || source.dtype() != DType::f32) {
      throw Error(Errc::shape_mismatch, "dit",
                  "latents: got " + to_string(source.shape()) + ", expected " +
                      to_string(row) + " of f32");
    }
    sources.push_back(kernels::on_device(ctx, source));
  }
  kernels::gather(ctx, sources, gathered);
  return gathered;
}

Tensor Dit::take_hidden_states(ExecContext& ctx, std::size_t rows) const {
  return ctx.workspace().take(
      {static_cast<std::int64_t>(rows), config_.num_tokens(), config_.width()},
      DType::f32);
}

Tensor Dit::take_images(ExecContext& ctx, std::size_t rows) const {
  return ctx.workspace().take(
      {static_cast<std::int64_t>(rows), config_.out_channels,
       config_.sample_size, config_.sample_size},
      DType::f32);
}

void Dit::scatter_images(ExecContext& ctx, const Tensor& images,
                         std::span<Tensor> outputs) const {
  const Shape row = images.item(0).shape();
  bool is_here = true;
  for (const Tensor& output : outputs) {
    if (output.shape() != row || output.dtype() != DType::f32) {
      throw Error(Errc::shape_mismatch, "dit",
                  "output: got " + to_string(output.shape()) + ", expected " +
                      to_string(row) + " of f32");
    }
    is_here = is_here && output.device() == ctx.device();
  }
  if (is_here) {
    return kernels::scatter(ctx, images, outputs);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    kernels::copy(ctx, images.item(static_cast<std::int64_t>(i)), outputs[i]);
  }
}

void Dit::embed_rows(ExecContext& ctx, const Tensor& latents,
                     Tensor& hidden_states) const {
  require(weights_.segment.begin == 0, Errc::invalid_argument, "dit",
          "embed: this segment does not hold block 0");
  const std::int64_t rows = latents.dim(0);
  const Workspace::Scope scope(ctx.workspace());
  Tensor patches = ctx.workspace().take(
      {rows, config_.num_tokens(),
       config_.in_channels * config_.patch_size * config_.patch_size},
      compute_);
  kernels::patchify(ctx, latents, config_.patch_size, patches);  // [B, N, Cpp]
  kernels::linear(ctx, patches, weights_.patch, kernels::Activation::none,
                  hidden_states);  // [B, N, D]
  for (std::int64_t i = 0; i < rows; ++i) {
    Tensor target = hidden_states.item(i);
    kernels::add(ctx, weights_.positions, target);  // [N, D]
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
    throw Error(Errc::invalid_argument, "dit",
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
  Activations act(ctx.workspace(), config_, compute_, hidden_states.dim(0));
  kernels::layer_norm_modulate(ctx, hidden_states, modulation, 0,
                               config_.width(), kFirstNormEps,
                               act.normed);  // [B, N, D]
  for (int i = begin; i < end; ++i) {
    const bool is_last = i + 1 == end;
    // After the last block the first: the next pass begins there.
    weights_.visit_products(ctx, i, is_last ? begin : i + 1);
    run_block(ctx, i, modulation, this->modulation().width(begin, i), is_last,
              act, hidden_states);
    ctx.tick(static_cast<std::uint64_t>(hidden_states.dim(0)));
  }
}

void Dit::run_block(ExecContext& ctx, int index, const Tensor& modulation,
                    std::int64_t column, bool is_last, Activations& act,
                    Tensor& hidden_states) const {
  using kernels::Activation;
  const DitBlockWeights& block =
      weights_.blocks[static_cast<std::size_t>(index - weights_.segment.begin)];
  const std::int64_t width = config_.width();

  kernels::linear(ctx, act.normed, block.qkv, Activation::none,
                  act.qkv);  // [B, N, 3D]
  kernels::attention(ctx, {act.qkv, 0}, {act.qkv, width}, {act.qkv, 2 * width},
                     config_.num_attention_heads, config_.attention_head_dim,
                     act.normed);  // [B, N, D]
  kernels::linear_add_gated_layer_norm_modulate(
      ctx, act.normed, block.out, modulation, column + 2 * width,
      column + 3 * width, column + 4 * width, config_.norm_eps, hidden_states,
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
  const std::int64_t gate = column + 5 * width;
  if (is_last) {
    return kernels::linear_add_gated(ctx, act.mlp, block.mlp_down, modulation,
                                     gate, hidden_states);
  }
  const std::int64_t next = column + 6 * width;
  kernels::linear_add_gated_layer_norm_modulate(
      ctx, act.mlp, block.mlp_down, modulation, gate, next, next + width,
      kFirstNormEps, hidden_states, act.normed);  // [B, N, D]
}

void Dit::finish_rows(ExecContext& ctx, const Tensor& modulation,
                      const Tensor& hidden_states, Tensor& images) const {
  const std::int64_t rows = hidden_states.dim(0);
  const std::int64_t width = config_.width();
  const std::int64_t column = modulation.dim(1) - 2 * width;
  const Workspace::Scope scope(ctx.workspace());
  Tensor normed =
      ctx.workspace().take({rows, config_.num_tokens(), width}, compute_);
  kernels::layer_norm_modulate(ctx, hidden_states, modulation, column,
                               column + width, kFirstNormEps,
                               normed);  // [B, N, D]
  Tensor patches = ctx.workspace().take(
      {rows, config_.num_tokens(),
       config_.patch_size * config_.patch_size * config_.out_channels},
      DType::f32);
  kernels::linear(ctx, normed, weights_.proj_out_2, kernels::Activation::none,
                  patches);  // [B, N, ppC]
  kernels::unpatchify(ctx, patches, config_.patch_size,
                      images);  // [B, C, H, W]
}

}  // namespace troupe::models
