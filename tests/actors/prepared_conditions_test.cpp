#include "actors/prepared_conditions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "actors/denoiser_evaluator.h"
#include "actors/runtime.h"
#include "kernels/core/error.h"
#include "tests/actors/company_suite.h"
#include "tests/actors/job_support.h"

namespace troupe::actors {
namespace {

using models::Batch;
using models::Condition;

constexpr std::int64_t kClasses = 1000;
constexpr std::size_t kTableBytes = 1 << 20;

class Table final : public models::PreparedCondition {
 public:
  Table(std::int64_t of, std::atomic<int>& alive) : label(of), alive_(alive) {
    ++alive_;
  }
  ~Table() override { --alive_; }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  [[nodiscard]] std::size_t num_bytes() const override { return kTableBytes; }

  const std::int64_t label;

 private:
  std::atomic<int>& alive_;
};

/// Predicts the label of its condition. Counts preparations, and holds back
/// that of class `held` until `go_on`.
class Labels final : public models::Denoiser {
 public:
  Labels() {
    info_.latent_shape = {1, 2, 2};
    info_.out_channels = 1;
    info_.guided_channels = 1;
    info_.num_classes = kClasses;
    info_.blocks = {{.flops = 1, .parameter_bytes = 1}};
  }

  std::int64_t held = -1;
  std::promise<void> is_held;
  std::promise<void> go_on;
  mutable std::atomic<int> alive{0};
  mutable int most_alive = 0;  ///< under the mutex
  mutable std::atomic<int> prepared{0};
  mutable std::atomic<int> failures_left{0};
  mutable std::mutex mutex;
  mutable std::set<std::int64_t> labels;

  [[nodiscard]] const models::DenoiserInfo& info() const override {
    return info_;
  }
  [[nodiscard]] models::PreparedPtr prepare(
      ExecContext& /*ctx*/, const Condition& condition,
      std::span<const double> /*timesteps*/) const override {
    const std::int64_t label = condition.class_label();
    if (failures_left-- > 0) {
      throw Error(Errc::device_full, "test", "no room");
    }
    if (label == held) {
      const_cast<Labels*>(this)->is_held.set_value();
      const_cast<Labels*>(this)->go_on.get_future().wait();
    }
    ++prepared;
    const std::lock_guard lock(mutex);
    labels.insert(label);
    auto table = std::make_shared<const Table>(label, alive);
    most_alive = std::max<int>(most_alive, alive);
    return table;
  }
  void predict(ExecContext& /*ctx*/, ShardContext& /*shard*/,
               const Batch& batch, std::span<Tensor> outputs) const override {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto& table = dynamic_cast<const Table&>(*batch.conditions[i]);
      std::ranges::fill(outputs[i].span<float>(),
                        static_cast<float>(table.label) / kClasses);
    }
  }
  void embed(ExecContext& /*ctx*/, ShardContext& /*shard*/,
             const Batch& /*batch*/,
             std::span<Boundary> /*boundaries*/) const override {}
  void run_blocks(ExecContext& /*ctx*/, ShardContext& /*shard*/,
                  const Batch& /*batch*/, int /*begin*/, int /*end*/,
                  std::span<Boundary> /*boundaries*/) const override {}
  void finish(ExecContext& /*ctx*/, ShardContext& /*shard*/,
              const Batch& /*batch*/, std::span<const Boundary> /*boundaries*/,
              std::span<Tensor> /*outputs*/) const override {}

 private:
  models::DenoiserInfo info_;
};

TEST(PreparedConditions, OfOneContentArePreparedOnce) {
  ExecContext ctx;
  const Labels network;
  PreparedConditions conditions(network, 1 << 30);
  const auto first = conditions.get(ctx, Condition(3), {});
  EXPECT_EQ(conditions.get(ctx, Condition(3), {}), first);
  EXPECT_NE(conditions.get(ctx, Condition(4), {}), first);
  EXPECT_EQ(network.prepared, 2);
  EXPECT_EQ(network.alive, 2);
}

TEST(PreparedConditions, LetNobodyWaitForThePreparationOfAnother) {
  Labels network;
  network.held = 7;
  PreparedConditions conditions(network, 1 << 30);
  std::future<models::PreparedPtr> slow = std::async(std::launch::async, [&] {
    ExecContext ctx;
    return conditions.get(ctx, Condition(7), {});
  });
  network.is_held.get_future().wait();
  ExecContext ctx;
  for (std::int64_t label = 0; label < 5; ++label) {
    EXPECT_NE(conditions.get(ctx, Condition(label), {}), nullptr);
  }
  network.go_on.set_value();
  EXPECT_NE(slow.get(), nullptr);
  EXPECT_EQ(network.prepared, 6);
}

TEST(PreparedConditions, ArePreparedAgainAfterAnError) {
  ExecContext ctx;
  Labels network;
  network.failures_left = 1;
  PreparedConditions conditions(network, 1 << 30);
  EXPECT_THROW((void)conditions.get(ctx, Condition(1), {}), Error);
  EXPECT_NE(conditions.get(ctx, Condition(1), {}), nullptr);
}

TEST(PreparedConditions, LetGoWhatWasNotUsedForTheLongestTime) {
  ExecContext ctx;
  const Labels network;
  constexpr std::size_t kMost = 10 * kTableBytes;
  PreparedConditions conditions(network, kMost);
  const auto kept_by_a_pass = conditions.get(ctx, Condition(999), {});
  for (std::int64_t label = 0; label < 100; ++label) {
    (void)conditions.get(ctx, Condition(label), {});
    (void)conditions.get(ctx, Condition(0), {});  // used all the time
    EXPECT_LE(network.alive, 10);
  }
  EXPECT_EQ(network.alive, 10)
      << "nine, which take more than their tables, and the one that is used";
  const int before = network.prepared;
  (void)conditions.get(ctx, Condition(0), {});
  EXPECT_EQ(network.prepared, before);
  (void)conditions.get(ctx, Condition(50), {});
  EXPECT_EQ(network.prepared, before + 1);
}

class Sums final : public Observer {
 public:
  void on_sample(const SampleOutcome& outcome) override {
    latents[outcome.report.sample_index] = outcome.latents;
  }
  std::map<std::uint64_t, Tensor> latents;
};

Sums run_labels(const Labels& network, int workers, std::uint64_t samples) {
  samplers::ScheduleOptions options;
  options.num_inference_steps = 3;
  const samplers::Schedule schedule(options);
  DenoiserEvaluator evaluator(loaded(network),
                              class_options(network.info(), 2, kClasses));
  samplers::PhiloxNoise noise(1);
  Sums seen;
  JobSpec spec;
  spec.parts.schedule = unowned(schedule);
  spec.parts.method.kind = samplers::MethodKind::batch;
  spec.parts.evaluator = unowned(evaluator);
  spec.parts.noise = unowned(noise);
  spec.end = samples;
  spec.workers = cpu_workers(workers);
  spec.observers = {&seen};
  EXPECT_FALSE(run_in_suite(spec).failure);
  EXPECT_LE(network.most_alive, 96 + 16) << "96 MiB, and what passes use";
  return seen;
}

TEST(PreparedConditions, OfAThousandClassesServeOneJobOfTwoWorkers) {
  const Labels two;
  const Sums by_two = run_labels(two, 2, kClasses);
  EXPECT_EQ(two.labels.size(), kClasses + 1U) << "and no class";
  EXPECT_GE(two.prepared, kClasses + 1);
  // A worker that loses its core while the other goes through what fits has to
  // prepare its class again.
  EXPECT_LE(two.prepared, kClasses + kClasses / 10) << "hardly any twice";
  EXPECT_GT(two.most_alive, 50) << "what fits is held";
  EXPECT_EQ(two.alive, 0) << "all are let go with the job";
  const Labels one;
  const Sums by_one = run_labels(one, 1, kClasses);
  ASSERT_EQ(by_two.latents.size(), static_cast<std::size_t>(kClasses));
  for (const auto& [index, latents] : by_one.latents) {
    EXPECT_TRUE(
        std::ranges::equal(latents.bytes(), by_two.latents.at(index).bytes()))
        << index;
  }
}

TEST(Condition, HasOneHashPerContent) {
  EXPECT_EQ(Condition(3).hash(), Condition(3).hash());
  EXPECT_NE(Condition(3).hash(), Condition(4).hash());
  const Tensor a = Tensor::zeros({4, 2}, DType::f32);
  const Tensor b = Tensor::zeros({2, 4}, DType::f32);
  Condition one;
  one.add("prompt_embeds", a);
  one.add("pooled", b);
  Condition other;
  other.add("pooled", b.clone());
  other.add("prompt_embeds", a.clone());
  EXPECT_EQ(one.hash(), other.hash()) << "in any order";
  const auto with = [&](const char* name, const Tensor& tensor,
                        std::int64_t length) {
    Condition condition;
    condition.add(name, tensor, length);
    return condition.hash();
  };
  const std::set<std::uint64_t> hashes = {with("x", a, -1), with("y", a, -1),
                                          with("x", b, -1), with("x", a, 3),
                                          one.hash(),       Condition().hash()};
  EXPECT_EQ(hashes.size(), 6U);
}

TEST(Condition, RefusesANameTwiceALengthBeyondAndAMissingLabel) {
  Condition condition(2);
  EXPECT_THROW(condition.add("class_label", Tensor({1}, DType::i64)), Error);
  EXPECT_THROW(condition.add("x", Tensor({3, 2}, DType::f32), 4), Error);
  condition.add("x", Tensor::zeros({3, 2}, DType::f32), 2);
  EXPECT_EQ(condition.find("x")->length, 2);
  EXPECT_EQ(condition.find("y"), nullptr);
  EXPECT_EQ(condition.class_label(), 2);
  EXPECT_THROW((void)Condition().class_label(), Error);
}

}  // namespace
}  // namespace troupe::actors
