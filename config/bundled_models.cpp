#include "config/bundled_models.h"

#include <array>
#include <vector>

#include "config/suggest.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

// Shapes: Peebles & Xie 2023, arXiv:2212.09748, table 1; keys as diffusers
// writes them.

constexpr std::string_view kSdVae =
    R"j({"_class_name":"AutoencoderKL","in_channels":3,"out_channels":3,"d)j"
    R"j(own_block_types":["DownEncoderBlock2D","DownEncoderBlock2D","DownE)j"
    R"j(ncoderBlock2D","DownEncoderBlock2D"],"up_block_types":["UpDecoderB)j"
    R"j(lock2D","UpDecoderBlock2D","UpDecoderBlock2D","UpDecoderBlock2D"],)j"
    R"j("block_out_channels":[128,256,512,512],"layers_per_block":2,"act_f)j"
    R"j(n":"silu","latent_channels":4,"norm_num_groups":32,"scaling_factor)j"
    R"j(":0.18215})j";

constexpr std::string_view kDdim =
    R"j({"_class_name":"DDIMScheduler","num_train_timesteps":1000,"beta_st)j"
    R"j(art":0.0001,"beta_end":0.02,"beta_schedule":"linear","prediction_t)j"
    R"j(ype":"epsilon","clip_sample":false})j";

constexpr std::string_view kTinyVae =
    R"j({"_class_name":"AutoencoderKL","in_channels":3,"out_channels":3,"d)j"
    R"j(own_block_types":["DownEncoderBlock2D","DownEncoderBlock2D"],"up_b)j"
    R"j(lock_types":["UpDecoderBlock2D","UpDecoderBlock2D"],"block_out_cha)j"
    R"j(nnels":[32,32],"layers_per_block":1,"act_fn":"silu","latent_channe)j"
    R"j(ls":4,"norm_num_groups":8,"scaling_factor":0.18215})j";

constexpr std::array kModels = {
    BundledModel{
        "dit-xl-2-256", "DiT-XL/2, 256x256 pixels, 1000 ImageNet classes",
        R"j({"_class_name":"DiTTransformer2DModel","num_attention_heads":16,"a)j"
        R"j(ttention_head_dim":72,"in_channels":4,"out_channels":8,"num_layers)j"
        R"j(":28,"sample_size":32,"patch_size":2,"attention_bias":true,"activa)j"
        R"j(tion_fn":"gelu-approximate","num_embeds_ada_norm":1000,"norm_type")j"
        R"j(:"ada_norm_zero","norm_elementwise_affine":false,"norm_eps":1e-05})j",
        kSdVae, kDdim},
    BundledModel{
        "dit-xl-2-512", "DiT-XL/2, 512x512 pixels, 1000 ImageNet classes",
        R"j({"_class_name":"DiTTransformer2DModel","num_attention_heads":16,"a)j"
        R"j(ttention_head_dim":72,"in_channels":4,"out_channels":8,"num_layers)j"
        R"j(":28,"sample_size":64,"patch_size":2,"attention_bias":true,"activa)j"
        R"j(tion_fn":"gelu-approximate","num_embeds_ada_norm":1000,"norm_type")j"
        R"j(:"ada_norm_zero","norm_elementwise_affine":false,"norm_eps":1e-05})j",
        kSdVae, kDdim},
    BundledModel{
        "dit-l-2", "DiT-L/2, 256x256 pixels",
        R"j({"_class_name":"DiTTransformer2DModel","num_attention_heads":16,"a)j"
        R"j(ttention_head_dim":64,"in_channels":4,"out_channels":8,"num_layers)j"
        R"j(":24,"sample_size":32,"patch_size":2,"attention_bias":true,"activa)j"
        R"j(tion_fn":"gelu-approximate","num_embeds_ada_norm":1000,"norm_type")j"
        R"j(:"ada_norm_zero","norm_elementwise_affine":false,"norm_eps":1e-05})j",
        kSdVae, kDdim},
    BundledModel{
        "dit-b-2", "DiT-B/2, 256x256 pixels",
        R"j({"_class_name":"DiTTransformer2DModel","num_attention_heads":12,"a)j"
        R"j(ttention_head_dim":64,"in_channels":4,"out_channels":8,"num_layers)j"
        R"j(":12,"sample_size":32,"patch_size":2,"attention_bias":true,"activa)j"
        R"j(tion_fn":"gelu-approximate","num_embeds_ada_norm":1000,"norm_type")j"
        R"j(:"ada_norm_zero","norm_elementwise_affine":false,"norm_eps":1e-05})j",
        kSdVae, kDdim},
    BundledModel{
        "dit-s-2", "DiT-S/2, 256x256 pixels",
        R"j({"_class_name":"DiTTransformer2DModel","num_attention_heads":6,"at)j"
        R"j(tention_head_dim":64,"in_channels":4,"out_channels":8,"num_layers")j"
        R"j(:12,"sample_size":32,"patch_size":2,"attention_bias":true,"activat)j"
        R"j(ion_fn":"gelu-approximate","num_embeds_ada_norm":1000,"norm_type":)j"
        R"j("ada_norm_zero","norm_elementwise_affine":false,"norm_eps":1e-05})j",
        kSdVae, kDdim},
    BundledModel{
        "dit-tiny", "4 blocks of width 64 on 16x16 pixels, for tests",
        R"j({"_class_name":"DiTTransformer2DModel","num_attention_heads":4,"at)j"
        R"j(tention_head_dim":16,"in_channels":3,"out_channels":3,"num_layers")j"
        R"j(:4,"sample_size":16,"patch_size":2,"attention_bias":true,"activati)j"
        R"j(on_fn":"gelu-approximate","num_embeds_ada_norm":10,"norm_type":"ad)j"
        R"j(a_norm_zero","norm_elementwise_affine":false,"norm_eps":1e-05})j",
        "", kDdim},
    BundledModel{
        "dit-tiny-vae", "4 blocks of width 64 with a small VAE, for tests",
        R"j({"_class_name":"DiTTransformer2DModel","num_attention_heads":4,"at)j"
        R"j(tention_head_dim":16,"in_channels":4,"out_channels":8,"num_layers")j"
        R"j(:4,"sample_size":8,"patch_size":2,"attention_bias":true,"activatio)j"
        R"j(n_fn":"gelu-approximate","num_embeds_ada_norm":10,"norm_type":"ada)j"
        R"j(_norm_zero","norm_elementwise_affine":false,"norm_eps":1e-05})j",
        kTinyVae, kDdim},
};

}  // namespace

std::span<const BundledModel> bundled_models() { return kModels; }

const BundledModel& find_bundled_model(const std::string& name) {
  std::vector<std::string> names;
  for (const BundledModel& model : kModels) {
    if (model.name == name) {
      return model;
    }
    names.emplace_back(model.name);
  }
  throw Error(Errc::not_found, "--random-weights",
              "no bundled model of this name: got '" + name +
                  "', expected one of " + join_names(names),
              suggestion(name, names));
}

}  // namespace troupe::config
