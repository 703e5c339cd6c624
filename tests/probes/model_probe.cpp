// One forward pass on files, for scripts/parity.sh:
//   model_probe dit|pixart|unet|vae|vae_tiled MODEL_DIR f32|bf16
//   IN.safetensors OUT.safetensors
// dit reads "latents" [B, C, H, W], "timesteps" [B] f32 and "labels" [B] i64;
// pixart, in place of labels, "prompt_embeds" [B, L, D] and "lengths" [B] i64;
// unet the same, and "pooled" [B, P] and "size_ids" [B, 6] if it is told them;
// vae reads "latents", and so does vae_tiled, in its decoder's tiles. All write
// "output" f32.

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string_view>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/error.h"
#include "kernels/core/shard_context.h"
#include "models/files/checkpoint.h"
#include "models/files/safetensors.h"
#include "models/vae/tiled_decode.h"
#include "tests/models/loading.h"

namespace {

using namespace troupe;  // NOLINT(google-build-using-namespace)

Tensor read(const models::SafetensorsFile& file, std::string_view name) {
  const auto entry = file.find(name);
  require(entry.has_value(), Errc::not_found, "model_probe",
          "missing tensor " + std::string(name));
  return file.read(*entry);
}

models::Component transformer_of(const std::filesystem::path& folder) {
  return models::open_component(
      exists(folder / "transformer") ? folder / "transformer" : folder);
}

/// What each row is conditioned on.
std::vector<models::Condition> conditions_in(const models::SafetensorsFile& in,
                                             std::string_view kind,
                                             std::int64_t count) {
  std::vector<models::Condition> conditions;
  if (kind == "pixart" || kind == "unet") {
    const Tensor prompts = read(in, "prompt_embeds");
    const Tensor lengths = read(in, "lengths");
    for (std::int64_t i = 0; i < count; ++i) {
      conditions.emplace_back();
      conditions.back().add("prompt_embeds", prompts.item(i),
                            lengths.data<std::int64_t>()[i]);
      for (const char* told : {"pooled", "size_ids"}) {
        if (in.find(told)) {
          conditions.back().add(told, read(in, told).item(i));
        }
      }
    }
    return conditions;
  }
  const Tensor labels = read(in, "labels");
  for (std::int64_t i = 0; i < count; ++i) {
    conditions.emplace_back(labels.data<std::int64_t>()[i]);
  }
  return conditions;
}

Tensor run_denoiser(ExecContext& ctx, std::string_view kind,
                    const std::filesystem::path& folder, DType compute,
                    const models::SafetensorsFile& in) {
  const auto denoiser =
      models::load_denoiser(ctx, transformer_of(folder), compute);
  const Tensor latents = read(in, "latents");
  const Tensor times = read(in, "timesteps");
  const std::int64_t count = latents.dim(0);
  const auto wanted = conditions_in(in, kind, count);
  Tensor out(Shape{count, denoiser->info().out_channels, latents.dim(2),
                   latents.dim(3)},
             DType::f32);
  std::vector<Tensor> rows;
  std::vector<Tensor> outputs;
  std::vector<double> timesteps;
  std::vector<models::PreparedPtr> prepared;
  std::vector<const models::PreparedCondition*> conditions;
  for (std::int64_t i = 0; i < count; ++i) {
    rows.push_back(latents.item(i));
    outputs.push_back(out.item(i));
    timesteps.push_back(times.data<float>()[i]);
    prepared.push_back(
        denoiser->prepare(ctx, wanted[static_cast<std::size_t>(i)]));
    conditions.push_back(prepared.back().get());
  }
  ShardContext whole;
  denoiser->predict(ctx, whole, {rows, timesteps, conditions}, outputs);
  return out;
}

Tensor run_vae(ExecContext& ctx, bool in_tiles,
               const std::filesystem::path& folder, DType compute,
               const models::SafetensorsFile& in) {
  const auto vae =
      models::load_autoencoder(ctx, models::open_component(folder), compute);
  const Tensor latents = read(in, "latents");
  const std::int64_t scale = vae->config().scale();
  Tensor out(Shape{latents.dim(0), vae->config().out_channels,
                   scale * latents.dim(2), scale * latents.dim(3)},
             DType::f32);
  for (std::int64_t i = 0; i < latents.dim(0); ++i) {
    Tensor picture = out.item(i);
    if (in_tiles) {
      models::decode_in_tiles(ctx, *vae, latents.item(i),
                              vae->config().tile_side(), picture);
    } else {
      vae->decode(ctx, latents.item(i), picture);
    }
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(
        stderr,
        "usage: model_probe dit|pixart|unet|vae|vae_tiled DIR f32|bf16 IN "
        "OUT\n");
    return 2;
  }
  try {
    use_one_openmp_thread();
    ExecContext ctx(2);
    const models::SafetensorsFile in(argv[4]);
    const DType compute =
        std::string_view(argv[3]) == "bf16" ? DType::bf16 : DType::f32;
    const std::string_view kind = argv[1];
    const Tensor output =
        kind.starts_with("vae")
            ? run_vae(ctx, kind == "vae_tiled", argv[2], compute, in)
            : run_denoiser(ctx, kind, argv[2], compute, in);
    const NamedTensor named{"output", output};
    models::write_safetensors(argv[5], {&named, 1});
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "model_probe: %s\n", error.what());
    return exit_code(error.code());
  }
}
