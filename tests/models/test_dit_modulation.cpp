#include <cstring>

#include "kernels/linear.h"
#include "models/dit/dit.h"
#include "tests/models/helpers.h"

namespace troupe::models {
namespace {

constexpr double kTimesteps[] = {981.0, 500.5, 20.0};

DitConfig config_with(std::int64_t head_dim) {
  DitConfig config;
  config.num_attention_heads = 2;
  config.attention_head_dim = head_dim;
  config.num_layers = 4;
  config.sample_size = 8;
  config.patch_size = 2;
  config.out_channels = 4;
  config.num_classes = 3;
  return config;
}

/// The network, and one batch with a row per (announced?, class, timestep).
class DitModulationTest : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!kernels::supports(GetParam())) {
      GTEST_SKIP() << to_string(GetParam()) << " needs another CPU";
    }
  }

  /// Sides that are multiples of 32 take the tile unit where there is one.
  std::unique_ptr<Denoiser> make(std::int64_t head_dim,
                                 SegmentRange segment = {}) {
    RandomWeights weights(ctx_, 5);
    return describe(config_with(head_dim))
        ->load(ctx_, GetParam(), weights, segment);
  }

  struct Row {
    bool announced;
    std::int64_t label;
    double timestep;
  };

  std::vector<Tensor> predict(const Denoiser& dit,
                              const std::vector<Row>& rows) {
    std::vector<Tensor> latents;
    std::vector<Tensor> outputs;
    std::vector<double> timesteps;
    std::vector<PreparedPtr> prepared;
    std::vector<const PreparedCondition*> conditions;
    for (const Row& row : rows) {
      Tensor x(dit.info().latent_shape, DType::f32);
      for (std::int64_t k = 0; k < x.num_elements(); ++k) {
        x.data<float>()[k] = std::sin(0.37F * static_cast<float>(k));
      }
      latents.push_back(std::move(x));
      outputs.emplace_back(Shape{4, 8, 8}, DType::f32);
      timesteps.push_back(row.timestep);
      prepared.push_back(row.announced
                             ? dit.prepare(ctx_, row.label, kTimesteps)
                             : dit.prepare(ctx_, row.label));
      conditions.push_back(prepared.back().get());
    }
    ShardContext whole;
    dit.predict(ctx_, whole, {latents, timesteps, conditions}, outputs);
    return outputs;
  }

  ExecContext ctx_;
};

TEST_P(DitModulationTest, AnnouncedTimestepsChangeNoBit) {
  for (const std::int64_t head_dim : {16, 10}) {
    const auto dit = make(head_dim);
    for (const double timestep : kTimesteps) {
      for (const std::int64_t label : {0, 3}) {
        const auto direct = predict(*dit, {{false, label, timestep}});
        const auto remembered = predict(*dit, {{true, label, timestep}});
        EXPECT_TRUE(
            std::ranges::equal(direct[0].bytes(), remembered[0].bytes()));
      }
    }
  }
}

TEST_P(DitModulationTest, ATimestepThatWasNotAnnouncedIsComputed) {
  const auto dit = make(16);
  const auto direct = predict(*dit, {{false, 1, 333.0}});
  const auto other = predict(*dit, {{true, 1, 333.0}});
  const auto announced = predict(*dit, {{true, 1, 20.0}});
  EXPECT_TRUE(std::ranges::equal(direct[0].bytes(), other[0].bytes()));
  EXPECT_FALSE(std::ranges::equal(direct[0].bytes(), announced[0].bytes()));
}

TEST_P(DitModulationTest, RememberedAndComputedRowsMixInOneBatch) {
  const auto dit = make(16);
  const std::vector<Row> rows = {
      {true, 0, 981.0}, {false, 2, 981.0}, {true, 3, 20.0}, {false, 3, 7.0}};
  const auto together = predict(*dit, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto alone =
        predict(*dit, {{false, rows[i].label, rows[i].timestep}});
    EXPECT_TRUE(std::ranges::equal(together[i].bytes(), alone[0].bytes()))
        << "row " << i;
  }
}

TEST_P(DitModulationTest, ASegmentRemembersItsOwnPartsOnly) {
  const auto whole = make(16);
  const auto middle = make(16, {1, 3});
  const auto last = make(16, {3, 4});
  const std::size_t width = 2 * 16 * sizeof(float);
  EXPECT_EQ(whole->info().bytes_per_timestep, (4 * 6 + 2) * width);
  EXPECT_EQ(middle->info().bytes_per_timestep, (2 * 6) * width);
  EXPECT_EQ(last->info().bytes_per_timestep, (1 * 6 + 2) * width);

  const auto of_whole = whole->prepare(ctx_, 1, kTimesteps);
  const auto of_middle = middle->prepare(ctx_, 1, kTimesteps);
  const std::vector<double> timesteps = {500.5};
  const auto run = [&](const Denoiser& dit, const PreparedPtr& prepared) {
    Tensor hidden({16, 32}, DType::f32);
    for (std::int64_t k = 0; k < hidden.num_elements(); ++k) {
      hidden.data<float>()[k] = std::cos(0.11F * static_cast<float>(k));
    }
    std::vector<Boundary> boundaries(1);
    boundaries[0].push_back({"hidden_states", std::move(hidden)});
    const std::vector<const PreparedCondition*> conditions = {prepared.get()};
    ShardContext alone;
    dit.run_blocks(ctx_, alone, {{}, timesteps, conditions, Shape{4, 8, 8}}, 1,
                   3, boundaries);
    return std::move(boundaries[0][0].tensor);
  };
  const Tensor expected = run(*whole, of_whole);
  const Tensor got = run(*middle, of_middle);
  EXPECT_TRUE(std::ranges::equal(expected.bytes(), got.bytes()));
}

INSTANTIATE_TEST_SUITE_P(Compute, DitModulationTest,
                         testing::Values(DType::f32, DType::bf16),
                         [](const auto& type) {
                           return std::string(to_string(type.param));
                         });

}  // namespace
}  // namespace troupe::models
