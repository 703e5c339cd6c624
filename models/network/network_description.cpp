#include "models/network/network_description.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "kernels/row_blocks.h"
#include "models/network/driver.h"
#include "models/network/metered_rank.h"

namespace troupe::models {
namespace {

/// The skips of a network: the newest is taken first.
std::vector<SkipInfo> skips_of(const std::vector<Stage>& stages) {
  std::vector<SkipInfo> skips;
  std::vector<std::size_t> live;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    if (stages[stage].takes_skip) {
      skips[live.back()].taken_by = static_cast<int>(stage) - 1;
      live.pop_back();
    }
    if (stages[stage].makes_skip) {
      live.push_back(skips.size());
      skips.push_back({.made_before = static_cast<int>(stage)});
    }
  }
  return skips;
}

/// Of a boundary behind a stage that makes one.
std::size_t newest_skip_bytes(const std::vector<TensorKind>& boundary) {
  std::size_t bytes = 0;
  for (const TensorKind& tensor : boundary) {
    if (tensor.name.starts_with("skip.")) {
      bytes = tensor.num_bytes();  // they stand in the order of their making
    }
  }
  return bytes;
}

std::unique_ptr<ExecContext> metering_context(DeviceKind kind) {
  return std::make_unique<ExecContext>(std::make_shared<Meter>(kind));
}

}  // namespace

struct NetworkDescription::Metered {
  std::shared_ptr<const NetworkMeter> meter;
  std::vector<Stage> stages;
  Sharding sharding = Sharding::none;
  Condition condition;
  std::vector<std::size_t> block_bytes;
  std::size_t bytes_per_timestep = 0;
  std::size_t bytes_per_prompt = 0;
};

struct NetworkDescription::Known {
  using Asked = std::tuple<std::vector<std::int64_t>, DType, DeviceKind,
                           WeightPlacement, int, int>;
  std::mutex mutex;
  std::map<DType, std::unique_ptr<const Metered>> metered;
  std::map<Asked, NetworkMemory> memory;
};

NetworkDescription::NetworkDescription() : known_(std::make_shared<Known>()) {}

std::vector<TensorSpec> NetworkDescription::specs(SegmentRange segment) const {
  std::vector<TensorSpec> specs;
  LayerReader reader(specs);
  (void)read(reader, segment, DType::f32);
  return specs;
}

ClassTensors NetworkDescription::tensors() const {
  ClassTensors tensors;
  for (TensorSpec& spec : specs({0, num_blocks()})) {
    tensors.names.push_back(std::move(spec.name));
  }
  return tensors;
}

const NetworkDescription::Metered& NetworkDescription::metered(
    DType compute) const {
  const std::lock_guard lock(known_->mutex);
  std::unique_ptr<const Metered>& known = known_->metered[compute];
  if (known) {
    return *known;
  }
  // A CPU has no f16.
  auto ctx = metering_context(compute == DType::f16 ? DeviceKind::cuda
                                                    : DeviceKind::cpu);
  LayerReader reader(*ctx, compute, WeightPlacement::resident);
  std::unique_ptr<const Network> network =
      read(reader, {0, num_blocks()}, compute);
  auto made = std::make_unique<Metered>();
  made->stages = network->layout().stages;
  made->sharding = network->layout().sharding;
  made->block_bytes = reader.block_bytes();
  made->bytes_per_timestep =
      static_cast<std::size_t>(network->table_width()) * sizeof(float);
  made->condition = any_condition({});
  Prepared prepared;
  network->prepare(*ctx, made->condition, prepared);
  made->bytes_per_prompt = prepared.num_bytes();
  made->meter = std::make_shared<const NetworkMeter>(
      std::move(ctx), std::move(network), made->condition);
  known = std::move(made);
  return *known;
}

DenoiserInfo NetworkDescription::info(const Shape& latents,
                                      DType compute) const {
  const Metered& metered = this->metered(compute);
  const NetworkFigures& figures = metered.meter->figures(latents);
  DenoiserInfo info;
  describe(info);
  info.class_name = class_name();
  info.latent_shape = latents;
  info.compute = compute;
  for (const TensorKind& stream : figures.boundaries[0]) {
    const std::int64_t tokens = stream.shape[0];
    info.most_ring_blocks =
        std::max(info.most_ring_blocks, tokens / kernels::kRowBlock);
    if (metered.sharding != Sharding::none) {
      info.most_shards =
          std::max(info.most_shards, tokens / NetworkDriver::kLeastTokens);
    }
  }
  for (std::size_t i = 0; i < figures.block_flops.size(); ++i) {
    // The hidden state: all streams, the newest skip where that is one.
    const std::vector<TensorKind>& tensors = figures.boundaries[i];
    std::size_t hidden = 0;
    for (const TensorKind& tensor : tensors) {
      hidden += tensor.name.starts_with("skip.") ? 0 : tensor.num_bytes();
    }
    if (metered.stages[i].makes_skip) {
      hidden += newest_skip_bytes(tensors);
    }
    info.blocks.push_back({.flops = figures.block_flops[i],
                           .parameter_bytes = metered.block_bytes[i],
                           .hidden_bytes = hidden});
  }
  info.skips = skips_of(metered.stages);
  for (SkipInfo& skip : info.skips) {
    skip.bytes = newest_skip_bytes(
        figures.boundaries[static_cast<std::size_t>(skip.made_before)]);
  }
  info.embed_flops = figures.embed_flops;
  info.finish_flops = figures.finish_flops;
  info.bytes_per_timestep = metered.bytes_per_timestep;
  info.bytes_per_prompt = metered.bytes_per_prompt;
  return info;
}

NetworkMemory NetworkDescription::memory(const Shape& latents, DType compute,
                                         DeviceKind kind,
                                         WeightPlacement placement,
                                         SegmentRange segment) const {
  segment = checked_segment(place(), num_blocks(), segment);
  const auto extents = latents.extents();
  const Known::Asked asked{{extents.begin(), extents.end()},
                           compute,
                           kind,
                           placement,
                           segment.begin,
                           segment.end};
  {
    const std::lock_guard lock(known_->mutex);
    const auto found = known_->memory.find(asked);
    if (found != known_->memory.end()) {
      return found->second;
    }
  }
  const NetworkMemory memory =
      measure(latents, compute, kind, placement, segment);
  const std::lock_guard lock(known_->mutex);
  return known_->memory.emplace(asked, memory).first->second;
}

NetworkMemory NetworkDescription::measure(const Shape& latents, DType compute,
                                          DeviceKind kind,
                                          WeightPlacement placement,
                                          SegmentRange segment) const {
  const auto ctx = metering_context(kind);
  LayerReader reader(*ctx, compute, placement);
  std::unique_ptr<const Network> network = read(reader, segment, compute);
  NetworkMemory memory;
  // Beside packed layers, the largest tensor while it is read.
  std::int64_t largest = 0;
  for (const TensorSpec& spec : specs(segment)) {
    largest = std::max(largest, spec.shape.num_elements());
  }
  memory.weights_bytes = reader.num_bytes() - reader.offloaded_bytes() +
                         static_cast<std::uint64_t>(largest) * sizeof(float);
  memory.visiting_bytes = 2 * reader.largest_offloaded();
  memory.rows_at_once = network->rows_at_once(latents, kind);

  DenoiserInfo info;
  describe(info);
  memory.row_bytes =
      static_cast<std::uint64_t>(
          NetworkMemory::kLatentsPerRow * latents.num_elements() +
          with_channels(latents, info.out_channels).num_elements()) *
      sizeof(float);

  const NetworkDriver driver(std::move(network), {}, nullptr);
  const PreparedPtr prepared = driver.prepare(*ctx, metered(compute).condition,
                                              std::span(&kMeteredTimestep, 1));
  // What `prepare` took is not of the pass.
  ExecContext fresh(std::make_shared<Meter>(kind));
  const PreparedCondition* condition = prepared.get();
  const Tensor row = fresh.empty(latents, DType::f32);
  const Batch batch{std::span(&row, 1), std::span(&kMeteredTimestep, 1),
                    std::span(&condition, 1), latents};
  Tensor output =
      fresh.empty(with_channels(latents, info.out_channels), DType::f32);
  ShardContext whole;
  if (segment.begin == 0 && segment.end == num_blocks()) {
    driver.predict(fresh, whole, batch, std::span(&output, 1));
  } else {
    std::vector<Boundary> boundaries(1);
    if (segment.begin == 0) {
      driver.embed(fresh, whole, batch, boundaries);
    } else {
      for (const TensorKind& kind :
           metered(compute)
               .meter->figures(latents)
               .boundaries[static_cast<std::size_t>(segment.begin)]) {
        boundaries[0].push_back(
            {kind.name, fresh.empty(kind.shape, kind.dtype)});
      }
    }
    driver.run_blocks(fresh, whole, batch, segment.begin, segment.end,
                      boundaries);
    if (segment.end == num_blocks()) {
      driver.finish(fresh, whole, batch, boundaries, std::span(&output, 1));
    }
  }
  memory.pass_bytes = fresh.workspace().peak_bytes();
  memory.scratch.attention = fresh.meter().attention_thread_bytes();
  memory.scratch.convolution = fresh.meter().convolution_thread_bytes();
  return memory;
}

ShardFigures NetworkDescription::shard_figures(const Shape& latents,
                                               DType compute, DeviceKind kind,
                                               AttentionPlan plan,
                                               int world_size) const {
  const auto ctx = metering_context(kind);
  LayerReader reader(*ctx, compute, WeightPlacement::resident);
  const NetworkDriver driver(read(reader, {0, num_blocks()}, compute), {},
                             metered(compute).meter);
  const PreparedPtr prepared = driver.prepare(*ctx, metered(compute).condition,
                                              std::span(&kMeteredTimestep, 1));
  const PreparedCondition* condition = prepared.get();
  const Tensor row = ctx->empty(latents, DType::f32);
  const Batch batch{std::span(&row, 1), std::span(&kMeteredTimestep, 1),
                    std::span(&condition, 1), latents};
  Tensor output =
      ctx->empty(with_channels(latents, driver.out_channels()), DType::f32);
  ShardFigures figures;
  for (int r = 0; r < world_size; ++r) {
    ExecContext fresh(std::make_shared<Meter>(kind));
    MeteredRank rank(fresh, plan, r, world_size);
    driver.predict(fresh, rank, batch, std::span(&output, 1));
    figures.exchanges = rank.exchanges();
    figures.ranks.push_back({.flops = fresh.meter().flops(),
                             .received_bytes = rank.received_bytes(),
                             .pass_bytes = fresh.workspace().peak_bytes(),
                             .shared_bytes = rank.shared_bytes()});
  }
  return figures;
}

std::unique_ptr<Denoiser> NetworkDescription::load(
    ExecContext& ctx, DType compute, WeightSource& weights,
    SegmentRange segment, WeightPlacement placement) const {
  segment = checked_segment(place(), num_blocks(), segment);
  require(placement == WeightPlacement::resident || can_offload(),
          Errc::unsupported, place(),
          "its weights cannot be offloaded to the host");
  weights.check(specs(segment));
  LayerReader reader(ctx, compute, weights, placement);
  std::unique_ptr<Network> network = read(reader, segment, compute);
  network->set_offloaded(reader.take_offloaded());
  ctx.synchronize();  // every context of the device may read them
  DenoiserInfo info = this->info(latent_shape(), compute);
  info.parameter_bytes = reader.num_bytes();
  info.weights_hash = hash_with_config(weights.hash());
  info.bytes_per_timestep =
      static_cast<std::size_t>(network->table_width()) * sizeof(float);
  return std::make_unique<NetworkDriver>(std::move(network), std::move(info),
                                         metered(compute).meter);
}

std::uint64_t NetworkDescription::weights_hash(ExecContext& ctx,
                                               WeightSource& weights) const {
  const SegmentRange whole{0, num_blocks()};
  weights.check(specs(whole));
  LayerReader reader(ctx, weights);
  (void)read(reader, whole, DType::f32);
  return hash_with_config(weights.hash());
}

}  // namespace troupe::models
