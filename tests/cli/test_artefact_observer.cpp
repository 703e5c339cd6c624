#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "actors/cli/artefact_observer.h"

namespace troupe::actors {
namespace {

/// A job with previews of a tiny network with an autoencoder.
struct Job {
  Job() {
    config.random_weights = "dit-tiny-vae";
    config.classes = {"1"};
    config.compute = config::ComputeType::f32;
    config.num_workers = 1;
    config.num_threads = 1;
    config.preview = (std::filesystem::temp_directory_path() /
                      ("troupe_preview_" + std::to_string(::getpid()) + ".png"))
                         .string();
    std::filesystem::remove(config.preview);
  }
  ~Job() { std::filesystem::remove(config.preview); }

  /// Shows one preview; returns whether a picture was written.
  [[nodiscard]] bool show(bool stopped) {
    SignalWatch signals;
    StopFlag stop(signals);
    const JobRequest request = make_request(config);
    const JobRunner runner(request, stop);
    RunOutputs outputs =
        prepare_outputs(config, request.source.pixel_shape(), stop);
    ArtefactObserver artefacts(request, runner, outputs);
    if (stopped) {
      artefacts.request_stop();
    }
    artefacts.on_preview(
        {0, 1, Tensor::zeros(request.source.latent_shape(), DType::f32)});
    EXPECT_FALSE(artefacts.finish(TimePoint()));
    return std::filesystem::exists(config.preview);
  }

  config::Config config;
};

TEST(ArtefactObserver, WritesAPreview) {
  Job job;
  EXPECT_TRUE(job.show(false));
}

TEST(ArtefactObserver, EndsAPreviewUnderWayWhenTheRunIsStopped) {
  Job job;
  EXPECT_FALSE(job.show(true));
}

}  // namespace
}  // namespace troupe::actors
