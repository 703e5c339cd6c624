// Times one guided forward pass (the pair cond, uncond) of a DiT with random
// weights or of a folder, for scripts/bench_forward.sh. Prints one JSON line.
//   forward_probe NAME|DIR f32|bf16 THREADS REPEATS

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "config/bundled_models.h"
#include "kernels/core/context.h"
#include "kernels/core/error.h"
#include "kernels/core/noise.h"
#include "kernels/core/shard_context.h"
#include "kernels/core/system.h"
#include "models/checkpoint.h"
#include "models/dit.h"
#include "models/dit_config.h"
#include "models/factory.h"
#include "models/weight_source.h"

namespace {

using namespace troupe;  // NOLINT(google-build-using-namespace)

std::unique_ptr<models::Denoiser> load(ExecContext& ctx,
                                       const std::string& what, DType compute) {
  if (std::filesystem::is_directory(what)) {
    return models::load_denoiser(ctx, models::open_checkpoint(what).transformer,
                                 compute);
  }
  const models::Json config =
      models::Json::parse(config::find_bundled_model(what).transformer, what);
  models::RandomWeights weights(ctx, 0);
  return std::make_unique<models::Dit>(ctx, models::parse_dit_config(config),
                                       models::SegmentRange{}, compute,
                                       weights);
}

double median_seconds(ExecContext& ctx, const models::Denoiser& denoiser,
                      int repeats) {
  const models::DenoiserInfo& info = denoiser.info();
  const Shape& shape = info.latent_shape;
  Tensor latents(shape, DType::f32);
  fill_normal({.seed = 1}, latents);
  std::vector<Tensor> rows(2, latents);
  std::vector<Tensor> outputs;
  for (int i = 0; i < 2; ++i) {
    outputs.emplace_back(Shape{info.out_channels, shape[1], shape[2]},
                         DType::f32);
  }
  const std::vector<double> timesteps(2, 500.0);
  const auto cond = denoiser.prepare(ctx, {.class_label = 0});
  const auto uncond = denoiser.prepare(ctx, {.class_label = info.num_classes});
  const std::vector<const models::PreparedCondition*> conditions = {
      cond.get(), uncond.get()};
  ShardContext whole;
  std::vector<double> seconds;
  for (int i = 0; i < repeats + 2; ++i) {  // two to warm up
    const auto start = std::chrono::steady_clock::now();
    denoiser.predict(ctx, whole, {rows, timesteps, conditions}, outputs);
    const std::chrono::duration<double> taken =
        std::chrono::steady_clock::now() - start;
    if (i >= 2) {
      seconds.push_back(taken.count());
    }
  }
  std::nth_element(seconds.begin(), seconds.begin() + repeats / 2,
                   seconds.end());
  return seconds[static_cast<std::size_t>(repeats / 2)];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: forward_probe NAME|DIR f32|bf16 T N\n");
    return 2;
  }
  try {
    use_one_openmp_thread();
    ExecContext ctx(std::max(1, std::atoi(argv[3])));
    const DType compute =
        std::string(argv[2]) == "bf16" ? DType::bf16 : DType::f32;
    const auto denoiser = load(ctx, argv[1], compute);
    const double median =
        median_seconds(ctx, *denoiser, std::max(1, std::atoi(argv[4])));
    std::printf(
        "{\"forward_s\": %.6f, \"gflops\": %.1f, \"parameter_bytes\": %zu, "
        "\"workspace_bytes\": %zu, \"peak_rss_bytes\": %llu}\n",
        median, 2.0 * denoiser->info().flops() / median * 1e-9,
        denoiser->info().parameter_bytes, ctx.workspace().capacity_bytes(),
        static_cast<unsigned long long>(peak_rss_bytes()));
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "forward_probe: %s\n", error.what());
    return exit_code(error.code());
  }
}
