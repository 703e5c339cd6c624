#include <gtest/gtest.h>

#include <future>

#include "actors/artefacts/png.h"
#include "actors/cli/image_recipe.h"
#include "actors/cli/preview_writer.h"
#include "tests/core/temporary_folder.h"

namespace troupe::actors {
namespace {

Tensor grey(float value) {
  Tensor tensor = Tensor::zeros({1, 4, 4}, DType::f32);
  std::ranges::fill(tensor.span<float>(), value);
  return tensor;
}

/// Previews in a file per sample; the first waits until `go_on`.
struct Stuck {
  explicit Stuck(std::uint64_t samples)
      : writer(outputs_for(samples), [this](const Tensor& latents) {
          begun.set_value_once();
          open.wait();
          return latents;
        }) {
    writer.show({0, 1, grey(0)});
    begun.future.wait();
  }
  const RunOutputs& outputs_for(std::uint64_t samples) {
    outputs.preview_samples = {0, samples};
    outputs.preview.emplace((folder.path() / "p-{index}.png").string(),
                            outputs.preview_samples, "--preview");
    return outputs;
  }
  [[nodiscard]] bool has(std::uint64_t index) const {
    return std::filesystem::exists(outputs.preview->path(index));
  }
  [[nodiscard]] int shade(std::uint64_t index) const {
    return read_image(outputs.preview->path(index).string()).rgb.front();
  }
  void go_on() {
    gate.set_value();
    writer.flush();
  }

  struct Once {
    void set_value_once() {
      std::call_once(flag, [this] { promise.set_value(); });
    }
    std::once_flag flag;
    std::promise<void> promise;
    std::future<void> future = promise.get_future();
  };
  const TemporaryFolder folder;
  RunOutputs outputs;
  Once begun;
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  PreviewWriter writer;
};

TEST(PreviewWriter, LeavesOutTheOldestAndCountsThem) {
  constexpr std::uint64_t kMost = PreviewWriter::kMostWaiting;
  Stuck stuck(kMost + 11);
  for (std::uint64_t i = 1; i < kMost + 11; ++i) {
    stuck.writer.show({i, 1, grey(0)});
  }
  stuck.go_on();
  EXPECT_TRUE(stuck.has(0)) << "it was being made";
  for (std::uint64_t i = 1; i < kMost + 11; ++i) {
    EXPECT_EQ(stuck.has(i), i > 10) << i;
  }
  EXPECT_EQ(stuck.writer.note(),
            "10 previews left out: they came faster than they could be "
            "written");
}

TEST(PreviewWriter, LeavesOutNoFinishedPicture) {
  constexpr std::uint64_t kAll = 2 * PreviewWriter::kMostWaiting;
  Stuck stuck(kAll);
  for (std::uint64_t i = 1; i < kAll; ++i) {
    stuck.writer.show({i, 1, grey(-1)});
    SampleOutcome outcome;
    outcome.report.sample_index = i;
    outcome.pixels = grey(1);
    stuck.writer.end(outcome);
  }
  stuck.go_on();
  for (std::uint64_t i = 1; i < kAll; ++i) {
    EXPECT_EQ(stuck.shade(i), 255) << i;
  }
  EXPECT_EQ(stuck.writer.note(), "");
}

TEST(PreviewWriter, ShowsTheNewestOfASample) {
  Stuck stuck(3);
  for (const float value : {-1.0F, 0.0F, 1.0F}) {
    stuck.writer.show({1, 1, grey(value)});
    stuck.writer.show({2, 1, grey(value)});
  }
  stuck.go_on();
  EXPECT_EQ(stuck.shade(1), 255);
  EXPECT_EQ(stuck.shade(2), 255);
  EXPECT_EQ(stuck.writer.note(), "");
}

}  // namespace
}  // namespace troupe::actors
