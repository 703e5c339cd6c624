#include "models/dit.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/core/error.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/norm.h"
#include "kernels/patchify.h"
#include "models/dit_info.h"

// B rows, N tokens, D width, C channels, p patch size.

namespace troupe::models {
namespace {

constexpr std::int64_t kTimestepDim = 256;
constexpr float kFirstNormEps = 1e-6F;  // fixed in diffusers, not norm_eps

class DitCondition final : public PreparedCondition {
 public:
  explicit DitCondition(std::int64_t label) : class_label(label) {}
  const std::int64_t class_label;
};

std::int64_t class_label_of(const PreparedCondition* condition) {
  const auto* dit = dynamic_cast<const DitCondition*>(condition);
  require(dit != nullptr, Errc::invalid_argument, "dit",
          "the condition was not prepared by a DiT");
  return dit->class_label;
}

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

void copy_bytes(const Tensor& from, Tensor& to) {
  std::memcpy(to.bytes().data(), from.bytes().data(), from.num_bytes());
}

Batch rows_of(const Batch& batch, std::size_t begin, std::size_t count) {
  return {batch.latents.empty() ? batch.latents
                                : batch.latents.subspan(begin, count),
          batch.timesteps.subspan(begin, count),
          batch.conditions.subspan(begin, count)};
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
      : frequencies(workspace.take({rows, kTimestepDim}, DType::f32)),
        timestep_in(workspace.take({rows, 1, kTimestepDim}, compute)),
        timestep_hidden(workspace.take({rows, 1, config.width()}, compute)),
        conditioning(workspace.take({rows, 1, config.width()}, DType::f32)),
        silu_conditioning(workspace.take({rows, 1, config.width()}, compute)),
        modulation(workspace.take({rows, 1, 6 * config.width()}, DType::f32)),
        normed(workspace.take({rows, config.num_tokens(), config.width()},
                              compute)),
        qkv(workspace.take({rows, config.num_tokens(), 3 * config.width()},
                           compute)),
        mlp(workspace.take({rows, config.num_tokens(), config.mlp_width()},
                           compute)) {}

  Tensor frequencies;        // [B, 256]
  Tensor timestep_in;        // [B, 1, 256]
  Tensor timestep_hidden;    // [B, 1, D]
  Tensor conditioning;       // [B, 1, D]
  Tensor silu_conditioning;  // [B, 1, D]
  Tensor modulation;         // [B, 1, 6D]
  Tensor normed;             // [B, N, D], later the attended values
  Tensor qkv;                // [B, N, 3D]
  Tensor mlp;                // [B, N, 4D]
};

Dit::Dit(ExecContext& ctx, const DitConfig& config, SegmentRange segment,
         DType compute, WeightSource& source)
    : config_(config),
      compute_(compute),
      weights_(load_dit_weights(ctx, config, checked_segment(config, segment),
                                compute, source)),
      info_(dit_info(config, compute)) {
  info_.parameter_bytes = weights_.num_bytes;
  info_.weights_hash = weights_.hash;
}

PreparedPtr Dit::prepare(ExecContext& /*ctx*/,
                         const Condition& condition) const {
  if (condition.class_label < 0 ||
      condition.class_label > config_.num_classes) {
    throw Error(Errc::invalid_argument, "class",
                "got " + std::to_string(condition.class_label) +
                    ", expected 0 to " + std::to_string(config_.num_classes) +
                    " (the last one is 'no class')",
                "choose another class");
  }
  return std::make_shared<const DitCondition>(condition.class_label);
}

void Dit::predict(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                  std::span<Tensor> outputs) const {
  check_whole(shard);
  check_rows(batch, outputs.size());
  require(batch.latents.size() == outputs.size(), Errc::shape_mismatch, "dit",
          "latents and results differ in number");
  in_groups(outputs.size(), dit_rows_at_once(config_),
            [&](std::size_t at, std::size_t n) {
              const Workspace::Scope scope(ctx.workspace());
              const Batch rows = rows_of(batch, at, n);
              Tensor hidden_states =
                  ctx.workspace().take({static_cast<std::int64_t>(n),
                                        config_.num_tokens(), config_.width()},
                                       DType::f32);
              embed_rows(ctx, rows, hidden_states);
              run_rows(ctx, rows, 0, static_cast<int>(config_.num_layers),
                       hidden_states);
              finish_rows(ctx, rows, hidden_states, outputs.subspan(at, n));
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
        boundary[0].tensor.dtype() != DType::f32) {
      boundary.assign(1, {"hidden_states", Tensor(row, DType::f32)});
    }
  }
  in_groups(
      boundaries.size(), dit_rows_at_once(config_),
      [&](std::size_t at, std::size_t n) {
        const Workspace::Scope scope(ctx.workspace());
        Tensor hidden_states = ctx.workspace().take(
            {static_cast<std::int64_t>(n), row[0], row[1]}, DType::f32);
        embed_rows(ctx, {batch.latents.subspan(at, n), {}, {}}, hidden_states);
        for (std::size_t i = 0; i < n; ++i) {
          copy_bytes(hidden_states.item(static_cast<std::int64_t>(i)),
                     boundaries[at + i][0].tensor);
        }
      });
}

namespace {

/// Rows' boundaries side by side, [B, N, D].
void gather(std::span<const Boundary> boundaries, Tensor& hidden_states) {
  for (std::size_t i = 0; i < boundaries.size(); ++i) {
    Tensor row = hidden_states.item(static_cast<std::int64_t>(i));
    require(
        boundaries[i].size() == 1 &&
            boundaries[i][0].tensor.shape() == row.shape() &&
            boundaries[i][0].tensor.dtype() == DType::f32,
        Errc::shape_mismatch, "dit",
        "boundary: expected one tensor " + to_string(row.shape()) + " of f32");
    copy_bytes(boundaries[i][0].tensor, row);
  }
}

}  // namespace

void Dit::run_blocks(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                     int begin, int end, std::span<Boundary> boundaries) const {
  check_whole(shard);
  check_rows(batch, boundaries.size());
  in_groups(boundaries.size(), dit_rows_at_once(config_),
            [&](std::size_t at, std::size_t n) {
              const Workspace::Scope scope(ctx.workspace());
              Tensor hidden_states =
                  ctx.workspace().take({static_cast<std::int64_t>(n),
                                        config_.num_tokens(), config_.width()},
                                       DType::f32);
              gather(boundaries.subspan(at, n), hidden_states);
              run_rows(ctx, rows_of(batch, at, n), begin, end, hidden_states);
              for (std::size_t i = 0; i < n; ++i) {
                copy_bytes(hidden_states.item(static_cast<std::int64_t>(i)),
                           boundaries[at + i][0].tensor);
              }
            });
}

void Dit::finish(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                 std::span<const Boundary> boundaries,
                 std::span<Tensor> outputs) const {
  check_whole(shard);
  check_rows(batch, outputs.size());
  require(boundaries.size() == outputs.size(), Errc::shape_mismatch, "dit",
          "boundaries and results differ in number");
  in_groups(outputs.size(), dit_rows_at_once(config_),
            [&](std::size_t at, std::size_t n) {
              const Workspace::Scope scope(ctx.workspace());
              Tensor hidden_states =
                  ctx.workspace().take({static_cast<std::int64_t>(n),
                                        config_.num_tokens(), config_.width()},
                                       DType::f32);
              gather(boundaries.subspan(at, n), hidden_states);
              finish_rows(ctx, rows_of(batch, at, n), hidden_states,
                          outputs.subspan(at, n));
            });
}

void Dit::embed_rows(ExecContext& ctx, const Batch& batch,
                     Tensor& hidden_states) const {
  require(weights_.segment.begin == 0, Errc::invalid_argument, "dit",
          "embed: this segment does not hold block 0");
  const auto rows = static_cast<std::int64_t>(batch.latents.size());
  const Shape row = info_.latent_shape;
  const Workspace::Scope scope(ctx.workspace());
  Tensor latents =
      ctx.workspace().take({rows, row[0], row[1], row[2]}, DType::f32);
  for (std::int64_t i = 0; i < rows; ++i) {
    const Tensor& source = batch.latents[static_cast<std::size_t>(i)];
    if (source.shape() != row || source.dtype() != DType::f32) {
      throw Error(Errc::shape_mismatch, "dit",
                  "latents: got " + to_string(source.shape()) + ", expected " +
                      to_string(row) + " of f32");
    }
    Tensor target = latents.item(i);
    copy_bytes(source, target);
  }
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

void Dit::condition_rows(ExecContext& ctx, const Batch& batch,
                         const DitEmbedder& embedder, Activations& act) const {
  using kernels::Activation;
  kernels::timestep_embedding(batch.timesteps, 1.0, 10000.0, act.frequencies);
  Tensor frequencies = act.frequencies.reshape(act.timestep_in.shape());
  kernels::convert(ctx, frequencies, act.timestep_in);  // [B, 1, 256]
  kernels::linear(ctx, act.timestep_in, embedder.timestep_1, Activation::silu,
                  act.timestep_hidden);  // [B, 1, D]
  kernels::linear(ctx, act.timestep_hidden, embedder.timestep_2,
                  Activation::none, act.conditioning);  // [B, 1, D]
  for (std::size_t i = 0; i < batch.conditions.size(); ++i) {
    Tensor row = act.conditioning.item(static_cast<std::int64_t>(i));  // [1, D]
    const Tensor label =
        embedder.class_table.item(class_label_of(batch.conditions[i]))
            .reshape(row.shape());
    kernels::add(ctx, label, row);
  }
  kernels::activate(ctx, act.conditioning, Activation::silu,
                    act.silu_conditioning);  // [B, 1, D]
}

void Dit::run_rows(ExecContext& ctx, const Batch& batch, int begin, int end,
                   Tensor& hidden_states) const {
  const SegmentRange own = weights_.segment;
  if (begin < own.begin || end > own.end || begin > end) {
    throw Error(Errc::invalid_argument, "dit",
                "blocks: got " + std::to_string(begin) + " to " +
                    std::to_string(end) + ", expected a part of " +
                    std::to_string(own.begin) + " to " +
                    std::to_string(own.end));
  }
  const Workspace::Scope scope(ctx.workspace());
  Activations act(ctx.workspace(), config_, compute_, hidden_states.dim(0));
  const DitEmbedder* embedder = nullptr;
  for (int i = begin; i < end; ++i) {
    const DitBlockWeights& block =
        weights_.blocks[static_cast<std::size_t>(i - own.begin)];
    if (block.embedder.get() != embedder) {
      embedder = block.embedder.get();
      condition_rows(ctx, batch, *embedder, act);
    }
    run_block(ctx, block, act, hidden_states);
    ctx.tick(static_cast<std::uint64_t>(hidden_states.dim(0)));
  }
}

void Dit::run_block(ExecContext& ctx, const DitBlockWeights& block,
                    Activations& act, Tensor& hidden_states) const {
  using kernels::Activation;
  const std::int64_t width = config_.width();
  kernels::linear(ctx, act.silu_conditioning, block.modulation,
                  Activation::none, act.modulation);  // [B, 1, 6D]
  // Columns: shift, scale, gate of attention, then shift, scale, gate of MLP.
  const Tensor modulation =
      act.modulation.reshape({hidden_states.dim(0), 6 * width});

  kernels::layer_norm_modulate(ctx, hidden_states, modulation, 0, width,
                               kFirstNormEps, act.normed);  // [B, N, D]
  kernels::linear(ctx, act.normed, block.qkv, Activation::none,
                  act.qkv);  // [B, N, 3D]
  kernels::attention(ctx, {act.qkv, 0}, {act.qkv, width}, {act.qkv, 2 * width},
                     config_.num_attention_heads, config_.attention_head_dim,
                     act.normed);  // [B, N, D]
  kernels::linear_add_gated(ctx, act.normed, block.out, modulation, 2 * width,
                            hidden_states);

  kernels::layer_norm_modulate(ctx, hidden_states, modulation, 3 * width,
                               4 * width, config_.norm_eps,
                               act.normed);  // [B, N, D]
  kernels::linear(ctx, act.normed, block.mlp_up, config_.activation,
                  act.mlp);  // [B, N, 4D]
  kernels::linear_add_gated(ctx, act.mlp, block.mlp_down, modulation, 5 * width,
                            hidden_states);
}

void Dit::finish_rows(ExecContext& ctx, const Batch& batch,
                      const Tensor& hidden_states,
                      std::span<Tensor> outputs) const {
  using kernels::Activation;
  require(weights_.embedder_0 != nullptr, Errc::invalid_argument, "dit",
          "finish: this segment does not hold the last block");
  const std::int64_t rows = hidden_states.dim(0);
  const std::int64_t width = config_.width();
  const Workspace::Scope scope(ctx.workspace());
  Activations act(ctx.workspace(), config_, compute_, rows);
  condition_rows(ctx, batch, *weights_.embedder_0, act);
  Tensor modulation = ctx.workspace().take({rows, 1, 2 * width}, DType::f32);
  kernels::linear(ctx, act.silu_conditioning, weights_.proj_out_1,
                  Activation::none, modulation);  // [B, 1, 2D]: shift, scale
  kernels::layer_norm_modulate(ctx, hidden_states,
                               modulation.reshape({rows, 2 * width}), 0, width,
                               kFirstNormEps, act.normed);  // [B, N, D]
  Tensor patches = ctx.workspace().take(
      {rows, config_.num_tokens(),
       config_.patch_size * config_.patch_size * config_.out_channels},
      DType::f32);
  kernels::linear(ctx, act.normed, weights_.proj_out_2, Activation::none,
                  patches);  // [B, N, ppC]
  const Shape image{1, config_.out_channels, config_.sample_size,
                    config_.sample_size};
  const Shape row{image[1], image[2], image[3]};
  for (std::int64_t i = 0; i < rows; ++i) {
    Tensor& output = outputs[static_cast<std::size_t>(i)];
    if (output.shape() != row || output.dtype() != DType::f32) {
      throw Error(Errc::shape_mismatch, "dit",
                  "output: got " + to_string(output.shape()) + ", expected " +
                      to_string(row) + " of f32");
    }
    Tensor target = output.reshape(image);
    kernels::unpatchify(ctx, patches.slice(i, i + 1), config_.patch_size,
                        target);  // [1, C, H, W]
  }
}

}  // namespace troupe::models
