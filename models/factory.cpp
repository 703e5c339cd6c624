#include "models/factory.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "models/class_tensors.h"
#include "models/dit.h"
#include "models/dit_info.h"
#include "models/dit_weights.h"

namespace troupe::models {
namespace {

constexpr std::int64_t kMostPixelsPerSide = 16384;

std::unique_ptr<Denoiser> load_dit(ExecContext& ctx, const Component& component,
                                   DType compute, SegmentRange segment,
                                   WeightPlacement placement) {
  FileWeights weights(component.weights);
  return std::make_unique<Dit>(ctx, parse_dit_config(component.config), segment,
                               compute, weights, placement);
}

std::uint64_t dit_bytes(const Component& component, DType compute,
                        std::int64_t rows, SegmentRange segment) {
  return dit_required_bytes(parse_dit_config(component.config), segment,
                            compute, rows);
}

Shape dit_latent_shape(const Component& component) {
  const DitConfig config = parse_dit_config(component.config);
  return {config.in_channels, config.sample_size, config.sample_size};
}

ClassTensors dit_class(const Component& component) {
  const DitConfig config = parse_dit_config(component.config);
  ClassTensors tensors;
  for (TensorSpec& spec :
       dit_tensors(config, {0, static_cast<int>(config.num_layers)})) {
    tensors.names.push_back(std::move(spec.name));
  }
  return tensors;
}

struct Row {
  std::string_view class_name;
  std::unique_ptr<Denoiser> (*load)(ExecContext&, const Component&, DType,
                                    SegmentRange, WeightPlacement);
  std::uint64_t (*bytes)(const Component&, DType, std::int64_t, SegmentRange);
  Shape (*latent_shape)(const Component&);
  ClassTensors (*tensors)(const Component&);
};

constexpr std::array<Row, 2> kDenoisers = {{
    {"DiTTransformer2DModel", load_dit, dit_bytes, dit_latent_shape, dit_class},
    // Before diffusers 0.29; parse_dit_config checks that it is a DiT.
    {"Transformer2DModel", load_dit, dit_bytes, dit_latent_shape, dit_class},
}};

const Row& row_of(const Component& component) {
  const auto* row = std::find_if(
      kDenoisers.begin(), kDenoisers.end(), [&](const Row& candidate) {
        return candidate.class_name == component.class_name;
      });
  if (row == kDenoisers.end()) {
    throw Error(Errc::unsupported, component.config.place(),
                "_class_name: got " + in_quotes(component.class_name) +
                    ", expected DiTTransformer2DModel",
                "only DiT checkpoints run yet: others are coming");
  }
  return *row;
}

AutoencoderKlConfig autoencoder_config(const Component& component) {
  require(component.class_name == "AutoencoderKL", Errc::unsupported,
          component.config.place(),
          "_class_name: got " + in_quotes(component.class_name) +
              ", expected AutoencoderKL",
          "this autoencoder cannot be run");
  return parse_autoencoder_kl_config(component.config);
}

/// The encoder is never read: its tensors are known by their modules.
ClassTensors autoencoder_class(const Component& component) {
  const AutoencoderKlConfig config = autoencoder_config(component);
  ClassTensors tensors{
      .names = autoencoder_kl_names(config),
      .prefixes = {"encoder.conv_in.", "encoder.conv_norm_out.",
                   "encoder.conv_out.", "encoder.mid_block."}};
  for (std::size_t i = 0; i < config.block_out_channels.size(); ++i) {
    tensors.prefixes.push_back("encoder.down_blocks." + std::to_string(i) +
                               ".");
  }
  if (component.config.boolean("use_quant_conv", true)) {
    tensors.prefixes.emplace_back("quant_conv.");
  }
  return tensors;
}

void check_tensors(const Component& component, ClassTensors known,
                   std::vector<std::string>& notes) {
  const UnusedTensors unused =
      check_class_tensors(component.weights, component.folder.string(),
                          component.class_name, std::move(known));
  if (unused.count > 0) {
    notes.push_back(component.folder.string() + ": " +
                    counted(unused.count, "tensor") +
                    (unused.count == 1 ? " is" : " are") +
                    " not used, the first is " + in_quotes(unused.first));
  }
}

}  // namespace

std::unique_ptr<Denoiser> load_denoiser(ExecContext& ctx,
                                        const Component& component,
                                        DType compute, SegmentRange segment,
                                        WeightPlacement placement) {
  return row_of(component).load(ctx, component, compute, segment, placement);
}

std::unique_ptr<AutoencoderKl> load_autoencoder(ExecContext& ctx,
                                                const Component& component,
                                                DType compute) {
  FileWeights weights(component.weights);
  return std::make_unique<AutoencoderKl>(ctx, autoencoder_config(component),
                                         compute, weights);
}

std::uint64_t required_bytes(const Checkpoint& checkpoint, DType compute,
                             std::int64_t rows, SegmentRange segment) {
  const Row& row = row_of(checkpoint.transformer);
  std::uint64_t bytes =
      row.bytes(checkpoint.transformer, compute, rows, segment);
  if (checkpoint.vae) {
    const Shape latents = row.latent_shape(checkpoint.transformer);
    bytes += autoencoder_kl_required_bytes(autoencoder_config(*checkpoint.vae),
                                           compute, latents[1], latents[2]);
  }
  return bytes;
}

std::vector<std::string> check_supported(const Checkpoint& checkpoint) {
  const Row& row = row_of(checkpoint.transformer);
  std::vector<std::string> notes;
  check_tensors(checkpoint.transformer, row.tensors(checkpoint.transformer),
                notes);
  if (!checkpoint.vae) {
    return notes;
  }
  check_tensors(*checkpoint.vae, autoencoder_class(*checkpoint.vae), notes);
  const AutoencoderKlConfig vae = autoencoder_config(*checkpoint.vae);
  const Shape latents = row.latent_shape(checkpoint.transformer);
  const std::string& place = checkpoint.vae->config.place();
  require(vae.latent_channels == latents[0], Errc::corrupt_file, place,
          "latent_channels: got " + std::to_string(vae.latent_channels) +
              ", expected " + std::to_string(latents[0]) +
              " as the transformer has",
          "this autoencoder belongs to another model");
  // No tensor of the checkpoint bounds sample_size.
  const std::int64_t side = latents[1] * vae.scale();
  require(side <= kMostPixelsPerSide, Errc::unsupported, place,
          "pictures: got " + std::to_string(side) +
              " pixels a side, expected at most " +
              std::to_string(kMostPixelsPerSide),
          "correct sample_size in the transformer's config.json");
  return notes;
}

}  // namespace troupe::models
