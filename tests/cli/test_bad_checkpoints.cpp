#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "tests/cli/pipeline.h"

namespace troupe::test {
namespace {

TEST(Checkpoint, OfTheGoldenNetworkRuns) {
  const Pipeline pipeline;
  const Outcome outcome = pipeline.sample();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(pipeline.wrote_something());
}

TEST(Checkpoint, TruncatedIsCorrupt) {
  const Pipeline pipeline;
  const std::string whole = pipeline.file(kWeights);
  pipeline.replace(kWeights, whole.substr(0, whole.size() / 2));
  expect_refused(pipeline, pipeline.sample(), 6, kWeights);
}

TEST(Checkpoint, WithATruncatedConfigIsCorrupt) {
  const Pipeline pipeline;
  pipeline.replace("transformer/config.json", "{\"_class_name\": \"DiT");
  expect_refused(pipeline, pipeline.sample(), 6, "config.json");
}

TEST(Checkpoint, OfAnotherArchitectureIsRefusedEvenForADryRun) {
  const Pipeline pipeline;
  auto config = nlohmann::json::parse(pipeline.file("transformer/config.json"));
  config["_class_name"] = "SD3Transformer2DModel";
  pipeline.replace("transformer/config.json", config.dump());
  expect_refused(pipeline, pipeline.sample({"--dry-run"}), 2,
                 "SD3Transformer2DModel");
}

/// diffusers makes an object of the class in the index, so it refuses an
/// unknown class.
TEST(Checkpoint, WhoseIndexNamesAnUnknownClassIsRefused) {
  const auto refused = [](const char* part, const char* class_name,
                          const std::string& expected) {
    const Pipeline pipeline;
    pipeline.add_vae("vae_default");
    pipeline.set("model_index.json", part, {"diffusers", class_name});
    const Outcome outcome = pipeline.sample({"--dry-run"});
    expect_refused(pipeline, outcome, 2, pipeline.path("model_index.json"));
    EXPECT_NE(outcome.err.find(std::string(part) + ": "), std::string::npos)
        << outcome.err;
    EXPECT_NE(outcome.err.find(class_name), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(expected), std::string::npos) << outcome.err;
    return outcome.err;
  };
  refused("transformer", "DiTFooModel",
          "expected one of DiTTransformer2DModel, PixArtTransformer2DModel, "
          "UNet2DConditionModel");
  refused("vae", "AutoencoderFoo", "expected AutoencoderKL");
  refused("scheduler", "FooScheduler", "--sampler");
  refused("scheduler", "LMSDiscreteScheduler", "--sampler");
}

/// Older folders say Transformer2DModel where config.json says the class, or
/// the reverse; Flax saved names of its own; [null, null] is a part that the
/// pipeline was saved without.
TEST(Checkpoint, WhoseIndexSpellsAClassOtherwiseRuns) {
  using Json = nlohmann::json;
  for (const Json& network :
       {Json{"diffusers", "Transformer2DModel"},
        Json{"diffusers", "DiTTransformer2DModel"}, Json{nullptr, nullptr}}) {
    const Pipeline pipeline;
    pipeline.set("model_index.json", "transformer", network);
    pipeline.set("model_index.json", "scheduler",
                 {"diffusers", "FlaxDDIMScheduler"});
    // The folder has no part of this name, so no object is made of the class.
    pipeline.set("model_index.json", "unet", {"diffusers", "UNetFooModel"});
    const Outcome outcome = pipeline.sample({"--json"});
    EXPECT_EQ(outcome.exit_code, 0) << network << outcome.err;
    EXPECT_EQ(outcome.json()["notes"].size(), 0U) << outcome.err;
  }
  const Pipeline older;
  older.set("model_index.json", "transformer",
            {"diffusers", "DiTTransformer2DModel"});
  older.set(kTransformer, "_class_name", "Transformer2DModel");
  older.set(kTransformer, "norm_type", "ada_norm_zero");
  EXPECT_EQ(older.sample().exit_code, 0);
}

TEST(Checkpoint, WhoseIndexNamesAnUnknownSchedulerRunsWithAnother) {
  const Pipeline pipeline;
  pipeline.set("model_index.json", "scheduler", {"diffusers", "FooScheduler"});
  const Outcome seen = run({"inspect", pipeline.path()});
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_NE(
      seen.out.find("sampler FooScheduler (not supported; use --sampler)"),
      std::string::npos)
      << seen.out;
  EXPECT_EQ(run({"schedule", "-m", pipeline.path()}).exit_code, 2);
  EXPECT_EQ(
      run({"schedule", "-m", pipeline.path(), "--sampler", "ddim"}).exit_code,
      0);
  EXPECT_EQ(pipeline.sample({"--sampler", "ddim"}).exit_code, 0);
}

TEST(Checkpoint, WhoseIndexNamesAnotherSchedulerThanItsFileSaysSo) {
  const Pipeline pipeline;
  pipeline.set("model_index.json", "scheduler",
               {"diffusers", "EulerDiscreteScheduler"});
  const Outcome outcome = pipeline.sample({"--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["sampler"], "ddim");
  ASSERT_EQ(outcome.json()["notes"].size(), 1U) << outcome.err;
  EXPECT_NE(outcome.err.find("names EulerDiscreteScheduler as scheduler"),
            std::string::npos)
      << outcome.err;
}

TEST(Checkpoint, WithNanWeightsNamesTheTensorOfTheBlock) {
  const Pipeline pipeline;
  pipeline.fill("transformer_blocks.1.attn1.to_q.weight",
                std::numeric_limits<float>::quiet_NaN());
  expect_refused(pipeline, pipeline.sample(), 3,
                 "transformer_blocks.1.attn1.to_q.weight");
}

TEST(Checkpoint, ThatOverflowsFailsWithStepAndBlock) {
  for (const std::vector<std::string>& method :
       {std::vector<std::string>{"sequential"},
        {"picard", "--tolerance", "1"}}) {
    const Pipeline pipeline;
    pipeline.fill("transformer_blocks.1.attn1.to_out.0.bias", 3e38F);
    pipeline.fill("transformer_blocks.1.norm1.linear.bias", 3e38F);
    // Without the note that picard approximates.
    std::vector<std::string> more = {"--quiet", "--method"};
    more = overridden(std::move(more), method);
    const Outcome outcome = pipeline.sample(more);
    expect_refused(pipeline, outcome, 3, "after step 1 of 3");
    EXPECT_NE(outcome.err.find("appears in block 1"), std::string::npos)
        << outcome.err;
  }
}

TEST(Checkpoint, WithUnknownKeysWarnsOncePerFile) {
  const Pipeline pipeline;
  auto config = nlohmann::json::parse(pipeline.file("transformer/config.json"));
  config["num_layres"] = 7;
  pipeline.replace("transformer/config.json", config.dump());
  pipeline.replace(kScheduler,
                   R"({"_class_name": "DDIMScheduler", "beta_ned": 0.02})");
  const Outcome outcome = pipeline.sample();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err_lines(), 2) << outcome.err;
  for (const char* says :
       {"transformer/config.json: ignored", "did you mean 'num_layers'?",
        "scheduler/scheduler_config.json: ignored",
        "did you mean 'beta_end'?"}) {
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  }
}

TEST(Checkpoint, WithoutASchedulerSaysWhatStandsIn) {
  const Pipeline pipeline;
  std::filesystem::remove_all(pipeline.path("scheduler"));
  const Outcome outcome = pipeline.sample({"--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  ASSERT_EQ(outcome.json()["notes"].size(), 1U);
  const auto note = outcome.json()["notes"][0].get<std::string>();
  EXPECT_NE(note.find("DDIM's default"), std::string::npos) << note;
}

TEST(Checkpoint, WithASchedulerThatIsNotThereNamesTheFileAndTheWayPast) {
  const Pipeline pipeline;
  pipeline.replace(kScheduler, R"({"_class_name": "LMSDiscreteScheduler"})");
  const Outcome refused = pipeline.sample();
  expect_refused(pipeline, refused, 2, pipeline.path(kScheduler));
  EXPECT_NE(refused.err.find("--sampler"), std::string::npos) << refused.err;
  const Outcome seen = run({"inspect", pipeline.path()});
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_NE(
      seen.out.find("LMSDiscreteScheduler (not supported; use --sampler)"),
      std::string::npos)
      << seen.out;
  EXPECT_EQ(pipeline.sample({"--sampler", "ddim"}).exit_code, 0);
}

TEST(Checkpoint, OfAFlowModelRunsWhatIntegratesFlowsOnly) {
  const Pipeline pipeline;
  pipeline.replace(kScheduler,
                   R"({"_class_name": "FlowMatchEulerDiscreteScheduler",
                       "shift": 3.0})");
  for (const char* sampler :
       {"ddim", "ddpm", "pndm", "euler", "euler_a", "heun"}) {
    const Outcome refused = pipeline.sample({"--sampler", sampler});
    expect_refused(pipeline, refused, 2, "[--sampler]");
    EXPECT_NE(refused.err.find("flow_prediction"), std::string::npos)
        << refused.err;
    EXPECT_EQ(run({"schedule", "-m", pipeline.path(), "--sampler", sampler})
                  .exit_code,
              2)
        << sampler;
  }
  EXPECT_EQ(pipeline.sample().exit_code, 0);
  const Outcome taken =
      pipeline.sample({"--sampler", "unipc", "--exists", "replace", "--json"});
  EXPECT_EQ(taken.exit_code, 0) << taken.err;
  ASSERT_EQ(taken.json()["notes"].size(), 1U) << taken.err;
  EXPECT_NE(taken.json()["notes"][0].get<std::string>().find(
                "flow sigmas with the model's shift of 3"),
            std::string::npos)
      << taken.err;
  const Outcome said =
      pipeline.sample({"--sampler", "euler", "--prediction-type", "epsilon",
                       "--exists", "replace", "--json"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(said.json()["notes"].size(), 1U) << said.err;
}

TEST(Checkpoint, ThatPredictsNoiseWithoutASignalRunsIfItIsClipped) {
  const Pipeline pipeline;
  pipeline.replace(kScheduler, R"({"_class_name": "DDIMScheduler",
                                   "rescale_betas_zero_snr": true,
                                   "timestep_spacing": "trailing"})");
  for (const char* sampler : {"ddim", "ddpm"}) {
    const Outcome outcome = pipeline.sample({"--sampler", sampler});
    EXPECT_EQ(outcome.exit_code, 0) << sampler << outcome.err;
    std::filesystem::remove(pipeline.path("out.npz"));
    const Outcome refused =
        pipeline.sample({"--sampler", sampler, "--clip-sample", "false"});
    expect_refused(pipeline, refused, 2, "no signal is left");
  }
}

TEST(Checkpoint, WithTimestepsSaysThatTheLevelAfterThemIsZero) {
  const Pipeline pipeline;
  const auto noted = [&](const char* timesteps) {
    const Outcome outcome =
        run({"sample", "-m", pipeline.path(), "--timesteps", timesteps,
             "--class", "1", "--dtype", "f32", "--progress", "none", "--save",
             "latents=" + pipeline.path("out.npz"), "--exists", "replace",
             "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.json()["nfe"], 2);
    return outcome.json()["notes"].size();
  };
  EXPECT_EQ(noted("900,500"), 1U);
  EXPECT_EQ(noted("900,0"), 0U);
}

TEST(Checkpoint, WithoutADecoderMakesNoPictures) {
  const Pipeline pipeline;
  expect_refused(pipeline, pipeline.sample({"-o", "never.png"}), 2,
                 "no autoencoder");
}

TEST(Checkpoint, RefusesANameOfSeveralClassesButTakesTheirNumbers) {
  const Pipeline pipeline;
  pipeline.replace("model_index.json",
                   R"({"_class_name": "DiTPipeline",
                       "id2label": {"0": "Crane, bird", "3": "crane"}})");
  expect_refused(pipeline, pipeline.sample({"--class", "crane"}), 2,
                 "several classes have the name 'crane': 0 (Crane, bird), 3 "
                 "(crane); give the number");
  EXPECT_EQ(pipeline.sample({"--class", "3"}).exit_code, 0);
}

TEST(Checkpoint, SuggestsTheNearestClass) {
  const Pipeline pipeline;
  expect_refused(pipeline, pipeline.sample({"--class", "tensh"}), 2,
                 "did you mean 'tench'?");
}

TEST(BadCheckpoint, OfPicklesNamesTheScriptThatIsThere) {
  const TempFolder folder;
  (void)folder.write("model.pt", "pickle");
  for (const char* verb : {"sample", "schedule"}) {
    const Outcome outcome = run({verb, "-m", folder.path()});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    const std::string end = " " + folder.path() + "\n";
    ASSERT_TRUE(outcome.err.ends_with(end)) << outcome.err;
    const std::size_t begin = outcome.err.find("; run: ") + 7;
    const std::string script =
        outcome.err.substr(begin, outcome.err.size() - end.size() - begin);
    EXPECT_TRUE(script.ends_with("/scripts/convert_checkpoint.py")) << script;
    EXPECT_TRUE(std::filesystem::exists(script)) << script;
  }
}

}  // namespace
}  // namespace troupe::test
