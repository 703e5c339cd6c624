// Grants queued behind each other on an emulated GPU.

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/worker_core.h"
#include "kernels/core/pixel_bytes.h"
#include "tests/actors/job_support.h"
#include "tests/actors/plain_loop.h"
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/emulator/faults.h"
#include "tests/cuda/scaling_evaluator.h"

namespace troupe::actors {
namespace {

constexpr Device kGpu{DeviceKind::cuda, 0};
constexpr std::uint64_t kSamples = 3;

samplers::ScheduleOptions six_steps() {
  samplers::ScheduleOptions options;
  options.num_inference_steps = 6;
  return options;
}

/// Samples on their way through the sequential method, one grant per call.
struct Shop {
  Shop() {
    for (std::uint64_t s = 0; s < kSamples; ++s) {
      methods.push_back(make_method({}, schedule));
    }
  }

  [[nodiscard]] Grant grant(std::uint64_t sample) {
    Grant made;
    made.tasks.push_back(
        {sample, methods[sample]->ready(samplers::kNothingAhead).at(0)});
    return made;
  }
  void take(std::uint64_t sample, const GrantResult& result) const {
    const auto* const done = std::get_if<TasksDone>(&result.outcome);
    ASSERT_NE(done, nullptr);
    ASSERT_TRUE(methods[sample]->apply(done->results.at(0)));
  }
  [[nodiscard]] Tensor on_the_cpu(std::uint64_t sample) {
    return plain_loop(schedule, noise, runner, network.latent_shape(), sample);
  }
  [[nodiscard]] Tensor latents(std::uint64_t sample) {
    const auto slot = methods[sample]->result_slot();
    return std::get<samplers::SolverState>(samples.open(sample)->get(slot))
        .latents;
  }

  samplers::Schedule schedule{six_steps()};
  Scaling network{1};
  samplers::PhiloxNoise noise{11};
  SteadyClock clock;
  JobContext job{{unowned(schedule), {}, unowned(network), unowned(noise)},
                 unowned(clock)};
  samplers::TaskRunner& runner = job.runner;
  std::shared_ptr<ValueStore> store = make_store(job);
  ValueStore& samples = *store;
  std::vector<std::unique_ptr<samplers::Method>> methods;
};

class Executions : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    emulator::Config config = emulator::default_config();
    config.seed = static_cast<std::uint64_t>(GetParam()) + 1;
    emulator::configure(config);
  }
  void TearDown() override { emulator::configure(emulator::default_config()); }
};

TEST_P(Executions, AreQueuedBehindEachOtherWithoutAWaitAndGiveTheSameBytes) {
  Shop shop;
  ExecContext gpu(1, kGpu);
  std::deque<std::pair<std::uint64_t, std::unique_ptr<Execution>>> queued;
  const auto begin = [&](std::uint64_t sample) {
    const std::uint64_t before = emulator::counters(0).host_waits;
    queued.emplace_back(
        sample, std::make_unique<Execution>(shop.grant(sample), gpu, shop.job,
                                            shop.samples));
    EXPECT_EQ(emulator::counters(0).host_waits, before);
  };
  for (std::uint64_t s = 0; s < kSamples; ++s) {
    begin(s);
  }
  while (!queued.empty()) {
    const std::uint64_t sample = queued.front().first;
    const auto execution = std::move(queued.front().second);
    queued.pop_front();
    const std::uint64_t before = emulator::counters(0).host_waits;
    shop.take(sample, execution->finish());
    EXPECT_LE(emulator::counters(0).host_waits, before + 1);
    if (!shop.methods[sample]->done()) {
      begin(sample);
    }
  }
  for (std::uint64_t s = 0; s < kSamples; ++s) {
    EXPECT_EQ(shop.latents(s).device(), Device{});
    EXPECT_TRUE(bytes_equal(shop.latents(s), shop.on_the_cpu(s))) << s;
  }
}

TEST_P(Executions, DecodeBehindAnotherGrantWithoutAWait) {
  Shop shop;
  ExecContext gpu(1, kGpu);
  while (!shop.methods[0]->done()) {
    shop.take(0,
              Execution(shop.grant(0), gpu, shop.job, shop.samples).finish());
  }
  Grant decode;
  decode.tasks.push_back({0,
                          {.id = 99,
                           .op = samplers::Op::decode,
                           .inputs = {shop.methods[0]->result_slot()},
                           .outputs = {1000}}});
  const std::uint64_t before = emulator::counters(0).host_waits;
  Execution other(shop.grant(1), gpu, shop.job, shop.samples);
  Execution execution(decode, gpu, shop.job, shop.samples);
  EXPECT_EQ(emulator::counters(0).host_waits, before);
  shop.take(1, other.finish());
  EXPECT_TRUE(std::holds_alternative<TasksDone>(execution.finish().outcome));
  const auto pixels = std::get<Tensor>(shop.samples.open(0)->get(1000));
  EXPECT_EQ(pixels.device(), Device{});
  EXPECT_TRUE(bytes_equal(pixels, pixel_bytes(shop.on_the_cpu(0))));
}

TEST_P(Executions, WriteTheirSlotsWhenTheyAreFinished) {
  Shop shop;
  ExecContext gpu(1, kGpu);
  const Grant first = shop.grant(0);
  const Grant second = shop.grant(1);
  Execution a(first, gpu, shop.job, shop.samples);
  Execution b(second, gpu, shop.job, shop.samples);
  while (!b.is_done()) {
  }
  EXPECT_TRUE(a.is_done());  // it stands before b
  const auto has_written = [&](std::uint64_t sample, const Grant& grant) {
    return shop.samples.open(sample)
        ->find(grant.tasks[0].task.outputs[1])
        .has_value();
  };
  EXPECT_FALSE(has_written(0, first));
  shop.take(0, a.finish());
  EXPECT_TRUE(has_written(0, first));
  EXPECT_FALSE(has_written(1, second));
  shop.take(1, b.finish());
  EXPECT_TRUE(has_written(1, second));
}

TEST_P(Executions, ThatAreLetGoLeaveNothingBehind) {
  {
    Shop shop;
    ExecContext gpu(1, kGpu);
    const auto a =
        std::make_unique<Execution>(shop.grant(0), gpu, shop.job, shop.samples);
    auto b =
        std::make_unique<Execution>(shop.grant(1), gpu, shop.job, shop.samples);
    b.reset();
    shop.take(0, a->finish());
  }
  EXPECT_EQ(emulator::bytes_in_use(0), 0U);
}

TEST_P(Executions, FailWithTheDeviceWhicheverHalfMeetsIt) {
  std::uint64_t operations = 0;
  {
    Shop shop;
    ExecContext gpu(1, kGpu);
    (void)Execution(shop.grant(0), gpu, shop.job, shop.samples).finish();
    operations = emulator::counters(0).operations;
  }
  ASSERT_GT(operations, 3U);
  for (std::uint64_t at = 0; at < operations; ++at) {
    SetUp();
    Shop shop;
    ExecContext gpu(1, kGpu);
    emulator::lose_device(0, at);
    Execution a(shop.grant(0), gpu, shop.job, shop.samples);
    Execution b(shop.grant(1), gpu, shop.job, shop.samples);
    while (!b.is_done()) {
    }
    for (const GrantResult& result : {a.finish(), b.finish()}) {
      const auto* const failed = std::get_if<TasksFailed>(&result.outcome);
      ASSERT_NE(failed, nullptr) << at;
      EXPECT_EQ(failed->failure.code, Errc::device_lost);
      EXPECT_EQ(failed->failure.place, "cuda:0");
      EXPECT_FALSE(failed->is_elsewhere);
    }
  }
}

/// A network whose weights are gone: so it says of a device.
class Unreadable final : public Scaling {
 public:
  explicit Unreadable(std::string place)
      : Scaling(1), place_(std::move(place)) {}
  void evaluate(ExecContext& /*ctx*/,
                std::span<samplers::EvaluateRow> /*rows*/) override {
    throw Error(Errc::device_lost, place_,
                "its part of the model cannot be read");
  }

 private:
  std::string place_;
};

TEST_P(Executions, FailThemselvesWhereTheErrorNamesTheirDevice) {
  for (const std::string place : {"cuda:0", "cuda:1"}) {
    Shop shop;
    Unreadable network(place);
    JobContext job{
        {unowned(shop.schedule), {}, unowned(network), unowned(shop.noise)},
        unowned(shop.clock)};
    const std::shared_ptr<ValueStore> store = make_store(job);
    ExecContext gpu(1, kGpu);
    const GrantResult result =
        Execution(shop.grant(0), gpu, job, *store).finish();
    const auto* const failed = std::get_if<TasksFailed>(&result.outcome);
    ASSERT_NE(failed, nullptr);
    EXPECT_EQ(failed->failure.code, Errc::device_lost);
    EXPECT_EQ(failed->is_elsewhere, place == "cuda:1");
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Executions, testing::Range(0, 6));

}  // namespace
}  // namespace troupe::actors
