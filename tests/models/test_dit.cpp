#include <algorithm>
#include <numeric>

#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "models/checkpoint.h"
#include "models/diagnose.h"
#include "models/dit.h"
#include "models/dit_info.h"
#include "models/factory.h"
#include "tests/models/helpers.h"

namespace troupe::models {
namespace {

namespace fs = std::filesystem;

/// Rows of a batch with everything they need.
struct Rows {
  std::vector<Tensor> latents;
  std::vector<double> timesteps;
  std::vector<PreparedPtr> prepared;
  std::vector<const PreparedCondition*> conditions;

  void add(ExecContext& ctx, const Denoiser& denoiser, const Tensor& x,
           double timestep, std::int64_t label) {
    latents.push_back(x);
    timesteps.push_back(timestep);
    prepared.push_back(denoiser.prepare(ctx, {label}));
    conditions.push_back(prepared.back().get());
  }
  [[nodiscard]] Batch batch() const { return {latents, timesteps, conditions}; }
};

std::vector<Tensor> outputs_for(const Denoiser& denoiser, std::size_t rows) {
  const DenoiserInfo& info = denoiser.info();
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < rows; ++i) {
    outputs.emplace_back(
        Shape{info.out_channels, info.latent_shape[1], info.latent_shape[2]},
        DType::f32);
  }
  return outputs;
}

std::vector<Tensor> predict(ExecContext& ctx, const Denoiser& denoiser,
                            const Rows& rows) {
  ShardContext whole;
  auto outputs = outputs_for(denoiser, rows.latents.size());
  denoiser.predict(ctx, whole, rows.batch(), outputs);
  return outputs;
}

DitConfig small_config() {
  DitConfig config;
  config.num_attention_heads = 3;
  config.attention_head_dim = 12;
  config.num_layers = 5;
  config.sample_size = 10;
  config.patch_size = 2;
  config.out_channels = 8;
  config.num_classes = 7;
  return config;
}

std::unique_ptr<Dit> small_dit(ExecContext& ctx, SegmentRange segment = {},
                               DType compute = DType::f32) {
  RandomWeights weights(ctx, 11);
  return std::make_unique<Dit>(ctx, small_config(), segment, compute, weights);
}

Rows small_rows(ExecContext& ctx, const Denoiser& denoiser, int count) {
  Rows rows;
  for (int i = 0; i < count; ++i) {
    Tensor x(denoiser.info().latent_shape, DType::f32);
    for (std::int64_t k = 0; k < x.num_elements(); ++k) {
      x.data<float>()[k] =
          static_cast<float>(std::sin(0.37 * static_cast<double>(k) + i));
    }
    rows.add(ctx, denoiser, x, 999.0 - 111.0 * i, i % 8);
  }
  return rows;
}

class DitGolden : public testing::TestWithParam<fs::path> {
 protected:
  struct Errors {
    double ours = 0.0;
    double theirs_bf16 = 0.0;
  };

  Errors compare(DType compute) {
    ExecContext ctx;
    const Checkpoint checkpoint = open_checkpoint(GetParam());
    const auto denoiser = load_denoiser(ctx, checkpoint.transformer, compute);
    const SafetensorsFile golden(GetParam() / "golden.safetensors");
    const Tensor latents = golden.read(*golden.find("latents"));
    const Tensor timesteps = golden.read(*golden.find("timesteps"));
    const Tensor labels = golden.read(*golden.find("labels"));
    const Tensor expected = golden.read(*golden.find("output"));
    Rows rows;
    for (std::int64_t i = 0; i < latents.dim(0); ++i) {
      rows.add(ctx, *denoiser, latents.item(i),
               static_cast<double>(timesteps.data<std::int64_t>()[i]),
               labels.data<std::int64_t>()[i]);
    }
    const auto outputs = predict(ctx, *denoiser, rows);
    Tensor all(expected.shape(), DType::f32);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      std::memcpy(all.item(static_cast<std::int64_t>(i)).bytes().data(),
                  std::as_const(outputs[i]).bytes().data(),
                  outputs[i].num_bytes());
    }
    return {relative_error(all, expected),
            relative_error(golden.read(*golden.find("output_bf16")), expected)};
  }
};

TEST_P(DitGolden, MatchesDiffusersInF32) {
  const double error = compare(DType::f32).ours;
  RecordProperty("relative_l2", std::to_string(error * 1e6) + "e-6");
  EXPECT_LE(error, 2e-5);
}

TEST_P(DitGolden, Bf16ErrorIsAtMostDiffusersOwn) {
  if (!kernels::supports(DType::bf16)) {
    GTEST_SKIP() << "no bf16 on this CPU";
  }
  const Errors errors = compare(DType::bf16);
  RecordProperty("ratio", std::to_string(errors.ours / errors.theirs_bf16));
  EXPECT_LE(errors.ours, 1.5 * errors.theirs_bf16);
}

INSTANTIATE_TEST_SUITE_P(Folders, DitGolden,
                         testing::ValuesIn(golden_folders("dit_")),
                         [](const auto& item) {
                           return item.param.filename().string();
                         });

TEST(TimestepEmbedding, HasDiffusersValues) {
  const double timesteps[] = {500.0};
  const int index[] = {0, 1, 2, 127, 128, 129, 255};
  const float shift_0[] = {-0.883849F, 0.945946F, 0.848507F, 0.998557F,
                           -0.467772F, 0.324325F, 0.053705F};
  const float shift_1[] = {-0.883849F, 0.997773F, 0.499335F, 0.99875F,
                           -0.467772F, 0.066699F, 0.049979F};
  Tensor out({1, 256}, DType::f32);
  kernels::timestep_embedding(timesteps, 0.0, 10000.0, out);
  for (int i = 0; i < 7; ++i) {
    EXPECT_NEAR(out.data<float>()[index[i]], shift_0[i], 2e-6);
  }
  kernels::timestep_embedding(timesteps, 1.0, 10000.0, out);
  for (int i = 0; i < 7; ++i) {
    EXPECT_NEAR(out.data<float>()[index[i]], shift_1[i], 2e-6);
  }
}

TEST(PositionTable, HasDiffusersValues) {
  const Tensor table = kernels::sincos_2d(1152, 16, 16, 16, 1.0);
  const int index[] = {0, 1, 288, 289, 576, 577, 864, 865};
  const float column_1[] = {0.841471F, 0.824051F, 0.540302F, 0.566515F,
                            0.0F,      0.0F,      1.0F,      1.0F};
  const float row_1[] = {0.0F,      0.0F,      1.0F,      1.0F,
                         0.841471F, 0.824051F, 0.540302F, 0.566515F};
  for (int i = 0; i < 8; ++i) {
    EXPECT_NEAR(table.data<float>()[1152 + index[i]], column_1[i], 1e-6);
    EXPECT_NEAR(table.data<float>()[16 * 1152 + index[i]], row_1[i], 1e-6);
  }
}

TEST(Dit, CutAnywhereGivesTheSameBits) {
  ExecContext ctx;
  ShardContext whole;
  const auto full = small_dit(ctx);
  const Rows rows = small_rows(ctx, *full, 3);
  const auto expected = predict(ctx, *full, rows);
  for (const std::vector<int>& cuts :
       {std::vector<int>{0, 5}, {0, 1, 5}, {0, 2, 4, 5}, {0, 1, 2, 3, 4, 5}}) {
    std::vector<Boundary> boundaries(3);
    auto outputs = outputs_for(*full, 3);
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      const auto part = small_dit(ctx, {cuts[i], cuts[i + 1]});
      if (i == 0) {
        part->embed(ctx, whole, rows.batch(), boundaries);
      }
      part->run_blocks(ctx, whole, rows.batch(), cuts[i], cuts[i + 1],
                       boundaries);
      if (i + 2 == cuts.size()) {
        part->finish(ctx, whole, rows.batch(), boundaries, outputs);
      }
    }
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(bytes_equal(outputs[i], expected[i])) << cuts.size();
    }
  }
}

TEST(Dit, RowsDoNotDependOnBatchPositionOrThreads) {
  ExecContext one(1);
  ExecContext three(3);
  const auto dit = small_dit(one);
  const Rows rows = small_rows(one, *dit, 7);
  const auto together = predict(one, *dit, rows);
  const auto threaded = predict(three, *dit, rows);
  Rows reversed;
  for (int i = 6; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    reversed.add(one, *dit, rows.latents[at], rows.timesteps[at], at % 8);
  }
  const auto backward = predict(three, *dit, reversed);
  for (std::size_t i = 0; i < 7; ++i) {
    Rows alone;
    alone.add(one, *dit, rows.latents[i], rows.timesteps[i],
              static_cast<std::int64_t>(i % 8));
    EXPECT_TRUE(bytes_equal(predict(one, *dit, alone)[0], together[i])) << i;
    EXPECT_TRUE(bytes_equal(threaded[i], together[i])) << i;
    EXPECT_TRUE(bytes_equal(backward[6 - i], together[i])) << i;
  }
}

TEST(Dit, ManyRowsAreComputedInTurnsWithTheSameBits) {
  ExecContext ctx;
  DitConfig config = small_config();
  config.sample_size = 80;  // 1600 tokens: two rows at once
  config.num_layers = 1;
  ASSERT_EQ(dit_rows_at_once(config), 2);
  RandomWeights weights(ctx, 3);
  const Dit dit(ctx, config, {}, DType::f32, weights);
  const Rows rows = small_rows(ctx, dit, 3);
  const auto together = predict(ctx, dit, rows);
  Rows last;
  last.add(ctx, dit, rows.latents[2], rows.timesteps[2], 2);
  EXPECT_TRUE(bytes_equal(predict(ctx, dit, last)[0], together[2]));
}

TEST(Dit, AStepAllocatesNothingAfterTheFirst) {
  ExecContext ctx;
  const auto dit = small_dit(ctx);
  const Rows rows = small_rows(ctx, *dit, 2);
  (void)predict(ctx, *dit, rows);
  const auto held = ctx.workspace().capacity_bytes();
  (void)predict(ctx, *dit, rows);
  EXPECT_EQ(ctx.workspace().capacity_bytes(), held);
}

TEST(Dit, SegmentsHoldOnlyTheirOwnWeights) {
  ExecContext ctx;
  ShardContext whole;
  const auto full = small_dit(ctx);
  const auto middle = small_dit(ctx, {2, 3});
  const auto last = small_dit(ctx, {4, 5});
  EXPECT_LT(middle->info().parameter_bytes, full->info().parameter_bytes / 3);
  EXPECT_EQ(middle->info().blocks.size(), 5U);
  const Rows rows = small_rows(ctx, *full, 1);
  std::vector<Boundary> boundaries(1);
  auto outputs = outputs_for(*full, 1);
  EXPECT_EQ(error_of([&] {
              middle->embed(ctx, whole, rows.batch(), boundaries);
            }).code(),
            Errc::invalid_argument);
  full->embed(ctx, whole, rows.batch(), boundaries);
  EXPECT_EQ(error_of([&] {
              middle->run_blocks(ctx, whole, rows.batch(), 2, 4, boundaries);
            }).code(),
            Errc::invalid_argument);
  EXPECT_EQ(error_of([&] {
              middle->finish(ctx, whole, rows.batch(), boundaries, outputs);
            }).code(),
            Errc::invalid_argument);
  EXPECT_NO_THROW(last->finish(ctx, whole, rows.batch(), boundaries, outputs));
}

TEST(Dit, RefusesSegmentsThatDoNotExist) {
  ExecContext ctx;
  for (const SegmentRange segment :
       {SegmentRange{0, 6}, {3, 3}, {4, 2}, {-1, 2}}) {
    EXPECT_EQ(error_of([&] { (void)small_dit(ctx, segment); }).code(),
              Errc::invalid_argument);
  }
}

TEST(Dit, RefusesUnknownClassesAndWrongShapes) {
  ExecContext ctx;
  const auto dit = small_dit(ctx);
  EXPECT_NO_THROW((void)dit->prepare(ctx, {7}));
  for (const std::int64_t label : {-1, 8}) {
    EXPECT_EQ(error_of([&] { (void)dit->prepare(ctx, {label}); }).code(),
              Errc::invalid_argument);
  }
  Rows rows;
  rows.add(ctx, *dit, Tensor::zeros({4, 10, 9}, DType::f32), 0, 0);
  EXPECT_EQ(error_of([&] { (void)predict(ctx, *dit, rows); }).code(),
            Errc::shape_mismatch);
}

TEST(Dit, StopsBetweenBlocksWhenAsked) {
  ExecContext ctx;
  const auto dit = small_dit(ctx);
  const Rows rows = small_rows(ctx, *dit, 1);
  const auto before = ctx.ticks();
  (void)predict(ctx, *dit, rows);
  EXPECT_EQ(ctx.ticks() - before, 5U);
  ctx.request_stop();
  EXPECT_EQ(error_of([&] { (void)predict(ctx, *dit, rows); }).code(),
            Errc::interrupted);
}

TEST(Dit, EqualEmbeddersAreHeldOnce) {
  ExecContext ctx;
  const auto open = [](const char* name) {
    return open_checkpoint(fs::path(TROUPE_GOLDEN_DIR) / name);
  };
  const Checkpoint shared = open("dit_unusual");
  const Checkpoint separate = open("dit_default");
  FileWeights a(shared.transformer.weights);
  FileWeights b(separate.transformer.weights);
  const auto config_a = parse_dit_config(shared.transformer.config);
  const auto config_b = parse_dit_config(separate.transformer.config);
  const auto one = load_dit_weights(ctx, config_a, {0, 3}, DType::f32, a);
  const auto many = load_dit_weights(ctx, config_b, {0, 2}, DType::f32, b);
  EXPECT_EQ(one.blocks[0].embedder, one.blocks[2].embedder);
  EXPECT_NE(many.blocks[0].embedder, many.blocks[1].embedder);
}

TEST(Dit, TheHashFollowsTheWeights) {
  ExecContext ctx;
  RandomWeights same(ctx, 11);
  RandomWeights other(ctx, 12);
  const auto dit = small_dit(ctx);
  const Dit again(ctx, small_config(), {}, DType::f32, same);
  const Dit differs(ctx, small_config(), {}, DType::f32, other);
  EXPECT_EQ(dit->info().weights_hash, again.info().weights_hash);
  EXPECT_NE(dit->info().weights_hash, differs.info().weights_hash);
}

TEST(Dit, RandomWeightsDoNotDependOnThreads) {
  ExecContext one(1);
  ExecContext three(3);
  RandomWeights a(one, 5);
  RandomWeights b(three, 5);
  const TensorSpec spec{"x.weight", {300, 301}};
  const Tensor x = a.read(spec);
  EXPECT_TRUE(bytes_equal(x, b.read(spec)));
  EXPECT_NEAR(kernels::sum_squares(x) / 300.0, 1.0, 0.02);
}

TEST(Dit, ParametersOfAnXl2AreThePublishedNumber) {
  DitConfig config;
  config.out_channels = 8;
  std::int64_t stored = 0;
  for (const TensorSpec& spec : dit_tensors(config, {0, 28})) {
    stored += spec.shape.num_elements();
  }
  EXPECT_EQ(stored, 749'826'464);
  EXPECT_EQ(dit_tensors(config, {0, 28}).size(), 538U);
}

TEST(DitConfig, OldClassNeedsItsNormType) {
  EXPECT_NO_THROW(
      (void)parse_dit_config(Json::parse(R"({"_class_name":"Transformer2DModel",
                      "norm_type":"ada_norm_zero"})",
                                         "file")));
  EXPECT_EQ(error_of([] {
              (void)parse_dit_config(Json::parse(
                  R"({"_class_name":"Transformer2DModel"})", "file"));
            }).code(),
            Errc::unsupported);
}

TEST(DitConfig, MissingKeysAreTheClassDefaults) {
  const DitConfig config = parse_dit_config(Json::parse("{}", "file"));
  EXPECT_EQ(config.width(), 1152);
  EXPECT_EQ(config.num_layers, 28);
  EXPECT_EQ(config.out_channels, 4);
  EXPECT_EQ(config.num_classes, 1000);
  EXPECT_EQ(config.norm_eps, 1e-5F);
}

TEST(DitConfig, RefusesWhatCannotBe) {
  for (const char* text :
       {R"({"num_layers":0})", R"({"patch_size":3})", R"({"sample_size":0})",
        R"({"sample_size":65536,"patch_size":1})",
        R"({"in_channels":1,"patch_size":256,"sample_size":65536})",
        R"({"in_channels":65,"patch_size":16,"sample_size":2048})",
        R"({"out_channels":65,"patch_size":16,"sample_size":2048})",
        R"({"num_attention_heads":1,"attention_head_dim":3})",
        R"({"activation_fn":"geglu"})", R"({"norm_type":"layer_norm"})",
        R"({"norm_elementwise_affine":true})", R"({"sample_size":1.5})"}) {
    EXPECT_THROW((void)parse_dit_config(Json::parse(text, "file")), Error)
        << text;
  }
}

/// A DiT that breaks in block 3.
class Broken final : public Denoiser {
 public:
  explicit Broken(const Dit& whole) : whole_(whole) {}
  [[nodiscard]] const DenoiserInfo& info() const override {
    return whole_.info();
  }
  [[nodiscard]] PreparedPtr prepare(ExecContext& ctx,
                                    const Condition& condition) const override {
    return whole_.prepare(ctx, condition);
  }
  void predict(ExecContext& ctx, ShardContext& shard, const Batch& batch,
               std::span<Tensor> outputs) const override {
    whole_.predict(ctx, shard, batch, outputs);
  }
  void embed(ExecContext& ctx, ShardContext& shard, const Batch& batch,
             std::span<Boundary> boundaries) const override {
    whole_.embed(ctx, shard, batch, boundaries);
  }
  void run_blocks(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                  int begin, int end,
                  std::span<Boundary> boundaries) const override {
    whole_.run_blocks(ctx, shard, batch, begin, end, boundaries);
    if (begin <= 3 && end > 3) {
      boundaries.back()[0].tensor.data<float>()[5] = INFINITY;
    }
  }
  void finish(ExecContext& ctx, ShardContext& shard, const Batch& batch,
              std::span<const Boundary> boundaries,
              std::span<Tensor> outputs) const override {
    whole_.finish(ctx, shard, batch, boundaries, outputs);
  }

 private:
  const Dit& whole_;
};

TEST(FirstNonFinite, NamesThePlace) {
  ExecContext ctx;
  ShardContext whole;
  const auto dit = small_dit(ctx);
  Rows rows = small_rows(ctx, *dit, 2);
  EXPECT_EQ(first_non_finite(ctx, whole, *dit, rows.batch()), "");
  EXPECT_EQ(first_non_finite(ctx, whole, Broken(*dit), rows.batch()),
            "block 3");
  rows.latents[1].data<float>()[3] = std::nanf("");
  EXPECT_EQ(first_non_finite(ctx, whole, *dit, rows.batch()), "latents");
}

}  // namespace
}  // namespace troupe::models
