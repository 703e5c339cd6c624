#include "config/bundled_models.h"

#include <nlohmann/json.hpp>

#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::config {
namespace {

/// The decoder of all Stable Diffusions; the versions differ in the side of the
/// training pictures.
std::string sd_vae(double scaling_factor, int sample_size) {
  return nlohmann::json{
      {"_class_name", "AutoencoderKL"},
      {"in_channels", 3},
      {"out_channels", 3},
      {"down_block_types", std::vector(4, std::string("DownEncoderBlock2D"))},
      {"up_block_types", std::vector(4, std::string("UpDecoderBlock2D"))},
      {"block_out_channels", {128, 256, 512, 512}},
      {"layers_per_block", 2},
      {"act_fn", "silu"},
      {"latent_channels", 4},
      {"norm_num_groups", 32},
      {"scaling_factor", scaling_factor},
      {"sample_size", sample_size}}
      .dump();
}

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

/// All defaults of its class.
constexpr std::string_view kDpmSolver = R"({
  "_class_name": "DPMSolverMultistepScheduler", "num_train_timesteps": 1000,
  "beta_start": 0.0001, "beta_end": 0.02, "beta_schedule": "linear",
  "prediction_type": "epsilon", "solver_order": 2,
  "algorithm_type": "dpmsolver++", "solver_type": "midpoint",
  "lower_order_final": true, "timestep_spacing": "linspace",
  "final_sigmas_type": "zero"})";

/// U-ViT's authors draw over the betas of Stable Diffusion, from timestep 1000
/// to 1 in equal steps, with a DPM-Solver++ of order 3 in single steps; a
/// multistep one is the nearest.
/// Source: baofff/U-ViT eval_ldm_discrete.py.
constexpr std::string_view kUVitSolver = R"({
  "_class_name": "DPMSolverMultistepScheduler", "num_train_timesteps": 1000,
  "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
  "prediction_type": "epsilon", "solver_order": 3,
  "algorithm_type": "dpmsolver++", "solver_type": "midpoint",
  "lower_order_final": true, "timestep_spacing": "linspace",
  "final_sigmas_type": "sigma_min"})";

/// T5 v1.1 XXL, its encoder.
constexpr std::string_view kT5Xxl = R"({
  "architectures": ["T5EncoderModel"], "model_type": "t5",
  "d_model": 4096, "d_kv": 64, "d_ff": 10240, "num_layers": 24,
  "num_heads": 64, "vocab_size": 32128, "feed_forward_proj": "gated-gelu",
  "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128,
  "layer_norm_epsilon": 1e-6, "pad_token_id": 0, "eos_token_id": 1})";

constexpr std::string_view kTinyT5 = R"({
  "architectures": ["T5EncoderModel"], "model_type": "t5",
  "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2,
  "num_heads": 4, "vocab_size": 32128, "feed_forward_proj": "gated-gelu",
  "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128,
  "layer_norm_epsilon": 1e-6, "pad_token_id": 0, "eos_token_id": 1})";

/// CLIP ViT-L/14, its text encoder.
constexpr std::string_view kClipL = R"({
  "architectures": ["CLIPTextModel"], "model_type": "clip_text_model",
  "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
  "num_attention_heads": 12, "max_position_embeddings": 77,
  "vocab_size": 49408, "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5,
  "projection_dim": 768, "bos_token_id": 0, "pad_token_id": 1,
  "eos_token_id": 2})";

constexpr std::string_view kTinyClip = R"({
  "architectures": ["CLIPTextModel"], "model_type": "clip_text_model",
  "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
  "num_attention_heads": 4, "max_position_embeddings": 77,
  "vocab_size": 49408, "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5,
  "projection_dim": 32, "bos_token_id": 0, "pad_token_id": 1,
  "eos_token_id": 2})";

/// OpenCLIP ViT-bigG/14, its text encoder.
constexpr std::string_view kClipBigG = R"({
  "architectures": ["CLIPTextModelWithProjection"],
  "model_type": "clip_text_model",
  "hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32,
  "num_attention_heads": 20, "max_position_embeddings": 77,
  "vocab_size": 49408, "hidden_act": "gelu", "layer_norm_eps": 1e-5,
  "projection_dim": 1280, "bos_token_id": 0, "pad_token_id": 1,
  "eos_token_id": 2})";

constexpr std::string_view kTinyClipProjection = R"({
  "architectures": ["CLIPTextModelWithProjection"],
  "model_type": "clip_text_model",
  "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2,
  "num_attention_heads": 3, "max_position_embeddings": 77,
  "vocab_size": 49408, "hidden_act": "gelu", "layer_norm_eps": 1e-5,
  "projection_dim": 40, "bos_token_id": 0, "pad_token_id": 1,
  "eos_token_id": 2})";

/// The scheduler of Stable Diffusion XL.
constexpr std::string_view kEuler = R"({
  "_class_name": "EulerDiscreteScheduler", "num_train_timesteps": 1000,
  "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
  "prediction_type": "epsilon", "interpolation_type": "linear",
  "use_karras_sigmas": false, "steps_offset": 1,
  "timestep_spacing": "leading"})";

/// The scheduler of Stable Diffusion 1.5.
constexpr std::string_view kPndm = R"({
  "_class_name": "PNDMScheduler", "num_train_timesteps": 1000,
  "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
  "prediction_type": "epsilon", "set_alpha_to_one": false,
  "skip_prk_steps": true, "steps_offset": 1, "timestep_spacing": "leading"})";

constexpr std::string_view kSd15Unet = R"({
  "_class_name": "UNet2DConditionModel", "act_fn": "silu",
  "attention_head_dim": 8, "block_out_channels": [320, 640, 1280, 1280],
  "cross_attention_dim": 768,
  "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D",
                       "CrossAttnDownBlock2D", "DownBlock2D"],
  "in_channels": 4, "layers_per_block": 2, "norm_eps": 1e-5,
  "norm_num_groups": 32, "out_channels": 4, "sample_size": 64,
  "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D",
                     "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"]})";

constexpr std::string_view kTinyUnet = R"({
  "_class_name": "UNet2DConditionModel", "act_fn": "silu",
  "attention_head_dim": 4, "block_out_channels": [32, 64],
  "cross_attention_dim": 32,
  "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
  "in_channels": 4, "layers_per_block": 1, "norm_eps": 1e-5,
  "norm_num_groups": 8, "out_channels": 4, "sample_size": 16,
  "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"]})";

constexpr std::string_view kSdxlUnet = R"({
  "_class_name": "UNet2DConditionModel", "act_fn": "silu",
  "addition_embed_type": "text_time", "addition_time_embed_dim": 256,
  "attention_head_dim": [5, 10, 20], "block_out_channels": [320, 640, 1280],
  "cross_attention_dim": 2048,
  "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D",
                       "CrossAttnDownBlock2D"],
  "in_channels": 4, "layers_per_block": 2, "norm_eps": 1e-5,
  "norm_num_groups": 32, "out_channels": 4,
  "projection_class_embeddings_input_dim": 2816, "sample_size": 128,
  "transformer_layers_per_block": [1, 2, 10],
  "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D",
                     "UpBlock2D"],
  "use_linear_projection": true})";

constexpr std::string_view kTinySdxlUnet = R"({
  "_class_name": "UNet2DConditionModel", "act_fn": "silu",
  "addition_embed_type": "text_time", "addition_time_embed_dim": 8,
  "attention_head_dim": [2, 4], "block_out_channels": [32, 64],
  "cross_attention_dim": 80,
  "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
  "in_channels": 4, "layers_per_block": 1, "norm_eps": 1e-5,
  "norm_num_groups": 8, "out_channels": 4,
  "projection_class_embeddings_input_dim": 88, "sample_size": 16,
  "transformer_layers_per_block": [1, 2],
  "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
  "use_linear_projection": true})";

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

struct PixArtSize {
  int heads;
  int head_dim;
  int layers;
  int sample_size;
  double interpolation_scale;
  int caption_channels;
};

std::string pixart(const PixArtSize& size) {
  return nlohmann::json{{"_class_name", "PixArtTransformer2DModel"},
                        {"num_attention_heads", size.heads},
                        {"attention_head_dim", size.head_dim},
                        {"in_channels", 4},
                        {"out_channels", 8},
                        {"num_layers", size.layers},
                        {"cross_attention_dim", size.heads * size.head_dim},
                        {"sample_size", size.sample_size},
                        {"patch_size", 2},
                        {"attention_bias", true},
                        {"activation_fn", "gelu-approximate"},
                        {"num_embeds_ada_norm", 1000},
                        {"norm_type", "ada_norm_single"},
                        {"norm_elementwise_affine", false},
                        {"norm_eps", 1e-6},
                        {"interpolation_scale", size.interpolation_scale},
                        {"use_additional_conditions", false},
                        {"caption_channels", size.caption_channels}}
      .dump();
}

struct UVitSize {
  int img_size;
  int embed_dim;
  int depth;
  int num_heads;
  int num_classes;  ///< with 'no class'
};

/// The arguments of the authors' class, as in their configs.
std::string uvit(const UVitSize& size) {
  return nlohmann::json{{"_class_name", "UViT"},
                        {"img_size", size.img_size},
                        {"patch_size", 2},
                        {"in_chans", 4},
                        {"embed_dim", size.embed_dim},
                        {"depth", size.depth},
                        {"num_heads", size.num_heads},
                        {"mlp_ratio", 4},
                        {"qkv_bias", false},
                        {"mlp_time_embed", false},
                        {"num_classes", size.num_classes},
                        {"conv", false},
                        {"skip", true}}
      .dump();
}

using Encoders = std::vector<BundledEncoder>;

Encoders t5(std::string_view config) {
  return {{"text_encoder", "T5EncoderModel", config, "t5"}};
}
Encoders clip(std::string_view config) {
  return {{"text_encoder", "CLIPTextModel", config, "clip"}};
}
Encoders two_clips(std::string_view first, std::string_view second) {
  return {{"text_encoder", "CLIPTextModel", first, "clip"},
          {"text_encoder_2", "CLIPTextModelWithProjection", second, "clip"}};
}

}  // namespace

std::span<const BundledModel> bundled_models() {
  // Sizes: Peebles & Xie 2023, arXiv:2212.09748, table 1; Bao et al. 2023,
  // arXiv:2209.12152, table 1; Chen et al. 2024, arXiv:2403.04692.
  static const std::string kDitVae = sd_vae(0.18215, 256);
  static const std::string kSd15Vae = sd_vae(0.18215, 512);
  static const std::string kSdxlVae = sd_vae(0.13025, 1024);
  static const std::vector<BundledModel> kModels = {
      {"dit-xl-2-256", "DiT-XL/2, 256x256 pixels, 1000 ImageNet classes",
       dit({16, 72, 4, 8, 28, 32}), kDitVae, kDdim},
      {"dit-xl-2-512", "DiT-XL/2, 512x512 pixels, 1000 ImageNet classes",
       dit({16, 72, 4, 8, 28, 64}), kDitVae, kDdim},
      {"dit-l-2", "DiT-L/2, 256x256 pixels", dit({16, 64, 4, 8, 24, 32}),
       kDitVae, kDdim},
      {"dit-b-2", "DiT-B/2, 256x256 pixels", dit({12, 64, 4, 8, 12, 32}),
       kDitVae, kDdim},
      {"dit-s-2", "DiT-S/2, 256x256 pixels", dit({6, 64, 4, 8, 12, 32}),
       kDitVae, kDdim},
      {"dit-tiny", "4 blocks of width 64 on 16x16 pixels, for tests",
       dit({4, 16, 3, 3, 4, 16, 10}), "", kDdim},
      {"dit-tiny-vae", "4 blocks of width 64 with a small VAE, for tests",
       dit({4, 16, 4, 8, 4, 8, 10}), kTinyVae, kDdim},
      {"uvit-large-256", "U-ViT-L/2, 256x256 pixels, 1000 ImageNet classes",
       uvit({32, 1024, 20, 16, 1001}), kDitVae, kUVitSolver},
      {"tiny-uvit",
       "5 blocks of width 64 and two long skips, with a small VAE, for tests",
       uvit({16, 64, 4, 4, 11}), kTinyVae, kUVitSolver},
      {"pixart-sigma-xl-2",
       "PixArt-Sigma-XL/2, 1024x1024 pixels, from a prompt",
       pixart({16, 72, 28, 128, 2.0, 4096}), kSdxlVae, kDpmSolver,
       "PixArtSigmaPipeline", t5(kT5Xxl)},
      {"tiny-pixart-sigma",
       "3 blocks of width 72 with a small VAE, from a prompt, for tests",
       pixart({3, 24, 3, 16, 1.0, 32}), kTinyVae, kDpmSolver,
       "PixArtSigmaPipeline", t5(kTinyT5)},
      {"sd15", "Stable Diffusion 1.5, 512x512 pixels, from a prompt",
       std::string(kSd15Unet), kSd15Vae, kPndm, "StableDiffusionPipeline",
       clip(kClipL)},
      {"tiny-sd15",
       "a UNet of widths 32 and 64 with a small VAE, from a prompt, for tests",
       std::string(kTinyUnet), kTinyVae, kPndm, "StableDiffusionPipeline",
       clip(kTinyClip)},
      {"sdxl", "Stable Diffusion XL, 1024x1024 pixels, from a prompt",
       std::string(kSdxlUnet), kSdxlVae, kEuler, "StableDiffusionXLPipeline",
       two_clips(kClipL, kClipBigG)},
      {"tiny-sdxl",
       "a UNet of widths 32 and 64 told of sizes, with a small VAE, from a "
       "prompt, for tests",
       std::string(kTinySdxlUnet), kTinyVae, kEuler,
       "StableDiffusionXLPipeline", two_clips(kTinyClip, kTinyClipProjection)},
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
