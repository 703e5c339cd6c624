#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

/// A folder as diffusers writes it, around the small golden networks.
class CopiedModel {
 public:
  CopiedModel() {
    for (const auto& [from, to] :
         {std::pair{"dit_default", "transformer"}, {"vae_default", "vae"}}) {
      std::filesystem::copy(std::string(TROUPE_GOLDEN) + "/" + from,
                            folder_.path(to));
    }
    (void)folder_.write("model_index.json",
                        R"({"_class_name": "DiTPipeline",
                            "id2label": {"1": "tab\there", "3": "owl"}})");
  }
  /// Sets a key of a config.json; the tensors stay.
  void set(const std::string& part, const char* key, double value) const {
    const std::string name = part + "/config.json";
    auto config = nlohmann::json::parse(folder_.read(name));
    config[key] = value;
    (void)folder_.write(name, config.dump());
  }
  [[nodiscard]] Outcome sample(std::vector<std::string> more) const {
    more.insert(more.begin(), {"sample", "-m", folder_.path(), "--steps", "2",
                               "--class", "1", "--dtype", "f32"});
    return run(std::move(more));
  }
  [[nodiscard]] std::string path() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

TEST(Repeating, KeepsToTheRecipeAgainstTheEnvironmentAndAFile) {
  const TempFolder folder;
  const std::string image = folder.path("a.png");
  ASSERT_EQ(run(tiny_sample({"-o", image, "--class", "1"})).exit_code, 0);
  const std::string toml = folder.write("a.toml", "beta-end = 0.03\n");
  for (const char* variable :
       {"TROUPE_STEPS=9", "TROUPE_SAMPLER=euler", "TROUPE_ETA=0.5",
        "TROUPE_CLIP_SAMPLE=false", "TROUPE_TIMESTEP_SPACING=trailing",
        "TROUPE_PRESET=asyncdiff", "TROUPE_WINDOW=2"}) {
    const Outcome outcome =
        run({"verify", image, "--config", toml}, {variable});
    EXPECT_EQ(outcome.exit_code, 0) << variable << outcome.out << outcome.err;
  }
  const Outcome again =
      run({"sample", "--from", image, "-o", folder.path("b.png")},
          {"TROUPE_STEPS=9"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(folder.read("b.png"), folder.read("a.png"));
}

/// A folder's path is not in a recipe, its name is.
TEST(Repeating, NamesTheModelThatIsWanted) {
  const CopiedModel model;
  const TempFolder folder;
  const std::string image = folder.path("a.png");
  ASSERT_EQ(model.sample({"-o", image}).exit_code, 0);
  const std::string name =
      std::filesystem::canonical(model.path()).filename().string();
  for (const std::vector<std::string>& again :
       {std::vector<std::string>{"verify", image},
        {"sample", "--from", image, "-o", folder.path("b.png")}}) {
    const Outcome outcome = run(again);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("the recipe says '" + name + "'"),
              std::string::npos)
        << outcome.err << outcome.out;
  }
}

TEST(Repeating, LetsFlagsChangeMethodAndSteps) {
  const TempFolder folder;
  const std::string picard = folder.path("picard.png");
  ASSERT_EQ(run({"sample", "--random-weights", "dit-tiny", "--dtype", "f32",
                 "-o", picard, "--class", "1", "--method", "picard",
                 "--tolerance", "1", "--timesteps", "900,500,100"})
                .exit_code,
            0);
  const Outcome outcome =
      run({"sample", "--from", picard, "--method", "sequential", "--steps", "5",
           "-o", folder.path("b.png"), "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["method"], "sequential");
  EXPECT_EQ(outcome.json()["steps"], 5);
}

TEST(Repeating, ReadsTheRecipeOfAClassWithAnyName) {
  const CopiedModel model;
  const TempFolder folder;
  const std::string image = folder.path("a.png");
  ASSERT_EQ(model.sample({"-o", image}).exit_code, 0);
  const Outcome outcome = run({"verify", image, "-m", model.path()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
}

TEST(Repeating, WarnsOfOtherInitialLatents) {
  const TempFolder folder;
  const auto latents = [&](const char* name, const char* seed) {
    const std::string path = folder.path(name);
    EXPECT_EQ(run(tiny_sample({"--seed", seed, "--save", "latents=" + path}))
                  .exit_code,
              0);
    return path;
  };
  const std::string one = latents("one.npz", "1");
  const std::string two = latents("two.npz", "2");
  const std::string image = folder.path("a.png");
  ASSERT_EQ(run(tiny_sample({"-o", image, "--init-latents", one})).exit_code,
            0);
  const auto again = [&](const std::string& from) {
    const Outcome outcome =
        run({"sample", "--from", image, "--init-latents", from, "-o",
             folder.path("b.png"), "--exists", "replace"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.err.find("other latents than those") != std::string::npos;
  };
  EXPECT_FALSE(again(one));
  EXPECT_EQ(folder.read("b.png"), folder.read("a.png"));
  EXPECT_TRUE(again(two));
}

TEST(Repeating, CallsImpossibleValuesOfARecipeCorrupt) {
  const TempFolder folder;
  ASSERT_EQ(run(tiny_sample({"-o", folder.path("a.png")})).exit_code, 0);
  const std::string whole = folder.read("a.png");
  struct Bad {
    const char* pointer;
    nlohmann::json value;
  };
  for (const Bad& bad :
       {Bad{"/class_id", -1}, Bad{"/schedule/eta", 7.5}, Bad{"/dtype", "f64"},
        Bad{"/guidance_scale", 1e9}, Bad{"/method/kind", "picard"}}) {
    (void)folder.write("a.png", whole);
    change_recipe(folder, "a.png", bad.pointer, bad.value);
    if (std::string(bad.pointer) == "/method/kind") {
      change_recipe(folder, "a.png", "/method/window_size", 0);
    }
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"verify", folder.path("a.png")},
          {"sample", "--from", folder.path("a.png"), "-o",
           folder.path("b.png")}}) {
      const Outcome outcome = run(arguments);
      EXPECT_EQ(outcome.exit_code, 6) << bad.pointer << outcome.err;
      EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
      EXPECT_NE(outcome.err.find("a.png"), std::string::npos) << outcome.err;
    }
  }
  (void)folder.write("a.png", whole);
  change_recipe(folder, "a.png", "/class_id", 1000);
  const Outcome outcome = run({"verify", folder.path("a.png")});
  EXPECT_NE(outcome.err.find("a.png: class]"), std::string::npos)
      << outcome.err;
}

TEST(Verifying, TakesNoSamples) {
  for (const char* flag : {"--samples", "-n"}) {
    const Outcome outcome = run({"verify", "x.png", flag, "0:3"});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_NE(outcome.err.find("this verb has no such option"),
              std::string::npos)
        << outcome.err;
  }
}

TEST(Verifying, LooksAtEveryFileAndEndsWithTheWorst) {
  const TempFolder folder;
  const std::string good = folder.path("a.png");
  ASSERT_EQ(run(tiny_sample({"-o", good})).exit_code, 0);
  (void)folder.write("other.png", folder.read("a.png"));
  change_recipe(folder, "other.png", "/latents_xxh3", "0123456789abcdef");
  const std::string other = folder.path("other.png");
  const std::string missing = folder.path("missing.png");
  const std::string broken = folder.write("broken.png", "rubbish");
  const Outcome outcome = run({"verify", good, missing, other, good, "--json"});
  EXPECT_EQ(outcome.exit_code, 5) << outcome.err;
  const nlohmann::json json = outcome.json();
  ASSERT_EQ(json["files"].size(), 4U);
  EXPECT_EQ(json["files"][0]["same"], true);
  EXPECT_EQ(json["files"][1]["error"]["code"], "not_found");
  EXPECT_EQ(json["files"][2]["same"], false);
  EXPECT_EQ(json["files"][3]["same"], true);
  EXPECT_EQ(json["error"]["code"], "mismatch");
  EXPECT_EQ(run({"verify", other, broken, missing}).exit_code, 6);
  EXPECT_EQ(run({"verify", good, missing}).exit_code, 2);
}

TEST(Skipping, RefusesImagesOfAnotherConfigurationWithNothingLeftToDo) {
  const CopiedModel model;
  const TempFolder folder;
  const auto skipping = [&](const char* samples) {
    return model.sample({"-n", samples, "-o", folder.path("out"), "--exists",
                         "skip", "--json"});
  };
  ASSERT_EQ(skipping("1").exit_code, 0);
  const Outcome same = skipping("1");
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(same.json()["nfe"], 0);
  const auto expect_refused = [&] {
    for (const char* samples : {"1", "2"}) {
      const Outcome outcome = skipping(samples);
      EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
      EXPECT_NE(outcome.err.find("its weights have the hash"),
                std::string::npos)
          << outcome.err;
    }
  };
  model.set("vae", "scaling_factor", 0.5);
  expect_refused();
  model.set("vae", "scaling_factor", 0.18215);
  EXPECT_EQ(skipping("1").exit_code, 0);
  model.set("transformer", "norm_eps", 1e-3);
  expect_refused();
}

TEST(Skipping, WritesOnlyOverWhatAnEarlierRunWrote) {
  const TempFolder folder;
  const std::string photo = folder.path("photo.png");
  ASSERT_EQ(run(tiny_sample({"-o", photo})).exit_code, 0);
  const std::string before = folder.read("photo.png");
  const auto skipping = [&](const char* flag, const std::string& path) {
    return run(tiny_sample(
        {"-n", "2", "-o", folder.path("out"), "--exists", "skip", flag, path}));
  };
  for (const char* flag : {"--grid", "--preview", "--trace"}) {
    const Outcome outcome = skipping(flag, photo);
    EXPECT_EQ(outcome.exit_code, 2) << flag;
    EXPECT_NE(outcome.err.find("of an earlier run: " + photo),
              std::string::npos)
        << outcome.err;
  }
  EXPECT_EQ(folder.read("photo.png"), before);
  EXPECT_FALSE(std::filesystem::exists(folder.path("out")));
  for (const auto& [flag, name] : {std::pair{"--grid", "g.png"},
                                   {"--preview", "p.png"},
                                   {"--trace", "t.json"}}) {
    ASSERT_EQ(
        run(tiny_sample({"-o", folder.path("x.png"), "--exists", "replace",
                         "--preview-every", "1", flag, folder.path(name)}))
            .exit_code,
        0);
    const Outcome outcome = skipping(flag, folder.path(name));
    EXPECT_EQ(outcome.exit_code, 0) << flag << outcome.err;
  }
}

}  // namespace
}  // namespace troupe::test
