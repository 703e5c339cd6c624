#include "models/unet/unet_layout.h"

#include <algorithm>

namespace troupe::models {
namespace {

using Kind = UNetUnit::Kind;

std::string module(const std::string& block, const char* list,
                   std::int64_t index) {
  return block + list + "." + std::to_string(index) + ".";
}

UNetPlane output_of(const UNetUnit& unit) {
  return {unit.out_channels, unit.out_halvings()};
}

}  // namespace

UNetLayout::UNetLayout(const UNetConfig& config) {
  const auto& levels = config.levels;
  const std::size_t count = levels.size();
  std::int64_t width = levels.front().width;
  skips_.push_back({width, 0});
  for (std::size_t i = 0; i < count; ++i) {
    const std::string block = "down_blocks." + std::to_string(i) + ".";
    for (std::int64_t j = 0; j < config.layers_per_block; ++j) {
      units_.push_back({.kind = Kind::down,
                        .halvings = static_cast<int>(i),
                        .in_channels = width,
                        .out_channels = levels[i].width,
                        .heads = levels[i].heads,
                        .depth = levels[i].depth,
                        .resnets = {module(block, "resnets", j)},
                        .transformer = module(block, "attentions", j)});
      width = levels[i].width;
      skips_.push_back(output_of(units_.back()));
    }
    if (i + 1 < count) {
      units_.push_back({.kind = Kind::downsample,
                        .halvings = static_cast<int>(i),
                        .in_channels = width,
                        .out_channels = width,
                        .sampler = block + "downsamplers.0.conv"});
      skips_.push_back(output_of(units_.back()));
    }
  }
  units_.push_back({.kind = Kind::mid,
                    .halvings = static_cast<int>(count) - 1,
                    .in_channels = width,
                    .out_channels = width,
                    .heads = levels.back().heads,
                    .depth = config.mid_depth,
                    .resnets = {"mid_block.resnets.0.", "mid_block.resnets.1."},
                    .transformer = "mid_block.attentions.0."});
  std::size_t next_skip = skips_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string block = "up_blocks." + std::to_string(i) + ".";
    const std::size_t level = count - 1 - i;
    for (std::int64_t j = 0; j <= config.layers_per_block; ++j) {
      const bool doubles = j == config.layers_per_block && level > 0;
      units_.push_back(
          {.kind = Kind::up,
           .halvings = static_cast<int>(level),
           .in_channels = width,
           .skip_channels = skips_[--next_skip].channels,
           .out_channels = levels[level].width,
           .heads = levels[level].heads,
           .depth = config.up_depths[level],
           .resnets = {module(block, "resnets", j)},
           .transformer = module(block, "attentions", j),
           .sampler = doubles ? block + "upsamplers.0.conv" : std::string()});
      width = levels[level].width;
    }
  }
}

int UNetLayout::live_skips(int cut) const {
  int live = 1;
  for (int i = 0; i < cut; ++i) {
    live += unit(i).makes_skip() ? 1 : 0;
    live -= unit(i).kind == Kind::up ? 1 : 0;
  }
  return live;
}

int UNetLayout::oldest_taken(int begin, int end) const {
  int oldest = live_skips(begin);
  for (int i = begin; i < end; ++i) {
    oldest = std::min(oldest, live_skips(i + 1));
  }
  return oldest;
}

UNetPlane UNetLayout::hidden(int cut) const {
  return cut == 0 ? skips_.front() : output_of(unit(cut - 1));
}

bool UNetLayout::hidden_is_skip(int cut) const {
  return cut == 0 || unit(cut - 1).makes_skip();
}

}  // namespace troupe::models
