#include "models/network/network_meter.h"

#include <utility>

namespace troupe::models {

NetworkMeter::NetworkMeter(std::unique_ptr<ExecContext> ctx,
                           std::unique_ptr<const Network> network,
                           Condition condition)
    : ctx_(std::move(ctx)),
      driver_(std::move(network), {}, nullptr),
      prepared_(
          driver_.prepare(*ctx_, condition, std::span(&kMeteredTimestep, 1))) {}

const NetworkFigures& NetworkMeter::figures(const Shape& latents) const {
  const std::lock_guard lock(mutex_);
  const auto extents = latents.extents();
  const std::vector<std::int64_t> key(extents.begin(), extents.end());
  const auto found = known_.find(key);
  if (found != known_.end()) {
    return found->second;
  }
  return known_.emplace(key, measure(latents)).first->second;
}

NetworkFigures NetworkMeter::measure(const Shape& latents) const {
  ExecContext& ctx = *ctx_;
  ShardContext whole;
  const Tensor row = ctx.empty(latents, DType::f32);
  const PreparedCondition* condition = prepared_.get();
  const Batch batch{std::span(&row, 1), std::span(&kMeteredTimestep, 1),
                    std::span(&condition, 1), latents};
  std::vector<Boundary> boundaries(1);
  NetworkFigures figures;
  const auto flops_of = [&](const auto& work) {
    const double before = ctx.meter().flops();
    work();
    return ctx.meter().flops() - before;
  };
  const auto note_boundary = [&] {
    std::vector<TensorKind>& kinds = figures.boundaries.emplace_back();
    for (const NamedTensor& named : boundaries[0]) {
      kinds.push_back({named.name, named.tensor.shape(), named.tensor.dtype()});
    }
  };
  figures.embed_flops =
      flops_of([&] { driver_.embed(ctx, whole, batch, boundaries); });
  note_boundary();
  for (int i = 0; i < driver_.num_blocks(); ++i) {
    figures.block_flops.push_back(flops_of(
        [&] { driver_.run_blocks(ctx, whole, batch, i, i + 1, boundaries); }));
    note_boundary();
  }
  Tensor output =
      ctx.empty(with_channels(latents, driver_.out_channels()), DType::f32);
  figures.finish_flops = flops_of([&] {
    driver_.finish(ctx, whole, batch, boundaries, std::span(&output, 1));
  });
  return figures;
}

}  // namespace troupe::models
