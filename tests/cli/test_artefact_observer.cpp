#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "actors/cli/artefact_observer.h"
#include "actors/cli/image_recipe.h"
#include "actors/cli/memory_plan.h"
#include "tests/core/temporary_folder.h"

namespace troupe::actors {
namespace {

/// One sample of a tiny network, and what looks on.
struct Job {
  explicit Job(const config::Config& config)
      : request(make_request(config)),
        runner(request, stop),
        outputs(prepare_outputs(config, request.source.pixel_shape(), stop)),
        artefacts(config, request, runner, required, outputs) {}

  /// Latents as they would come from the network.
  [[nodiscard]] Tensor latents() const {
    return Tensor::zeros(request.source.latent_shape(), DType::f32);
  }

  SignalWatch signals;
  StopFlag stop{signals};
  JobRequest request;
  JobRunner runner;
  RunOutputs outputs;
  RequiredClass required;
  ArtefactObserver artefacts;
};

config::Config tiny(const std::string& model) {
  config::Config config;
  config.random_weights = model;
  config.classes = {"1"};
  config.compute = config::ComputeType::f32;
  config.num_workers = 1;
  config.num_threads = 1;
  return config;
}

/// Shows one preview; returns whether a picture was written.
bool show_preview(bool stopped) {
  const TemporaryFolder folder;
  config::Config config = tiny("dit-tiny-vae");
  config.preview = (folder.path() / "preview.png").string();
  Job job(config);
  if (stopped) {
    job.artefacts.request_stop();
  }
  job.artefacts.on_preview({0, 1, job.latents()});
  EXPECT_FALSE(job.artefacts.finish(TimePoint()));
  return std::filesystem::exists(config.preview);
}

TEST(ArtefactObserver, WritesAPreview) { EXPECT_TRUE(show_preview(false)); }

TEST(ArtefactObserver, EndsAPreviewUnderWayWhenTheRunIsStopped) {
  EXPECT_FALSE(show_preview(true));
}

TEST(ArtefactObserver, FollowsOneSampleAfterTheOtherInOneFile) {
  const TemporaryFolder folder;
  config::Config config = tiny("dit-tiny");
  config.samples = {0, 3};
  config.preview = (folder.path() / "preview.png").string();
  Job job(config);
  const auto latents = [&](float value) {
    Tensor tensor = job.latents();
    std::ranges::fill(tensor.span<float>(), value);
    return tensor;
  };
  const auto end = [&](std::uint64_t index) {
    SampleOutcome outcome;
    outcome.report.sample_index = index;
    outcome.report.status = SampleStatus::done;
    outcome.latents = latents(0);
    job.artefacts.on_sample(outcome);
  };
  job.artefacts.on_preview({1, 1, latents(1)});  // not its turn
  end(1);
  job.artefacts.on_preview({0, 1, latents(1)});
  end(0);
  job.artefacts.on_preview({2, 1, latents(-1)});  // the next that goes on
  EXPECT_FALSE(job.artefacts.finish(TimePoint()));
  const Image image = read_image(config.preview);
  EXPECT_EQ(image.kind, PictureKind::preview);
  EXPECT_EQ(image.rgb.front(), 0);
}

TEST(ArtefactObserver, ShowsTheNewestOfWhatWaits) {
  const TemporaryFolder folder;
  config::Config config = tiny("dit-tiny");
  config.samples = {4, 6};
  config.preview = (folder.path() / "p-{index}.png").string();
  Job job(config);
  for (const float value : {1.0F, -1.0F}) {
    for (const std::uint64_t index : {4U, 5U}) {
      Tensor tensor = job.latents();
      std::ranges::fill(tensor.span<float>(), value);
      job.artefacts.on_preview({index, 1, tensor});
    }
  }
  EXPECT_FALSE(job.artefacts.finish(TimePoint()));
  for (const char* name : {"p-4.png", "p-5.png"}) {
    EXPECT_EQ(read_image((folder.path() / name).string()).rgb.front(), 0);
  }
}

class SpanCounter final : public Observer {
 public:
  void on_pass(const TracePass& /*pass*/) override { ++spans; }
  double spans = 0;
};

TEST(HeldBytes, CountTheSpansOfATraceForEveryMethod) {
  using samplers::MethodKind;
  for (const MethodKind method :
       {MethodKind::sequential, MethodKind::batch, MethodKind::cfg,
        MethodKind::picard, MethodKind::pipeline, MethodKind::stale}) {
    const TemporaryFolder folder;
    config::Config config = tiny("dit-tiny-vae");
    config.method.kind = method;
    config.sampler.steps = 6;
    if (method == MethodKind::picard) {
      config.method.tolerance = 0;
    }
    config.trace = (folder.path() / "trace.json").string();
    Job job(config);
    SpanCounter counter;
    ASSERT_FALSE(
        job.runner.run({.observers = {&counter}, .trace = true}).failure);
    const samplers::MethodOptions& options = job.request.job.method;
    const int calls = job.request.schedule.num_model_calls();
    EXPECT_GT(counter.spans, calls);
    EXPECT_LE(counter.spans, samplers::most_tasks(options, calls) + 1);
    EXPECT_GE(static_cast<double>(held_bytes(job.outputs, job.request)),
              counter.spans * (sizeof(TraceSpan) + 150));
  }
}

/// One sample is done, then the run is stopped. Returns what was left out, and
/// whether the trajectory was written.
std::pair<std::vector<std::string>, bool> stop_with_room_for(
    std::uint64_t bytes, const std::string& ending) {
  const TemporaryFolder folder;
  const auto file = folder.path() / ("t" + ending);
  config::Config config = tiny("dit-tiny");
  config.save = {"trajectory=" + file.string()};
  Job job(config);
  const int num_calls = job.request.schedule.num_model_calls();
  for (int calls = 0; calls <= num_calls; ++calls) {
    job.artefacts.on_point({0, calls, job.latents()});
  }
  SampleOutcome outcome;
  outcome.report.status = SampleStatus::done;
  outcome.latents = job.latents();
  job.artefacts.on_sample(outcome);
  EXPECT_FALSE(job.artefacts.finish(TimePoint(), bytes));
  return {job.artefacts.left_out(), std::filesystem::exists(file)};
}

/// How often these latents stand in the one file of a folder, in a row.
std::size_t times_in(const std::filesystem::path& folder,
                     const Tensor& latents) {
  constexpr std::uint64_t kMost = 1U << 20U;
  const std::span<const std::byte> bytes = latents.bytes();
  const std::string row(reinterpret_cast<const char*>(bytes.data()),
                        bytes.size());
  std::size_t times = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string text = read_file(entry.path(), kMost);
    for (std::size_t at = text.find(row); at < text.size();
         at = text.find(row, at + row.size())) {
      ++times;
    }
  }
  return times;
}

TEST(ArtefactObserver, WritesATrajectoryWhileItComes) {
  const TemporaryFolder folder;
  config::Config config = tiny("dit-tiny");
  config.sampler.steps = 20;
  const auto file = folder.path() / "t.safetensors";
  config.save = {"trajectory=" + file.string()};
  {
    Job job(config);
    Tensor latents = job.latents();
    std::ranges::fill(latents.span<float>(), 1.0F);
    for (int calls = 0; calls <= 20; ++calls) {
      job.artefacts.on_point({0, calls, latents});
      EXPECT_EQ(times_in(folder.path(), latents), calls + 1U);
    }
    EXPECT_FALSE(std::filesystem::exists(file)) << "it is not whole";
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()))
      << "the run ended without it";
}

/// A trajectory is in its file: only a .npz has to be read again.
TEST(ArtefactObserver, WritesAfterAStopOnlyWhatIsSmall) {
  using Flags = std::vector<std::string>;
  EXPECT_EQ(stop_with_room_for(1000, ".npz"),
            std::pair(Flags{"--save trajectory"}, false));
  EXPECT_EQ(stop_with_room_for(std::uint64_t{1} << 30U, ".npz"),
            std::pair(Flags{}, true));
  for (const char* ending : {".npy", ".safetensors"}) {
    EXPECT_EQ(stop_with_room_for(0, ending), std::pair(Flags{}, true));
  }
}

}  // namespace
}  // namespace troupe::actors
