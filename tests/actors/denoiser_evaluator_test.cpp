#include "actors/denoiser_evaluator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "kernels/core/error.h"
#include "tests/actors/job_support.h"

namespace troupe::actors {
namespace {

using models::Batch;
using models::BranchOrder;
using samplers::Branch;
using samplers::EvaluateRow;
using samplers::SegmentRow;

struct Label final : models::PreparedCondition {
  explicit Label(std::int64_t value) : label(value) {}
  std::int64_t label;
};

/// Six blocks of unequal cost; block b adds b + 1 and the label. Records the
/// labels of each forward.
class ToyDenoiser final : public models::Denoiser {
 public:
  ToyDenoiser(std::int64_t num_classes, BranchOrder order) {
    info_.latent_shape = {2, 2, 2};
    info_.out_channels = 2;
    info_.guided_channels = 1;
    info_.branch_order = order;
    info_.num_classes = num_classes;
    info_.bytes_per_timestep = 32 << 20;
    for (const double flops : {1.0, 1.0, 1.0, 1.0, 4.0, 4.0}) {
      info_.blocks.push_back({flops, 0});
    }
  }

  mutable std::vector<std::vector<std::int64_t>> forwards;
  mutable int prepared = 0;
  /// Class label to the number of timesteps announced with it.
  mutable std::map<std::int64_t, std::size_t> announced;

  const models::DenoiserInfo& info() const override { return info_; }

  models::PreparedPtr prepare(
      ExecContext& /*ctx*/, const models::Condition& condition,
      std::span<const double> timesteps) const override {
    ++prepared;
    announced[condition.class_label()] = timesteps.size();
    return std::make_shared<Label>(condition.class_label());
  }

  void predict(ExecContext& ctx, ShardContext& shard, const Batch& batch,
               std::span<Tensor> outputs) const override {
    std::vector<Boundary> boundaries(batch.latents.size());
    embed(ctx, shard, batch, boundaries);
    run_blocks(ctx, shard, batch, 0, 6, boundaries);
    finish(ctx, shard, batch, boundaries, outputs);
    auto& labels = forwards.emplace_back();
    for (const auto* condition : batch.conditions) {
      labels.push_back(dynamic_cast<const Label*>(condition)->label);
    }
  }
  void embed(ExecContext& /*ctx*/, ShardContext& /*shard*/, const Batch& batch,
             std::span<Boundary> boundaries) const override {
    for (std::size_t r = 0; r < boundaries.size(); ++r) {
      boundaries[r] = {{"tokens", batch.latents[r].clone()}};
    }
  }
  void run_blocks(ExecContext& ctx, ShardContext& /*shard*/, const Batch& batch,
                  int begin, int end,
                  std::span<Boundary> boundaries) const override {
    for (int block = begin; block < end; ++block) {
      ctx.tick();
      for (std::size_t r = 0; r < boundaries.size(); ++r) {
        const auto label =
            dynamic_cast<const Label*>(batch.conditions[r])->label;
        for (float& x : boundaries[r].at(0).tensor.span<float>()) {
          x = x * 0.9F + static_cast<float>(block + 1) +
              static_cast<float>(label) *
                  static_cast<float>(batch.timesteps[r]);
        }
      }
    }
  }
  void finish(ExecContext& /*ctx*/, ShardContext& /*shard*/,
              const Batch& /*batch*/, std::span<const Boundary> boundaries,
              std::span<Tensor> outputs) const override {
    for (std::size_t r = 0; r < boundaries.size(); ++r) {
      const auto from = boundaries[r].at(0).tensor.span<float>();
      std::copy(from.begin(), from.end(), outputs[r].span<float>().begin());
    }
  }

 private:
  models::DenoiserInfo info_;
};

EvaluatorOptions options(const ToyDenoiser& denoiser, double scale,
                         int segments = 1) {
  return class_options(denoiser.info(), scale, 10, segments);
}

Tensor ramp(float first) {
  Tensor x({2, 2, 2}, DType::f32);
  for (float& value : x.span<float>()) {
    value = first++;
  }
  return x;
}

EvaluateRow row(std::uint64_t sample, Branch branch = Branch::guided) {
  return {sample, branch, 0.5, ramp(static_cast<float>(sample)),
          Tensor({2, 2, 2}, DType::f32)};
}

/// What was announced for sample 3 and for the unconditional branch, 10, of a
/// network that needs 32 MiB per timestep, where 96 MiB are allowed.
std::map<std::int64_t, std::size_t> announced_with(
    std::size_t num_conditions, std::vector<double> timesteps) {
  ExecContext ctx;
  const ToyDenoiser denoiser(10, BranchOrder::cond_uncond);
  EvaluatorOptions with = options(denoiser, 4.0);
  with.job.conditions.resize(num_conditions);
  with.job.schedule.timesteps = std::move(timesteps);
  DenoiserEvaluator evaluator(loaded(denoiser), with);
  std::vector<EvaluateRow> rows{row(3)};
  evaluator.evaluate(ctx, rows);
  return denoiser.announced;
}

TEST(DenoiserEvaluator, AnnouncesTimestepsAsFarAsMemoryIsAllowed) {
  using Announced = std::map<std::int64_t, std::size_t>;
  EXPECT_EQ(announced_with(2, {0.5}), (Announced{{3, 1}, {10, 1}}));
  EXPECT_EQ(announced_with(3, {0.5}), (Announced{{3, 0}, {10, 1}}));
  EXPECT_EQ(announced_with(1, {0.5, 0.4}), (Announced{{3, 0}, {10, 2}}));
  EXPECT_EQ(announced_with(1, {0.5, 0.4, 0.3, 0.2}),
            (Announced{{3, 0}, {10, 0}}));
}

TEST(DenoiserEvaluator, RunsBothBranchesInTheModelsOrder) {
  ExecContext ctx;
  for (const auto order :
       {BranchOrder::cond_uncond, BranchOrder::uncond_cond}) {
    const ToyDenoiser denoiser(10, order);
    DenoiserEvaluator evaluator(loaded(denoiser), options(denoiser, 4.0));
    std::vector<EvaluateRow> rows{row(3), row(5)};
    evaluator.evaluate(ctx, rows);
    const std::vector<std::int64_t> expected =
        order == BranchOrder::cond_uncond
            ? std::vector<std::int64_t>{3, 10, 5, 10}
            : std::vector<std::int64_t>{10, 3, 10, 5};
    ASSERT_EQ(denoiser.forwards.size(), 1U);
    EXPECT_EQ(denoiser.forwards[0], expected);
  }
}

TEST(DenoiserEvaluator, GuidesTheGuidedChannelsOnly) {
  ExecContext ctx;
  const ToyDenoiser denoiser(10, BranchOrder::uncond_cond);
  DenoiserEvaluator evaluator(loaded(denoiser), options(denoiser, 4.0));
  std::vector<EvaluateRow> rows{row(3), row(3, Branch::cond),
                                row(3, Branch::uncond)};
  evaluator.evaluate(ctx, rows);
  const auto out = rows[0].output.span<float>();
  const auto cond = rows[1].output.span<float>();
  const auto uncond = rows[2].output.span<float>();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(out[i], uncond[i] + 4.0F * (cond[i] - uncond[i]));
  }
  for (std::size_t i = 4; i < 8; ++i) {
    EXPECT_EQ(out[i], cond[i]);
  }
  Tensor joined({2, 2, 2}, DType::f32);
  evaluator.combine(ctx, 0.5, rows[1].output, rows[2].output, joined);
  EXPECT_TRUE(bytes_equal(joined, rows[0].output));
}

TEST(DenoiserEvaluator, RunsOnePassWithoutGuidanceOrClasses) {
  ExecContext ctx;
  for (const auto& [classes, scale] :
       {std::pair<std::int64_t, double>{10, 1.0}, {10, 0.0}, {0, 4.0}}) {
    const ToyDenoiser denoiser(classes, BranchOrder::cond_uncond);
    DenoiserEvaluator evaluator(loaded(denoiser), options(denoiser, scale));
    std::vector<EvaluateRow> rows{row(3)};
    evaluator.evaluate(ctx, rows);
    EXPECT_EQ(denoiser.forwards.at(0), std::vector<std::int64_t>{3});
  }
}

TEST(DenoiserEvaluator, PreparesEachConditionOnce) {
  ExecContext ctx;
  const ToyDenoiser denoiser(10, BranchOrder::cond_uncond);
  DenoiserEvaluator evaluator(loaded(denoiser), options(denoiser, 4.0));
  for (int i = 0; i < 3; ++i) {
    std::vector<EvaluateRow> rows{row(3), row(5)};
    evaluator.evaluate(ctx, rows);
  }
  EXPECT_EQ(denoiser.prepared, 3);  // 3, 5 and no class
}

TEST(DenoiserEvaluator, GivesTheSameBytesInSegments) {
  ExecContext ctx;
  for (const double scale : {1.0, 4.0}) {
    const ToyDenoiser denoiser(10, BranchOrder::uncond_cond);
    DenoiserEvaluator whole(loaded(denoiser), options(denoiser, scale));
    std::vector<EvaluateRow> expected{row(3), row(5)};
    whole.evaluate(ctx, expected);
    for (int segments = 1; segments <= 6; ++segments) {
      DenoiserEvaluator cut(loaded(denoiser),
                            options(denoiser, scale, segments));
      std::vector<SegmentRow> rows(2);
      for (std::size_t r = 0; r < 2; ++r) {
        rows[r].sample_index = expected[r].sample_index;
        rows[r].timestep = expected[r].timestep;
        rows[r].latents = expected[r].latents;
        rows[r].output = Tensor({2, 2, 2}, DType::f32);
      }
      for (int s = 0; s < segments; ++s) {
        cut.run_segment(ctx, s, rows);
      }
      for (std::size_t r = 0; r < 2; ++r) {
        EXPECT_TRUE(bytes_equal(rows[r].output, expected[r].output))
            << segments << " segments, scale " << scale;
      }
    }
  }
}

TEST(DenoiserEvaluator, RefusesABoundaryOfAnotherNumberOfBranches) {
  ExecContext ctx;
  const ToyDenoiser denoiser(10, BranchOrder::cond_uncond);
  DenoiserEvaluator evaluator(loaded(denoiser), options(denoiser, 4.0, 2));
  std::vector<SegmentRow> rows(1);
  rows[0].output = Tensor({2, 2, 2}, DType::f32);
  for (const std::size_t count : {1U, 3U}) {
    rows[0].boundary.assign(count, {"tokens", ramp(0)});
    EXPECT_THROW(evaluator.run_segment(ctx, 1, rows), Error) << count;
  }
}

TEST(DenoiserEvaluator, BalancesSegmentsByCost) {
  const ToyDenoiser denoiser(0, BranchOrder::cond_uncond);
  samplers::MethodOptions method{.kind = samplers::MethodKind::pipeline,
                                 .num_segments = 3};
  EXPECT_EQ(balanced_cuts(denoiser.info(), method),
            (std::vector<int>{0, 4, 5, 6}));
  method.segment_speeds = {1, 1, 8};
  EXPECT_EQ(balanced_cuts(denoiser.info(), method),
            (std::vector<int>{0, 1, 2, 6}));
}

TEST(DenoiserEvaluator, CallsTheCopyOnTheContextsDevice) {
  const ToyDenoiser other(10, BranchOrder::cond_uncond);
  const ToyDenoiser host(10, BranchOrder::cond_uncond);
  std::vector<DeviceModel> both = loaded(other, {DeviceKind::cuda, 0});
  both.push_back(loaded(host).front());
  DenoiserEvaluator evaluator(both, options(host, 4.0));
  ExecContext ctx;
  std::vector<EvaluateRow> rows{row(3)};
  evaluator.evaluate(ctx, rows);
  EXPECT_EQ(host.forwards.size(), 1U);
  EXPECT_EQ(host.prepared, 2);
  EXPECT_EQ(other.forwards.size(), 0U);
  EXPECT_EQ(other.prepared, 0);
}

TEST(DenoiserEvaluator, SaysWhereTheModelIsMissing) {
  const ToyDenoiser denoiser(10, BranchOrder::cond_uncond);
  const EvaluatorOptions with = options(denoiser, 4.0);
  EXPECT_THROW((DenoiserEvaluator({}, with)), Error);
  DenoiserEvaluator elsewhere(loaded(denoiser, {DeviceKind::cuda, 1}), with);
  ExecContext ctx;
  Tensor pixels;
  try {
    elsewhere.decode(ctx, ramp(1), pixels);
    FAIL() << "decoded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::internal);
    EXPECT_EQ(error.place(), "cpu");
  }
}

TEST(DenoiserEvaluator, RefusesMoreSegmentsThanBlocks) {
  const ToyDenoiser denoiser(10, BranchOrder::cond_uncond);
  EXPECT_THROW((void)options(denoiser, 1.0, 7), Error);
}

TEST(DenoiserEvaluator, StopsBetweenBlocks) {
  ExecContext ctx;
  const ToyDenoiser denoiser(10, BranchOrder::cond_uncond);
  DenoiserEvaluator evaluator(loaded(denoiser), options(denoiser, 4.0));
  ctx.request_stop();
  std::vector<EvaluateRow> rows{row(3)};
  EXPECT_THROW(evaluator.evaluate(ctx, rows), Error);
}

TEST(DenoiserEvaluator, PassesPixelsThroughWithoutADecoder) {
  ExecContext ctx;
  const ToyDenoiser denoiser(0, BranchOrder::cond_uncond);
  DenoiserEvaluator evaluator(loaded(denoiser), options(denoiser, 1.0));
  Tensor pixels;
  const Tensor latents = ramp(1);
  evaluator.decode(ctx, latents, pixels);
  EXPECT_TRUE(bytes_equal(pixels, latents));
}

}  // namespace
}  // namespace troupe::actors
