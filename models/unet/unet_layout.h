#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/network/segment.h"
#include "models/unet/unet_config.h"

namespace troupe::models {

/// Sides of latents, or of what a UNet makes of them.
struct UNetSides {
  std::int64_t height = 0;
  std::int64_t width = 0;

  /// Of [C, H, W].
  [[nodiscard]] static UNetSides of(const Shape& image) noexcept {
    return {image[1], image[2]};
  }
  [[nodiscard]] std::int64_t pixels() const noexcept { return height * width; }
  /// Behind so many convolutions of stride 2: an odd side is rounded up.
  [[nodiscard]] UNetSides halved(int times) const noexcept {
    const std::int64_t up = (std::int64_t{1} << times) - 1;
    return {(height + up) >> times, (width + up) >> times};
  }
};

/// The part of a UNet between two neighbouring cuts, with diffusers' names of
/// the modules. Units are the blocks of the UNet in running order.
struct UNetUnit {
  enum class Kind : std::uint8_t {
    down,        ///< residual block, transformer; its output is a skip, too
    downsample,  ///< halves the sides; its output is a skip, too
    mid,         ///< residual block, transformer, residual block
    up           ///< takes a skip; residual block, transformer, upsampling
                 ///< to the sides of the next skip
  };
  Kind kind = Kind::down;
  int halvings = 0;  ///< of the sides of the latents, at the unit's input
  std::int64_t in_channels = 0;    ///< of the hidden state
  std::int64_t skip_channels = 0;  ///< of the skip that it takes; 0: none
  std::int64_t out_channels = 0;
  std::int64_t heads = 1;
  std::int64_t depth = 0;            ///< transformer blocks; 0: no transformer
  std::vector<std::string> resnets;  ///< "down_blocks.0.resnets.1.": 0, 1 or 2
  std::string transformer;           ///< "down_blocks.0.attentions.1."
  std::string sampler;  ///< "up_blocks.0.upsamplers.0.conv", or empty

  /// Whether its output is kept for a unit on the way up.
  [[nodiscard]] bool makes_skip() const noexcept {
    return kind == Kind::down || kind == Kind::downsample;
  }
  [[nodiscard]] bool upsamples() const noexcept {
    return kind == Kind::up && !sampler.empty();
  }
  /// Halvings of the sides at its output.
  [[nodiscard]] int out_halvings() const noexcept {
    return halvings + (kind == Kind::downsample ? 1 : 0) -
           (upsamples() ? 1 : 0);
  }
  /// Channels that its residual block `index` takes.
  [[nodiscard]] std::int64_t resnet_input(std::size_t index) const noexcept {
    return index == 0 ? in_channels + skip_channels : out_channels;
  }
};

/// A tensor between units.
struct UNetPlane {
  std::int64_t channels = 0;
  int halvings = 0;
};

/// The units of a UNet and what passes between them. Pure.
/// Source: diffusers models/unets/unet_2d_condition.py, unet_2d_blocks.py.
class UNetLayout {
 public:
  explicit UNetLayout(const UNetConfig& config);

  [[nodiscard]] const std::vector<UNetUnit>& units() const noexcept {
    return units_;
  }
  [[nodiscard]] const UNetUnit& unit(int index) const {
    return units_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] int size() const noexcept {
    return static_cast<int>(units_.size());
  }
  /// All skips, in the order in which they are made. The first is the output of
  /// conv_in, before unit 0; the last is the first to be taken.
  [[nodiscard]] const std::vector<UNetPlane>& skips() const noexcept {
    return skips_;
  }
  /// How many of these exist in front of unit `cut`: made and not yet taken.
  [[nodiscard]] int live_skips(int cut) const;
  /// The oldest skip that units [begin, end) take; live_skips(begin) if these
  /// units take no skip from before `begin`.
  [[nodiscard]] int oldest_taken(int begin, int end) const;
  /// The hidden state in front of unit `cut`.
  [[nodiscard]] UNetPlane hidden(int cut) const;
  /// Whether that is the newest live skip itself.
  [[nodiscard]] bool hidden_is_skip(int cut) const;

 private:
  std::vector<UNetUnit> units_;
  std::vector<UNetPlane> skips_;
};

}  // namespace troupe::models
