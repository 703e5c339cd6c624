#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "actors/cli/forecast.h"
#include "actors/cli/job_runner.h"
#include "actors/cli/memory_plan.h"
#include "actors/cli/notes.h"
#include "config/bundled_models.h"
#include "config/known_keys.h"
#include "config/load_config.h"
#include "kernels/core/error.h"
#include "models/files/safetensors.h"
#include "tests/core/temporary_folder.h"

// A model is one row and its own files. These tests add a model that the
// program does not know, with rectangular latents and without classes.

namespace troupe::actors {
namespace {

using models::Batch;
using models::DenoiserInfo;

class Ready final : public models::PreparedCondition {};

DenoiserInfo gain_info(const Shape& latents) {
  DenoiserInfo info;
  info.class_name = "GainModel";
  info.latent_shape = latents;
  info.out_channels = latents[0];
  info.guided_channels = latents[0];
  info.blocks = {{.flops = static_cast<double>(latents.num_elements()),
                  .parameter_bytes = 4}};
  return info;
}

/// Predicts gain · x.
class Gain final : public models::Denoiser {
 public:
  Gain(const Shape& latents, models::WeightSource& weights)
      : info_(gain_info(latents)),
        gain_(weights.read_f32({"gain", Shape{1}}).data<float>()[0]) {
    info_.weights_hash = weights.hash();
  }

  [[nodiscard]] const DenoiserInfo& info() const override { return info_; }
  [[nodiscard]] models::PreparedPtr prepare(
      ExecContext& /*ctx*/, const models::Condition& /*condition*/,
      std::span<const double> /*timesteps*/) const override {
    return std::make_shared<const Ready>();
  }
  void predict(ExecContext& ctx, ShardContext& shard, const Batch& batch,
               std::span<Tensor> outputs) const override {
    std::vector<Boundary> rows(outputs.size());
    embed(ctx, shard, batch, rows);
    run_blocks(ctx, shard, batch, 0, 1, rows);
    finish(ctx, shard, batch, rows, outputs);
  }
  void embed(ExecContext& /*ctx*/, ShardContext& /*shard*/, const Batch& batch,
             std::span<Boundary> boundaries) const override {
    for (std::size_t i = 0; i < boundaries.size(); ++i) {
      boundaries[i] = {{"x", batch.latents[i].clone()}};
    }
  }
  void run_blocks(ExecContext& /*ctx*/, ShardContext& /*shard*/,
                  const Batch& /*batch*/, int begin, int end,
                  std::span<Boundary> boundaries) const override {
    for (Boundary& row : boundaries) {
      for (float& x : row[0].tensor.span<float>()) {
        x *= begin < end ? gain_ : 1.0F;
      }
    }
  }
  void finish(ExecContext& /*ctx*/, ShardContext& /*shard*/,
              const Batch& /*batch*/, std::span<const Boundary> boundaries,
              std::span<Tensor> outputs) const override {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      std::ranges::copy(boundaries[i][0].tensor.span<float>(),
                        outputs[i].data<float>());
    }
  }

 private:
  DenoiserInfo info_;
  float gain_;
};

class GainDescription final : public models::DenoiserDescription {
 public:
  explicit GainDescription(const Shape& latents) : latents_(latents) {}

  [[nodiscard]] Shape latent_shape() const override { return latents_; }
  [[nodiscard]] Shape nearest_latents(const Shape& wanted) const override {
    return with_channels(wanted, latents_[0]);
  }
  [[nodiscard]] DenoiserInfo info(const Shape& latents,
                                  DType /*compute*/) const override {
    return gain_info(latents);
  }
  [[nodiscard]] models::NetworkMemory memory(
      const Shape& latents, DType /*compute*/, DeviceKind /*kind*/,
      models::WeightPlacement /*placement*/,
      models::SegmentRange /*segment*/) const override {
    return {
        .weights_bytes = 4,
        .row_bytes = 8 * static_cast<std::uint64_t>(latents.num_elements())};
  }
  [[nodiscard]] models::NetworkFacts facts() const override {
    return {.blocks = 1};
  }
  [[nodiscard]] std::string config_keys() const override {
    return "channels height width";
  }
  [[nodiscard]] models::ClassTensors tensors() const override {
    return {.names = {"gain"}, .prefixes = {}};
  }
  [[nodiscard]] std::unique_ptr<DenoiserDescription> with_blocks(
      int /*blocks*/) const override {
    return std::make_unique<GainDescription>(latents_);
  }
  [[nodiscard]] std::unique_ptr<models::Denoiser> load(
      ExecContext& /*ctx*/, DType /*compute*/, models::WeightSource& weights,
      models::SegmentRange /*segment*/,
      models::WeightPlacement /*placement*/) const override {
    return std::make_unique<Gain>(latents_, weights);
  }
  [[nodiscard]] std::uint64_t weights_hash(
      ExecContext& /*ctx*/, models::WeightSource& weights) const override {
    return Gain(latents_, weights).info().weights_hash;
  }

 private:
  Shape latents_;
};

constexpr models::DenoiserRow kGain{
    .class_name = "GainModel",
    .describe = [](const models::Json& config)
        -> std::unique_ptr<models::DenoiserDescription> {
      return std::make_unique<GainDescription>(
          Shape{config.integer("channels", 1, 1, 4),
                config.integer("height", 1, 1, 64),
                config.integer("width", 1, 1, 64)});
    }};

std::vector<const models::DenoiserRow*> longer_table() {
  const models::DenoiserTable ours = models::denoiser_table();
  std::vector<const models::DenoiserRow*> table(ours.begin(), ours.end());
  table.push_back(&kGain);
  return table;
}

/// A folder with a GainModel.
config::Config gain_job(const TemporaryFolder& folder) {
  std::ofstream(folder.path() / "config.json")
      << R"({"_class_name": "GainModel", "channels": 3, "height": 4,
             "width": 6, "hieght": 5})";
  Tensor gain({1}, DType::f32);
  gain.data<float>()[0] = 0.5F;
  const NamedTensor named{"gain", gain};
  models::write_safetensors(
      folder.path() / "diffusion_pytorch_model.safetensors", {&named, 1});
  config::Config config;
  config.model_dir = folder.path().string();
  config.samples = {0, 3};
  config.compute = config::ComputeType::f32;
  config.sampler.steps = 4;
  config.sampler.clip_sample = false;
  config.num_workers = 2;
  config.num_threads = 1;
  return config;
}

/// What DDIM makes of noise with a network that predicts gain · x.
double ddim_ratio(const samplers::Schedule& schedule, double gain) {
  double ratio = 1;
  for (int call = 0; call < schedule.num_model_calls(); ++call) {
    const samplers::NoiseLevel from = schedule.level(call);
    const samplers::NoiseLevel to = schedule.arrival(call + 1);
    ratio *= to.alpha * (1 - from.sigma * gain) / from.alpha + to.sigma * gain;
  }
  return ratio;
}

config::Config tiny_dit() {
  config::Config config;
  config.random_weights = "dit-tiny";
  config.classes = {"1"};
  config.compute = config::ComputeType::f32;
  return config;
}

class Latents final : public Observer {
 public:
  void on_sample(const SampleOutcome& outcome) override {
    rows[outcome.report.sample_index] = outcome.latents;
  }
  std::map<std::uint64_t, Tensor> rows;
};

TEST(ModelTable, RunsOneMoreModelByItsRowAlone) {
  const TemporaryFolder folder;
  const config::Config config = gain_job(folder);
  EXPECT_THROW((void)make_request(config), Error) << "the table without it";

  const auto table = longer_table();
  const JobRequest request = make_request(config, nullptr, {}, table);
  EXPECT_EQ(request.source.latent_shape(), (Shape{3, 4, 6}));
  EXPECT_EQ(request.source.pixel_shape(), (Shape{3, 4, 6}));
  EXPECT_EQ(request.job.guidance.scale, 1.0);
  EXPECT_GE(request.required_bytes, 4U + 2 * 8 * 72);
  const auto ignored =
      std::ranges::find_if(request.notes, [](const std::string& note) {
        return note.find("'hieght' (did you mean 'height'?)") !=
               std::string::npos;
      });
  EXPECT_NE(ignored, request.notes.end());

  SignalWatch signals;
  StopFlag stop{signals};
  const JobRunner runner(request, stop);
  EXPECT_EQ(runner.weights_hash(), read_weights_hash(request.source, stop));
  Latents seen;
  EXPECT_FALSE(runner.run({.observers = {&seen}}).failure);
  ASSERT_EQ(seen.rows.size(), 3U);
  // The result is one number times the noise: DDIM's, which takes a step from
  // (a, s) to (a', s') as x' = (a'/a) x + (s' - a' s / a) gain x.
  Tensor noise(request.source.latent_shape(), DType::f32);
  samplers::PhiloxNoise(request.job.seed).initial(1, noise);
  const double ratio = ddim_ratio(request.schedule, 0.5);
  for (std::int64_t i = 0; i < noise.num_elements(); ++i) {
    EXPECT_NEAR(seen.rows.at(1).data<float>()[i],
                ratio * noise.data<float>()[i], 1e-5);
  }
  EXPECT_TRUE(forecast(request, 3, false, stop).predicted_seconds);
}

TEST(ModelTable, MakesOtherSizesAndFindsThemAgainInTheRecipe) {
  const TemporaryFolder folder;
  config::Config config = gain_job(folder);
  config.size = {8, 4};
  const auto table = longer_table();
  const JobRequest request = make_request(config, nullptr, {}, table);
  EXPECT_EQ(request.source.latent_shape(), (Shape{3, 4, 8}));
  EXPECT_EQ(request.source.pixel_shape(), (Shape{3, 4, 8}));
  const config::Recipe recipe = request.recipe_of(1);
  EXPECT_EQ(recipe.width, 8);
  EXPECT_EQ(recipe.height, 4);
  const config::Config again = config::load_config(
      config::Verb::sample, {.flags = {{"--model", "model", config.model_dir}},
                             .recipe = to_settings(recipe, "a.png"),
                             .environment = {{"TROUPE_SIZE", "size", "2x2"}},
                             .file = {}});
  EXPECT_EQ(again.size, config.size);
  const JobRequest back = make_request(again, &recipe, {}, table);
  EXPECT_EQ(back.source.latent_shape(), (Shape{3, 4, 8}));
  SignalWatch signals;
  StopFlag stop{signals};
  Latents seen;
  EXPECT_FALSE(JobRunner(back, stop).run({.observers = {&seen}}).failure);
  EXPECT_EQ(seen.rows.at(1).shape(), (Shape{3, 4, 8}));

  config.size.reset();  // as it was trained: the recipe says it, too
  const JobRequest same = make_request(config, nullptr, {}, table);
  EXPECT_EQ(same.recipe_of(0).width, 6);
  EXPECT_EQ(same.recipe_of(0).height, 4);
}

TEST(ModelTable, RefusesSizesThatDitCannotMakeWithTheNearestThatItCan) {
  const auto refusal = [](std::int64_t width, std::int64_t height) {
    config::Config config = tiny_dit();
    config.size = {width, height};
    try {
      (void)make_request(config);
      return std::string("took it");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::invalid_argument);
      EXPECT_EQ(error.place(), "--size");
      return error.message();
    }
  };
  EXPECT_NE(refusal(20, 16).find("nearest that works is 20x20"),
            std::string::npos);
  EXPECT_NE(refusal(17, 17).find("nearest that works is 18x18"),
            std::string::npos);
  EXPECT_NE(refusal(16384, 16384).find("nearest that works is 512x512"),
            std::string::npos)
      << "65,536 tokens";
}

TEST(ModelTable, RefusesAClassAndIgnoresGuidanceWhereThereAreNone) {
  const TemporaryFolder folder;
  config::Config config = gain_job(folder);
  const auto table = longer_table();
  config.guidance_scale = 3;
  const JobRequest request = make_request(config, nullptr, {}, table);
  EXPECT_EQ(request.job.guidance.scale, 1.0);
  EXPECT_NE(
      std::ranges::find(request.notes,
                        "the model has no classes: --guidance does nothing"),
      request.notes.end());
  config.classes = {"0"};
  EXPECT_EQ(make_request(config, nullptr, {}, table).class_of(5), 0);
  config.classes = {"dog"};
  EXPECT_THROW((void)make_request(config, nullptr, {}, table), Error);
}

TEST(ModelTable, HasADifferentNameInEachRow) {
  std::set<std::string_view> names;
  for (const models::DenoiserRow* row : longer_table()) {
    EXPECT_TRUE(names.insert(row->class_name).second) << row->class_name;
    EXPECT_NE(row->describe, nullptr);
  }
}

TEST(ModelTable, KnowsEveryKeyOfItsNetworksFiles) {
  const auto note_of = [](std::string_view text, const char* class_name) {
    const models::Json json = models::Json::parse(text, "c");
    const models::DenoiserRow& row = models::find_denoiser(json, class_name);
    const std::vector<std::string> keys = json.keys();
    return config::unknown_keys_note("c", class_name,
                                     row.describe(json)->config_keys(), keys);
  };
  for (const config::BundledModel& model : config::bundled_models()) {
    const std::string class_name =
        models::Json::parse(model.denoiser, "c").string("_class_name", "");
    EXPECT_EQ(note_of(model.denoiser, class_name.c_str()), "");
  }
  for (const config::BundledModel& model : config::bundled_models()) {
    if (!model.vae.empty()) {
      const models::Json config = models::Json::parse(model.vae, "c");
      EXPECT_EQ(
          config::unknown_keys_note(
              "c", "AutoencoderKL",
              models::describe_decoder(config)->config_keys(), config.keys()),
          "");
    }
  }
  // As published beside facebook/DiT-XL-2-256.
  EXPECT_EQ(
      note_of(R"({"_class_name": "Transformer2DModel", "_name_or_path": "",
                  "_diffusers_version": "0.12.0.dev0",
                  "activation_fn": "gelu-approximate", "attention_bias": true,
                  "attention_head_dim": 72, "cross_attention_dim": null,
                  "double_self_attention": false, "dropout": 0.0,
                  "in_channels": 4, "norm_elementwise_affine": false,
                  "norm_num_groups": 32, "norm_type": "ada_norm_zero",
                  "num_attention_heads": 16, "num_embeds_ada_norm": 1000,
                  "num_layers": 28, "num_vector_embeds": null,
                  "only_cross_attention": false, "out_channels": 8,
                  "patch_size": 2, "sample_size": 32,
                  "upcast_attention": false, "use_linear_projection": false})",
              "Transformer2DModel"),
      "");
}

}  // namespace
}  // namespace troupe::actors
