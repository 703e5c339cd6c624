#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

/// A checkpoint that says how it is sampled best.
class Model {
 public:
  explicit Model(const std::string& sampling,
                 const std::string& scheduler =
                     R"({"_class_name": "DDIMScheduler", "beta_end": 0.03})") {
    std::filesystem::create_directory(folder_.path("model"));
    std::filesystem::copy(std::string(TROUPE_GOLDEN) + "/dit_default",
                          folder_.path("model/transformer"));
    std::filesystem::create_directory(folder_.path("model/scheduler"));
    (void)folder_.write("model/model_index.json",
                        R"({"_class_name": "DiTPipeline"})");
    (void)folder_.write("model/scheduler/scheduler_config.json", scheduler);
    if (!sampling.empty()) {
      (void)folder_.write("model/sampling.json", sampling);
    }
  }

  [[nodiscard]] Outcome run_with(
      const std::string& verb, std::vector<std::string> more,
      const Program::Environment& environment = {}) const {
    std::vector<std::string> arguments = {verb, "--model", path("model")};
    arguments = overridden(std::move(arguments), more);
    return run(std::move(arguments), environment);
  }
  [[nodiscard]] Outcome sample(
      std::vector<std::string> more,
      const Program::Environment& environment = {}) const {
    for (const char* argument :
         {"--class", "1", "--dtype", "f32", "--json", "--save"}) {
      more.emplace_back(argument);
    }
    more.push_back("latents=" + path("out.npz"));
    more.insert(more.end(), {"--exists", "replace"});
    return run_with("sample", std::move(more), environment);
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return folder_.path(name);
  }
  [[nodiscard]] const TempFolder& folder() const { return folder_; }

 private:
  TempFolder folder_;
};

/// The line that sets `key`, without the spaces before its comment.
std::string line_of(const std::string& text, const std::string& key) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const std::string start = key + " = ";
    if (line.starts_with(start) || line.starts_with("# " + key + " ")) {
      const std::size_t comment = line.find("  #");
      const std::size_t end = line.find_last_not_of(' ', comment);
      return comment == std::string::npos
                 ? line
                 : line.substr(0, end + 1) + line.substr(comment + 1);
    }
  }
  return "no line";
}

/// The same lines without their comments.
std::string values_of(const std::string& text) {
  std::istringstream in(text);
  std::string values;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with('#')) {
      values += line.substr(0, line.find("  #")) + "\n";
    }
  }
  return values;
}

TEST(ModelDefaults, AreWeakerThanAllThatIsSaid) {
  const Model model(R"({"guidance": 1.5, "steps": 3, "sampler": "euler"})");
  const auto expect = [](const Outcome& outcome, double guidance, int steps,
                         const char* sampler) {
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.json()["guidance"], guidance);
    EXPECT_EQ(outcome.json()["steps"], steps);
    EXPECT_EQ(outcome.json()["sampler"], sampler);
  };
  expect(model.sample({}), 1.5, 3, "euler");
  const std::string file =
      model.folder().write("a.toml", "guidance = 2.5\nsteps = 4\n");
  expect(model.sample({"--config", file}), 2.5, 4, "euler");
  expect(model.sample({"--config", file}, {"TROUPE_GUIDANCE=3"}), 3, 4,
         "euler");
  expect(
      model.sample({"--config", file, "--cfg-scale", "2", "--sampler", "ddim"},
                   {"TROUPE_GUIDANCE=3"}),
      2, 4, "ddim");
}

TEST(ModelDefaults, LeaveARecipeAlone) {
  const TempFolder folder;
  const auto demo = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"sample", "--model", TROUPE_DEMO, "--workers",
                               "1", "--threads", "1", "--json", "-o"});
    return run(std::move(more));
  };
  const std::string image = folder.path("a.png");
  const Outcome plain = demo({image, "--steps", "2"});
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_EQ(plain.json()["guidance"], 1.2);
  const std::string strong = folder.path("b.png");
  ASSERT_EQ(demo({strong, "--steps", "2", "--guidance", "4"}).exit_code, 0);
  const Outcome again = demo({folder.path("c.png"), "--from", strong});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.json()["guidance"], 4.0);
  EXPECT_EQ(again.json()["steps"], 2);
  EXPECT_EQ(folder.read("b.png"), folder.read("c.png"));
}

TEST(ModelDefaults, GiveWayToAnotherSampler) {
  const Model model(R"({"steps": 3, "sampler": "ddim", "eta": 0.5})");
  const Outcome outcome = model.sample({"--sampler", "euler"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["sampler"], "euler");
  EXPECT_EQ(outcome.json()["steps"], 3);
}

TEST(ModelDefaults, AreReadStrictly) {
  struct Case {
    const char* text;
    const char* says;
  };
  for (const Case& c :
       {Case{R"({"guidence": 1.5})", "did you mean 'guidance'?"},
        {R"({"guidance": "1.5"})", "expected a number"},
        {R"({"steps": 50.5})", "expected a whole number"},
        {R"({"steps": 0})", "sampling.json: steps] cannot use this value"},
        {R"({"steps": 5, "steps": 6})", "duplicate key 'steps'"},
        {R"({"steps": 5, "num_inference_steps": 6})", "sets what another"},
        {R"({"sampler": "dimm"})", "expected a solver's name"},
        {R"({"sampler": "euler", "eta": 1})",
         "sampling.json: eta] this solver"},
        {R"({"out": "/tmp/x.png"})", "unknown key 'out'"},
        {R"([1.5])", "expected a JSON object"},
        {"", "not valid JSON"},
        {R"({"guidance": 1.5)", "not valid JSON"}}) {
    const Model model("{}");
    (void)model.folder().write("model/sampling.json", c.text);
    const Outcome outcome = model.sample({});
    EXPECT_EQ(outcome.exit_code, 6) << c.text << outcome.err;
    EXPECT_NE(outcome.err.find("sampling.json"), std::string::npos)
        << outcome.err;
    EXPECT_NE(outcome.err.find(c.says), std::string::npos)
        << c.text << outcome.err;
  }
  const Model big("{\"_\": \"" + std::string(70'000, 'x') + "\"}");
  EXPECT_EQ(big.sample({}).exit_code, 6);
  const Model deep(std::string(60'000, '['));
  EXPECT_EQ(deep.sample({}).exit_code, 6);
}

TEST(ModelDefaults, AreSaidByInspect) {
  const Model model(R"({"guidance": 1.5, "_comment": "by hand"})");
  const Outcome outcome = run({"inspect", model.path("model"), "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["items"][0]["defaults"]["guidance"], 1.5);
  EXPECT_NE(run({"inspect", model.path("model")})
                .out.find("default of --guidance: 1.5"),
            std::string::npos);
}

TEST(PrintConfig, SaysEveryValueAsItsTypeWithItsSource) {
  const Model model(R"({"guidance": 1.5, "steps": 3})");
  const std::string file = model.folder().write(
      "a.toml", "seed = 1\nbatch = 2\nclass = [\"1\", 4]\n");
  const Outcome outcome = model.run_with(
      "sample", {"--config", file, "--clip-sample", "false", "--print-config"},
      {"TROUPE_SEED=7"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto line = [&](const char* key) { return line_of(outcome.out, key); };
  const std::string defaults = model.path("model/sampling.json");
  const std::string scheduler =
      model.path("model/scheduler/scheduler_config.json");
  EXPECT_EQ(line("guidance"), "guidance = 1.5 # " + defaults);
  EXPECT_EQ(line("steps"), "steps = 3 # " + defaults);
  EXPECT_EQ(line("sampler"), "sampler = \"ddim\" # " + scheduler);
  EXPECT_EQ(line("beta-end"), "beta-end = 0.03 # " + scheduler);
  EXPECT_EQ(line("beta-start"), "beta-start = 1e-04 # default");
  EXPECT_EQ(line("eta"), "eta = 0.0 # default");
  EXPECT_EQ(line("clip-sample"), "clip-sample = false # --clip-sample");
  EXPECT_EQ(line("seed"), "seed = 7 # TROUPE_SEED");
  EXPECT_EQ(line("batch"), "batch = 2 # " + file + ":2");
  EXPECT_EQ(line("class"), "class = [1, 4] # " + file + ":3");
  EXPECT_EQ(line("quiet"), "quiet = false # default");
  EXPECT_EQ(line("out"), "# out # not set: none");
  EXPECT_TRUE(line("workers").starts_with(
      "# workers # not set: as many as the devices can use: "));
  EXPECT_EQ(line("order"), "# order # not set: scheduler_config.json, else 2");
}

TEST(PrintConfig, GivesEveryOptionALine) {
  const Outcome outcome = run({"sample", "--print-config"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* key :
       {"model", "random-weights", "class", "guidance", "window", "out",
        "timesteps", "sigma-spacing", "preview-every", "dry-run"}) {
    EXPECT_NE(line_of(outcome.out, key), "no line") << key;
  }
}

TEST(PrintConfig, ReadsBackToTheSameValues) {
  struct Case {
    const char* verb;
    std::vector<std::string> arguments;
    const char* scheduler;
  };
  const char* dpm = R"({"_class_name": "DPMSolverMultistepScheduler",
                        "algorithm_type": "sde-dpmsolver++",
                        "solver_order": 3, "use_karras_sigmas": true})";
  const char* noise = R"({"_class_name": "DPMSolverMultistepScheduler",
                          "algorithm_type": "dpmsolver",
                          "final_sigmas_type": "sigma_min"})";
  const char* ddpm = R"({"_class_name": "DDPMScheduler",
                         "variance_type": "fixed_large"})";
  const char* plms = R"({"_class_name": "PNDMScheduler",
                         "skip_prk_steps": true, "steps_offset": 1})";
  const char* pndm = R"({"_class_name": "PNDMScheduler"})";
  for (const Case& c :
       {Case{"sample", {}, ddpm},
        {"sample", {}, plms},
        {"sample", {}, pndm},
        {"sample", {"--sampler", "plms"}, ddpm},
        {"sample", {"--seed", "18446744073709551615"}, dpm},
        {"sample", {"--sampler", "heun", "--karras"}, dpm},
        {"sample", {}, noise},
        {"sample", {"--sampler", "euler_a"}, ddpm},
        {"sample", {"--sigmas", "9,3,1", "--sampler", "euler"}, ddpm},
        {"sample", {"--timesteps", "900,500,100", "--samples", "2:5"}, ddpm},
        {"sample", {"--method", "picard", "--tolerance", "0.1"}, ddpm},
        {"sample", {"--method", "stale", "--segments", "2"}, ddpm},
        {"sample", {"--preset", "asyncdiff2", "--ages", "1"}, ddpm},
        {"sample", {"--save", "latents=a.npz", "-o", "a \"b\"\n.png"}, ddpm},
        {"bench", {"--method", "pipeline", "--repeats", "2"}, ddpm},
        {"schedule", {"--beta-end", "1e-5"}, dpm}}) {
    const Model model(R"({"guidance": 1.5})", c.scheduler);
    std::vector<std::string> arguments = c.arguments;
    arguments.emplace_back("--print-config");
    const Outcome first = model.run_with(c.verb, arguments);
    ASSERT_EQ(first.exit_code, 0) << first.err;
    const std::string file = model.folder().write("printed.toml", first.out);
    const Outcome again = run({c.verb, "--config", file, "--print-config"});
    ASSERT_EQ(again.exit_code, 0) << again.err << first.out;
    EXPECT_EQ(values_of(again.out), values_of(first.out));
    EXPECT_EQ(first.out.find("# sampler = "), std::string::npos) << first.out;
  }
}

TEST(PrintConfig, RunsToTheSameLatents) {
  const Model model(R"({"guidance": 1.5, "steps": 4})",
                    R"({"_class_name": "DPMSolverMultistepScheduler",
                        "algorithm_type": "sde-dpmsolver++",
                        "use_karras_sigmas": true, "steps_offset": 1})");
  const Outcome plain = model.sample({});
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  const Outcome printed = model.run_with(
      "sample", {"--class", "1", "--dtype", "f32", "--print-config"});
  const std::string file = model.folder().write("p.toml", printed.out);
  const Outcome again = run({"sample", "--config", file, "--save",
                             "latents=" + model.path("again.npz"), "--json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.json()["latents_xxh3"], plain.json()["latents_xxh3"]);
  EXPECT_EQ(again.json()["guidance"], 1.5);
}

TEST(PrintConfig, NamesTheRecipeOfAnImage) {
  const TempFolder folder;
  const std::string image = folder.path("a.png");
  ASSERT_EQ(run(tiny_sample({"-o", image, "--guidance", "3"})).exit_code, 0);
  const Outcome outcome = run({"sample", "--from", image, "--eta", "0.5",
                               "--size", "16x16", "--print-config"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(line_of(outcome.out, "guidance"), "guidance = 3.0 # " + image);
  EXPECT_EQ(line_of(outcome.out, "steps"), "steps = 4 # recipe of " + image);
  EXPECT_EQ(line_of(outcome.out, "eta"), "eta = 0.5 # --eta");
  EXPECT_TRUE(outcome.out.starts_with(
      "# The recipe of --from overrides this file. Repeat these flags: "
      "--size --eta\n"))
      << outcome.out;
}

TEST(Summary, SaysSamplerStepsAndGuidance) {
  const TempFolder folder;
  const Outcome outcome =
      run(tiny_sample({"-o", folder.path("a.png"), "--guidance", "2.5"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("; ddim 4 steps, guidance 2.5, "),
            std::string::npos)
      << outcome.out;
}

}  // namespace
}  // namespace troupe::test
