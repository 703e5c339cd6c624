#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/core/context.h"
#include "models/ping_pong.h"
#include "models/unet_conditioner.h"
#include "models/unet_config.h"
#include "models/unet_layout.h"
#include "models/unet_weights.h"

namespace troupe::models {

/// What passes between the units of rows that are computed together. Each
/// tensor is [B, H, W, C] in the compute type.
struct UNetState {
  Tensor hidden;
  std::vector<Tensor> skips;  ///< made and not yet taken; the newest is last
};

/// Elements of one row's tensors while units run. Pure.
struct UNetPassSize {
  std::int64_t skips = 0;   ///< of all skips that the units make
  std::int64_t hidden = 0;  ///< of the largest hidden state that is no skip
  std::int64_t inner = 0;   ///< inside the unit that takes most
};
/// Of units [begin, end) for latents of these sides. `inner` counts f32 numbers
/// as often as they are larger than the compute type.
[[nodiscard]] UNetPassSize pass_size(const UNetLayout& layout,
                                     SegmentRange units, const UNetSides& sides,
                                     DType compute);

/// Runs units of a UNet on one group of rows. Memory comes from the workspace:
/// the caller's Scope ends it. Thread: that of the context.
class UNetPass {
 public:
  /// conditions: of the rows; shifts: [B, W], as UNetConditioner makes them;
  /// sides: of the latents. Keeps references.
  UNetPass(ExecContext& ctx, const UNetConfig& config, const UNetLayout& layout,
           const UNetWeights& weights, DType compute,
           std::span<const UNetCondition* const> conditions, Tensor shifts,
           SegmentRange units, const UNetSides& sides);

  /// Runs the unit `index`.
  void run(int index, UNetState& state);

 private:
  void run_down(const UNetUnit& unit, const UNetUnitWeights& weights,
                UNetState& state);
  void run_mid(const UNetUnit& unit, const UNetUnitWeights& weights,
               UNetState& state);
  void run_up(const UNetUnit& unit, const UNetUnitWeights& weights,
              UNetState& state);
  void resnet(const UNetUnitWeights& weights, std::size_t index,
              const Tensor& x, Tensor& out);
  /// x += transformer(x), if the unit has one.
  void add_transformer(const UNetUnit& unit, const UNetUnitWeights& weights,
                       Tensor& x);
  struct TransformerBuffers;
  void add_self_attention(const UNetUnit& unit,
                          const UNetTransformerBlock& block,
                          TransformerBuffers& buffers);
  /// prompt_block: which of the conditions' keys and values.
  void add_cross_attention(const UNetUnit& unit,
                           const UNetTransformerBlock& block,
                           std::size_t prompt_block,
                           TransformerBuffers& buffers);
  void add_feed_forward(const UNetTransformerBlock& block,
                        TransformerBuffers& buffers);
  [[nodiscard]] Tensor take(const Shape& shape) {
    return ctx_.workspace().take(shape, compute_);
  }

  ExecContext& ctx_;
  const UNetConfig& config_;
  const UNetLayout& layout_;
  const UNetWeights& weights_;
  DType compute_;
  std::span<const UNetCondition* const> conditions_;
  Tensor shifts_;
  UNetSides sides_;
  PingPong hidden_;
};

}  // namespace troupe::models
