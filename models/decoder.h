#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "models/files/class_tensors.h"
#include "models/files/json.h"
#include "models/files/weight_source.h"
#include "models/network/image_pass.h"
#include "models/network/thread_scratch.h"

namespace troupe::models {

/// What turns latents into pictures. Immutable. Thread: any, one ctx per
/// thread, on the decoder's device.
class Decoder {
 public:
  virtual ~Decoder() = default;

  /// [C, H, W] of the picture that latents of this shape give.
  [[nodiscard]] virtual Shape pixel_shape(const Shape& latents) const = 0;
  /// Decodes latents z [C, h, w] f32 to the picture `out` (`pixel_shape`) f32.
  /// Its values are about −1 to 1, not clamped. Both may be on the host or on
  /// the context's device; a picture on the host is complete on return. tile:
  /// decoded in tiles of so many latents a side; 0: whole. Every rank of
  /// `layers` calls with the same latents; rank 0 writes `out`, which for the
  /// others may be on any device. Errors: Errc::shape_mismatch;
  /// Errc::interrupted (ticks between blocks); Errc::invalid_argument for tiles
  /// that are too small.
  virtual void decode(ImagePass& layers, const Tensor& latents,
                      std::int64_t tile, Tensor& out) const = 0;
  /// XXH3-64 of tensors and configuration.
  [[nodiscard]] virtual std::uint64_t weights_hash() const = 0;
};

/// What decoding latents of one shape costs.
struct DecodeCosts {
  /// Floating-point operations of convolutions and attention, without
  /// element-wise work.
  double flops = 0;
  std::uint64_t bytes = 0;  ///< of activations, with the picture
  ThreadScratch scratch;    ///< on a CPU, for its threads, in addition
};

/// What is known of a decoder from its config.json, before any weight is read.
/// Immutable. Thread: any.
class DecoderDescription {
 public:
  virtual ~DecoderDescription() = default;

  /// As DenoiserDescription::config_keys.
  [[nodiscard]] virtual std::string config_keys() const = 0;
  [[nodiscard]] virtual std::int64_t latent_channels() const = 0;
  /// Pixels per latent side.
  [[nodiscard]] virtual std::int64_t scale() const = 0;
  /// As Decoder::pixel_shape.
  [[nodiscard]] virtual Shape pixel_shape(const Shape& latents) const = 0;
  /// Side of a tile for tiled decoding, in latents: as in diffusers, the side
  /// of the training pictures. 0 where that side is too small.
  [[nodiscard]] virtual std::int64_t tile_side() const = 0;
  /// Of one picture, from a metered run (kernels/core/meter.h). tile: as
  /// Decoder::decode; what overlaps counts as often as it is computed.
  [[nodiscard]] virtual DecodeCosts costs(const Shape& latents, DType compute,
                                          std::int64_t tile = 0) const = 0;
  [[nodiscard]] virtual std::uint64_t weights_bytes(DType compute) const = 0;
  /// Every tensor that the diffusers class has in its state dict.
  [[nodiscard]] virtual ClassTensors tensors() const = 0;
  /// Errors: those of WeightSource; Errc::interrupted.
  [[nodiscard]] virtual std::unique_ptr<Decoder> load(
      ExecContext& ctx, DType compute, WeightSource& weights) const = 0;
  /// The weights_hash that the decoder would have when loaded. One tensor at a
  /// time is in memory. Errors: as `load`.
  [[nodiscard]] virtual std::uint64_t weights_hash(
      ExecContext& ctx, WeightSource& weights) const = 0;
};

/// One row of the table of decoders. It stands at the end of the decoder's own
/// file.
struct DecoderRow {
  /// `_class_name` in config.json.
  std::string_view class_name;
  /// Errors: Errc::corrupt_file; Errc::unsupported.
  std::unique_ptr<DecoderDescription> (*describe)(const Json& config);
};

/// The decoders that Troupe has.
[[nodiscard]] std::span<const DecoderRow* const> decoder_table();

}  // namespace troupe::models
