#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "models/description.h"
#include "models/network/layer_reader.h"
#include "models/network/network.h"
#include "models/network/network_meter.h"

namespace troupe::models {

/// The description of a Network: a class derived from it says what only the
/// configuration knows. Weights come from one walk over the layers (`read`),
/// costs from a metered run.
class NetworkDescription : public DenoiserDescription {
 public:
  [[nodiscard]] DenoiserInfo info(const Shape& latents,
                                  DType compute) const final;
  [[nodiscard]] NetworkMemory memory(
      const Shape& latents, DType compute, DeviceKind kind = DeviceKind::cpu,
      WeightPlacement placement = WeightPlacement::resident,
      SegmentRange segment = {}) const final;
  [[nodiscard]] ShardFigures shard_figures(const Shape& latents, DType compute,
                                           DeviceKind kind, AttentionPlan plan,
                                           int world_size) const final;
  [[nodiscard]] ClassTensors tensors() const final;
  /// Every tensor that a segment needs, under its name in diffusers, in the
  /// order of reading.
  [[nodiscard]] std::vector<TensorSpec> specs(SegmentRange segment) const;
  [[nodiscard]] std::unique_ptr<Denoiser> load(
      ExecContext& ctx, DType compute, WeightSource& weights,
      SegmentRange segment = {},
      WeightPlacement placement = WeightPlacement::resident) const final;
  [[nodiscard]] std::uint64_t weights_hash(ExecContext& ctx,
                                           WeightSource& weights) const final;

 protected:
  NetworkDescription();

  /// The diffusers class.
  [[nodiscard]] virtual std::string_view class_name() const = 0;
  /// The network in error messages.
  [[nodiscard]] virtual std::string_view place() const = 0;
  [[nodiscard]] virtual int num_blocks() const = 0;
  /// Fills channels, branch_order and num_classes.
  virtual void describe(DenoiserInfo& info) const = 0;
  /// Walks over the layers of a segment. Between LayerReader::begin_block and
  /// end_blocks stand those of each block. compute: of the network's passes.
  [[nodiscard]] virtual std::unique_ptr<Network> read(LayerReader& reader,
                                                      SegmentRange segment,
                                                      DType compute) const = 0;
  /// Of the hash of tensors and every field of the configuration that pixels
  /// depend on.
  [[nodiscard]] virtual std::uint64_t hash_with_config(
      std::uint64_t tensors) const = 0;

 private:
  struct Metered;
  /// The whole network on a meter. Read once for each compute type.
  [[nodiscard]] const Metered& metered(DType compute) const;
  [[nodiscard]] NetworkMemory measure(const Shape& latents, DType compute,
                                      DeviceKind kind,
                                      WeightPlacement placement,
                                      SegmentRange segment) const;

  /// What was asked for so far.
  struct Known;
  std::shared_ptr<Known> known_;
};

}  // namespace troupe::models
