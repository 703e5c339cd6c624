// Text encoders on files, for scripts/parity.sh, and their speed:
//   text_encoder_probe run DIR f32|bf16 IN.safetensors OUT.safetensors
//   text_encoder_probe time CLASS CONFIG.json f32|bf16 TOKENS [THREADS]
// `run` reads numbered cases ("0.ids" and "0.wanted": see
// tests/models/text/encoder_cases.h) and writes "0.hidden" and "0.pooled" f32.
// `time` draws random weights and prints seconds and memory.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/error.h"
#include "kernels/core/system/machine.h"
#include "models/files/safetensors.h"
#include "tests/models/text/encoder_cases.h"

namespace {

using namespace troupe;  // NOLINT(google-build-using-namespace)

DType dtype_of_word(std::string_view word) {
  return word == "bf16" ? DType::bf16 : DType::f32;
}

void run_cases(char** argv) {
  ExecContext ctx(2);
  const auto encoder =
      models::EncoderFolder(argv[2]).load(ctx, dtype_of_word(argv[3]));
  const models::SafetensorsFile in(argv[4]);
  std::vector<NamedTensor> results;
  for (int i = 0;; ++i) {
    const auto one = models::read_case(in, i);
    if (!one) {
      break;
    }
    const models::EncodedText text = one->run(ctx, *encoder);
    const std::string name = std::to_string(i);
    results.push_back({name + ".hidden", text.hidden});
    if (!text.pooled.empty()) {
      results.push_back({name + ".pooled", text.pooled});
    }
  }
  models::write_safetensors(argv[5], results);
}

/// Of the clock, and of all threads together: the second says more where other
/// programs run too.
struct Seconds {
  double clock = 0;
  double threads = 0;
};

Seconds seconds_of(const auto& call) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t busy = std::clock();
  call();
  const std::chrono::duration<double> clock =
      std::chrono::steady_clock::now() - start;
  return {clock.count(),
          static_cast<double>(std::clock() - busy) / CLOCKS_PER_SEC};
}

void print_times(int argc, char** argv) {
  ExecContext ctx(argc > 6 ? std::atoi(argv[6]) : 2);
  const DType compute = dtype_of_word(argv[4]);
  const models::Json config = models::Json::read_file(argv[3]);
  const auto description =
      models::find_text_encoder(config, argv[2]).describe(config);
  models::RandomWeights weights(ctx, 1);
  std::unique_ptr<models::TextEncoder> encoder;
  const Seconds load =
      seconds_of([&] { encoder = description->load(ctx, compute, weights); });
  const auto tokens = static_cast<std::size_t>(std::atoi(argv[5]));
  const models::TextEncoderCosts costs = description->costs(
      static_cast<std::int64_t>(tokens), compute, DeviceKind::cpu);
  const double mib = 1.0 / (1U << 20U);
  std::printf(
      "loaded in %.1f s (%.1f s of all threads); packed %.0f MiB (forecast), "
      "peak %.0f MiB\n",
      load.clock, load.threads, static_cast<double>(costs.weights_bytes) * mib,
      static_cast<double>(peak_rss_bytes()) * mib);
  std::vector<std::int32_t> ids(tokens, 1);
  for (std::size_t i = 0; i < tokens; ++i) {
    ids[i] = static_cast<std::int32_t>(
        (1 + 7 * i) % static_cast<std::size_t>(description->vocab_size()));
  }
  const double gflop = costs.flops * 1e-9;
  for (int run = 0; run < 3; ++run) {
    const Seconds seconds = seconds_of([&] {
      (void)encoder->encode(ctx, ids, static_cast<std::int64_t>(tokens), {});
    });
    std::printf("%zu tokens in %.3f s: %.0f GFLOP/s, %.0f for each thread\n",
                tokens, seconds.clock, gflop / seconds.clock,
                gflop / seconds.threads);
  }
  std::printf("peak %.0f MiB\n", static_cast<double>(peak_rss_bytes()) * mib);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (!(verb == "run" && argc == 6) &&
      !(verb == "time" && (argc == 6 || argc == 7))) {
    std::fprintf(stderr,
                 "usage: text_encoder_probe run DIR f32|bf16 IN OUT\n"
                 "       text_encoder_probe time CLASS CONFIG f32|bf16 TOKENS "
                 "[THREADS]\n");
    return 2;
  }
  try {
    use_one_openmp_thread();
    if (verb == "run") {
      run_cases(argv);
    } else {
      print_times(argc, argv);
    }
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "text_encoder_probe: %s\n", error.what());
    return exit_code(error.code());
  }
}
