#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "kernels/conv2d.h"
#include "kernels/core/context.h"
#include "kernels/linear.h"
#include "kernels/offload.h"
#include "models/files/weight_source.h"
#include "models/layers/norm_weights.h"
#include "models/network/placement.h"

namespace troupe::models {

/// The two tensors of a linear layer under their names in diffusers.
struct LinearSpec {
  TensorSpec weight;
  TensorSpec bias;  ///< no name: no bias
};

[[nodiscard]] LinearSpec linear_spec(const std::string& name, std::int64_t out,
                                     std::int64_t in, bool bias = true);
/// The four layers of one attention, named "NAME.to_q" and so on.
struct AttentionSpec {
  LinearSpec q, k, v, out;
};
[[nodiscard]] AttentionSpec attention_spec(const std::string& name,
                                           std::int64_t width, bool bias);
/// "transformer_blocks.3.".
[[nodiscard]] std::string block_name(std::int64_t index);

/// The one walk over the weights of a network, an encoder or a decoder: a
/// function asks for the layers in a fixed order and keeps what it gets. What
/// it gets depends on the reader:
///
/// - one that lists notes names and shapes and returns empty layers;
/// - one that hashes reads every tensor and returns empty layers, so that
///   WeightSource::hash is that of the weights;
/// - one that packs reads, and packs layers on its context's device;
/// - one that meters packs layers without values on a meter (meter.h).
///
/// Errors: as WeightSource, PackedConv2d and PackedLinear; Errc::interrupted.
/// Thread: that of the context.
class LayerReader {
 public:
  /// Lists. Keeps a reference.
  explicit LayerReader(std::vector<TensorSpec>& specs) : specs_(&specs) {}
  /// Hashes. Keeps references.
  LayerReader(ExecContext& ctx, WeightSource& source)
      : ctx_(&ctx), source_(&source) {}
  /// Packs. Keeps references.
  LayerReader(ExecContext& ctx, DType compute, WeightSource& source,
              WeightPlacement placement = WeightPlacement::resident)
      : ctx_(&ctx),
        source_(&source),
        compute_(compute),
        placement_(placement) {}
  /// Meters; ctx is that of a meter. Keeps a reference.
  LayerReader(ExecContext& ctx, DType compute, WeightPlacement placement)
      : ctx_(&ctx), compute_(compute), placement_(placement) {}

  [[nodiscard]] kernels::PackedLinear linear(const LinearSpec& layer) {
    return fused({layer});
  }
  /// Several layers as one: the outputs of all `layers` lie side by side. A
  /// convolution becomes a matrix.
  [[nodiscard]] kernels::PackedLinear fused(
      const std::vector<LinearSpec>& layers);
  /// A square filter with zeros around the picture, so that a stride of 1
  /// keeps its size.
  [[nodiscard]] kernels::PackedConv2d conv(const std::string& name,
                                           std::int64_t out, std::int64_t in,
                                           std::int64_t size,
                                           std::int64_t stride = 1);
  [[nodiscard]] NormWeights norm(const std::string& name, std::int64_t width);
  /// f32 on the device; empty unless the reader packs or meters.
  [[nodiscard]] Tensor table(const TensorSpec& spec);
  /// A table whose rows are looked up on the host, wherever the layers are: as
  /// stored, or as f32. Empty unless the reader packs or meters; without
  /// elements from one that meters.
  [[nodiscard]] Tensor host_table(const TensorSpec& spec, bool as_f32 = false);

  // For weights that are changed before they are packed.

  /// As stored, on the host. Empty from a reader that lists; from one that
  /// meters with any elements.
  [[nodiscard]] Tensor stored(const TensorSpec& spec);
  /// The same as f32.
  [[nodiscard]] Tensor f32(const TensorSpec& spec);
  /// weight [N, K] and bias [N] or empty, on the host; to the device.
  [[nodiscard]] kernels::PackedLinear pack(const Tensor& weight,
                                           const Tensor& bias);
  [[nodiscard]] Tensor upload(const Tensor& values);

  /// What is packed from here on belongs to the next block of the segment,
  /// until the next call or `end_blocks`.
  void begin_block() { block_bytes_.push_back(0), in_block_ = true; }
  void end_blocks() { in_block_ = false; }
  /// Matrices that a block uses together: where weights are offloaded, a group
  /// of `take_offloaded`.
  void offload(std::initializer_list<kernels::PackedLinear*> layers);

  /// Whether layers are packed, or metered.
  [[nodiscard]] bool packs() const noexcept { return compute_.has_value(); }
  [[nodiscard]] bool lists() const noexcept { return ctx_ == nullptr; }
  [[nodiscard]] bool meters() const noexcept {
    return packs() && source_ == nullptr;
  }
  /// Null without one.
  [[nodiscard]] WeightSource* source() const noexcept { return source_; }
  /// Bytes of all packed layers.
  [[nodiscard]] std::size_t num_bytes() const noexcept { return num_bytes_; }
  /// Those of tables on the host.
  [[nodiscard]] std::size_t host_bytes() const noexcept { return host_bytes_; }
  /// Those of matrices that are offloaded.
  [[nodiscard]] std::size_t offloaded_bytes() const noexcept {
    return offloaded_bytes_;
  }
  /// Of each block that was begun.
  [[nodiscard]] const std::vector<std::size_t>& block_bytes() const noexcept {
    return block_bytes_;
  }
  /// Of the largest group of matrices that are offloaded together.
  [[nodiscard]] std::size_t largest_offloaded() const noexcept {
    return largest_offloaded_;
  }
  /// All groups, in the order of the calls; none where weights are resident.
  [[nodiscard]] kernels::OffloadedLayers take_offloaded() {
    return std::move(offloaded_);
  }
  void count(std::size_t bytes);

 private:
  std::vector<TensorSpec>* specs_ = nullptr;
  ExecContext* ctx_ = nullptr;
  WeightSource* source_ = nullptr;
  std::optional<DType> compute_;
  WeightPlacement placement_ = WeightPlacement::resident;
  std::size_t num_bytes_ = 0;
  std::size_t host_bytes_ = 0;
  bool in_block_ = false;
  std::vector<std::size_t> block_bytes_;
  kernels::OffloadedLayers offloaded_;
  std::size_t offloaded_bytes_ = 0;
  std::size_t largest_offloaded_ = 0;
};

}  // namespace troupe::models
