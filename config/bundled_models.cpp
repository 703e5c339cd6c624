#include "config/bundled_models.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::config {
namespace {

constexpr std::string_view kSdVae = R"({
  "_class_name": "AutoencoderKL", "in_channels": 3, "out_channels": 3,
  "down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D",
                       "DownEncoderBlock2D", "DownEncoderBlock2D"],
  "up_block_types": ["UpDecoderBlock2D", "UpDecoderBlock2D",
                     "UpDecoderBlock2D", "UpDecoderBlock2D"],
  "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2,
  "act_fn": "silu", "latent_channels": 4, "norm_num_groups": 32,
  "scaling_factor": 0.18215})";

constexpr std::string_view kTinyVae = R"({
  "_class_name": "AutoencoderKL", "in_channels": 3, "out_channels": 3,
  "down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D"],
  "up_block_types": ["UpDecoderBlock2D", "UpDecoderBlock2D"],
  "block_out_channels": [32, 32], "layers_per_block": 1,
  "act_fn": "silu", "latent_channels": 4, "norm_num_groups": 8,
  "scaling_factor": 0.18215})";

constexpr std::string_view kDdim = R"({
  "_class_name": "DDIMScheduler", "num_train_timesteps": 1000,
  "beta_start": 0.0001, "beta_end": 0.02, "beta_schedule": "linear",
  "prediction_type": "epsilon", "clip_sample": false})";

/// What the bundled transformers differ in.
struct DitSize {
  int heads;
  int head_dim;
  int in_channels;
  int out_channels;
  int layers;
  int sample_size;
  int classes = 1000;
};

/// config.json as diffusers writes it.
std::string dit(const DitSize& size) {
  return nlohmann::json{{"_class_name", "DiTTransformer2DModel"},
                        {"num_attention_heads", size.heads},
                        {"attention_head_dim", size.head_dim},
                        {"in_channels", size.in_channels},
                        {"out_channels", size.out_channels},
                        {"num_layers", size.layers},
                        {"sample_size", size.sample_size},
                        {"patch_size", 2},
                        {"attention_bias", true},
                        {"activation_fn", "gelu-approximate"},
                        {"num_embeds_ada_norm", size.classes},
                        {"norm_type", "ada_norm_zero"},
                        {"norm_elementwise_affine", false},
                        {"norm_eps", 1e-5}}
      .dump();
}

}  // namespace

std::span<const BundledModel> bundled_models() {
  // Sizes: Peebles & Xie 2023, arXiv:2212.09748, table 1.
  static const std::vector<BundledModel> kModels = {
      {"dit-xl-2-256", "DiT-XL/2, 256x256 pixels, 1000 ImageNet classes",
       dit({16, 72, 4, 8, 28, 32}), kSdVae, kDdim},
      {"dit-xl-2-512", "DiT-XL/2, 512x512 pixels, 1000 ImageNet classes",
       dit({16, 72, 4, 8, 28, 64}), kSdVae, kDdim},
      {"dit-l-2", "DiT-L/2, 256x256 pixels", dit({16, 64, 4, 8, 24, 32}),
       kSdVae, kDdim},
      {"dit-b-2", "DiT-B/2, 256x256 pixels", dit({12, 64, 4, 8, 12, 32}),
       kSdVae, kDdim},
      {"dit-s-2", "DiT-S/2, 256x256 pixels", dit({6, 64, 4, 8, 12, 32}), kSdVae,
       kDdim},
      {"dit-tiny", "4 blocks of width 64 on 16x16 pixels, for tests",
       dit({4, 16, 3, 3, 4, 16, 10}), "", kDdim},
      {"dit-tiny-vae", "4 blocks of width 64 with a small VAE, for tests",
       dit({4, 16, 4, 8, 4, 8, 10}), kTinyVae, kDdim},
  };
  return kModels;
}

const BundledModel& find_bundled_model(const std::string& name) {
  std::vector<std::string> names;
  for (const BundledModel& model : bundled_models()) {
    if (model.name == name) {
      return model;
    }
    names.emplace_back(model.name);
  }
  throw Error(Errc::not_found, "--random-weights",
              "no bundled model of this name: got " + in_quotes(name) +
                  ", expected one of " + join_names(names),
              suggestion(name, names));
}

}  // namespace troupe::config
