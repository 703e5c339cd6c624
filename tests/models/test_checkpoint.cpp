#include <sys/stat.h>
#include <unistd.h>

#include "kernels/core/system/atomic_file.h"
#include "models/dit/dit.h"
#include "models/files/checkpoint.h"
#include "models/files/checkpoint_files.h"
#include "models/files/weight_source.h"
#include "tests/models/helpers.h"
#include "tests/models/loading.h"

namespace troupe::models {
namespace {

namespace fs = std::filesystem;

/// A diffusers folder around the repository's tiny DiT.
void make_pipeline(const TemporaryFolder& folder) {
  const fs::path golden = fs::path(TROUPE_GOLDEN_DIR) / "dit_default";
  fs::create_directories(folder.path() / "transformer");
  for (const char* name :
       {"config.json", "diffusion_pytorch_model.safetensors"}) {
    fs::copy_file(golden / name, folder.path() / "transformer" / name);
  }
  folder.write("model_index.json",
               R"({"_class_name":"DiTPipeline",
                   "id2label":{"0":"tench, Tinca tinca","4":"hen","7":"hen, chicken"}})");
  folder.write("scheduler/scheduler_config.json",
               R"({"_class_name":"DDIMScheduler"})");
}

TEST(Checkpoint, OpensAPipelineFolder) {
  const TemporaryFolder folder;
  make_pipeline(folder);
  const Checkpoint checkpoint = open_checkpoint(folder.path());
  EXPECT_EQ(checkpoint.pipeline_class, "DiTPipeline");
  EXPECT_EQ(checkpoint.denoiser.class_name, "DiTTransformer2DModel");
  EXPECT_TRUE(contains(checkpoint.scheduler_config, "DDIMScheduler"));
  EXPECT_FALSE(checkpoint.vae);
  EXPECT_GT(checkpoint.stored_bytes(), 10'000U);
}

TEST(Checkpoint, ReadsClassNamesWithTheirSynonyms) {
  const TemporaryFolder folder;
  make_pipeline(folder);
  const Checkpoint checkpoint = open_checkpoint(folder.path());
  EXPECT_EQ(checkpoint.class_ids.at("tench"), std::set<std::int64_t>{0});
  EXPECT_EQ(checkpoint.class_ids.at("Tinca tinca"), std::set<std::int64_t>{0});
  EXPECT_EQ(checkpoint.class_ids.at("hen"), (std::set<std::int64_t>{4, 7}));
  EXPECT_EQ(checkpoint.class_names.at(0), "tench, Tinca tinca");
}

TEST(Checkpoint, ListsWhatACopyNeeds) {
  const TemporaryFolder folder;
  make_pipeline(folder);
  for (const char* name :
       {"README.md", ".lock.json", "unet/config.json",
        "transformer/diffusion_pytorch_model.bin",
        "transformer/diffusion_pytorch_model.fp16.safetensors",
        "transformer/._config.json"}) {
    folder.write(name, "of no use");
  }
  // As in a cache of the Hub.
  const fs::path weights =
      folder.path() / "transformer/diffusion_pytorch_model.safetensors";
  fs::create_directories(folder.path() / "blobs");
  fs::rename(weights, folder.path() / "blobs/0123");
  fs::create_symlink("../blobs/0123", weights);
  EXPECT_EQ(files_of(open_checkpoint(folder.path())),
            (std::vector<fs::path>{
                "model_index.json", "scheduler/scheduler_config.json",
                "transformer/config.json",
                "transformer/diffusion_pytorch_model.safetensors"}));
  EXPECT_EQ(files_of(open_checkpoint(folder.path() / "transformer")),
            (std::vector<fs::path>{"config.json",
                                   "diffusion_pytorch_model.safetensors"}));
}

TEST(Checkpoint, OpensATransformerFolderAlone) {
  const Checkpoint checkpoint =
      open_checkpoint(fs::path(TROUPE_GOLDEN_DIR) / "dit_default");
  EXPECT_TRUE(checkpoint.scheduler_config.empty());
  ExecContext ctx;
  const auto denoiser = load_denoiser(ctx, checkpoint.denoiser, DType::f32);
  EXPECT_EQ(denoiser->info().blocks.size(), 2U);
}

TEST(Checkpoint, OpensTheVariantThatIsThere) {
  const TemporaryFolder folder;
  make_pipeline(folder);
  const auto at = folder.path() / "transformer";
  fs::rename(at / "diffusion_pytorch_model.safetensors",
             at / "diffusion_pytorch_model.fp16.safetensors");
  EXPECT_EQ(open_checkpoint(folder.path()).denoiser.variant, "fp16");
  fs::rename(at / "diffusion_pytorch_model.fp16.safetensors",
             at / "diffusion_pytorch_model.fp8.safetensors");
  EXPECT_EQ(error_of([&] { (void)open_checkpoint(folder.path()); }).code(),
            Errc::not_found);
}

/// Adds a copy of a file of weights as the only shard of an index. Returns the
/// shard's name.
std::string add_shard(const fs::path& folder, const std::string& file,
                      const std::string& stem, const std::string& index) {
  const std::string shard = stem + "-00001-of-00001.safetensors";
  fs::copy_file(folder / file, folder / shard);
  std::string map;
  const SafetensorsFile tensors(folder / shard);
  for (const SafetensorsEntry entry : tensors.header().entries) {
    map += (map.empty() ? "\"" : ",\"") + std::string(entry.name) + "\":\"" +
           shard + "\"";
  }
  std::ofstream(folder / index)
      << R"({"metadata":{},"weight_map":{)" + map + "}}";
  return shard;
}

std::string opened(const Component& component) {
  EXPECT_EQ(component.weights.files().size(), 1U);
  return component.weights.files().front()->path().filename();
}

/// What save_pretrained leaves when it is called a second time for smaller
/// shards.
TEST(Checkpoint, TakesShardsBeforeAWholeFileAsDiffusersDoes) {
  const std::string stem = "diffusion_pytorch_model";
  for (const char* index :
       {".safetensors.index.json", ".safetensors.index.fp16.json",
        ".safetensors.fp16.index.json", ".fp16.safetensors.index.json"}) {
    const TemporaryFolder folder;
    make_pipeline(folder);
    const fs::path at = folder.path() / "transformer";
    const std::string variant = contains(index, "fp16") ? ".fp16" : "";
    const std::string whole = stem + variant + ".safetensors";
    if (!variant.empty()) {
      fs::rename(at / (stem + ".safetensors"), at / whole);
    }
    const std::string shard = add_shard(at, whole, stem, stem + index);
    const Checkpoint checkpoint = open_checkpoint(folder.path());
    EXPECT_EQ(opened(checkpoint.denoiser), shard) << index;
    EXPECT_EQ(checkpoint.denoiser.passed_over, at / whole) << index;
    // A copy of the model has the opened files alone, and opens the same way.
    const std::vector<fs::path> files = files_of(checkpoint);
    EXPECT_EQ(std::ranges::count(files, fs::path("transformer") / shard), 1);
    EXPECT_EQ(std::ranges::count(files, fs::path("transformer") / whole), 0);
    EXPECT_EQ(
        std::ranges::count(files, fs::path("transformer") / (stem + index)), 1);
    fs::remove(at / shard);
    const Error error = error_of([&] { (void)open_checkpoint(folder.path()); });
    EXPECT_TRUE(contains(error.what(), shard)) << error.what();
    EXPECT_TRUE(contains(error.hint(), "remove " + stem + index))
        << error.hint();
  }
}

TEST(Checkpoint, TakesAVariantOnlyWithoutThePlainWeights) {
  const TemporaryFolder folder;
  make_pipeline(folder);
  const fs::path at = folder.path() / "transformer";
  const std::string whole = "diffusion_pytorch_model.safetensors";
  (void)add_shard(at, whole, "diffusion_pytorch_model",
                  "diffusion_pytorch_model.safetensors.index.fp16.json");
  const Checkpoint checkpoint = open_checkpoint(folder.path());
  EXPECT_EQ(opened(checkpoint.denoiser), whole);
  EXPECT_EQ(checkpoint.denoiser.variant, "");
  EXPECT_TRUE(checkpoint.denoiser.passed_over.empty());
}

TEST(Checkpoint, TakesAWholeTextEncoderBeforeShardsAsTransformersDoes) {
  for (const std::string variant : {"", ".fp16"}) {
    const TemporaryFolder folder;
    make_pipeline(folder);
    folder.write("model_index.json",
                 R"({"_class_name":"StableDiffusionPipeline",
                     "text_encoder":["transformers","CLIPTextModel"]})");
    const fs::path at = folder.path() / "text_encoder";
    const fs::path golden = fs::path(TROUPE_GOLDEN_DIR) / "pipeline_sd15";
    fs::copy(golden / "text_encoder", at);
    const std::string whole = "model" + variant + ".safetensors";
    if (!variant.empty()) {
      fs::rename(at / "model.safetensors", at / whole);
    }
    const std::string index = "model.safetensors.index" + variant + ".json";
    const std::string shard = add_shard(at, whole, "model", index);
    const auto encoder = [&] {
      return open_checkpoint(folder.path()).text_encoders.at("text_encoder");
    };
    EXPECT_EQ(opened(*encoder()), whole);
    EXPECT_EQ(encoder()->passed_over, at / index);
    fs::remove(at / whole);
    EXPECT_EQ(opened(*encoder()), shard);
  }
}

TEST(Checkpoint, LeavesOutWhatThePipelineIgnoresOfTheAutoencoder) {
  const std::string keys =
      R"("scaling_factor":0.5,"shift_factor":0.1,"latents_mean":[1,2,3,4],)"
      R"("latents_std":[1,2,3,4])";
  const std::vector<std::string> all = {"shift_factor", "latents_mean",
                                        "latents_std"};
  const auto ignored = [&](const std::string& index, const std::string& vae) {
    const TemporaryFolder folder;
    make_pipeline(folder);
    folder.write("model_index.json", index);
    folder.write("vae/config.json",
                 R"({"_class_name":"AutoencoderKL",)" + vae + "}");
    folder.write("vae/diffusion_pytorch_model.safetensors",
                 file_bytes("{}", ""));
    const Component component = *open_checkpoint(folder.path()).vae;
    EXPECT_EQ(component.config.number("scaling_factor", 1.0), 0.5);
    for (const std::string& key : component.ignored_keys) {
      EXPECT_FALSE(component.config.has(key)) << key;
      EXPECT_FALSE(contains(component.config.canonical(), key)) << key;
    }
    return component.ignored_keys;
  };
  for (const char* pipeline :
       {"StableDiffusionPipeline", "PixArtSigmaPipeline", "DiTPipeline"}) {
    const std::string index =
        std::string(R"({"_class_name":")") + pipeline + "\"}";
    EXPECT_EQ(ignored(index, keys), all) << pipeline;
    // A key without a value is one of every file, and no news.
    EXPECT_TRUE(
        ignored(index, R"("scaling_factor":0.5,"shift_factor":null)").empty());
  }
  EXPECT_EQ(ignored(R"({"_class_name":"StableDiffusionXLPipeline"})", keys),
            std::vector<std::string>{"shift_factor"});
  // No pipeline says what counts.
  EXPECT_TRUE(ignored("{}", keys).empty());
}

TEST(Checkpoint, SaysWhatIsThereInsteadOfTheWeights) {
  struct Case {
    std::string there;
    std::string expected;
    std::string hint;
  };
  const std::string stem = "diffusion_pytorch_model";
  for (const Case& instead : std::vector<Case>{
           {stem + ".fp32.safetensors", stem + ".safetensors", "rename it"},
           {"model.safetensors", stem + ".safetensors", "rename it"},
           {stem + "-00001-of-00002.safetensors",
            stem + ".safetensors.index.json", "download the index"},
           {stem + ".safetensors.index.fp32.json",
            stem + ".safetensors.index.json", "rename it"},
           {stem + ".safetensors.incomplete", stem + ".safetensors",
            "an unfinished download: get it again"},
           {stem + ".safetensors.crdownload", stem + ".safetensors",
            "an unfinished download"},
           {stem + ".safetensors.part", stem + ".safetensors",
            "an unfinished download"},
           {"Unconfirmed 123.download", stem + ".safetensors",
            "an unfinished download"},
           {stem + ".safetensors.aria2", stem + ".safetensors",
            "an unfinished download"},
           {stem + ".bin.incomplete", stem + ".safetensors",
            "an unfinished download"},
           {"model.part.safetensors", stem + ".safetensors", "rename it"},
           {"optimizer.bin", stem + ".safetensors", "download"},
           {"diffusion_flax_model.msgpack", stem + ".safetensors",
            "download"}}) {
    const TemporaryFolder folder;
    make_pipeline(folder);
    const fs::path at = folder.path() / "transformer";
    fs::rename(at / (stem + ".safetensors"), at / instead.there);
    const Error error = error_of([&] { (void)open_checkpoint(folder.path()); });
    EXPECT_EQ(error.code(), Errc::not_found) << error.what();
    EXPECT_EQ(error.place(), at.string());
    EXPECT_TRUE(contains(error.what(), "got '" + instead.there + "'"))
        << error.what();
    EXPECT_TRUE(contains(error.what(), "expected " + instead.expected))
        << error.what();
    EXPECT_TRUE(contains(error.hint(), instead.hint)) << error.hint();
  }
}

TEST(Checkpoint, SaysWhereALinkToNothingLeads) {
  for (const char* name :
       {"transformer", "transformer/config.json", "model_index.json",
        "transformer/diffusion_pytorch_model.safetensors",
        "scheduler/scheduler_config.json", "scheduler"}) {
    const TemporaryFolder folder;
    make_pipeline(folder);
    const fs::path path = folder.path() / name;
    fs::remove_all(path);
    fs::create_symlink("../blobs/0123", path);
    const Error error = error_of([&] { (void)open_checkpoint(folder.path()); });
    EXPECT_EQ(error.code(), Errc::not_found) << error.what();
    EXPECT_TRUE(contains(error.what(), path.string() + " is a link to "
                                                       "../blobs/0123"))
        << error.what();
    EXPECT_FALSE(error.hint().empty());
  }
  const TemporaryFolder folder;
  fs::create_symlink("nowhere", folder.path() / "model");
  EXPECT_TRUE(contains(
      error_of([&] { (void)open_checkpoint(folder.path() / "model"); }).what(),
      "a link to nowhere"));
}

TEST(Checkpoint, SaysThatGitLeftAPointerToItsJson) {
  for (const char* name : {"transformer/config.json", "model_index.json",
                           "scheduler/scheduler_config.json"}) {
    const TemporaryFolder folder;
    make_pipeline(folder);
    folder.write(name, "version https://git-lfs.github.com/spec/v1\noid x\n");
    const Error error = error_of([&] { (void)open_checkpoint(folder.path()); });
    EXPECT_TRUE(contains(error.what(), (folder.path() / name).string()));
    EXPECT_TRUE(contains(error.what(), "Git LFS")) << error.what();
    EXPECT_TRUE(contains(error.hint(), "git lfs pull")) << error.hint();
  }
}

TEST(Checkpoint, OfACacheOfTheHubNamesTheSnapshot) {
  const TemporaryFolder folder;
  const fs::path cache = folder.path() / "models--a--b--c";
  fs::create_directories(cache / "snapshots");
  const auto refused = [](const fs::path& path) {
    return error_of([&] { (void)open_checkpoint(path); });
  };
  EXPECT_TRUE(contains(refused(cache).hint(), "hf download a/b--c"))
      << refused(cache).hint();
  for (const char* snapshot : {"0123", "4567"}) {
    folder.write(cache / "snapshots" / snapshot / "model_index.json", "{}");
  }
  EXPECT_EQ(refused(cache).hint(),
            "give " + (cache / "snapshots/0123").string());
  folder.write(cache / "refs/main", "4567");
  const Error error = refused(cache);
  EXPECT_TRUE(contains(error.what(), "a cache folder of the Hub"));
  EXPECT_EQ(error.hint(), "give " + (cache / "snapshots/4567").string());
  // A folder around the checkpoint's, whatever it is.
  EXPECT_TRUE(contains(refused(cache / "snapshots").hint(), "snapshots/"));
  EXPECT_TRUE(contains(refused(folder.path()).hint(), "snapshots/"));
}

TEST(Checkpoint, OfACacheOfTheHubThatHasNoSnapshotsSaysHowToDownloadIt) {
  for (const char* file : {"refs/main", "blobs/0123.incomplete", ".no_exist"}) {
    const TemporaryFolder folder;
    const fs::path cache = folder.path() / "models--a--b";
    folder.write(cache / file, "0123");
    for (const fs::path& path : {cache, cache / ""}) {
      const Error error = error_of([&] { (void)open_checkpoint(path); });
      EXPECT_EQ(error.code(), Errc::not_found);
      EXPECT_TRUE(contains(error.what(), "a cache folder of the Hub"))
          << error.what();
      EXPECT_TRUE(contains(error.what(), "none is there")) << error.what();
      EXPECT_EQ(error.hint(), "download it: hf download a/b --local-dir DIR");
    }
  }
}

TEST(Checkpoint, RefusesANetworkThatTakesMoreThanLatents) {
  const TemporaryFolder folder;
  for (const char* part : {"unet", "vae"}) {
    fs::create_directories(folder.path() / part);
    fs::copy(fs::path(TROUPE_GOLDEN_DIR) / "pipeline_sd15" / part,
             folder.path() / part);
  }
  const fs::path path = folder.path() / "unet/config.json";
  std::string config = read_file(path, 1U << 20U);
  const std::string before = R"("in_channels": 4)";
  config.replace(config.find(before), before.size(), R"("in_channels": 9)");
  folder.write(path, config);
  std::vector<std::string> notes;
  const Error error = error_of(
      [&] { (void)describe_model(open_checkpoint(folder.path()), notes); });
  EXPECT_EQ(error.code(), Errc::unsupported) << error.what();
  EXPECT_TRUE(contains(error.what(), "in_channels: got 9, expected"))
      << error.what();
  EXPECT_TRUE(contains(error.what(), "inpainting")) << error.what();
}

TEST(Checkpoint, RefusesPicklesWithTheCommandThatConvertsThem) {
  const TemporaryFolder folder;
  make_pipeline(folder);
  const auto at = folder.path() / "transformer";
  fs::rename(at / "diffusion_pytorch_model.safetensors",
             at / "diffusion_pytorch_model.bin");
  const Error error = error_of([&] { (void)open_checkpoint(folder.path()); });
  EXPECT_EQ(error.code(), Errc::unsupported);
  // One call converts every part of the folder.
  EXPECT_EQ(error.hint(),
            "run: convert_checkpoint.py " + folder.path().string());
}

TEST(Checkpoint, QuotesTheCommandForAShell) {
  const TemporaryFolder folder;
  folder.write("it's a model/x.pt", "pickle");
  const auto at = folder.path() / "it's a model";
  const Error error =
      error_of([&] { (void)open_checkpoint(at, "/my scripts/c.py"); });
  EXPECT_EQ(error.hint(), "run: '/my scripts/c.py' '" + folder.path().string() +
                              "/it'\\''s a model'");
}

TEST(Checkpoint, RefusesALonePickleWithTheCommandToo) {
  const TemporaryFolder folder;
  folder.write("DiT-XL-2-256x256.pt", "pickle");
  const Error error = error_of([&] { (void)open_checkpoint(folder.path()); });
  EXPECT_EQ(error.code(), Errc::unsupported);
  EXPECT_EQ(error.hint(),
            "run: convert_checkpoint.py " + folder.path().string());
}

TEST(Checkpoint, NamesWhatIsMissing) {
  const TemporaryFolder folder;
  EXPECT_EQ(
      error_of([&] { (void)open_checkpoint(folder.path() / "absent"); }).code(),
      Errc::not_found);
  EXPECT_EQ(error_of([&] { (void)open_checkpoint(folder.path()); }).code(),
            Errc::not_found);
  folder.write("unet/config.json", "{}");
  const Error error = error_of([&] { (void)open_checkpoint(folder.path()); });
  EXPECT_TRUE(contains(error.what(), "no weights")) << error.what();
  EXPECT_EQ(error.place(), (folder.path() / "unet").string());
}

TEST(Checkpoint, RefusesClassesNobodyWrote) {
  const TemporaryFolder folder;
  make_pipeline(folder);
  folder.write("transformer/config.json",
               R"({"_class_name":"SD3Transformer2DModel"})");
  const Checkpoint checkpoint = open_checkpoint(folder.path());
  ExecContext ctx;
  const Error error = error_of(
      [&] { (void)load_denoiser(ctx, checkpoint.denoiser, DType::f32); });
  EXPECT_EQ(error.code(), Errc::unsupported);
  EXPECT_TRUE(contains(error.what(), "SD3Transformer2DModel"));
}

TEST(Checkpoint, ConfigsThatDoNotFitTheWeightsAreRefusedBeforeLoading) {
  const TemporaryFolder folder;
  make_pipeline(folder);
  folder.write("transformer/config.json",
               R"({"_class_name":"DiTTransformer2DModel","num_layers":4096,
                   "num_attention_heads":1024,"attention_head_dim":1024})");
  const Checkpoint checkpoint = open_checkpoint(folder.path());
  ExecContext ctx;
  const Error error = error_of(
      [&] { (void)load_denoiser(ctx, checkpoint.denoiser, DType::f32); });
  EXPECT_EQ(error.code(), Errc::corrupt_file);
  EXPECT_TRUE(contains(error.what(), "pos_embed.proj.weight"));
}

TEST(Checkpoint, WeightsOfAnotherConfigAreCorruptWhateverTheyLack) {
  const TemporaryFolder folder;
  make_pipeline(folder);
  const Checkpoint checkpoint = open_checkpoint(folder.path());
  ExecContext ctx;
  FileWeights weights(ctx, checkpoint.denoiser.weights);
  const std::vector<TensorSpec> missing = {{"no.such.tensor", {1}}};
  const std::vector<TensorSpec> reshaped = {{"pos_embed.proj.weight", {1}}};
  for (const auto& specs : {missing, reshaped}) {
    const Error error = error_of([&] { weights.check(specs); });
    EXPECT_EQ(error.code(), Errc::corrupt_file) << error.what();
    EXPECT_EQ(exit_code(error.code()), 6);
    EXPECT_EQ(error.hint(), "the weights do not belong to this config.json");
  }
}

TEST(Checkpoint, RequiredBytesGrowWithRowsAndCoverTheWeights) {
  const TemporaryFolder folder;
  make_pipeline(folder);
  std::vector<std::string> notes;
  const ModelDescription model =
      describe_model(open_checkpoint(folder.path()), notes);
  EXPECT_TRUE(notes.empty());
  const Shape latents = model.denoiser->latent_shape();
  const NetworkMemory f32 = model.denoiser->memory(latents, DType::f32);
  const NetworkMemory bf16 = model.denoiser->memory(latents, DType::bf16);
  EXPECT_GT(f32.of_rows(2), f32.of_rows(1));
  EXPECT_LT(bf16.of_rows(1), f32.of_rows(1));
  EXPECT_LT(bf16.weights_bytes, f32.weights_bytes);
  EXPECT_GT(f32.weights_bytes, 10'000U);
}

TEST(Checkpoint, RequiredBytesCountLatentsThatNoWeightBounds) {
  // One token per side: no activations to speak of, but 256 MiB of latents.
  DitConfig config;
  config.num_attention_heads = 1;
  config.attention_head_dim = 4;
  config.num_layers = 1;
  config.in_channels = 1;
  config.out_channels = 1;
  config.patch_size = 256;
  config.sample_size = 8192;
  constexpr std::uint64_t kLatents = 256U << 20U;
  const NetworkMemory memory =
      describe(config)->memory(config.latent_shape(), DType::f32);
  EXPECT_LT(memory.weights_bytes, kLatents / 16);
  for (const std::uint64_t rows : {1U, 2U, 8U}) {
    // In and out, and before and after the step, at least.
    EXPECT_GT(memory.of_rows(static_cast<std::int64_t>(rows)),
              rows * 4 * kLatents);
  }
}

TEST(Checkpoint, RefusesPicturesBeyondAllUse) {
  const TemporaryFolder folder;
  make_pipeline(folder);
  (void)folder.write("vae/diffusion_pytorch_model.safetensors",
                     file_bytes("{}", ""));
  const auto refused = [&](const std::string& transformer,
                           const std::string& vae) {
    (void)folder.write("transformer/config.json", transformer);
    (void)folder.write("vae/config.json", vae);
    return error_of([&] {
      std::vector<std::string> notes;
      (void)describe_model(open_checkpoint(folder.path()), notes);
    });
  };
  const std::string dit =
      R"({"_class_name":"DiTTransformer2DModel","in_channels":4,)";
  const Error large =
      refused(dit + R"("sample_size":8192,"patch_size":256})",
              R"({"_class_name":"AutoencoderKL","latent_channels":4,
                  "block_out_channels":[32,32,32,32]})");
  EXPECT_EQ(large.code(), Errc::unsupported);
  EXPECT_TRUE(contains(large.what(), "65536 pixels a side"));
  const Error other =
      refused(dit + R"("sample_size":32})",
              R"({"_class_name":"AutoencoderKL","latent_channels":16})");
  EXPECT_EQ(other.code(), Errc::corrupt_file);
  EXPECT_TRUE(contains(other.what(), "latent_channels: got 16, expected 4"));
}

TEST(Checkpoint, RefusesWhatIsNoFileInsteadOfWaitingForIt) {
  for (const char* name : {"transformer/config.json", "model_index.json",
                           "transformer/diffusion_pytorch_model.safetensors"}) {
    const TemporaryFolder folder;
    make_pipeline(folder);
    const std::string path = (folder.path() / name).string();
    std::filesystem::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const Error error = error_of([&] { (void)open_checkpoint(folder.path()); });
    EXPECT_EQ(error.code(), Errc::io) << name;
    EXPECT_TRUE(contains(error.what(), path)) << error.what();
    EXPECT_TRUE(contains(error.what(), "not a regular file")) << error.what();
  }
}

/// Ends the process: 0 if opening `folder` without root's rights names `path`.
[[noreturn]] void open_as_a_stranger(const fs::path& folder,
                                     const std::string& path) {
  constexpr ::uid_t kNobody = 65534;
  if (::geteuid() == 0 && ::setuid(kNobody) != 0) {
    ::_exit(2);
  }
  try {
    (void)open_checkpoint(folder);
  } catch (const Error& error) {
    ::_exit(error.code() == Errc::io && contains(error.what(), path) &&
                    contains(error.what(), "Permission denied") &&
                    contains(error.hint(), "the right to read")
                ? 0
                : 1);
  }
  ::_exit(3);
}

TEST(CheckpointDeathTest, NamesTheFolderThatMayNotBeRead) {
  for (const char* name : {"", "transformer", "scheduler"}) {
    const TemporaryFolder folder;
    make_pipeline(folder);
    const fs::path closed = folder.path() / name;
    fs::permissions(folder.path(), fs::perms{0755});
    fs::permissions(closed, fs::perms{0});
    EXPECT_EXIT(open_as_a_stranger(folder.path(), closed.string()),
                testing::ExitedWithCode(0), "")
        << name;
    fs::permissions(closed, fs::perms{0700});
  }
}

TEST(Checkpoint, RequiredBytesOfAnXl2AreTwoPerParameter) {
  DitConfig config;
  config.out_channels = 8;
  const NetworkMemory memory =
      describe(config)->memory(config.latent_shape(), DType::bf16);
  // 675 million parameters.
  EXPECT_NEAR(static_cast<double>(memory.weights_bytes + memory.of_rows(2)),
              1.36e9, 0.08e9);
}

}  // namespace
}  // namespace troupe::models
