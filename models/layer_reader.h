#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/conv2d.h"
#include "kernels/core/context.h"
#include "models/linear_loader.h"
#include "models/resnet.h"
#include "models/weight_source.h"

namespace troupe::models {

/// Goes through the layers of a convolutional network in the order of its
/// calls. With a source the reader reads each layer, and packs the layer if the
/// reader has a compute type; without a source the reader only notes names and
/// shapes, and returns empty layers. So one walk over a network serves the list
/// of tensors, the hash and the weights. Errors: as WeightSource, PackedConv2d
/// and PackedLinear; Errc::interrupted. Thread: that of the context.
class LayerReader {
 public:
  /// Notes tensors. Keeps a reference.
  explicit LayerReader(std::vector<TensorSpec>& specs) : specs_(&specs) {}
  /// Reads them. Keeps references.
  LayerReader(ExecContext& ctx, std::optional<DType> compute,
              WeightSource& source)
      : compute_(compute), loader_(std::in_place, ctx, compute, source) {}

  /// A square filter with zeros around the picture, so that a stride of 1
  /// keeps its size.
  [[nodiscard]] kernels::PackedConv2d conv(const std::string& name,
                                           std::int64_t out, std::int64_t in,
                                           std::int64_t size,
                                           std::int64_t stride = 1);
  [[nodiscard]] NormWeights norm(const std::string& name, std::int64_t width);
  /// `name` ends with a dot.
  [[nodiscard]] ResnetWeights resnet(const std::string& name, std::int64_t out,
                                     std::int64_t in);
  /// Several layers as one: the outputs of all `layers` lie side by side.
  [[nodiscard]] kernels::PackedLinear fused(
      const std::vector<LinearSpec>& layers);
  [[nodiscard]] kernels::PackedLinear linear(const LinearSpec& layer) {
    return fused({layer});
  }

  /// Whether layers are packed.
  [[nodiscard]] bool packs() const noexcept { return compute_.has_value(); }
  /// Null without a source.
  [[nodiscard]] WeightSource* source() const noexcept {
    return loader_ ? &loader_->source() : nullptr;
  }
  /// Bytes of all packed layers.
  [[nodiscard]] std::size_t num_bytes() const noexcept {
    return loader_ ? loader_->num_bytes() : 0;
  }

 private:
  Tensor tensor(const std::string& name, const Shape& shape);

  std::vector<TensorSpec>* specs_ = nullptr;
  std::optional<DType> compute_;
  std::optional<LinearLoader> loader_;
};

}  // namespace troupe::models
