// Previews of a job whose GPU has no room for them for a while.

#include <gtest/gtest.h>

#include <filesystem>

#include "actors/cli/artefact_observer.h"
#include "tests/core/temporary_folder.h"
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/emulator/faults.h"

namespace troupe::actors {
namespace {

config::Config decoded_on_a_gpu(const std::string& preview) {
  config::Config config;
  config.random_weights = "dit-tiny-vae";
  config.classes = {"1"};
  config.samples = {0, 2};
  config.compute = config::ComputeType::f32;
  config.devices = {{DeviceKind::cuda, 0}};
  config.preview = preview;
  return config;
}

TEST(PreviewOnGpu, ComesAgainAfterOneThatFoundNoMemory) {
  emulator::configure({});
  const TemporaryFolder folder;
  const auto file = [&folder](int index) {
    return folder.path() / ("p-" + std::to_string(index) + ".png");
  };
  const config::Config config =
      decoded_on_a_gpu((folder.path() / "p-{index}.png").string());
  SignalWatch signals;
  StopFlag stop(signals);
  const JobRequest request = make_request(config);
  const JobRunner runner(request, stop);
  RunOutputs outputs =
      prepare_outputs(config, request.source.pixel_shape(), stop);
  RequiredClass required;
  ArtefactObserver artefacts(config, request, runner, required, outputs);
  const Tensor latents =
      Tensor::zeros(request.source.latent_shape(), DType::f32);
  // What asks again once the queue is empty finds none either.
  for (int i = 0; i < 2; ++i) {
    emulator::fail_call("cudaMallocAsync", cudaErrorMemoryAllocation);
  }
  artefacts.on_preview({0, 1, latents});
  artefacts.on_preview({1, 1, latents});
  EXPECT_FALSE(artefacts.finish(TimePoint()));
  EXPECT_FALSE(std::filesystem::exists(file(0)));
  EXPECT_TRUE(std::filesystem::exists(file(1)));
  EXPECT_NE(artefacts.preview_note().find("a preview was left out"),
            std::string::npos)
      << artefacts.preview_note();
}

}  // namespace
}  // namespace troupe::actors
