// From a prompt to a picture, with a tiny pipeline of random weights.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/cli/link_job.h"
#include "tests/cli/prompt_runs.h"

namespace troupe::test {
namespace {

/// Options that decide what is computed with.
struct Arithmetic {
  const char* dtype;
  Arguments more;
};
const Arithmetic kF32{"f32", {}};
const Arithmetic kF32OnAvx2{"f32", {"--isa", "avx2"}};
const Arithmetic kBf16{"bf16", {}};

Arguments three_foxes(const Arithmetic& arithmetic) {
  return joined(joined(kFox, {"-n", "3", "--dtype", arithmetic.dtype,
                              "--sampler", "ddim"}),
                arithmetic.more);
}

/// Hash of the latents of three foxes, drawn sequentially by one worker;
/// computed once. Empty if the processor lacks the arithmetic.
const std::string& sequential_latents(const std::string& model,
                                      const Arithmetic& arithmetic) {
  static std::map<Arguments, std::string> known;
  const Arguments job = three_foxes(arithmetic);
  const auto [at, is_new] = known.try_emplace(joined({model}, job));
  if (is_new) {
    const Outcome one = sample(
        joined(job, {"--method", "sequential", "--workers", "1"}), model);
    const bool may_lack = std::string(arithmetic.dtype) == "bf16";
    EXPECT_TRUE(one.exit_code == 0 || (may_lack && one.exit_code == 2))
        << one.err;
    if (one.exit_code == 0) {
      at->second = one.json()["latents_xxh3"];
    }
  }
  return at->second;
}

class PromptMethods : public testing::TestWithParam<
                          std::tuple<const char*, const char*, const char*>> {};

TEST_P(PromptMethods, GiveTheBytesOfOneWorker) {
  const auto& [model, method_name, workers] = GetParam();
  const std::string name = method_name;
  Arguments method = {"--method", name, "--workers", workers, "--threads", "1"};
  if (name == "pipeline") {
    // No network here has five parts.
    const std::string segments =
        std::string(workers) == "5" ? "3" : std::string(workers);
    method = joined(method, {"--segments", segments});
  } else if (name == "picard") {
    method = joined(method, {"--tolerance", "0"});
  }
  std::vector<Arithmetic> kinds = {kF32, kF32OnAvx2};
  if (workers == std::string("2") || workers == std::string("3")) {
    kinds.push_back(kBf16);
  }
  for (const Arithmetic& arithmetic : kinds) {
    const std::string& alone = sequential_latents(model, arithmetic);
    if (!alone.empty()) {
      EXPECT_EQ(
          done(joined(three_foxes(arithmetic), method), model)["latents_xxh3"],
          alone)
          << arithmetic.dtype << testing::PrintToString(arithmetic.more);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Methods, PromptMethods,
    testing::Combine(testing::Values(kPixArt, kStableDiffusion,
                                     kStableDiffusionXl),
                     testing::Values("batch", "cfg", "pipeline", "picard"),
                     testing::Values("1", "2", "3", "5")));

class PromptModels : public testing::TestWithParam<const char*> {};

/// The first process encodes; the others get conditions and need no encoder.
TEST_P(PromptModels, GoToWorkersOfOtherProcesses) {
  for (const Arguments& method :
       {Arguments{"--method", "batch"}, Arguments{"--method", "cfg"},
        Arguments{"--method", "picard"},
        Arguments{"--method", "pipeline", "--segments", "2"},
        Arguments{"--method", "stale", "--segments", "2"}}) {
    LinkJob job(joined(joined({"--random-weights", GetParam(), "-n", "3",
                               "--negative-prompt", "rain"},
                              kFox),
                       method));
    job.add_worker();
    job.add_worker({"--wait", "2"});
    EXPECT_EQ(job.finish()["latents_xxh3"], job.alone()["latents_xxh3"])
        << method[1];
  }
}

TEST_P(PromptModels, OfStalePipelinesDrawAPicture) {
  const auto job =
      joined(kFox, {"--method", "stale", "--segments", "2", "--workers", "2"});
  EXPECT_EQ(done(job, GetParam())["latents_xxh3"],
            done(job, GetParam())["latents_xxh3"]);
}

INSTANTIATE_TEST_SUITE_P(Models, PromptModels,
                         testing::Values(kPixArt, kStableDiffusion,
                                         kStableDiffusionXl));

TEST(Prompts, AndTheNegativeOneDecideThePicture) {
  const auto latents = [](const Arguments& more) {
    return done(more)["latents_xxh3"];
  };
  const auto fox = latents(kFox);
  EXPECT_NE(latents({"--prompt", "a red fox in the rain"}), fox);
  EXPECT_NE(latents(joined(kFox, {"--negative-prompt", "snow"})), fox);
  EXPECT_EQ(latents(joined(kFox, {"--negative-prompt", ""})), fox);
  // The pipeline puts prompts in lower case, and strips them.
  EXPECT_EQ(latents({"--prompt", "  A RED fox in the snow "}), fox);
}

TEST(Prompts, TakeWhatThePipelineDoesByDefault) {
  const Outcome outcome =
      run(joined({"sample", "--random-weights", "tiny-pixart-sigma",
                  "--progress", "none", "--json"},
                 kFox));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["steps"], 20);
  EXPECT_EQ(outcome.json()["guidance"], 4.5);
  EXPECT_EQ(outcome.json()["sampler"], "dpm++2m");
  const Outcome other =
      run(joined({"sample", "--random-weights", kStableDiffusion, "--progress",
                  "none", "--json"},
                 kFox));
  ASSERT_EQ(other.exit_code, 0) << other.err;
  EXPECT_EQ(other.json()["steps"], 50);
  EXPECT_EQ(other.json()["guidance"], 7.5);
  EXPECT_EQ(other.json()["sampler"], "plms");
  const Outcome printed =
      run({"sample", "--random-weights", "tiny-pixart-sigma", "--prompt", "x",
           "--print-config"});
  EXPECT_NE(printed.out.find("guidance = 4.5"), std::string::npos);
  EXPECT_NE(printed.out.find("prompt = \"x\""), std::string::npos);
}

TEST(EncodedPrompts, OfTwoEncodersGiveTheSamePicture) {
  const TempFolder folder;
  for (const Arguments& negative :
       {Arguments{}, Arguments{"--negative-prompt", "rain"}}) {
    const std::string embeds =
        folder.path(std::to_string(negative.size()) + ".safetensors");
    const Arguments texts =
        joined(joined(kFox, {"--prompt-2", "snow"}), negative);
    const Outcome encoded = run(
        joined({"encode", "--random-weights", kStableDiffusionXl, "-o", embeds},
               texts));
    ASSERT_EQ(encoded.exit_code, 0) << encoded.err;
    EXPECT_EQ(done({"--prompt-embeds", embeds, "--size", "48x32"},
                   kStableDiffusionXl)["latents_xxh3"],
              done(joined(texts, {"--size", "48x32"}),
                   kStableDiffusionXl)["latents_xxh3"]);
  }
}

TEST(Prompts, StandInTheRecipeAsTheyWereWritten) {
  const TempFolder folder;
  const std::string text = "Ein \"Fuchs\"\n\tim Schnee \xF0\x9F\xA6\x8A";
  const auto first = done({"--prompt", text, "--negative-prompt", "Regen", "-o",
                           folder.path("fox.png")});
  EXPECT_EQ(first["images"][0]["prompt"], text);
  const Outcome shown = run({"inspect", folder.path("fox.png"), "--json"});
  const auto recipe = shown.json()["items"][0]["recipe"];
  EXPECT_EQ(recipe["prompt"], text);
  EXPECT_EQ(recipe["negative_prompt"], "Regen");
  EXPECT_EQ(recipe["encoder_class"].get<std::string>().size(), 16U);
  const Outcome again = run({"sample", "--from", folder.path("fox.png"), "-o",
                             folder.path("again.png")});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(folder.read("again.png"), folder.read("fox.png"));
  EXPECT_EQ(run({"verify", folder.path("fox.png")}).exit_code, 0);
  // What is said beside --from counts more.
  const Outcome other = run({"sample", "--from", folder.path("fox.png"), "-p",
                             "a hen", "-o", folder.path("hen.png")});
  ASSERT_EQ(other.exit_code, 0) << other.err;
  EXPECT_NE(folder.read("hen.png"), folder.read("fox.png"));
}

TEST(Prompts, ThatAreSeveralAreAsTheLinesOfAFile) {
  const TempFolder folder;
  const auto several =
      done({"-p", "a fox", "-p", "a hen", "-n", "2", "-o", folder.path("p")});
  const auto file =
      done({"--prompt-file", folder.write("prompts.txt", "a fox\na hen\n"),
            "-n", "2", "-o", folder.path("f")});
  EXPECT_EQ(several["latents_xxh3"], file["latents_xxh3"]);
  ASSERT_EQ(several["images"].size(), 4U);
  for (const auto& image : several["images"]) {
    EXPECT_EQ(image["prompt"],
              image["index"].get<int>() % 2 == 0 ? "a fox" : "a hen");
  }
  for (const char* name : {"00000.png", "00003.png"}) {
    EXPECT_EQ(folder.read(std::string("p/") + name),
              folder.read(std::string("f/") + name));
  }
  const Outcome again = run({"sample", "--from", folder.path("p/00001.png"),
                             "-o", folder.path("again.png")});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(folder.read("again.png"), folder.read("p/00001.png"));
  expect_refused(sample({"-p", "a fox", "--prompt-file", "prompts.txt"}), 2,
                 "[--prompt] cannot stand beside --prompt-file");
}

TEST(Prompts, ThatAreSeveralComeBackFromAPrintedConfiguration) {
  const TempFolder folder;
  const Arguments job = {
      "sample", "--random-weights", kPixArt, "-p", "a \"fox\"", "-p", "a,b\nc"};
  const Outcome printed = run(joined(job, {"--print-config"}));
  ASSERT_EQ(printed.exit_code, 0) << printed.err;
  EXPECT_NE(printed.out.find("prompt = [\"a \\\"fox\\\"\", \"a,b\\u000ac\"]"),
            std::string::npos)
      << printed.out;
  const std::string file = folder.write("p.toml", printed.out);
  const Outcome again = run({"sample", "--config", file, "--steps", "1",
                             "--json", "--progress", "none"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  ASSERT_EQ(again.json()["images"].size(), 2U);
  EXPECT_EQ(again.json()["images"][0]["prompt"], "a \"fox\"");
  EXPECT_EQ(again.json()["images"][1]["prompt"], "a,b\nc");
}

TEST(Prompts, OfAnotherRunAreNotSkipped) {
  const TempFolder folder;
  (void)done(joined(kFox, {"-o", folder.path("a.png")}));
  const Outcome outcome = sample(
      {"--prompt", "a hen", "-o", folder.path("a.png"), "--exists", "skip"});
  expect_refused(outcome, 2, "prompt is");
}

TEST(PromptFile, HasAPromptOnEachLine) {
  const TempFolder folder;
  const std::string file = folder.write("prompts.txt",
                                        "\xEF\xBB\xBF"
                                        "a fox\r\n\n  \na hen\n");
  const auto all =
      done({"--prompt-file", file, "-n", "2", "-o", folder.path("out")});
  ASSERT_EQ(all["images"].size(), 4U);
  for (const auto& image : all["images"]) {
    EXPECT_EQ(image["prompt"],
              image["index"].get<int>() % 2 == 0 ? "a fox" : "a hen");
  }
  EXPECT_EQ(done({"--prompt-file", file, "--num_images_per_prompt",
                  "2"})["latents_xxh3"],
            all["latents_xxh3"]);
  // A range is of all pictures, and a part has the bytes of the whole.
  const auto part = done({"--prompt-file", file, "-n", "1:3"});
  ASSERT_EQ(part["images"].size(), 2U);
  for (const int i : {0, 1}) {
    EXPECT_EQ(part["images"][i]["latents_xxh3"],
              all["images"][i + 1]["latents_xxh3"]);
  }
  EXPECT_NE(all["images"][0]["latents_xxh3"], all["images"][2]["latents_xxh3"]);
  expect_refused(sample({"--prompt-file", folder.write("none", " \n\n")}), 2,
                 "no prompt is in it");
  expect_refused(sample({"--prompt-file", folder.path("missing")}), 2,
                 "missing");
}

/// A pipe has its lines once, and bench asks for each of its methods.
TEST(PromptFile, MayBeAPipe) {
  const TempFolder folder;
  const std::string lines = "a fox\na hen\n";
  const auto of_file = done({"--prompt-file", folder.write("p.txt", lines)});
  const std::string named = folder.path("pipe");
  ASSERT_EQ(::mkfifo(named.c_str(), 0600), 0);
  for (const std::string file : {"-", "/dev/stdin", named.c_str()}) {
    const Arguments all = joined(
        {"bench", "--random-weights", kPixArt, "--prompt-file", file,
         "--method", "batch,cfg", "--steps", "1", "--repeats", "1", "--json"},
        {});
    const Arguments job = {
        "sample", "--random-weights", kPixArt,         "--steps",
        "4",      "--json",           "--prompt-file", file};
    for (const Arguments& arguments : {job, all}) {
      std::array<int, 2> ends{};
      ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
      Program program(arguments, {}, {.in = ends[0]});
      ::close(ends[0]);
      if (file == named) {
        std::ofstream(named) << lines;  // waits for the reader
      } else {
        ASSERT_EQ(::write(ends[1], lines.data(), lines.size()),
                  static_cast<ssize_t>(lines.size()));
      }
      ::close(ends[1]);
      const Outcome outcome = program.wait();
      ASSERT_EQ(outcome.exit_code, 0) << file << ": " << outcome.err;
      if (arguments[0] == "sample") {
        EXPECT_EQ(outcome.json()["latents_xxh3"], of_file["latents_xxh3"])
            << file;
      }
    }
  }
}

TEST(NegativePromptFile, MayBeAPipe) {
  const TempFolder folder;
  const std::string lines = "rain\n\n";  // and the empty text
  const Arguments job = {"-p", "a fox", "-p", "a hen"};
  const auto of_file = done(
      joined(job, {"--negative-prompt-file", folder.write("n.txt", lines)}));
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  Program program(joined({"sample", "--random-weights", kPixArt, "--steps", "4",
                          "--json", "--negative-prompt-file", "-"},
                         job),
                  {}, {.in = ends[0]});
  ::close(ends[0]);
  ASSERT_EQ(::write(ends[1], lines.data(), lines.size()),
            static_cast<ssize_t>(lines.size()));
  ::close(ends[1]);
  const Outcome outcome = program.wait();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["images"][1]["latents_xxh3"],
            of_file["images"][1]["latents_xxh3"]);
  expect_refused(
      sample({"--prompt-file", "-", "--negative-prompt-file", "-"}), 2,
      "[--negative-prompt-file] standard input is read for --prompt-file");
}

TEST(Prompts, MayBeEmpty) {
  const TempFolder folder;
  for (const char* model : {kPixArt, kStableDiffusion, kStableDiffusionXl}) {
    const auto empty =
        done({"-p", "", "-o", folder.path(model) + ".png"}, model);
    EXPECT_EQ(empty["images"][0]["prompt"], "");
    EXPECT_EQ(done({"--prompt="}, model)["latents_xxh3"],
              empty["latents_xxh3"]);
    EXPECT_NE(done({"-p", "a fox"}, model)["latents_xxh3"],
              empty["latents_xxh3"]);
  }
  const std::string first = folder.path(kPixArt) + ".png";
  const Outcome again =
      run({"sample", "--from", first, "-o", folder.path("again.png")});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(folder.read("again.png"),
            folder.read(std::string(kPixArt) + ".png"));
  EXPECT_EQ(run({"verify", first}).exit_code, 0);
  const auto two = done({"-p", "a fox", "-p", "", "-n", "1"});
  ASSERT_EQ(two["images"].size(), 2U);
  EXPECT_EQ(two["images"][1]["prompt"], "");
  const Outcome printed =
      run({"sample", "--random-weights", kPixArt, "-p", "", "--print-config"});
  EXPECT_NE(printed.out.find("prompt = \"\""), std::string::npos);
  expect_refused(run({"sample", "--random-weights", "dit-tiny", "-p", ""}), 2,
                 "[--prompt] the model takes classes");
}

TEST(Shares, HaveAllImagesOfAllPromptsOnce) {
  const TempFolder folder;
  const Arguments job = {"--prompt-file",
                         folder.write("p.txt", "a\nb\nc\n"),
                         "-n",
                         "2",
                         "--steps",
                         "1"};
  const auto all = done(job);
  ASSERT_EQ(all["images"].size(), 6U);
  std::map<int, std::string> drawn;
  for (const int share : {0, 1, 2, 3}) {
    const auto part = done(joined(job, {"--share", std::to_string(share) + "/4",
                                        "-o", folder.path("out")}));
    EXPECT_EQ(part["images"].size(), share % 2 == 0 ? 1U : 2U);
    for (const auto& image : part["images"]) {
      EXPECT_TRUE(drawn.emplace(image["index"], image["latents_xxh3"]).second);
    }
  }
  ASSERT_EQ(drawn.size(), 6U);
  for (const auto& image : all["images"]) {
    EXPECT_EQ(drawn[image["index"]], image["latents_xxh3"]);
  }
  // More tasks than images are no failure.
  const auto none = done({"-p", "a", "-n", "2", "--share", "0/3"});
  EXPECT_EQ(none["images"].size(), 0U);
  EXPECT_NE(none["notes"][0].get<std::string>().find("none of the images"),
            std::string::npos);
  for (const char* bad : {"3/3", "1", "/", "0/0", "-1/2", "1/2/3"}) {
    expect_refused(sample(joined(job, {"--share", bad})), 2, "[--share]");
  }
  expect_refused(sample(joined(job, {"--share", "0/6", "-o", "one.png"})), 2,
                 "one file for the images of all shares");
}

TEST(Encode, MakesWhatPromptEmbedsTakes) {
  const TempFolder folder;
  const std::string prompts =
      folder.write("prompts.txt", "a fox\nthe hen sat\n");
  const std::string embeds = folder.path("e.safetensors");
  const Outcome encoded =
      run({"encode", "--random-weights", "tiny-pixart-sigma", "--prompt-file",
           prompts, "--negative-prompt", "rain", "-o", embeds, "--json"});
  ASSERT_EQ(encoded.exit_code, 0) << encoded.err;
  EXPECT_EQ(encoded.json()["prompts"].size(), 2U);
  EXPECT_EQ(done({"--prompt-embeds", embeds, "-n", "2"})["latents_xxh3"],
            done({"--prompt-file", prompts, "--negative-prompt", "rain", "-n",
                  "2"})["latents_xxh3"]);
  expect_refused(run({"encode", "--random-weights", "tiny-pixart-sigma", "-p",
                      "x", "-o", embeds}),
                 2, "there already");
  // NumPy's archive holds the same.
  const std::string npz = folder.path("e.npz");
  ASSERT_EQ(
      run({"encode", "--random-weights", "tiny-pixart-sigma", "--prompt-file",
           prompts, "--negative-prompt", "rain", "-o", npz})
          .exit_code,
      0);
  EXPECT_EQ(done({"--prompt-embeds", npz})["latents_xxh3"],
            done({"--prompt-embeds", embeds})["latents_xxh3"]);
}

TEST(PromptEmbeds, AreNotInTheRecipe) {
  const TempFolder folder;
  const std::string embeds = folder.path("e.safetensors");
  ASSERT_EQ(run({"encode", "--random-weights", "tiny-pixart-sigma", "-p",
                 "a fox", "-o", embeds})
                .exit_code,
            0);
  const std::string picture = folder.path("fox.png");
  (void)done({"--prompt-embeds", embeds, "-o", picture});
  expect_refused(run({"sample", "--from", picture, "-o", folder.path("b.png")}),
                 2, "add --prompt-embeds FILE");
  expect_refused(run({"verify", picture}), 2, "given embeddings");
  const Outcome again = run({"sample", "--from", picture, "--prompt-embeds",
                             embeds, "-o", folder.path("b.png")});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(folder.read("b.png"), folder.read("fox.png"));
}

TEST(Prompts, ThatCannotBeAreRefused) {
  expect_refused(sample({"--prompt", "a\xFFz"}), 2, "UTF-8");
  expect_refused(sample(joined(kFox, {"--class", "1"})), 2,
                 "cannot stand beside");
  expect_refused(sample({"--class", "1"}), 2, "--prompt");
  expect_refused(run(tiny_sample({"--prompt", "a fox"})), 2,
                 "takes classes and no prompts");
  expect_refused(run(tiny_sample({"--negative-prompt", "rain"})), 2,
                 "takes classes and no prompts");
  expect_refused(sample({"--prompt", std::string(70'000, 'x')}), 2, "too long");
  const TempFolder folder;
  const std::string latents = folder.path("latents.safetensors");
  (void)done(joined(kFox, {"--save", "latents=" + latents}));
  expect_refused(sample({"--prompt-embeds", latents}), 2, "prompt_embeds");
}

TEST(Prompts, SayWhatIsCutOffOrTakenLiterally) {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += "lighthouse ";
  }
  const Outcome cut = sample({"--prompt", text});
  EXPECT_EQ(cut.exit_code, 0) << cut.err;
  EXPECT_NE(cut.err.find("left out"), std::string::npos) << cut.err;
  const TempFolder folder;
  const Outcome several = sample(
      {"--prompt-file", folder.write("p.txt", text + "\n" + text + "\nfox\n")});
  EXPECT_NE(several.err.find("1 prompt is too long, too"), std::string::npos)
      << several.err;
  for (const Arguments& weighted :
       {Arguments{"--prompt", "a (fox:1.3)"},
        joined(kFox, {"--negative-prompt", "(rain:1.2)"}),
        joined(kFox, {"--negative-prompt", "rain", "--negative-prompt-2",
                      "(fog:1.2)"})}) {
    const Outcome outcome = sample(weighted, kStableDiffusionXl);
    EXPECT_NE(outcome.err.find("taken literally"), std::string::npos)
        << outcome.err;
  }
  const Outcome marked =
      sample({"--prompt-file",
              folder.write("p.txt", "a fox\n<lora:x:0.8> fox\n((fox))\n"),
              "--negative-prompt", "[rain|fog]"});
  EXPECT_NE(marked.err.find("3 prompts have what means something in other "
                            "programs, as '<lora:x:0.8>'"),
            std::string::npos)
      << marked.err;
  EXPECT_EQ(sample(kFox).err, "");
  EXPECT_EQ(sample({"--prompt", "(best quality), 1girl: smile)"}).err, "");
}

TEST(Prompts, OfARandomModelMayBeMissing) {
  const Outcome outcome = sample({});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("random numbers stand in its place"),
            std::string::npos)
      << outcome.err;
}

TEST(Prompts, MakePicturesOfOtherSizes) {
  const TempFolder folder;
  (void)done(joined(kFox, {"--size", "40x24", "-o", folder.path("a.png")}));
  const Outcome shown = run({"inspect", folder.path("a.png"), "--json"});
  EXPECT_EQ(shown.json()["items"][0]["width"], 40);
  EXPECT_EQ(shown.json()["items"][0]["height"], 24);
  expect_refused(sample(joined(kFox, {"--size", "41x24"})), 2, "nearest");
}

}  // namespace
}  // namespace troupe::test
