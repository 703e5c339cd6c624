// Checkpoints whose tensors contradict their configuration, and valid
// checkpoints that look odd.
#include <fstream>

#include "tests/cli/pipeline.h"

namespace troupe::test {
namespace {

TEST(ForeignTensors, OfMoreBlocksThanTheConfigHasAreRefused) {
  const Pipeline pipeline;
  pipeline.set(kTransformer, "num_layers", 1);
  const Outcome outcome = pipeline.sample();
  expect_refused(pipeline, outcome, 6,
                 "got 'transformer_blocks.1.attn1.to_k.bias', "
                 "'transformer_blocks.1.attn1.to_k.weight', "
                 "'transformer_blocks.1.attn1.to_out.0.bias', … (");
  EXPECT_EQ(run({"inspect", pipeline.path()}).exit_code, 6);
}

TEST(ForeignTensors, OfWhatTheConfigSwitchesOffAreRefused) {
  const Pipeline pipeline;
  pipeline.set(kTransformer, "attention_bias", false);
  expect_refused(pipeline, pipeline.sample(), 6, "attn1.to_k.bias");
  const Pipeline affine;
  affine.add_tensor(kWeights, "transformer_blocks.0.norm3.weight");
  expect_refused(affine, affine.sample(), 6, "norm3.weight");
}

TEST(ForeignTensors, OfADecoderAreRefusedToo) {
  const Pipeline pipeline;
  pipeline.add_vae("vae_default");
  EXPECT_EQ(pipeline.sample().exit_code, 0);
  const Pipeline other;
  other.add_vae("vae_default");
  other.set("vae/config.json", "mid_block_add_attention", false);
  expect_refused(other, other.sample(), 6,
                 "decoder.mid_block.attentions.0.group_norm.bias");
}

TEST(ForeignTensors, OfTheEncoderBelongToTheClass) {
  const Pipeline pipeline;
  pipeline.add_vae("vae_default");
  for (const char* name :
       {"encoder.conv_in.weight", "encoder.conv_norm_out.bias",
        "encoder.conv_out.bias", "encoder.mid_block.resnets.0.conv1.weight",
        "encoder.down_blocks.1.resnets.0.norm1.weight",
        "encoder.down_blocks.0.downsamplers.0.conv.weight",
        "quant_conv.weight"}) {
    pipeline.add_tensor(kVaeWeights, name);
  }
  const Outcome outcome = pipeline.sample();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  pipeline.set("vae/config.json", "use_quant_conv", false);
  EXPECT_EQ(pipeline.sample().exit_code, 6);
}

TEST(ForeignTensors, OfOldDecodersHaveOldNames) {
  const Pipeline pipeline;
  pipeline.add_vae("vae_legacy");
  const Outcome outcome = pipeline.sample();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST(ForeignTensors, ThatSaversLeaveBehindAreSaidWithVerbose) {
  const Pipeline pipeline;
  for (const char* name :
       {"pos_embed.pos_embed", "embeddings.position_ids",
        "ema.transformer_blocks.9.ff.net.2.bias", "model_ema.decay"}) {
    pipeline.add_tensor(kWeights, name);
  }
  const Outcome silent = pipeline.sample();
  EXPECT_EQ(silent.exit_code, 0) << silent.err;
  EXPECT_EQ(silent.err, "");
  const Outcome said = pipeline.sample({"-v", "--exists", "replace"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_NE(said.err.find("4 tensors are not used"), std::string::npos)
      << said.err;
}

TEST(Weights, OfAnotherRankAreRefused) {
  const Pipeline pipeline;
  pipeline.edit_header(kWeights, [](nlohmann::json& header) {
    header["transformer_blocks.0.attn1.to_q.weight"]["shape"].push_back(1);
  });
  expect_refused(pipeline, pipeline.sample(), 6,
                 "'transformer_blocks.0.attn1.to_q.weight': got shape "
                 "[16, 16, 1], expected [16, 16]");
}

TEST(Weights, OfOldAttentionMayBeConvolutions) {
  const auto shaped = [](std::vector<int> more) {
    const Pipeline pipeline;
    pipeline.add_vae("vae_legacy");
    pipeline.edit_header(kVaeWeights, [&](nlohmann::json& header) {
      for (const int extent : more) {
        header["decoder.mid_block.attentions.0.query.weight"]["shape"]
            .push_back(extent);
      }
    });
    return run({"sample", "-m", pipeline.path(), "--steps", "2", "--class", "1",
                "--progress", "none", "-o", pipeline.path("a.png")});
  };
  EXPECT_EQ(shaped({1, 1}).exit_code, 0);
  EXPECT_EQ(shaped({1}).exit_code, 6);
  EXPECT_EQ(shaped({1, 1, 1}).exit_code, 6);
}

TEST(Numbers, ThatEndAsNanAreRefused) {
  const auto with = [](const char* file, const char* key, const char* value) {
    const Pipeline pipeline;
    pipeline.add_vae("vae_default");
    pipeline.set(file, key, nlohmann::json::parse(value));
    return pipeline.sample();
  };
  for (const char* eps : {"-1", "-1e-5", "-1e30", "\"x\""}) {
    EXPECT_EQ(with(kTransformer, "norm_eps", eps).exit_code, 6) << eps;
  }
  EXPECT_EQ(with(kTransformer, "norm_eps", "0").exit_code, 0);
  for (const char* factor : {"0", "0.0", "-0.0", "1e-60", "\"1\""}) {
    EXPECT_EQ(with("vae/config.json", "scaling_factor", factor).exit_code, 6)
        << factor;
  }
  for (const char* heads : {"-1", "0", "1.5"}) {
    EXPECT_EQ(with(kTransformer, "num_attention_heads", heads).exit_code, 6)
        << heads;
  }
}

TEST(SchedulerFile, ThatIsEmptyIsCorrupt) {
  const Pipeline pipeline;
  for (const char* text : {"", " \n"}) {
    pipeline.replace(kScheduler, text);
    expect_refused(pipeline, pipeline.sample({"-q"}), 6, kScheduler);
    expect_refused(pipeline, pipeline.sample({"--sampler", "ddim"}), 6,
                   kScheduler);
    EXPECT_EQ(run({"inspect", pipeline.path()}).exit_code, 6);
  }
}

/// Every JSON file of a pipeline, and the header of its weights.
TEST(Checkpoint, WithManyLevelsInAFileIsCorrupt) {
  // sampling.json has 64 KiB at most.
  constexpr int kLevels = 10'000;
  const std::string deep =
      "\"_z\": " + std::string(kLevels, '[') + std::string(kLevels, ']') + ", ";
  std::string tables = "\"_z\": ";
  for (int i = 0; i < kLevels; ++i) {
    tables += "{\"a\":";
  }
  tables += "1" + std::string(kLevels, '}') + ", ";
  const TempFolder folder;
  std::filesystem::copy(TROUPE_GOLDEN "/pipeline_sd15", folder.path("m"),
                        std::filesystem::copy_options::recursive);
  const auto expect_corrupt = [&](const std::string& file) {
    const Outcome outcome = run({"sample", "-m", folder.path("m"), "--prompt",
                                 "a fox", "--dry-run", "--progress", "none"});
    EXPECT_EQ(outcome.exit_code, 6) << file << outcome.err;
    EXPECT_NE(outcome.err.find(file), std::string::npos) << outcome.err;
  };
  (void)folder.write("m/sampling.json", "{\"steps\": 3}");
  for (const char* name :
       {"model_index.json", "sampling.json", "scheduler/scheduler_config.json",
        "unet/config.json", "vae/config.json", "text_encoder/config.json",
        "tokenizer/tokenizer.json", "tokenizer/tokenizer_config.json"}) {
    const std::string file = name;
    const std::string good = folder.read("m/" + file);
    for (const std::string& key : {deep, tables}) {
      std::string bad = good;
      (void)folder.write("m/" + file, bad.insert(bad.find('{') + 1, key));
      expect_corrupt(file);
    }
    (void)folder.write("m/" + file, good);
  }
  const std::string weights = "unet/diffusion_pytorch_model.safetensors";
  const std::string header = "{" + deep + "\"b\": {}}";
  const std::uint64_t size = header.size();
  std::string bytes(sizeof size, 0);
  std::memcpy(bytes.data(), &size, sizeof size);
  (void)folder.write("m/" + weights, bytes + header);
  expect_corrupt(weights);
}

TEST(SchedulerFile, WithAKeyTwiceIsCorrupt) {
  const Pipeline pipeline;
  pipeline.replace(kScheduler,
                   R"({"_class_name": "DDIMScheduler", "beta_end": 0.02,
                       "beta_end": 0.03})");
  expect_refused(pipeline, pipeline.sample(), 6, "duplicate key 'beta_end'");
  pipeline.replace(kScheduler,
                   R"({"_class_name": "DDIMScheduler",
                       "x": {"a": 1, "a": 2}})");
  expect_refused(pipeline, pipeline.sample(), 6, "duplicate key 'a'");
  pipeline.replace(kScheduler, R"({"_class_name": "DDIMScheduler", "x": )" +
                                   std::string(100'000, '['));
  expect_refused(pipeline, pipeline.sample(), 6, "nested too deeply");
}

TEST(Variants, ThatStandAloneAreUsedAndNamed) {
  const Pipeline pipeline;
  EXPECT_EQ(pipeline.sample().exit_code, 0);
  const std::string plain = pipeline.file("out.npz");
  std::filesystem::rename(
      pipeline.path(kWeights),
      pipeline.path("transformer/diffusion_pytorch_model.fp16.safetensors"));
  const Outcome outcome = pipeline.sample({"--json", "--exists", "replace"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(pipeline.file("out.npz"), plain);
  ASSERT_EQ(outcome.json()["notes"].size(), 1U);
  const auto note = outcome.json()["notes"][0].get<std::string>();
  EXPECT_NE(note.find("only the variant fp16"), std::string::npos) << note;
  EXPECT_NE(outcome.err.find(note), std::string::npos) << outcome.err;
}

TEST(Variants, OfShardsAreFoundByDiffusersName) {
  for (const char* index :
       {"diffusion_pytorch_model.safetensors.index.fp16.json",
        "diffusion_pytorch_model.fp16.safetensors.index.json"}) {
    const Pipeline pipeline;
    const std::string shard =
        "diffusion_pytorch_model.fp16-00001-of-00001.safetensors";
    std::filesystem::rename(pipeline.path(kWeights),
                            pipeline.path("transformer/" + shard));
    nlohmann::json weight_map;
    pipeline.edit_header("transformer/" + shard, [&](nlohmann::json& header) {
      for (const auto& item : header.items()) {
        if (item.key() != "__metadata__") {
          weight_map[item.key()] = shard;
        }
      }
    });
    pipeline.replace(std::string("transformer/") + index,
                     nlohmann::json{{"weight_map", weight_map}}.dump());
    const Outcome outcome = pipeline.sample();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("variant fp16"), std::string::npos)
        << outcome.err;
  }
}

TEST(Variants, GiveWayToThePlainWeights) {
  const Pipeline pipeline;
  pipeline.replace("transformer/diffusion_pytorch_model.fp16.safetensors",
                   "not weights");
  const Outcome outcome = pipeline.sample();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
}

TEST(Variants, OfADecoderAreUsedToo) {
  const Pipeline pipeline;
  pipeline.add_vae("vae_default");
  std::filesystem::rename(
      pipeline.path(kVaeWeights),
      pipeline.path("vae/diffusion_pytorch_model.bf16.safetensors"));
  const Outcome outcome = pipeline.sample();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("variant bf16"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace troupe::test
