#include "models/factory.h"

#include <algorithm>
#include <array>
#include <string>

#include "kernels/core/error.h"
#include "models/dit.h"
#include "models/dit_info.h"

namespace troupe::models {
namespace {

std::unique_ptr<Denoiser> load_dit(ExecContext& ctx, const Component& component,
                                   DType compute, SegmentRange segment) {
  FileWeights weights(component.weights);
  return std::make_unique<Dit>(ctx, parse_dit_config(component.config), segment,
                               compute, weights);
}

std::uint64_t dit_bytes(const Component& component, DType compute,
                        std::int64_t rows, SegmentRange segment) {
  return dit_required_bytes(parse_dit_config(component.config), segment,
                            compute, rows);
}

std::int64_t dit_latent_side(const Component& component) {
  return parse_dit_config(component.config).sample_size;
}

struct Row {
  std::string_view class_name;
  std::unique_ptr<Denoiser> (*load)(ExecContext&, const Component&, DType,
                                    SegmentRange);
  std::uint64_t (*bytes)(const Component&, DType, std::int64_t, SegmentRange);
  std::int64_t (*latent_side)(const Component&);
};

constexpr std::array<Row, 2> kDenoisers = {{
    {"DiTTransformer2DModel", load_dit, dit_bytes, dit_latent_side},
    // Before diffusers 0.29; parse_dit_config checks that it is a DiT.
    {"Transformer2DModel", load_dit, dit_bytes, dit_latent_side},
}};

const Row& row_of(const Component& component) {
  const auto* row = std::find_if(
      kDenoisers.begin(), kDenoisers.end(), [&](const Row& candidate) {
        return candidate.class_name == component.class_name;
      });
  if (row == kDenoisers.end()) {
    throw Error(Errc::unsupported, component.config.place(),
                "_class_name: got '" + component.class_name +
                    "', expected DiTTransformer2DModel",
                "only DiT checkpoints can be run");
  }
  return *row;
}

AutoencoderKlConfig autoencoder_config(const Component& component) {
  require(
      component.class_name == "AutoencoderKL", Errc::unsupported,
      component.config.place(),
      "_class_name: got '" + component.class_name + "', expected AutoencoderKL",
      "this autoencoder cannot be run");
  return parse_autoencoder_kl_config(component.config);
}

}  // namespace

std::unique_ptr<Denoiser> load_denoiser(ExecContext& ctx,
                                        const Component& component,
                                        DType compute, SegmentRange segment) {
  return row_of(component).load(ctx, component, compute, segment);
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
    const std::int64_t side = row.latent_side(checkpoint.transformer);
    bytes += autoencoder_kl_required_bytes(autoencoder_config(*checkpoint.vae),
                                           compute, side, side);
  }
  return bytes;
}

void check_supported(const Checkpoint& checkpoint) {
  (void)row_of(checkpoint.transformer);
  if (checkpoint.vae) {
    (void)autoencoder_config(*checkpoint.vae);
  }
}

}  // namespace troupe::models
