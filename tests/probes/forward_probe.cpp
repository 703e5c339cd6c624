// Times one guided forward pass (a pair cond, uncond per sample) of a network
// with random weights or of a folder, for scripts/bench_forward.sh and
// scripts/gpu_check.sh. PixArt gets prompts of 300 tokens and of 1, a UNet two
// of 77. Prints one JSON line. On a GPU also the time of a pass when the next
// ones are queued behind it (`queued_s`). SIDE: latents of another size than it
// was trained with.
//   forward_probe NAME|DIR[@SIDE] f32|bf16|f16 THREADS REPEATS
//                 [cpu|cuda:N [SAMPLES [invariant|free]]]
//   forward_probe models         the bundled models, one name a line
//   forward_probe config NAME    what a bundled model consists of, as JSON:
//                                {"denoiser": {…}, "vae": {…} or null,
//                                 "scheduler": {…}}, each as diffusers has it

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "config/bundled_models.h"
#include "kernels/copy.h"
#include "kernels/core/context.h"
#include "kernels/core/error.h"
#include "kernels/core/noise.h"
#include "kernels/core/shard_context.h"
#include "kernels/core/system/machine.h"
#include "models/files/checkpoint.h"
#include "models/files/weight_source.h"
#include "tests/models/loading.h"

namespace {

using namespace troupe;  // NOLINT(google-build-using-namespace)

struct Network {
  std::unique_ptr<models::DenoiserDescription> description;
  std::unique_ptr<models::Denoiser> denoiser;
};

Network load(ExecContext& ctx, const std::string& what, DType compute) {
  Network network;
  if (std::filesystem::is_directory(what)) {
    const models::Component component = models::open_checkpoint(what).denoiser;
    models::FileWeights weights(ctx, component.weights);
    network.description =
        models::find_denoiser(component.config, component.class_name)
            .describe(component.config);
    network.denoiser = network.description->load(ctx, compute, weights);
    return network;
  }
  const models::Json config =
      models::Json::parse(config::find_bundled_model(what).denoiser, what);
  models::RandomWeights weights(ctx, 0);
  network.description =
      models::find_denoiser(config, config.string("_class_name", ""))
          .describe(config);
  network.denoiser = network.description->load(ctx, compute, weights);
  return network;
}

struct Options {
  std::string model;
  int side = 0;  ///< of the latents; 0: that of training
  DType compute = DType::f32;
  int threads = 1;
  int repeats = 1;
  Device device;
  int samples = 1;
  DeviceOptions device_options;
};

constexpr const char* kUsage =
    "usage: forward_probe NAME|DIR[@SIDE] f32|bf16|f16 THREADS REPEATS "
    "[cpu|cuda:N [SAMPLES [invariant|free]]] | models | config NAME";

int whole_number(const char* what, std::string_view text, int least) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  require(error == std::errc{} && rest == end && number >= least,
          Errc::invalid_argument, what,
          "got '" + std::string(text) + "', expected a whole number of at " +
              "least " + std::to_string(least),
          kUsage);
  return number;
}

/// `text` as one of `names`: its index.
std::size_t choice(const char* what, std::string_view text,
                   std::span<const char* const> names) {
  const auto found = std::ranges::find(names, text);
  require(found != names.end(), Errc::invalid_argument, what,
          "unknown: got '" + std::string(text) + "'", kUsage);
  return static_cast<std::size_t>(found - names.begin());
}

Options parse(std::span<char* const> words) {
  constexpr std::array kDTypes = {"f32", "bf16", "f16"};
  constexpr std::array kModes = {"invariant", "free"};
  require(words.size() >= 4 && words.size() <= 7, Errc::invalid_argument,
          "forward_probe",
          "got " + std::to_string(words.size()) + " arguments, expected 4 to 7",
          kUsage);
  Options options;
  const std::string_view model = words[0];
  const std::size_t at = std::min(model.find('@'), model.size());
  options.model = model.substr(0, at);
  if (at < model.size()) {
    options.side = whole_number("SIDE", model.substr(at + 1), 1);
  }
  options.compute = std::array{DType::f32, DType::bf16,
                               DType::f16}[choice("dtype", words[1], kDTypes)];
  options.threads = whole_number("THREADS", words[2], 1);
  options.repeats = whole_number("REPEATS", words[3], 1);
  const std::string_view device = words.size() > 4 ? words[4] : "cpu";
  if (device.starts_with("cuda:")) {
    options.device = {DeviceKind::cuda,
                      whole_number("device", device.substr(5), 0)};
  } else {
    (void)choice("device", device, std::array{"cpu"});
  }
  options.samples = words.size() > 5 ? whole_number("SAMPLES", words[5], 1) : 1;
  options.device_options.batch_invariant =
      words.size() <= 6 || choice("mode", words[6], kModes) == 0;
  return options;
}

void print_models() {
  for (const config::BundledModel& model : config::bundled_models()) {
    std::printf("%s\n", std::string(model.name).c_str());
  }
}

void print_config(const std::string& name) {
  const config::BundledModel& model = config::find_bundled_model(name);
  std::printf(
      "{\"denoiser\": %s, \"vae\": %s, \"scheduler\": %s, "
      "\"pipeline\": \"%s\"}\n",
      model.denoiser.c_str(),
      model.vae.empty() ? "null" : std::string(model.vae).c_str(),
      std::string(model.scheduler).c_str(),
      std::string(model.pipeline).c_str());
}

/// A guided forward pass over `samples` samples, ready to be repeated.
class Pass {
 public:
  Pass(ExecContext& ctx, const Network& network, int samples, int side)
      : ctx_(ctx),
        denoiser_(*network.denoiser),
        timesteps_(static_cast<std::size_t>(2 * samples), 500.0) {
    Shape shape = network.description->latent_shape();
    if (side > 0) {
      shape = network.description->nearest_latents({shape[0], side, side});
    }
    info_ = network.description->info(shape, denoiser_.info().compute);
    prepare(*network.description);
    for (int i = 0; i < 2 * samples; ++i) {
      Tensor latents(shape, DType::f32);
      fill_normal({.seed = static_cast<std::uint64_t>(i / 2)}, latents);
      latents_.push_back(kernels::on_device(ctx, latents));
      outputs_.push_back(
          ctx.empty(with_channels(shape, info_.out_channels), DType::f32));
      rows_.push_back(conditions_[static_cast<std::size_t>(i % 2)].get());
    }
  }

  /// Costs of a row of this size.
  [[nodiscard]] const models::DenoiserInfo& info() const { return info_; }

  void operator()() {
    ShardContext whole;
    denoiser_.predict(ctx_, whole, {latents_, timesteps_, rows_}, outputs_);
  }

 private:
  void prepare(const models::DenoiserDescription& description) {
    // On a GPU a step is timed as a job has it: what follows from timestep and
    // condition alone is made before. On the CPU the pass makes it, as
    // PyTorch's; but keys and values of a prompt are made before on both.
    const bool announces = ctx_.device().kind != DeviceKind::cpu;
    const std::span<const double> announced =
        announces ? std::span<const double>(timesteps_)
                  : std::span<const double>();
    const models::Condition longest = description.any_condition({});
    for (const bool is_guided_to : {true, false}) {
      models::Condition condition(is_guided_to ? 0 : info_.num_classes);
      if (const auto* prompt = longest.find("prompt_embeds")) {
        condition = longest;
        // Padding counts in a UNet: both of its prompts are as long.
        if (!is_guided_to && info_.class_name != "UNet2DConditionModel") {
          condition = {};
          condition.add(prompt->name, prompt->tensor.slice(0, 1));
        }
      }
      conditions_.push_back(denoiser_.prepare(ctx_, condition, announced));
    }
  }

  ExecContext& ctx_;
  const models::Denoiser& denoiser_;
  models::DenoiserInfo info_;
  std::vector<double> timesteps_;
  std::vector<models::PreparedPtr> conditions_;
  std::vector<Tensor> latents_;
  std::vector<Tensor> outputs_;
  std::vector<const models::PreparedCondition*> rows_;
};

template <typename Fn>
double seconds_of(ExecContext& ctx, Fn&& fn) {
  const auto start = std::chrono::steady_clock::now();
  fn();
  ctx.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

double median_seconds(ExecContext& ctx, Pass& pass, int repeats) {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    seconds.push_back(seconds_of(ctx, pass));
  }
  std::nth_element(seconds.begin(), seconds.begin() + repeats / 2,
                   seconds.end());
  return seconds[static_cast<std::size_t>(repeats / 2)];
}

void time_passes(const Options& options) {
  use_one_openmp_thread();
  ExecContext ctx(options.threads, options.device, options.device_options);
  const Network network = load(ctx, options.model, options.compute);
  Pass pass(ctx, network, options.samples, options.side);
  for (int i = 0; i < 3; ++i) {  // to warm up; on a GPU the third is played
    (void)seconds_of(ctx, pass);
  }
  const double median = median_seconds(ctx, pass, options.repeats);
  const double queued = seconds_of(ctx,
                                   [&] {
                                     for (int i = 0; i < options.repeats; ++i) {
                                       pass();
                                     }
                                   }) /
                        options.repeats;
  std::printf(
      "{\"forward_s\": %.6f, \"queued_s\": %.6f, \"gflops\": %.1f, "
      "\"parameter_bytes\": %zu, \"workspace_bytes\": %zu, "
      "\"peak_rss_bytes\": %llu}\n",
      median, queued,
      2.0 * options.samples * pass.info().flops() / median * 1e-9,
      network.denoiser->info().parameter_bytes,
      ctx.workspace().capacity_bytes(),
      static_cast<unsigned long long>(peak_rss_bytes()));
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char* const> words(argv + 1,
                                     static_cast<std::size_t>(argc - 1));
  try {
    if (words.size() == 1 && std::string_view(words[0]) == "models") {
      print_models();
    } else if (words.size() == 2 && std::string_view(words[0]) == "config") {
      print_config(words[1]);
    } else {
      time_passes(parse(words));
    }
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "forward_probe: %s%s%s\n", error.what(),
                 error.hint().empty() ? "" : "; ", error.hint().c_str());
    return exit_code(error.code());
  }
}
