#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdlib>

#include "actors/artefacts/png.h"
#include "kernels/core/hash.h"
#include "tests/cli/npz_tensors.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(Sample, WritesAnImageThatCarriesItsRecipe) {
  const TempFolder folder;
  const Outcome outcome =
      run(tiny_sample({"-o", folder.path("a.png"), "--json", "--seed", "3"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = outcome.json();
  EXPECT_EQ(json["status"], "done");
  EXPECT_EQ(json["steps"], 4);
  EXPECT_EQ(json["images"].size(), 1U);
  const std::string file = folder.read("a.png");
  const actors::Image image = actors::decode_png("a.png", bytes_of(file));
  EXPECT_EQ(image.width, 16);
  const auto recipe = nlohmann::json::parse(image.recipe);
  EXPECT_EQ(recipe["seed"], 3);
  EXPECT_EQ(recipe["latents_xxh3"], json["images"][0]["latents_xxh3"]);
  EXPECT_EQ(recipe["execution_class"], json["execution_class"]);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.png"});
}

// jq 1.6 reads numbers as doubles.
TEST(Sample, SaysASeedAsATextToo) {
  const TempFolder folder;
  const char* const seed = "18446744073709551615";
  const std::string image = folder.path("a.png");
  const Outcome outcome =
      run(tiny_sample({"-o", image, "--json", "--seed", seed}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["images"][0]["seed_text"], seed);
  EXPECT_EQ(run({"inspect", image, "--json"}).json()["items"][0]["seed_text"],
            seed);
  EXPECT_EQ(run(tiny_sample({"--print-job", "--json", "--seed", seed}))
                .json()["seed_text"],
            seed);
}

TEST(Sample, HashesTheLatentsItSaves) {
  const TempFolder folder;
  const Outcome outcome = run(tiny_sample(
      {"-n", "3", "--json", "--save", "latents=" + folder.path("a.npz")}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string file = folder.read("a.npz");
  const auto tensors = decode_npz("a.npz", bytes_of(file));
  ASSERT_EQ(tensors.size(), 1U);
  const Tensor& latents = tensors[0].tensor;
  EXPECT_EQ(latents.shape(), Shape({3, 3, 16, 16}));
  const nlohmann::json json = outcome.json();
  EXPECT_EQ(json["latents_xxh3"], to_hex(xxh3_64(latents.bytes())));
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(json["images"][static_cast<std::size_t>(i)]["latents_xxh3"],
              to_hex(xxh3_64(std::as_const(latents).item(i).bytes())));
  }
}

TEST(Sample, KeepsTheOthersWhenOneImageFails) {
  const TempFolder folder;
  // Finite, but the network's sums overflow.
  Tensor latents = Tensor::zeros({3, 3, 16, 16}, DType::f32);
  std::ranges::fill(latents.item(1).span<float>(), 3e38F);
  const std::vector<std::byte> file =
      actors::encode_npz(std::vector<NamedTensor>{{"latents", latents}});
  (void)folder.write("latents.npz",
                     {reinterpret_cast<const char*>(file.data()), file.size()});
  const Outcome outcome = run(tiny_sample(
      {"-n", "3", "--class", "1", "--init-latents", folder.path("latents.npz"),
       "-o", folder.path("out"), "--json"}));
  EXPECT_EQ(outcome.exit_code, 7) << outcome.err;
  EXPECT_NE(outcome.err.find("1 of 3 images failed, the first is 1: "),
            std::string::npos)
      << outcome.err;
  const nlohmann::json json = outcome.json();
  EXPECT_EQ(json["exit_code"], 7);
  EXPECT_EQ(json["status"], "failed");
  EXPECT_EQ(json["error"]["code"], "items_failed");
  std::vector<std::string> statuses;
  for (const auto& image : json["images"]) {
    statuses.push_back(image["status"]);
  }
  EXPECT_EQ(statuses, (std::vector<std::string>{"done", "failed", "done"}));
  EXPECT_NE(json["images"][1]["message"], "");
  EXPECT_EQ(std::distance(
                std::filesystem::directory_iterator(folder.path("out")), {}),
            2);
}

TEST(Sample, GoesOnWhereTheFirstImagesFail) {
  const TempFolder folder;
  Tensor latents = Tensor::zeros({5, 3, 16, 16}, DType::f32);
  for (const int failing : {0, 1, 2, 3}) {
    std::ranges::fill(latents.item(failing).span<float>(), 3e38F);
  }
  const std::vector<std::byte> file =
      actors::encode_npz(std::vector<NamedTensor>{{"latents", latents}});
  (void)folder.write("latents.npz",
                     {reinterpret_cast<const char*>(file.data()), file.size()});
  const Outcome outcome =
      run(tiny_sample({"-n", "5", "--class", "1", "--init-latents",
                       folder.path("latents.npz"), "-o", folder.path("out")}));
  EXPECT_EQ(outcome.exit_code, 7) << outcome.err;
  EXPECT_NE(outcome.err.find("4 of 5 images failed, the first is 0: "),
            std::string::npos)
      << outcome.err;
}

TEST(Sample, AnArrayOfRangesMakesTheFilesOfOneRun) {
  const TempFolder whole;
  const TempFolder parts;
  ASSERT_EQ(run(tiny_sample({"-n", "0:4", "-o", whole.path()})).exit_code, 0);
  ASSERT_EQ(run(tiny_sample({"-n", "0:1", "-o", parts.path()})).exit_code, 0);
  ASSERT_EQ(run(tiny_sample({"-n", "1:4", "-o", parts.path(), "--workers", "1",
                             "--threads", "2"}))
                .exit_code,
            0);
  ASSERT_EQ(whole.names().size(), 4U);
  EXPECT_EQ(parts.names(), whole.names());
  expect_files_of(whole, parts);
}

TEST(Sample, ExactMethodsWriteTheSameBytes) {
  const TempFolder folder;
  ASSERT_EQ(run(tiny_sample({"--method", "sequential", "-n", "2", "-o",
                             folder.path("sequential-{index}.png")}))
                .exit_code,
            0);
  for (const std::vector<std::string>& method :
       {std::vector<std::string>{"batch"},
        {"cfg"},
        {"picard", "--window", "3", "--tolerance", "0"},
        {"pipeline", "--segments", "2"},
        {"stale", "--segments", "2", "--ages", "0"}}) {
    std::vector<std::string> more = {
        "-n", "2", "-o", folder.path(method[0] + "-{index}.png"), "--method"};
    more = overridden(std::move(more), method);
    const Outcome outcome = run(tiny_sample(more));
    ASSERT_EQ(outcome.exit_code, 0) << method[0] << outcome.err;
    for (const char* index : {"0", "1"}) {
      EXPECT_EQ(folder.read(method[0] + "-" + index + ".png"),
                folder.read(std::string("sequential-") + index + ".png"))
          << method[0];
    }
  }
}

// The file holds the recipe, too: shards are no part of it.
TEST(Sample, ShardsWriteTheBytesOfOne) {
  const TempFolder folder;
  const auto draw = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--size",   "64",
                                    "-o",       folder.path("picture.png"),
                                    "--exists", "replace"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run(tiny_sample(all));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return folder.read("picture.png");
  };
  for (const std::vector<std::string>& method :
       {std::vector<std::string>{"--method", "sequential"},
        {"--method", "cfg"},
        {"--method", "picard", "--window", "3", "--tolerance", "0"},
        {"--method", "pipeline", "--segments", "2"}}) {
    const std::string alone = draw(method);
    for (const char* shards : {"2", "3"}) {
      std::vector<std::string> more = {"--shards", shards, "--threads", "1"};
      more.insert(more.end(), method.begin(), method.end());
      EXPECT_EQ(draw(more), alone) << method[1] << ", " << shards << " shards";
    }
  }
}

TEST(Sample, LeavesOutBlocksByACacheAndTheirBytesAreOne) {
  const TempFolder folder;
  const std::string picture = folder.path("picture.png");
  const auto draw = [&](const std::vector<std::string>& more, int reused) {
    std::vector<std::string> all = {"--steps", "6",        "-o",     picture,
                                    "--json",  "--exists", "replace"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run(tiny_sample(all));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.json()["nfe"], 6);
    EXPECT_EQ(outcome.json()["reused"], reused);
    return folder.read("picture.png");
  };
  const std::string exact = draw({}, 0);
  const std::string cached =
      draw({"--method", "sequential+cache", "--cache-threshold", "1e9"}, 4);
  EXPECT_NE(cached, exact);
  EXPECT_EQ(run({"verify", picture}).exit_code, 0);
  EXPECT_EQ(draw({"--method", "batch+cache", "--cache-threshold", "1e9",
                  "--threads", "2"},
                 4),
            cached);
  EXPECT_EQ(draw({"--method", "sequential+cache", "--cache-threshold", "0"}, 0),
            exact);
  const std::vector<std::string> windows = {
      "--method", "draft+cache", "--window", "2", "--cache-threshold", "1e9"};
  const std::string drafted = draw(windows, 4);
  std::vector<std::string> alone = windows;
  alone.insert(alone.end(), {"--workers", "1"});
  EXPECT_EQ(draw(alone, 4), drafted);
}

TEST(Sample, RefusesACacheInOneLineBeforeWork) {
  for (const auto& [more, said] :
       {std::pair<std::vector<std::string>, const char*>{
            {"--method", "cfg+cache"}, "sequential, batch"},
        {{"--method", "auto+cache"}, "sequential, batch"},
        {{"--method", "batch+cash"}, "expected one of cache"},
        {{"--method", "batch+cache", "--shards", "2"}, "[--shards]"},
        {{"--method", "batch", "--cache-threshold", "1"}, "NAME+cache"},
        {{"--method", "batch+cache", "--random-weights", "tiny-uvit"},
         "chain of blocks"}}) {
    const Outcome outcome = run(tiny_sample(more));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
  }
}

// Blocks belong to the job; shards, their plan and the method do not.
TEST(Sample, RingBlocksHaveTheirBytesWithAnyShards) {
  const TempFolder folder;
  const std::string picture = folder.path("picture.png");
  const auto draw = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--size", "64",       "-o",
                                    picture,  "--exists", "replace"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run(tiny_sample(all));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err.find("ring approximates") != std::string::npos,
              !more.empty());
    return folder.read("picture.png");
  };
  const std::string exact = draw({});
  const std::string two = draw({"--ring-blocks", "2"});
  const std::string four = draw({"--ring-blocks", "4"});
  EXPECT_NE(two, exact);
  EXPECT_NE(four, exact);
  EXPECT_NE(four, two);
  for (const std::vector<std::string>& same :
       {std::vector<std::string>{"--shard-plan", "ring", "--shards", "4"},
        {"--shard-plan", "ring", "--shards", "3", "--ring-blocks", "4"},
        {"--shard-plan", "ulysses", "--shards", "2", "--ring-blocks", "4"},
        {"--method", "pipeline", "--segments", "2", "--ring-blocks", "4"},
        {"--workers", "2", "--method", "cfg", "--ring-blocks", "4"}}) {
    std::vector<std::string> more = {"--threads", "1"};
    more.insert(more.end(), same.begin(), same.end());
    EXPECT_EQ(draw(more), four) << same[1];
  }
  const auto again = [&](std::vector<std::string> more) {
    more = overridden({"sample", "--from", picture, "-o",
                       folder.path("again.png"), "--random-weights", "dit-tiny",
                       "--exists", "replace", "--threads", "1"},
                      more);
    const Outcome outcome = run(more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return folder.read("again.png");
  };
  EXPECT_EQ(again({}), four);
  EXPECT_EQ(again({"--shard-plan", "ring", "--shards", "2"}), four);
  EXPECT_EQ(again({"--ring-blocks", "1"}), exact);
  const Outcome job =
      run(tiny_sample({"--size", "64", "--ring-blocks", "4", "--print-job"}));
  EXPECT_NE(job.out.find("\"ring_blocks\": 4"), std::string::npos) << job.out;
}

TEST(Sample, RefusesShardsThatCannotBe) {
  const TempFolder folder;
  const auto refusal = [&](const std::vector<std::string>& more) {
    const Outcome outcome =
        run(tiny_sample(overridden({"-o", folder.path("picture.png")}, more)));
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(folder.names().empty());
    return outcome.err;
  };
  const auto expect_refusal = [&](const std::vector<std::string>& more,
                                  const std::string& line) {
    const std::string got = refusal(more);
    EXPECT_NE(got.find(line), std::string::npos) << got;
  };
  expect_refusal({"--size", "64", "--shards", "9"},
                 "[--shards] got 9, expected at most 8");
  expect_refusal({"--shards", "0"}, "[--shards]");
  expect_refusal({"--random-weights", "tiny-sd15", "-p", "a", "--size", "32",
                  "--shards", "3"},
                 "[--shards] got 3, expected at most 2");
  expect_refusal({"--shard-plan", "ring"},
                 "[--shard-plan] got ring without blocks: there is one shard");
  expect_refusal(
      {"--shard-plan", "ring", "--shards", "2", "--ring-blocks", "1"},
      "[--shard-plan] got ring without blocks: there is --ring-blocks 1");
  expect_refusal({"--size", "64", "--ring-blocks", "17"},
                 "[--ring-blocks] got 17 blocks of keys, expected at most 16 "
                 "for pictures of this size");
  expect_refusal({"--ring-blocks", "0"}, "[--ring-blocks]");
}

TEST(Sample, CutsTheNetworkByTheSpeedsOfItsWorkers) {
  const TempFolder folder;
  const auto latents = [&folder](std::vector<std::string> method) {
    method.insert(method.end(),
                  {"-o", folder.path("speeds.png"), "--exists", "replace"});
    const Outcome outcome = run(tiny_sample(method));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json()["latents_xxh3"];
  };
  const auto stale =
      latents({"--method", "stale", "--stale-at", "cuts", "--json"});
  const auto unequal = latents({"--method", "stale", "--stale-at", "cuts",
                                "--segment-speeds", "1,3", "--json"});
  EXPECT_NE(unequal, stale);
  EXPECT_EQ(run({"sample", "--from", folder.path("speeds.png"), "-o",
                 folder.path("again.png"), "--random-weights", "dit-tiny"})
                .exit_code,
            0);
  EXPECT_EQ(folder.read("again.png"), folder.read("speeds.png"));
  // The bytes of an exact method do not depend on where it is cut.
  EXPECT_EQ(
      latents({"--method", "pipeline", "--segment-speeds", "1,3", "--json"}),
      latents({"--method", "sequential", "--json"}));
}

TEST(Sample, KeepsOrReplacesOrRefusesWhatIsThere) {
  const TempFolder folder;
  const std::string mine = folder.write("00000.png", "mine");
  const Outcome refused = run(tiny_sample({"-n", "2", "-o", folder.path()}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"00000.png"});
  const Outcome foreign =
      run(tiny_sample({"-n", "2", "-o", folder.path(), "--exists", "skip"}));
  EXPECT_EQ(foreign.exit_code, 6) << "it is no picture";
  EXPECT_EQ(folder.read("00000.png"), "mine");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"00000.png"});
  const Outcome replaced = run(tiny_sample(
      {"-n", "1", "-o", folder.path() + "/", "--exists", "replace", "--json"}));
  EXPECT_EQ(replaced.exit_code, 0);
  const std::string first = folder.read("00000.png");
  const auto file = std::filesystem::last_write_time(mine);
  const Outcome skipped = run(tiny_sample(
      {"-n", "2", "-o", folder.path(), "--exists", "skip", "--json"}));
  EXPECT_EQ(skipped.exit_code, 0) << skipped.err;
  EXPECT_EQ(skipped.json()["images"][0]["status"], "skipped");
  EXPECT_EQ(skipped.json()["images"][0]["latents_xxh3"],
            replaced.json()["images"][0]["latents_xxh3"]);
  EXPECT_EQ(skipped.json()["images"][1]["status"], "done");
  EXPECT_EQ(folder.read("00000.png"), first);
  EXPECT_EQ(std::filesystem::last_write_time(mine), file);
  const Outcome again = run(tiny_sample(
      {"-n", "2", "-o", folder.path(), "--exists", "skip", "--json"}));
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_EQ(again.json()["nfe"], 0);
}

TEST(Sample, WritesOverNothingUnlessTold) {
  const TempFolder folder;
  const std::string mine = folder.write("mine.png", "mine");
  for (const char* flag : {"--grid", "--preview", "--trace", "--out"}) {
    const Outcome outcome = run(
        overridden(tiny_sample({"-o", folder.path("a.png")}), {flag, mine}));
    EXPECT_EQ(outcome.exit_code, 2) << flag;
    EXPECT_NE(outcome.err.find("--exists replace"), std::string::npos) << flag;
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"mine.png"});
  EXPECT_EQ(folder.read("mine.png"), "mine");
}

TEST(Sample, SeesAFolderInAnImagesPlaceBeforeItWorks) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.path("00001.png"));
  for (const char* policy : {"error", "skip", "replace"}) {
    const Outcome outcome =
        run(tiny_sample({"-n", "2", "-o", folder.path(), "--exists", policy}));
    EXPECT_EQ(outcome.exit_code, 2) << policy;
    EXPECT_NE(outcome.err.find("not a regular file"), std::string::npos)
        << outcome.err;
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"00001.png"});
}

TEST(Sample, LeavesNoFolderBehindWhenItComesToNothing) {
  const TempFolder folder;
  const Outcome outcome =
      run(tiny_sample({"-n", "2", "-o", folder.path("new"), "--dry-run"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(folder.names().empty());
}

TEST(Sample, SaysThatAFileIsNoFolder) {
  const TempFolder folder;
  const std::string file = folder.write("file", "mine");
  const Outcome outcome = run(tiny_sample({"-n", "2", "-o", file}));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("a file is there, not a folder"),
            std::string::npos)
      << outcome.err;
}

/// The built program by a shell, which can close and fill its descriptors.
int by_shell(const TempFolder& folder, const std::string& redirection) {
  const std::string command =
      program_path() +
      " sample --random-weights dit-tiny --steps 4 --dtype f32 --workers 2 "
      "--threads 1 -n 4 --exists replace --progress plain -o " +
      folder.path("out") + " " + redirection;
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Sample, GoesOnWhenNobodyListens) {
  const TempFolder folder;
  for (const char* redirection :
       {">/dev/null 2>&-", ">/dev/null 2>/dev/full", "<&- >/dev/null 2>&-"}) {
    EXPECT_EQ(by_shell(folder, redirection), 0) << redirection;
  }
  EXPECT_EQ(by_shell(folder, ">/dev/full 2>/dev/null"), 2);
  EXPECT_EQ(by_shell(folder, ">&- 2>&-"), 2);
  for (int i = 0; i < 4; ++i) {
    const std::string file =
        folder.read("out/0000" + std::to_string(i) + ".png");
    EXPECT_EQ(actors::decode_png("out", bytes_of(file)).width, 16);
  }
}

TEST(Sample, IsRefusedBeforeItWorksWhereAFileOfRowsCannotBeWritten) {
  const TempFolder folder;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  // A file limit fails a write as a full disk does; children inherit it. The
  // archive of 40 latents is too long, an image is not.
  const rlimit lowered{rlim_t{16384}, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &lowered), 0);
  const Outcome outcome =
      run(tiny_sample({"-n", "40", "-o", folder.path("out"), "--save",
                       "latents=" + folder.path("latents.npz"), "--json"}));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("latents.npz"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("; raise the limit on the size of files"),
            std::string::npos);
  EXPECT_EQ(outcome.json()["images"].size(), 0U);
  EXPECT_TRUE(folder.names().empty());
  const Outcome again = run(tiny_sample(
      {"-n", "40", "-o", folder.path("out"), "--save",
       "latents=" + folder.path("latents.npz"), "--json", "--exists", "skip"}));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(folder.names().size(), 2U);
}

TEST(Sample, RepeatsAnImageFromItsRecipe) {
  const TempFolder folder;
  ASSERT_EQ(run(tiny_sample({"-o", folder.path("a-{index}.png"), "--class", "4",
                             "--seed", "9", "-n", "2:4", "--sampler", "dpm++2m",
                             "--guidance", "2.5"}))
                .exit_code,
            0);
  const Outcome again = run(
      {"sample", "--from", folder.path("a-3.png"), "-o", folder.path("b.png")});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(folder.read("b.png"), folder.read("a-3.png"));
}

TEST(Sample, SaysWhereHeunLeavesNoise) {
  const auto says = [](const std::vector<std::string>& more) {
    const Outcome outcome =
        run(overridden(tiny_sample({"--sampler", "heun", "--dry-run"}), more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.err.find("heun falls from noise level ") !=
           std::string::npos;
  };
  EXPECT_TRUE(says({"--steps", "10"}));
  EXPECT_TRUE(says({"--steps", "10", "--timestep-spacing", "linspace"}));
  EXPECT_FALSE(says({"--steps", "10", "--timestep-spacing", "trailing"}));
  EXPECT_FALSE(says({"--steps", "10", "--karras"}));
  EXPECT_FALSE(says({"--steps", "50"}));
  EXPECT_FALSE(says({"--steps", "10", "--sampler", "euler"}));
}

TEST(Sample, WritesSheetTraceAndTrajectory) {
  const TempFolder folder;
  const Outcome outcome =
      run(tiny_sample({"-n", "3", "--grid", folder.path("grid.png"), "--trace",
                       folder.path("trace.json"), "--save",
                       "trajectory=" + folder.path("t.npz"), "--preview",
                       folder.path("p.png"), "--preview-every", "2"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string grid = folder.read("grid.png");
  EXPECT_EQ(actors::decode_png("grid", bytes_of(grid)).width, 2 * 16 + 6);
  const auto trace = nlohmann::json::parse(folder.read("trace.json"));
  EXPECT_GT(trace["traceEvents"].size(), 12U);
  const std::string archive = folder.read("t.npz");
  const auto tensors = decode_npz("t", bytes_of(archive));
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0].name, "trajectory");
  EXPECT_EQ(tensors[0].tensor.shape(), Shape({3, 5, 3, 16, 16}));
  const std::string preview = folder.read("p.png");
  EXPECT_EQ(actors::decode_png("p", bytes_of(preview)).width, 16);
}

TEST(Sample, ChoosesADtypeThatTheMatrixLibraryHas) {
  const TempFolder folder;
  const Outcome outcome = run(
      tiny_sample({"--dtype", "auto", "-o", folder.path("a.png"), "--json"}),
      {"ONEDNN_MAX_CPU_ISA=AVX2"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["dtype"], "f32");
}

TEST(Sample, WritesPreviewsWithoutATrajectory) {
  const TempFolder folder;
  const Outcome outcome =
      run(tiny_sample({"-o", folder.path("a.png"), "--preview",
                       folder.path("p.png"), "--preview-every", "2"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string preview = folder.read("p.png");
  EXPECT_EQ(actors::decode_png("p", bytes_of(preview)).width, 16);
}

TEST(Sample, DryRunComputesAndWritesNothing) {
  const TempFolder folder;
  const Outcome outcome = run({"sample", "--random-weights", "dit-xl-2-512",
                               "--dry-run", "-o", folder.path("a.png")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("GiB needed"), std::string::npos);
  EXPECT_TRUE(folder.names().empty());
}

TEST(Sample, DecodesThroughAnAutoencoder) {
  const TempFolder folder;
  const Outcome outcome = run(tiny_sample(
      {"--random-weights", "dit-tiny-vae", "-o", folder.path("a.png")}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string file = folder.read("a.png");
  EXPECT_EQ(actors::decode_png("a.png", bytes_of(file)).width, 16);
}

}  // namespace
}  // namespace troupe::test
