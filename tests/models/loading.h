#pragma once

#include <memory>

#include "models/description.h"
#include "models/vae/autoencoder_kl.h"

namespace troupe::models {

inline std::unique_ptr<Denoiser> load_denoiser(ExecContext& ctx,
                                               const Component& component,
                                               DType compute) {
  FileWeights weights(ctx, component.weights);
  return find_denoiser(component.config, component.class_name)
      .describe(component.config)
      ->load(ctx, compute, weights);
}

inline std::unique_ptr<AutoencoderKl> load_autoencoder(
    ExecContext& ctx, const Component& component, DType compute) {
  FileWeights weights(ctx, component.weights);
  return std::make_unique<AutoencoderKl>(
      ctx, parse_autoencoder_kl_config(component.config), compute, weights);
}

}  // namespace troupe::models
