#include "models/dit.h"

#include "kernels/residual_stream.h"
#include "models/dit_description.h"

// B rows, N tokens, D width.

namespace troupe::models {
namespace {

constexpr float kFirstNormEps = 1e-6F;  // fixed in diffusers, not norm_eps

}  // namespace

Dit::Dit(ExecContext& ctx, const DitConfig& config, SegmentRange segment,
         DType compute, WeightSource& source, WeightPlacement placement)
    : PatchDenoiser(
          {.place = "dit",
           .grid = config.grid(),
           .width = config.width(),
           .num_layers = config.num_layers,
           .segment = checked_segment("dit", config.num_layers, segment),
           .compute = compute}),
      config_(config),
      weights_(load_dit_weights(ctx, config, this->segment(), compute, source,
                                placement)) {
  DenoiserInfo info =
      DitDescription(config).info(config.latent_shape(), compute);
  info.parameter_bytes = weights_.num_bytes;
  info.weights_hash = weights_.hash;
  info.bytes_per_timestep =
      static_cast<std::size_t>(modulation().width()) * sizeof(float);
  set_info(ctx, std::move(info));
}

PreparedPtr Dit::prepare(ExecContext& ctx, const Condition& condition,
                         std::span<const double> timesteps) const {
  return modulation().prepare(ctx, condition, timesteps);
}

Tensor Dit::modulation_of(ExecContext& ctx, const Batch& rows, int begin,
                          int end) const {
  Tensor table =
      ctx.workspace().take({static_cast<std::int64_t>(rows.conditions.size()),
                            modulation().width(begin, end)},
                           DType::f32);
  if (begin < end) {
    modulation().fill(ctx, rows, begin, end, table);
  }
  return table;
}

void Dit::run_rows(ExecContext& ctx, const Batch& /*rows*/,
                   const Tensor& modulation, int begin, int end,
                   Tensor& hidden_states) const {
  if (begin == end) {
    return;
  }
  const Workspace::Scope scope(ctx.workspace());
  const AdalnShape shape = config_.block_shape();
  BlockBuffers buffers(ctx.workspace(), shape, compute(), hidden_states.dim(0),
                       hidden_states.dim(1));
  kernels::ResidualStream stream(ctx, hidden_states, modulation);
  for (int i = begin; i < end; ++i) {
    // After the last block the first: the next pass begins there.
    weights_.fetch_products(ctx, i, i + 1 == end ? begin : i + 1);
    const DitBlockWeights& block =
        weights_.blocks[static_cast<std::size_t>(i - segment().begin)];
    const std::int64_t column = this->modulation().width(begin, i);
    add_self_attention(ctx, shape, block, column, kFirstNormEps, buffers,
                       stream);
    add_feed_forward(ctx, shape, block, column + 3 * shape.width(),
                     config_.norm_eps, buffers, stream);
    ctx.tick(static_cast<std::uint64_t>(hidden_states.dim(0)));
  }
  stream.settle(ctx);
}

}  // namespace troupe::models
