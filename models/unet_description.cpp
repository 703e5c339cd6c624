#include "models/unet_description.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/core/noise.h"
#include "models/unet.h"
#include "models/unet_conditioner.h"
#include "models/unet_pass.h"
#include "models/unet_weights.h"

namespace troupe::models {
namespace {

/// What the pipelines of Stable Diffusion give.
constexpr std::int64_t kPromptTokens = 77;

double product(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(in) *
         static_cast<double>(out);
}

/// Parameters of a unit, time_emb_proj of its residual blocks among them.
std::int64_t unit_parameters(const UNetConfig& config, const UNetUnit& unit) {
  const std::int64_t width = unit.out_channels;
  std::int64_t count = unit.sampler.empty() ? 0 : 9 * width * width + width;
  for (std::size_t i = 0; i < unit.resnets.size(); ++i) {
    const std::int64_t in = unit.resnet_input(i);
    count += 9 * width * (in + width) + 2 * in + 4 * width +
             width * (config.time_embed_dim + 1) +
             (in != width ? (in + 1) * width : 0);
  }
  if (unit.depth > 0) {
    const std::int64_t block = 18 * width * width + 17 * width +
                               2 * width * config.cross_attention_dim;
    count += 2 * width * width + 4 * width + unit.depth * block;
  }
  return count;
}

/// Floating-point operations of a unit, for latents of these sides.
double unit_flops(const UNetUnit& unit, const UNetSides& sides) {
  const std::int64_t here = sides.halved(unit.halvings).pixels();
  const std::int64_t there = sides.halved(unit.out_halvings()).pixels();
  const std::int64_t width = unit.out_channels;
  double flops = unit.sampler.empty() ? 0.0 : product(there, 9 * width, width);
  for (std::size_t i = 0; i < unit.resnets.size(); ++i) {
    const std::int64_t in = unit.resnet_input(i);
    flops += product(here, 9 * (in + width) + (in != width ? in : 0), width);
  }
  if (unit.depth > 0) {
    const double block = product(here, width, 18 * width) +
                         2 * product(here, here + kPromptTokens, width);
    flops += product(here, width, 2 * width) +
             static_cast<double>(unit.depth) * block;
  }
  return flops;
}

/// Columns of keys and values of all transformer blocks.
std::int64_t prompt_columns(const UNetLayout& layout, SegmentRange units) {
  std::int64_t columns = 0;
  for (int i = units.begin; i < units.end; ++i) {
    columns += 2 * layout.unit(i).depth * layout.unit(i).out_channels;
  }
  return columns;
}

/// Of the units' own convolutions and attention; those at both ends and what is
/// said of the prompt are narrower.
ThreadScratch scratch_of(const UNetLayout& layout, SegmentRange units,
                         const UNetSides& sides, DType compute) {
  ThreadScratch scratch;
  for (int i = units.begin; i < units.end; ++i) {
    const UNetUnit& unit = layout.unit(i);
    scratch.add_convolution(9 * unit.out_channels, compute);
    if (!unit.resnets.empty()) {
      scratch.add_convolution(9 * unit.resnet_input(0), compute);
    }
    if (unit.depth > 0) {
      scratch.add_attention(sides.halved(unit.halvings).pixels(),
                            unit.out_channels / unit.heads, compute);
    }
  }
  return scratch;
}

/// The skip in front of unit i is what it begins with. The newest is taken
/// first.
std::vector<SkipInfo> skips_of(const UNetLayout& layout) {
  std::vector<SkipInfo> skips;
  const int count = static_cast<int>(layout.skips().size());
  for (int i = 0; i < count; ++i) {
    skips.push_back({.made_before = i, .taken_by = layout.size() - 1 - i});
  }
  return skips;
}

}  // namespace

Shape UNetDescription::nearest_latents(const Shape& wanted) const {
  if (wanted.rank() != 3) {
    return latent_shape();
  }
  return {config_.in_channels, std::max<std::int64_t>(wanted[1], 1),
          std::max<std::int64_t>(wanted[2], 1)};
}

DenoiserInfo UNetDescription::info(const Shape& latents, DType compute) const {
  const UNetSides sides = UNetSides::of(latents);
  const std::int64_t outer = config_.levels.front().width;
  DenoiserInfo info;
  info.class_name = "UNet2DConditionModel";
  info.latent_shape = latents;
  info.out_channels = config_.out_channels;
  info.guided_channels = config_.out_channels;
  info.branch_order = BranchOrder::uncond_cond;
  info.compute = compute;
  for (int i = 0; i < layout_.size(); ++i) {
    const UNetPlane hidden = layout_.hidden(i);
    const std::int64_t elements =
        sides.halved(hidden.halvings).pixels() * hidden.channels;
    info.blocks.push_back(
        {.flops = unit_flops(layout_.unit(i), sides),
         .parameter_bytes = static_cast<std::size_t>(
                                unit_parameters(config_, layout_.unit(i))) *
                            size_of(compute),
         .hidden_bytes =
             static_cast<std::size_t>(elements) * size_of(compute)});
  }
  info.skips = skips_of(layout_);
  const SegmentRange whole{0, layout_.size()};
  info.bytes_per_timestep =
      static_cast<std::size_t>(UNetConditioner::shift_width(layout_, whole)) *
      sizeof(float);
  info.bytes_per_prompt =
      static_cast<std::size_t>(kPromptTokens * prompt_columns(layout_, whole)) *
      size_of(compute);
  info.embed_flops = product(sides.pixels(), 9 * config_.in_channels, outer);
  info.finish_flops = product(sides.pixels(), 9 * outer, config_.out_channels);
  return info;
}

Condition UNetDescription::any_condition(const PictureIds& ids) const {
  const auto random = [](const Shape& shape) {
    Tensor tensor(shape, DType::f32);
    fill_normal({}, tensor);
    return tensor;
  };
  Condition condition;
  condition.add("prompt_embeds",
                random({kPromptTokens, config_.cross_attention_dim}));
  if (config_.has_sizes()) {
    condition.add("pooled", random({pooled_width(ids)}));
    add_sides(ids, condition);
  }
  return condition;
}

void UNetDescription::add_sides(const PictureIds& ids,
                                Condition& condition) const {
  if (!config_.has_sizes() || condition.find("size_ids") != nullptr) {
    return;
  }
  std::vector<std::int64_t> sides = {ids.original_height, ids.original_width,
                                     ids.crop_top, ids.crop_left};
  if (!ids.aesthetic_score) {
    sides.insert(sides.end(), {ids.target_height, ids.target_width});
  }
  std::vector<float> all(sides.begin(), sides.end());
  if (ids.aesthetic_score) {
    all.push_back(static_cast<float>(*ids.aesthetic_score));
  }
  Tensor sizes = Tensor::from<float>(all, {std::ssize(all)});
  condition.add("size_ids", std::move(sizes));
}

void UNetDescription::check_condition(const Condition& condition) const {
  check_unet_condition(config_, condition);
}

NetworkMemory UNetDescription::memory(const Shape& latents, DType compute,
                                      DeviceKind kind,
                                      WeightPlacement /*placement*/,
                                      SegmentRange segment) const {
  segment = checked_segment("unet", layout_.size(), segment);
  const auto element = static_cast<std::int64_t>(size_of(compute));
  std::int64_t parameters = 0;
  std::int64_t largest = 0;
  for (const TensorSpec& spec : unet_tensors(config_, segment)) {
    parameters += spec.shape.num_elements();
    largest = std::max(largest, spec.shape.num_elements());
  }
  const UNetSides sides = UNetSides::of(latents);
  const std::int64_t pixels = sides.pixels();
  const UNetPassSize pass = pass_size(layout_, segment, sides, compute);
  const std::int64_t outer = config_.levels.front().width;
  NetworkMemory memory;
  memory.weights_bytes =
      static_cast<std::uint64_t>(parameters * element + largest * 4);
  memory.rows_at_once = unet_rows_at_once(pixels, kind);
  // conv_in's output is a skip, too; images side by side, going in and out.
  memory.pass_bytes = static_cast<std::uint64_t>(
      (pass.skips + 2 * pass.hidden + pass.inner + pixels * outer) * element +
      UNetConditioner::shift_width(layout_, segment) * 4 +
      pixels *
          (config_.in_channels * (4 + element) + config_.out_channels * 8));
  memory.row_bytes = static_cast<std::uint64_t>(
      pixels * 4 *
      (NetworkMemory::kLatentsPerRow * config_.in_channels +
       config_.out_channels));
  if (kind == DeviceKind::cpu) {
    memory.scratch = scratch_of(layout_, segment, sides, compute);
  }
  return memory;
}

NetworkFacts UNetDescription::facts() const {
  std::int64_t transformers = 0;
  for (const UNetUnit& unit : layout_.units()) {
    transformers += unit.depth;
  }
  return {.blocks = layout_.size(),
          .width = config_.levels.front().width,
          .widest = config_.levels.back().width,
          .levels = static_cast<std::int64_t>(config_.levels.size()),
          .transformer_blocks = transformers,
          .caption_width = config_.cross_attention_dim};
}

std::string_view UNetDescription::config_keys() const {
  return "act_fn addition_embed_type addition_embed_type_num_heads "
         "addition_time_embed_dim attention_head_dim attention_type "
         "block_out_channels center_input_sample class_embed_type "
         "class_embeddings_concat conv_in_kernel conv_out_kernel "
         "cross_attention_dim cross_attention_norm down_block_types "
         "downsample_padding dropout dual_cross_attention encoder_hid_dim "
         "encoder_hid_dim_type flip_sin_to_cos freq_shift in_channels "
         "layers_per_block mid_block_only_cross_attention "
         "mid_block_scale_factor mid_block_type norm_eps norm_num_groups "
         "num_attention_heads num_class_embeds only_cross_attention "
         "out_channels projection_class_embeddings_input_dim "
         "resnet_out_scale_factor resnet_skip_time_act "
         "resnet_time_scale_shift reverse_transformer_layers_per_block "
         "sample_size time_cond_proj_dim time_embedding_act_fn "
         "time_embedding_dim time_embedding_type timestep_post_act "
         "transformer_layers_per_block up_block_types upcast_attention "
         "use_linear_projection";
}

ClassTensors UNetDescription::tensors() const {
  ClassTensors tensors;
  for (TensorSpec& spec :
       unet_tensors(config_, checked_segment("unet", layout_.size(), {}))) {
    tensors.names.push_back(std::move(spec.name));
  }
  return tensors;
}

std::unique_ptr<DenoiserDescription> UNetDescription::with_blocks(
    int blocks) const {
  UNetConfig config = config_;
  if (blocks < layout_.size()) {
    // Every level stays, with one layer and one transformer of each kind.
    config.layers_per_block = 1;
    config.mid_depth = std::min<std::int64_t>(config.mid_depth, 1);
    for (UNetLevel& level : config.levels) {
      level.depth = std::min<std::int64_t>(level.depth, 1);
    }
    for (std::int64_t& depth : config.up_depths) {
      depth = std::min<std::int64_t>(depth, 1);
    }
  }
  return std::make_unique<UNetDescription>(config);
}

std::unique_ptr<Denoiser> UNetDescription::load(
    ExecContext& ctx, DType compute, WeightSource& weights,
    SegmentRange segment, WeightPlacement placement) const {
  require(placement == WeightPlacement::resident, Errc::unsupported, "unet",
          "its weights cannot be offloaded to the host");
  return std::make_unique<UNet>(ctx, config_, segment, compute, weights);
}

std::uint64_t UNetDescription::weights_hash(ExecContext& ctx,
                                            WeightSource& weights) const {
  return unet_weights_hash(
      ctx, config_, checked_segment("unet", layout_.size(), {}), weights);
}

namespace {

std::unique_ptr<DenoiserDescription> describe_unet(const Json& config) {
  return std::make_unique<UNetDescription>(parse_unet_config(config));
}

}  // namespace

extern constinit const DenoiserRow kUNet{.class_name = "UNet2DConditionModel",
                                         .describe = describe_unet};

}  // namespace troupe::models
