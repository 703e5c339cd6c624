#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "actors/cli/artefact_observer.h"
#include "tests/core/temporary_folder.h"

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

/// One sample is done, then the run is stopped. Returns what was left out, and
/// whether the trajectory was written.
std::pair<std::vector<std::string>, bool> stop_with_room_for(
    std::uint64_t bytes) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "t.npz";
  config::Config config;
  config.random_weights = "dit-tiny";
  config.classes = {"1"};
  config.compute = config::ComputeType::f32;
  config.num_workers = 1;
  config.num_threads = 1;
  config.save = {"trajectory=" + file.string()};
  SignalWatch signals;
  StopFlag stop(signals);
  const JobRequest request = make_request(config);
  const JobRunner runner(request, stop);
  RunOutputs outputs =
      prepare_outputs(config, request.source.pixel_shape(), stop);
  ArtefactObserver artefacts(request, runner, outputs);
  SampleOutcome outcome;
  outcome.report.status = SampleStatus::done;
  outcome.latents = Tensor::zeros(request.source.latent_shape(), DType::f32);
  artefacts.on_sample(outcome);
  EXPECT_FALSE(artefacts.finish_early(TimePoint(), bytes));
  return {artefacts.left_out(), std::filesystem::exists(file)};
}

TEST(ArtefactObserver, WritesAfterAStopOnlyWhatIsSmall) {
  using Flags = std::vector<std::string>;
  EXPECT_EQ(stop_with_room_for(1000),
            std::pair(Flags{"--save trajectory"}, false));
  EXPECT_EQ(stop_with_room_for(std::uint64_t{1} << 30U),
            std::pair(Flags{}, true));
}

}  // namespace
}  // namespace troupe::actors
