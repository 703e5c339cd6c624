#include "models/layers/patch_embedding.h"

#include <string>

#include "kernels/activation.h"
#include "kernels/core/error.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/patchify.h"

// B rows, N tokens, D width, C channels, p patch size.

namespace troupe::models {
namespace {

constexpr float kOutputNormEps = 1e-6F;  // fixed in diffusers, not norm_eps

}  // namespace

void embed_patches(Pass& pass, std::int64_t patch_size,
                   const kernels::PackedLinear& layer, Tensor& x) {
  const Workspace::Scope scope(pass.workspace());
  const Shape& latents = pass.latent_shape();
  const std::int64_t tokens =
      (latents[1] / patch_size) * (latents[2] / patch_size);
  Tensor patches = pass.take({x.dim(0), tokens, layer.in_features()});
  kernels::patchify(pass.ctx(), pass.latents, patch_size,
                    patches);  // [B, N, Cpp]
  kernels::linear(pass.ctx(), x.dim(1) == tokens ? patches : pass.own(patches),
                  layer, kernels::Activation::none, x,
                  pass.whole_of(tokens));  // [B, N, D]
}

void finish_patches(Pass& pass, std::int64_t patch_size,
                    const kernels::PackedLinear& layer, const Tensor& tokens) {
  if (tokens.empty()) {
    return;
  }
  const Workspace::Scope scope(pass.workspace());
  Tensor patches = pass.take(
      {tokens.dim(0), tokens.dim(1), layer.out_features()}, DType::f32);
  kernels::linear(pass.ctx(), tokens, layer, kernels::Activation::none,
                  patches);  // [B, N, ppC]
  kernels::unpatchify(pass.ctx(), patches, patch_size,
                      pass.output);  // [B, C, H, W]
}

kernels::PackedLinear PatchEmbedding::read(LayerReader& reader) const {
  const std::int64_t p = grid_.patch_size;
  if (reader.packs()) {
    reader.count(static_cast<std::size_t>(
                     grid_.num_tokens(grid_.latent_shape()) * width_) *
                 sizeof(float));
  }
  return reader.linear(
      {{"pos_embed.proj.weight", Shape{width_, grid_.in_channels, p, p}},
       {"pos_embed.proj.bias", Shape{width_}}});
}

void PatchEmbedding::check_latents(std::string_view place,
                                   const Shape& latents) const {
  require(grid_.fits(latents), Errc::shape_mismatch, place,
          "latents: got " + to_string(latents) + ", expected " +
              (grid_.squares_only ? "squares as " : "sides as ") +
              to_string(grid_.latent_shape()) + " in patches of " +
              std::to_string(grid_.patch_size));
}

Tensor PatchEmbedding::positions_of(ExecContext& ctx,
                                    const Shape& latents) const {
  const std::int64_t height = latents[1] / grid_.patch_size;
  const std::int64_t width = latents[2] / grid_.patch_size;
  return tables_.of(ctx, {height, width}, {height * width, width_}, [&] {
    return kernels::sincos_2d(width_, height, width,
                              grid_.sample_size / grid_.patch_size,
                              interpolation_);
  });
}

void PatchEmbedding::embed(Pass& pass, const kernels::PackedLinear& layer,
                           State& state) const {
  const Tensor positions =
      pass.own_rows(positions_of(pass.ctx(), pass.latent_shape()));
  Tensor x = pass.take({pass.rows(), positions.dim(0), width_}, DType::f32);
  embed_patches(pass, grid_.patch_size, layer, x);
  for (std::int64_t i = 0; i < pass.rows(); ++i) {
    Tensor row = x.item(i);
    kernels::add(pass.ctx(), positions, row);  // [N, D]
  }
  state.streams = {{"hidden_states", x}};
}

void PatchEmbedding::finish(Pass& pass, const Columns& mod,
                            const kernels::PackedLinear& layer) const {
  const std::int64_t tokens = grid_.num_tokens(pass.latent_shape());
  const Workspace::Scope scope(pass.workspace());
  Tensor normed = pass.take_shared(tokens, width_, pass.compute());
  pass.residual().layer_norm_modulate(pass.ctx(), mod.at(0), mod.at(1),
                                      kOutputNormEps, normed);  // [B, N, D]
  finish_patches(pass, grid_.patch_size, layer, pass.gather(normed));
}

}  // namespace troupe::models
