#include <gtest/gtest.h>

#include "kernels/core/system/machine.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

/// Holds the matrix library to less than this processor has, if it has more.
const Program::Environment kOtherClass = {"ONEDNN_MAX_CPU_ISA=AVX2"};

bool has_another_class() {
  return run({"doctor", "--json"}).json()["isa"] !=
         run({"doctor", "--json"}, kOtherClass).json()["isa"];
}

std::string class_of(const std::string& image) {
  return run({"inspect", image, "--json"})
      .json()["items"][0]["recipe"]["execution_class"];
}

class Classes : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run(tiny_sample({"-o", image()})).exit_code, 0);
  }
  [[nodiscard]] std::string image() const { return folder_.path("a.png"); }

  TempFolder folder_;
};

TEST_F(Classes, VerifyDoesNotCallAnImageOfAnotherClassWrong) {
  const std::string here = class_of(image());
  change_recipe(folder_, "a.png", "/latents_xxh3", "0123456789abcdef");
  const Outcome same_class = run({"verify", image(), "--json"});
  EXPECT_EQ(same_class.exit_code, 5) << same_class.err;
  EXPECT_EQ(same_class.json()["files"][0]["same"], false);
  EXPECT_EQ(same_class.json()["files"][0]["execution_class"], here);
  EXPECT_EQ(same_class.json()["files"][0]["recipe_execution_class"], here);
  change_recipe(folder_, "a.png", "/execution_class", "00000000000000aa");
  const Outcome other = run({"verify", image(), "--json"});
  EXPECT_EQ(other.exit_code, 8) << other.err;
  const nlohmann::json json = other.json();
  EXPECT_EQ(json["exit_code"], 8);
  EXPECT_EQ(json["error"]["code"], "another_class");
  EXPECT_EQ(json["files"][0]["same"], nullptr);
  EXPECT_EQ(json["files"][0]["execution_class"], here);
  EXPECT_EQ(json["files"][0]["recipe_execution_class"], "00000000000000aa");
  const Outcome text = run({"verify", image()});
  EXPECT_EQ(text.exit_code, 8);
  EXPECT_NE(text.out.find("execution class " + here +
                          " here, 00000000000000aa in the recipe"),
            std::string::npos)
      << text.out;
}

TEST_F(Classes, VerifySaysThatBytesAgreeAllTheSame) {
  change_recipe(folder_, "a.png", "/execution_class", "00000000000000aa");
  const Outcome outcome = run({"verify", image()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find(": same ("), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("00000000000000aa in the recipe"),
            std::string::npos)
      << outcome.out;
}

TEST_F(Classes, VerifyCallsOtherWeightsDifferent) {
  change_recipe(folder_, "a.png", "/latents_xxh3", "0123456789abcdef");
  change_recipe(folder_, "a.png", "/weights_xxh3", "0123456789abcdef");
  change_recipe(folder_, "a.png", "/execution_class", "00000000000000aa");
  EXPECT_EQ(run({"verify", image()}).exit_code, 5);
}

TEST_F(Classes, VerifyRanksBytesThatDifferAboveAnotherClass) {
  (void)folder_.write("b.png", folder_.read("a.png"));
  change_recipe(folder_, "b.png", "/latents_xxh3", "0123456789abcdef");
  (void)folder_.write("c.png", folder_.read("b.png"));
  change_recipe(folder_, "c.png", "/execution_class", "00000000000000aa");
  const std::string other = folder_.path("c.png");
  EXPECT_EQ(run({"verify", other, image(), "/no/such.png"}).exit_code, 8);
  EXPECT_EQ(run({"verify", folder_.path("b.png"), other}).exit_code, 5);
}

/// All that a dry run says.
std::string arithmetic(const std::vector<std::string>& more) {
  std::vector<std::string> all = tiny_sample({"--dry-run", "-v"});
  all = overridden(std::move(all), more);
  const Outcome outcome = run(all);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.out + outcome.err;
}

TEST_F(Classes, IsaHoldsTheLibraryAndOurLoopsToOneLevel) {
  EXPECT_NE(arithmetic({"--isa", "avx2"}).find("avx2/AVX2"), std::string::npos)
      << arithmetic({"--isa", "avx2"});
  const std::string lowest = folder_.path("lowest.png");
  const std::string again = folder_.path("again.png");
  for (const std::string& file : {lowest, again}) {
    ASSERT_EQ(run(tiny_sample({"--isa", "avx2", "-o", file})).exit_code, 0);
  }
  EXPECT_EQ(class_of(lowest), class_of(again));
  EXPECT_EQ(class_of(lowest) == class_of(image()), !has_another_class());
  EXPECT_EQ(run({"verify", lowest, "--isa", "avx2"}).exit_code, 0);
}

TEST_F(Classes, RecipesHoldTheLevelOfTheirImage) {
  const std::string lowest = folder_.path("lowest.png");
  ASSERT_EQ(run(tiny_sample({"--isa", "avx2", "-o", lowest})).exit_code, 0);
  const Outcome verified = run({"verify", lowest});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  const std::string again = folder_.path("again.png");
  ASSERT_EQ(run({"sample", "--from", lowest, "-o", again}).exit_code, 0);
  EXPECT_EQ(folder_.read("again.png"), folder_.read("lowest.png"));
  if (!has_another_class()) {
    GTEST_SKIP() << "this processor has one level";
  }
  // What the user names is stronger than the recipe.
  const Outcome other =
      run({"verify", lowest, "--isa", "avx512", "--dtype", "f32"});
  EXPECT_TRUE(other.exit_code == 0 || other.exit_code == 8) << other.out;
  EXPECT_EQ(other.out.find(class_of(lowest) + " here"), std::string::npos)
      << other.out;
  // The recipe is stronger than the environment.
  const Program::Environment wide = {"TROUPE_ISA=avx512", "TROUPE_DTYPE=f32"};
  EXPECT_EQ(run({"verify", lowest}, wide).exit_code, 0);
  const std::string third = folder_.path("third.png");
  EXPECT_EQ(run({"sample", "--from", lowest, "-o", third}, wide).exit_code, 0);
  EXPECT_EQ(class_of(third), class_of(lowest));
  EXPECT_NE(run({"sample", "--from", lowest, "--print-config"}, wide)
                .out.find("isa = \"avx2\""),
            std::string::npos);
  // A run that goes on elsewhere takes its images as they are.
  const std::string images = folder_.path("images");
  ASSERT_EQ(
      run(tiny_sample({"-n", "2", "--isa", "avx2", "-o", images})).exit_code,
      0);
  const Outcome on =
      run(tiny_sample({"-n", "3", "--exists", "skip", "-o", images}));
  EXPECT_EQ(on.exit_code, 0) << on.err;
  // One process computes at one level.
  for (const std::vector<std::string>& files :
       {std::vector{lowest, image()}, std::vector{image(), lowest}}) {
    const Outcome two = run({"verify", files[0], files[1]});
    EXPECT_EQ(two.exit_code, 8) << two.out << two.err;
    EXPECT_NE(two.out.find("verify it alone"), std::string::npos) << two.out;
    EXPECT_NE(two.err.find("--dtype and --isa"), std::string::npos) << two.err;
  }
}

TEST_F(Classes, IsaDecidesTheAutomaticType) {
  if (cpu_features().find("avx512f") == std::string::npos) {
    GTEST_SKIP() << "this processor has no level without bf16 but its own";
  }
  // What can be multiplied there is imitated: slow, and not what a processor
  // without it would choose.
  const Outcome held = run({"sample", "--random-weights", "dit-tiny", "--isa",
                            "avx512", "--dry-run", "-v"});
  ASSERT_EQ(held.exit_code, 0) << held.err;
  EXPECT_NE(
      (held.out + held.err).find("arithmetic: f32 (auto) by avx512_core/"),
      std::string::npos)
      << held.out << held.err;
}

TEST_F(Classes, IsaSaysThatItTakesBf16Away) {
  const bool has_bf16 = cpu_features().find("avx512_bf16") != std::string::npos;
  const auto says = [](const std::vector<std::string>& more,
                       const Program::Environment& environment = {}) {
    const Outcome outcome =
        run(overridden({"sample", "--random-weights", "dit-tiny", "--dry-run"},
                       more),
            environment);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.err.find(
               "has no bf16: --dtype auto is f32 here, and bf16 "
               "without it\n") != std::string::npos;
  };
  EXPECT_EQ(says({"--isa", "avx2"}), has_bf16);
  EXPECT_EQ(says({}, {"TROUPE_ISA=avx2"}), has_bf16);
  EXPECT_FALSE(says({"--isa", "avx2", "--dtype", "f32"}));
  EXPECT_FALSE(says({}));
  if (has_bf16) {
    EXPECT_FALSE(says({"--isa", "avx512_bf16"}));
  }
}

TEST_F(Classes, IsaOfTheEnvironmentIsForVerbsThatCompute) {
  const Program::Environment lowest = {"TROUPE_ISA=avx2"};
  EXPECT_EQ(run({"doctor", "--json"}, lowest).json()["isa"],
            run({"doctor", "--json"}).json()["isa"]);
  EXPECT_NE(
      run({"sample", "--random-weights", "dit-tiny", "--dry-run", "-v"}, lowest)
          .err.find("avx2/AVX2"),
      std::string::npos);
}

TEST_F(Classes, IsaIsRefusedWhereItCannotBe) {
  const Outcome both =
      run({"sample", "--random-weights", "dit-tiny", "--isa", "avx2", "--dtype",
           "bf16", "-o", folder_.path("b.png")});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_EQ(both.err_lines(), 1) << both.err;
  EXPECT_NE(both.err.find("bf16"), std::string::npos) << both.err;
  const Outcome unknown = run(tiny_sample({"--isa", "avx", "--dry-run"}));
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("avx512_bf16"), std::string::npos) << unknown.err;
  if (cpu_features().find("amx_bf16") == std::string::npos) {
    const Outcome more = run(tiny_sample({"--isa", "amx", "--dry-run"}));
    EXPECT_EQ(more.exit_code, 2);
    EXPECT_EQ(more.err_lines(), 1) << more.err;
    EXPECT_NE(more.err.find("this processor has less: got amx"),
              std::string::npos)
        << more.err;
  }
}

TEST_F(Classes, OfARealOtherInstructionSetIsNoMismatch) {
  if (!has_another_class()) {
    GTEST_SKIP() << "this processor has one instruction set for us";
  }
  // The recipe's level is stronger than the library's own variable.
  EXPECT_EQ(run({"verify", image()}, kOtherClass).exit_code, 0);
  const Outcome outcome = run({"verify", image(), "--isa", "avx2", "--json"});
  const nlohmann::json file = outcome.json()["files"][0];
  EXPECT_TRUE(outcome.exit_code == 8 || outcome.exit_code == 0) << outcome.err;
  EXPECT_EQ(outcome.exit_code == 0, file["same"] == true);
  EXPECT_NE(file["execution_class"], file["recipe_execution_class"]);
}

TEST_F(Classes, OneCanBeRequired) {
  const std::string here = class_of(image());
  const auto sample = [&](const std::string& required,
                          std::vector<std::string> more) {
    more.insert(more.end(), {"--require-class", required, "--json", "-o",
                             folder_.path("b.png"), "--exists", "replace"});
    return run(tiny_sample(std::move(more)));
  };
  EXPECT_EQ(sample(here, {}).exit_code, 0);
  EXPECT_EQ(sample(image(), {}).exit_code, 0);
  EXPECT_EQ(sample(here, {"--dry-run"}).exit_code, 0);
  std::filesystem::remove(folder_.path("b.png"));
  change_recipe(folder_, "a.png", "/execution_class", "00000000000000aa");
  for (const std::string& required :
       {std::string("00000000000000AA"), image()}) {
    for (const std::vector<std::string>& more :
         {std::vector<std::string>{}, {"--dry-run"}}) {
      const Outcome outcome = sample(required, more);
      EXPECT_EQ(outcome.exit_code, 8) << outcome.err;
      EXPECT_EQ(outcome.json()["error"]["code"], "another_class");
      EXPECT_NE(outcome.err.find("got " + here + ", expected 00000000000000aa"),
                std::string::npos)
          << outcome.err;
    }
  }
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"a.png"});
  EXPECT_EQ(sample("0123", {}).exit_code, 2);
  EXPECT_EQ(sample("/no/such.png", {}).exit_code, 2);
}

TEST_F(Classes, RequiredOfADeviceIsRequiredOfImagesThatAreThere) {
  const std::string here = class_of(image());
  const std::vector<std::string> skipping =
      tiny_sample({"-o", image(), "--exists", "skip", "--require-class", here});
  EXPECT_EQ(run(skipping).exit_code, 0);
  change_recipe(folder_, "a.png", "/execution_class", "00000000000000aa");
  const Outcome outcome = run(skipping);
  EXPECT_EQ(outcome.exit_code, 8) << outcome.err;
  EXPECT_NE(outcome.err.find("got 00000000000000aa, expected " + here),
            std::string::npos)
      << outcome.err;
}

TEST_F(Classes, RequiredIsRefusedOnAnotherInstructionSet) {
  if (!has_another_class()) {
    GTEST_SKIP() << "this processor has one instruction set for us";
  }
  const std::vector<std::string> arguments = tiny_sample(
      {"-o", folder_.path("b.png"), "--require-class", class_of(image())});
  EXPECT_EQ(run(arguments, kOtherClass).exit_code, 8);
  EXPECT_EQ(run(arguments).exit_code, 0);
}

TEST_F(Classes, ImagesOfAnotherAreSaidWhenAJobGoesOn) {
  std::filesystem::create_directory(folder_.path("out"));
  const auto go_on = [&](const char* samples) {
    return run(tiny_sample({"-n", samples, "-o", folder_.path("out"),
                            "--exists", "skip", "--json"}));
  };
  ASSERT_EQ(go_on("1").exit_code, 0);
  EXPECT_EQ(go_on("2").err.find("execution class"), std::string::npos);
  change_recipe(folder_, "out/00000.png", "/execution_class",
                "00000000000000aa");
  for (const char* samples : {"3", "3"}) {  // with and without work left
    const Outcome outcome = go_on(samples);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const std::string note =
        "1 of the images that are there is of another execution class "
        "(00000000000000aa)";
    EXPECT_NE(outcome.err.find(note), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.json()["notes"].dump().find(note), std::string::npos);
  }
}

TEST_F(Classes, OfTheImageThatARunStartsFromIsSaid) {
  const auto again = [&] {
    return run({"sample", "--from", image(), "-o", folder_.path("b.png"),
                "--exists", "replace"});
  };
  EXPECT_EQ(again().err.find("another execution class"), std::string::npos);
  change_recipe(folder_, "a.png", "/execution_class", "00000000000000aa");
  const Outcome outcome = again();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("made by another execution class "
                             "(00000000000000aa)"),
            std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace troupe::test
