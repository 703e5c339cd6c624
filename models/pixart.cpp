#include "models/pixart.h"

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/residual_stream.h"
#include "models/pixart_description.h"

// B rows, N tokens, L tokens of a row's prompt, D width.

namespace troupe::models {

PixArt::PixArt(ExecContext& ctx, const PixArtConfig& config,
               SegmentRange segment, DType compute, WeightSource& source,
               WeightPlacement placement)
    : PatchDenoiser(
          {.place = "pixart",
           .grid = config.grid(),
           .width = config.width(),
           .num_layers = config.num_layers,
           .interpolation = config.interpolation_scale,
           .segment = checked_segment("pixart", config.num_layers, segment),
           .compute = compute}),
      config_(config),
      weights_(load_pixart_weights(ctx, config, this->segment(), compute,
                                   source, placement)) {
  DenoiserInfo info =
      PixArtDescription(config).info(config.grid().latent_shape(), compute);
  info.parameter_bytes = weights_.num_bytes;
  info.weights_hash = weights_.hash;
  set_info(ctx, std::move(info));
}

PreparedPtr PixArt::prepare(ExecContext& ctx, const Condition& condition,
                            std::span<const double> timesteps) const {
  return conditioner().prepare(ctx, condition, timesteps);
}

/// A recording reads the prompts' keys and values at these addresses, which
/// other prompts of as many tokens may get later.
void PixArt::append_operands(ExecContext& ctx, const Batch& rows,
                             ReplayKey& key) const {
  for (const PixArtCondition* condition :
       conditioner().conditions_of(ctx, rows)) {
    const Tensor& key_values = condition->all_key_values();
    key.push_back(address_of(key_values));
    key.push_back(static_cast<std::uint64_t>(key_values.dim(1)));
  }
}

Tensor PixArt::modulation_of(ExecContext& ctx, const Batch& rows, int begin,
                             int end) const {
  Tensor table =
      ctx.workspace().take({static_cast<std::int64_t>(rows.conditions.size()),
                            conditioner().width(begin, end)},
                           DType::f32);
  if (begin < end) {
    conditioner().fill(ctx, rows, begin, end, table);
  }
  return table;
}

void PixArt::run_rows(ExecContext& ctx, const Batch& rows,
                      const Tensor& modulation, int begin, int end,
                      Tensor& hidden_states) const {
  if (begin == end) {
    return;
  }
  const auto conditions = conditioner().conditions_of(ctx, rows);
  const Workspace::Scope scope(ctx.workspace());
  const AdalnShape shape = config_.block_shape();
  const std::int64_t width = shape.width();
  BlockBuffers buffers(ctx.workspace(), shape, compute(), hidden_states.dim(0),
                       hidden_states.dim(1));
  kernels::ResidualStream stream(ctx, hidden_states, modulation);
  for (int i = begin; i < end; ++i) {
    // After the last block the first: the next pass begins there.
    weights_.fetch_products(ctx, i, i + 1 == end ? begin : i + 1);
    const PixArtBlockWeights& block =
        weights_.blocks[static_cast<std::size_t>(i - segment().begin)];
    const std::int64_t column = conditioner().width(begin, i);
    add_self_attention(ctx, shape, block, column, config_.norm_eps, buffers,
                       stream);
    add_cross_attention(ctx, i, conditions, hidden_states, buffers, stream);
    add_feed_forward(ctx, shape, block, column + 3 * width, config_.norm_eps,
                     buffers, stream);
    ctx.tick(static_cast<std::uint64_t>(hidden_states.dim(0)));
  }
  stream.settle(ctx);
}

void PixArt::add_cross_attention(
    ExecContext& ctx, int index,
    std::span<const PixArtCondition* const> conditions, const Tensor& x,
    BlockBuffers& buffers, kernels::ResidualStream& stream) const {
  const PixArtBlockWeights& block =
      weights_.blocks[static_cast<std::size_t>(index - segment().begin)];
  stream.settle(ctx);
  if (compute() != DType::f32) {
    kernels::convert(ctx, x, buffers.normed);  // [B, N, D]
  }
  Tensor queries = buffers.third(0);
  kernels::linear(ctx, compute() == DType::f32 ? x : buffers.normed,
                  block.cross_query, kernels::Activation::none,
                  queries);  // [B, N, D]
  const Tensor attended = buffers.third(1);
  // Each row has keys of its own number; a call with one row has the same bits
  // in every batch.
  for (std::int64_t i = 0; i < x.dim(0); ++i) {
    const Tensor key_values =
        conditions[static_cast<std::size_t>(i)]->key_values(index);
    Tensor out = attended.slice(i, i + 1);
    kernels::attention(ctx, {queries.slice(i, i + 1), 0}, {key_values, 0},
                       {key_values, config_.width()},
                       config_.num_attention_heads, config_.attention_head_dim,
                       out);  // [1, N, D]
  }
  stream.add_linear(ctx, attended, block.cross_out);
}

}  // namespace troupe::models
