#include "models/autoencoder_kl_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "models/network/layer_reader.h"

namespace troupe::models {
namespace {

/// The tensors of attention, under the names that `source` has: files of 2022
/// call the projections query, key, value and proj_attn.
AttentionSpec attention_of(const std::string& name, std::int64_t width,
                           const WeightSource* source) {
  const auto layer = [&](const char* now, const char* old) {
    const bool is_old =
        source != nullptr && !source->has(name + now + ".weight");
    LinearSpec spec = linear_spec(name + (is_old ? old : now), width, width);
    spec.weight.may_be_convolution = true;
    return spec;
  };
  return {layer("to_q", "query"), layer("to_k", "key"), layer("to_v", "value"),
          layer("to_out.0", "proj_attn")};
}

/// Walks over the decoder in the order of its layers.
class Walker {
 public:
  Walker(const AutoencoderKlConfig& config, LayerReader& reader)
      : config_(config), reader_(reader) {}

  AutoencoderKlWeights walk() {
    const auto& widths = config_.block_out_channels;
    const std::int64_t latent = config_.latent_channels;
    std::int64_t width = widths.back();
    AutoencoderKlWeights weights;
    if (config_.use_post_quant_conv) {
      weights.post_quant = reader_.conv("post_quant_conv", latent, latent, 1);
    }
    weights.conv_in = reader_.conv("decoder.conv_in", width, latent, 3);
    weights.mid_1 =
        read_resnet(reader_, "decoder.mid_block.resnets.0.", width, width);
    if (config_.mid_block_add_attention) {
      weights.mid_attention =
          attention("decoder.mid_block.attentions.0.", width);
    }
    weights.mid_2 =
        read_resnet(reader_, "decoder.mid_block.resnets.1.", width, width);
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::int64_t next = widths[widths.size() - 1 - i];
      const bool last = i + 1 == widths.size();
      weights.up_blocks.push_back(up_block(i, next, width, last));
      width = next;
    }
    weights.norm_out = reader_.norm("decoder.conv_norm_out", width);
    weights.conv_out =
        reader_.conv("decoder.conv_out", config_.out_channels, width, 3);
    weights.num_bytes = reader_.num_bytes();
    weights.hash = reader_.source() != nullptr
                       ? hash_of(config_, reader_.source()->hash())
                       : 0;
    return weights;
  }

 private:
  VaeAttention attention(const std::string& name, std::int64_t width) {
    VaeAttention attention;
    attention.norm = reader_.norm(name + "group_norm", width);
    const AttentionSpec spec = attention_of(name, width, reader_.source());
    attention.qkv = reader_.fused({spec.q, spec.k, spec.v});
    attention.out = reader_.linear(spec.out);
    return attention;
  }

  VaeUpBlock up_block(std::size_t index, std::int64_t out, std::int64_t in,
                      bool last) {
    const std::string name = "decoder.up_blocks." + std::to_string(index) + ".";
    VaeUpBlock block;
    for (std::int64_t i = 0; i <= config_.layers_per_block; ++i) {
      block.resnets.push_back(
          read_resnet(reader_, name + "resnets." + std::to_string(i) + ".", out,
                      i == 0 ? in : out));
      if (config_.attends_in_up_block(index)) {
        block.attentions.push_back(
            attention(name + "attentions." + std::to_string(i) + ".", out));
      }
    }
    if (!last) {
      block.upsampler = reader_.conv(name + "upsamplers.0.conv", out, out, 3);
    }
    return block;
  }

  const AutoencoderKlConfig& config_;
  LayerReader& reader_;
};

AutoencoderKlWeights walk(const AutoencoderKlConfig& config,
                          LayerReader reader) {
  return Walker(config, reader).walk();
}

/// The name that files of 2022 give a tensor, or its own.
std::string legacy_name(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4>
      kRenamed = {{{".to_q.", ".query."},
                   {".to_k.", ".key."},
                   {".to_v.", ".value."},
                   {".to_out.0.", ".proj_attn."}}};
  for (const auto& [now, old] : kRenamed) {
    if (const auto at = name.find(now); at != std::string::npos) {
      return std::string(name).replace(at, now.size(), old);
    }
  }
  return name;
}

/// The specs under the names that `source` has.
std::vector<TensorSpec> with_legacy_names(std::vector<TensorSpec> specs,
                                          const WeightSource& source) {
  for (TensorSpec& spec : specs) {
    std::string legacy = legacy_name(spec.name);
    if (legacy != spec.name && !source.has(spec.name) && source.has(legacy)) {
      spec.name = std::move(legacy);
    }
  }
  return specs;
}

}  // namespace

std::vector<TensorSpec> autoencoder_kl_tensors(
    const AutoencoderKlConfig& config) {
  std::vector<TensorSpec> specs;
  (void)walk(config, LayerReader(specs));
  return specs;
}

std::vector<std::string> autoencoder_kl_names(
    const AutoencoderKlConfig& config) {
  std::vector<std::string> names;
  for (const TensorSpec& spec : autoencoder_kl_tensors(config)) {
    std::string legacy = legacy_name(spec.name);
    if (legacy != spec.name) {
      names.push_back(std::move(legacy));
    }
    names.push_back(spec.name);
  }
  return names;
}

double autoencoder_kl_flops(const AutoencoderKlConfig& config,
                            std::int64_t latent_pixels) {
  constexpr std::string_view kUp = "decoder.up_blocks.";
  const auto pixels = static_cast<double>(latent_pixels);
  double flops = 0;
  for (const TensorSpec& spec : autoencoder_kl_tensors(config)) {
    if (spec.shape.rank() < 2) {
      continue;
    }
    double side = spec.name.starts_with("decoder.conv_out")
                      ? static_cast<double>(config.scale())
                      : 1.0;
    if (spec.name.starts_with(kUp)) {
      const int block = std::stoi(spec.name.substr(kUp.size()));
      const bool doubles = spec.name.find("upsamplers") != std::string::npos;
      side = std::ldexp(1.0, block + (doubles ? 1 : 0));
    }
    flops += 2.0 * static_cast<double>(spec.shape.num_elements()) * pixels *
             side * side;
  }
  const auto& widths = config.block_out_channels;
  const auto attention = [](double tokens, std::int64_t width) {
    return 4.0 * tokens * tokens * static_cast<double>(width);
  };
  if (config.mid_block_add_attention) {
    flops += attention(pixels, widths.back());
  }
  for (std::size_t i = 0; i < config.up_block_attention.size(); ++i) {
    if (config.attends_in_up_block(i)) {
      flops += static_cast<double>(config.layers_per_block + 1) *
               attention(std::ldexp(pixels, 2 * static_cast<int>(i)),
                         widths[widths.size() - 1 - i]);
    }
  }
  return flops;
}

AutoencoderKlWeights load_autoencoder_kl_weights(
    ExecContext& ctx, const AutoencoderKlConfig& config, DType compute,
    WeightSource& source) {
  source.check(with_legacy_names(autoencoder_kl_tensors(config), source));
  AutoencoderKlWeights weights =
      walk(config, LayerReader(ctx, compute, source));
  ctx.synchronize();  // every context of the device may read them
  return weights;
}

std::uint64_t autoencoder_kl_weights_hash(ExecContext& ctx,
                                          const AutoencoderKlConfig& config,
                                          WeightSource& source) {
  source.check(with_legacy_names(autoencoder_kl_tensors(config), source));
  return walk(config, LayerReader(ctx, source)).hash;
}

}  // namespace troupe::models
