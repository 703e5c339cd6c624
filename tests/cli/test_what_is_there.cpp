#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>

#include "actors/artefacts/png.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

void expect_refused(const std::vector<std::string>& arguments,
                    const std::vector<std::string>& says) {
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_EQ(outcome.err.find("<verb>"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("unknown"), std::string::npos) << outcome.err;
  for (const std::string& text : says) {
    EXPECT_NE(outcome.err.find(text), std::string::npos) << text << "\n"
                                                         << outcome.err;
  }
}

TEST(NotYet, VerbsSayWhatIsComingAndWhatIsThere) {
  for (const auto& [verb, says] : {std::pair{"serve", "troupe sample"},
                                   {"resume", "--exists skip"},
                                   {"sweep", "a loop in the shell"}}) {
    expect_refused({verb}, {std::string("[") + verb + "]", "coming", says});
    expect_refused({"help", verb}, {"coming"});
  }
}

TEST(NotYet, VerbsOfOtherProgramsNameOurs) {
  expect_refused({"ps"}, {"[ps]", "troupe ls ADDR"});
  expect_refused({"kill"}, {"[kill]", "troupe cancel ADDR"});
}

TEST(NotYet, OptionsSayWhatIsComingAndWhatIsThere) {
  expect_refused({"sample", "--lora", "x.safetensors"},
                 {"[--lora]", "not read", "fuse_lora"});
  expect_refused({"sample", "--server", "tcp://a:1"},
                 {"[--server]", "coming", "--listen ADDR"});
  expect_refused({"sample", "--seeds", "1,2,3"},
                 {"[--seeds]", "--noise torch"});
  expect_refused({"sample", "--clipskip", "2"},
                 {"[--clipskip]", "their 2 is 1 here", "help prompts"});
  expect_refused({"sample", "--mode", "img2img"}, {"[--mode]", "no modes"});
  const Outcome variable = run({"sample"}, {"TROUPE_LORA_SCALE=2"});
  EXPECT_EQ(variable.exit_code, 2);
  EXPECT_TRUE(variable.err.starts_with("troupe: [TROUPE_LORA_SCALE] LoRA"))
      << variable.err;
}

TEST(BatchSize, OfOtherProgramsCountsPictures) {
  const TempFolder folder;
  const auto says = [](const std::vector<std::string>& more,
                       const Program::Environment& environment = {}) {
    std::vector<std::string> line = {"sample", "--random-weights", "dit-tiny",
                                     "--dry-run"};
    line.insert(line.end(), more.begin(), more.end());
    const Outcome outcome = run(line, environment);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.err.find("--samples (-n) counts pictures") !=
           std::string::npos;
  };
  EXPECT_TRUE(says({"--batch-size", "4"}));
  EXPECT_TRUE(says({"--batch_size", "4", "-n", "3"}));
  EXPECT_TRUE(says({}, {"TROUPE_BATCH_SIZE=4"}));
  const std::string file = folder.write("run.toml", "batch_size = 4\n");
  EXPECT_TRUE(says({"--config", file}));
  EXPECT_FALSE(says({"--batch-size", "4", "-n", "4"}));
  EXPECT_FALSE(says({"--batch-size", "0"}));
  EXPECT_FALSE(says({"--batch", "4"}));
  EXPECT_FALSE(says({}));
}

TEST(Hints, NameTheVerb) {
  for (const char* verb : {"sample", "verify", "schedule", "doctor"}) {
    const std::string says = std::string("see troupe ") + verb + " --help";
    const Outcome unknown = run({verb, "--qqqqqqqqq"});
    EXPECT_NE(unknown.err.find(says), std::string::npos) << unknown.err;
    const Outcome elsewhere =
        run({verb, verb == std::string("verify") ? "--plot" : "--against=x"});
    EXPECT_NE(elsewhere.err.find(says), std::string::npos) << elsewhere.err;
  }
}

TEST(Model, SaysWhatIsThereInsteadOfAFolder) {
  const TempFolder folder;
  const auto expect = [&](const std::string& path,
                          const std::vector<std::string>& says) {
    expect_refused({"sample", "-m", path, "-o", folder.path("a.png")}, says);
    expect_refused({"inspect", path}, path.ends_with(".safetensors")
                                          ? std::vector<std::string>{}
                                          : says);
  };
  const std::string single = folder.write("model.safetensors", "12345678");
  expect_refused({"sample", "-m", single, "-o", folder.path("a.png")},
                 {single, "got a file", "from_single_file"});
  expect_refused({"sample", "-m", folder.write("x.txt", ""), "-o", "a.png"},
                 {"got a file, expected a checkpoint folder"});
  expect_refused({"sample", "-m", "facebook/DiT-XL-2-256", "-o", "a.png"},
                 {"no such folder", "hf download facebook"});
  std::filesystem::create_directories(folder.path("sd/unet"));
  (void)folder.write("sd/model_index.json",
                     R"({"_class_name": "StableDiffusion3Pipeline"})");
  expect(folder.path("sd"),
         {"got 'StableDiffusion3Pipeline', expected DiTPipeline", "coming"});
  std::filesystem::create_directories(folder.path("flux/transformer"));
  (void)folder.write("flux/model_index.json",
                     R"({"_class_name": "FluxPipeline"})");
  (void)folder.write("flux/transformer/config.json",
                     R"({"_class_name": "FluxTransformer2DModel"})");
  expect(folder.path("flux"), {"got 'FluxPipeline'", "coming"});
  std::filesystem::create_directory(folder.path("empty"));
  expect(folder.path("empty"), {"no model is here"});
}

TEST(Model, SaysThatGitLeftAPointer) {
  const TempFolder folder;
  std::filesystem::copy(TROUPE_GOLDEN "/dit_default", folder.path("m"));
  (void)folder.write("m/diffusion_pytorch_model.safetensors",
                     "version https://git-lfs.github.com/spec/v1\noid x\n");
  expect_refused({"sample", "-m", folder.path("m"), "-o", "a.png"},
                 {"Git LFS", "git lfs pull"});
  // Of a checkpoint in several files the index is small: Git holds it itself.
  std::filesystem::rename(folder.path("m/diffusion_pytorch_model.safetensors"),
                          folder.path("m/1-of-1.safetensors"));
  (void)folder.write("m/diffusion_pytorch_model.safetensors.index.json",
                     R"({"weight_map": {"a": "1-of-1.safetensors"}})");
  expect_refused({"sample", "-m", folder.path("m"), "-o", "a.png"},
                 {"1-of-1.safetensors", "Git LFS", "git lfs pull"});
}

TEST(Model, SaysThatGitLeftAPointerToATokenizer) {
  const TempFolder folder;
  std::filesystem::copy(TROUPE_GOLDEN "/pipeline_sd15", folder.path("m"),
                        std::filesystem::copy_options::recursive);
  (void)folder.write("m/tokenizer/tokenizer.json",
                     "version https://git-lfs.github.com/spec/v1\noid x\n");
  expect_refused(
      {"sample", "-m", folder.path("m"), "-p", "a cat", "-o", "a.png"},
      {"m/tokenizer/tokenizer.json", "Git LFS", "git lfs pull"});
}

TEST(Model, SaysWhereALinkToNothingLeads) {
  for (const char* name :
       {"tokenizer", "tokenizer/special_tokens_map.json", "text_encoder",
        "sampling.json", "model_index.json", "scheduler"}) {
    const TempFolder folder;
    std::filesystem::copy(TROUPE_GOLDEN "/pipeline_sd15", folder.path("m"),
                          std::filesystem::copy_options::recursive);
    const std::string link = folder.path(std::string("m/") + name);
    std::filesystem::remove_all(link);
    std::filesystem::create_symlink("blobs/0123", link);
    expect_refused(
        {"sample", "-m", folder.path("m"), "-p", "a cat", "-o", "a.png"},
        {link + " is a link to blobs/0123, which is not there"});
  }
}

TEST(Listen, SaysWhichAddressAHostNameStandsFor) {
  std::array<char, 256> name{};
  ASSERT_EQ(::gethostname(name.data(), name.size() - 1), 0);
  const std::string host = name.data();
  for (const std::string& other : {host, std::string("nowhere.invalid")}) {
    if (other == "localhost") {
      continue;
    }
    expect_refused({"sample", "--random-weights", "dit-tiny", "-o", "a.png",
                    "--listen", "tcp://" + other + ":0"},
                   {"[--listen]", "at an address, not at a host name",
                    "got '" + other + "'"});
  }
}

TEST(Png, EndsInAnyCase) {
  const TempFolder folder;
  const std::string out = folder.path("OUT.PNG");
  const Outcome outcome = run(tiny_sample({"-c", "1", "-o", out}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(run({"inspect", out}).exit_code, 0);
  EXPECT_EQ(run({"sample", "--random-weights", "dit-tiny", "--from", out, "-o",
                 folder.path("again.Png")})
                .exit_code,
            0);
  EXPECT_EQ(folder.read("again.Png"), folder.read("OUT.PNG"));
  expect_refused(
      {"sample", "--random-weights", "dit-tiny", "-o", folder.path(".PNG")},
      {"a name is missing"});
}

TEST(EmptyValues, AreRefusedAndTakeNothingFromTheNextArgument) {
  for (const std::string name : {"--out", "--steps", "--class", "--save",
                                 "--sigmas", "--config", "--cfg-scale"}) {
    for (const std::vector<std::string>& written :
         {std::vector<std::string>{name + "=", "--json"},
          {name, "", "--json"},
          {name, "--json"}}) {
      std::vector<std::string> arguments = {"sample"};
      arguments.insert(arguments.end(), written.begin(), written.end());
      const Outcome outcome = run(arguments);
      EXPECT_EQ(outcome.exit_code, 2) << name << outcome.err;
      EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
      EXPECT_TRUE(outcome.err.starts_with("troupe: [" + name + "] "))
          << outcome.err;
      EXPECT_EQ(outcome.json()["error"]["where"], name);
    }
  }
  EXPECT_FALSE(std::filesystem::exists("--json"));
}

TEST(Values, MayFollowALetterAfterAnEqualsSign) {
  const TempFolder folder;
  const Outcome outcome =
      run(tiny_sample({"-o=" + folder.path("a.png"), "-c=1", "--json"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.png"});
}

TEST(Stdout, TakesOnePicture) {
  const TempFolder folder;
  const Outcome file =
      run(tiny_sample({"-c", "1", "-o", folder.path("a.png")}));
  ASSERT_EQ(file.exit_code, 0);
  const Outcome outcome = run(tiny_sample({"-c", "1", "-o", "-"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, folder.read("a.png"));
  EXPECT_NE(outcome.err.find("1 image in"), std::string::npos) << outcome.err;
  const Outcome quiet = run(tiny_sample({"-c", "1", "-q", "-o", "-"}));
  EXPECT_EQ(quiet.out, outcome.out);
  EXPECT_EQ(quiet.err, "");
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST(Stdout, IsRefusedWhereItCannotBe) {
  const Outcome many = run(tiny_sample({"-n", "2", "-o", "-"}));
  EXPECT_EQ(many.exit_code, 2);
  EXPECT_NE(many.err.find("takes one picture"), std::string::npos) << many.err;
  const Outcome json = run(tiny_sample({"-o", "-", "--json"}));
  EXPECT_EQ(json.exit_code, 2);
  EXPECT_EQ(json.json()["error"]["where"], "--out");
  const Outcome trace = run(tiny_sample({"-o", "-", "--trace", "-"}));
  EXPECT_EQ(trace.exit_code, 2);
  EXPECT_NE(trace.err.find("only --out writes to stdout"), std::string::npos);
}

TEST(Stdout, ThatIsATerminalTakesNoPicture) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) {
    GTEST_SKIP() << "this system gives no terminal";
  }
  const int end = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);
  Program program(tiny_sample({"-o", "-"}), {}, {.out = end});
  const Outcome outcome = program.wait();
  ::close(end);
  ::close(terminal);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("stdout is a terminal"), std::string::npos)
      << outcome.err;
}

TEST(Stdout, ThatIsFullFailsTheJob) {
  const int full = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  Program program(tiny_sample({"-o", "-"}), {}, {.out = full});
  const Outcome outcome = program.wait();
  ::close(full);
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_NE(outcome.err.find("cannot write to stdout"), std::string::npos);
}

/// A run in a file system of its own with room for little.
/// The exit code of the program, its words to `where`.
int code_of(const std::string& arguments, const std::string& where) {
  const std::string command = program_path() + " " + arguments + " " + where;
  return WEXITSTATUS(std::system(command.c_str()));
}

TEST(LostWords, ChangeNoExitCode) {
  const TempFolder folder;
  const std::string image = folder.path("a.png");
  const std::string sample =
      "sample --random-weights dit-tiny --steps 2 --class 1 --dtype f32 -o ";
  for (const char* lost : {"2>/dev/full", "2>&-"}) {
    EXPECT_EQ(code_of(sample + "-", ">" + image + " " + lost), 0) << lost;
    EXPECT_EQ(run({"inspect", image}).exit_code, 0) << lost;
    EXPECT_EQ(code_of("inspect /no/such " + image,
                      ">" + folder.path("said") + " " + lost),
              2);
    EXPECT_NE(folder.read("said").find("pixels"), std::string::npos) << lost;
  }
}

TEST(LostReader, IsNamed) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  Program program(tiny_sample({"-o", "-"}), {}, {.out = ends[1]});
  ::close(ends[1]);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_NE(outcome.err.find("its reader has gone"), std::string::npos)
      << outcome.err;
}

TEST(FolderName, ThatIsNoTextEndsNoJson) {
  const TempFolder folder;
  const std::string model = folder.path("mod\xe8le");
  std::filesystem::copy(TROUPE_GOLDEN "/dit_default", model);
  for (const Outcome& outcome :
       {run({"schedule", "-m", model, "--steps", "2", "--json"}),
        run({"bench", "-m", model, "--steps", "2", "--class", "1", "--repeats",
             "1", "--json"})}) {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.json()["exit_code"], 0);
  }
}

/// A shell script that has a file system of 64 KiB at `small`.
class SmallDisk : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("unshare -rm mount -t tmpfs tmpfs /mnt 2>/dev/null") != 0) {
      GTEST_SKIP() << "this system gives no file system of one's own";
    }
    std::filesystem::create_directory(small_);
  }
  /// What the last line of `lines` ends with; its stdout is in out.json.
  [[nodiscard]] int run_there(const std::string& lines) {
    const std::string script =
        folder_.write("run.sh", "set -e\nmount -t tmpfs -o size=64k tmpfs " +
                                    small_ + "\n" + lines);
    const int status =
        std::system(("unshare -rm sh " + script + " >" +
                     folder_.path("out.json") + " 2>" + folder_.path("err.txt"))
                        .c_str());
    return WEXITSTATUS(status);
  }
  [[nodiscard]] std::string sample(const std::string& flags) const {
    return program_path() +
           " sample --random-weights dit-tiny --steps 2 --class 1 --dtype f32 "
           "--json " +
           flags + "\n";
  }

  const TempFolder folder_;
  const std::string small_ = folder_.path("small");
};

TEST_F(SmallDisk, IsSaidToBeWorthAnotherTry) {
  EXPECT_EQ(run_there(sample("-n 64 -o " + small_)), 3);
  const auto json = nlohmann::json::parse(folder_.read("out.json"));
  EXPECT_EQ(json["exit_code"], 3);
  EXPECT_EQ(json["error"]["code"], "no_space");
  EXPECT_EQ(json["error"]["retryable"], true);
}

TEST_F(SmallDisk, EndsNoJobThatHasNothingToDo) {
  const std::string flags = "--exists skip --save trajectory=" + small_ +
                            "/all.npy -o " + folder_.path("out") + " -n ";
  // dd ends with 1 where the disk is full.
  const std::string fill = "dd if=/dev/zero of=" + small_ + "/rest 2>&- || :\n";
  EXPECT_EQ(run_there(sample(flags + "2 >&2") + fill + sample(flags + "2")), 0)
      << folder_.read("err.txt");
  const auto json = nlohmann::json::parse(folder_.read("out.json"));
  EXPECT_EQ(json["images"][1]["status"], "skipped");
  // A third image has to be drawn, so the trajectory needs room.
  EXPECT_EQ(run_there(sample(flags + "2 >&2") + fill + sample(flags + "3")), 3);
  EXPECT_NE(folder_.read("err.txt").find("too little room"), std::string::npos)
      << folder_.read("err.txt");
}

}  // namespace
}  // namespace troupe::test
