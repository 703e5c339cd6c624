#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "config/enum_names.h"
#include "config/load_config.h"
#include "config/method_plan.h"
#include "config/print_config.h"
#include "config/schedule_options.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

Setting flag(const std::string& key, const std::string& text) {
  return {"--" + key, key, text};
}

/// A file that lives as long as the object.
class TempFile {
 public:
  explicit TempFile(const std::string& content)
      : path_(std::filesystem::temp_directory_path() /
              ("troupe_config_test_" + std::to_string(::getpid()) + ".toml")) {
    std::ofstream(path_) << content;
  }
  ~TempFile() { std::filesystem::remove(path_); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

Error error_of(const Sources& sources, Verb verb = Verb::sample) {
  try {
    (void)load_config(verb, sources);
  } catch (const Error& error) {
    return error;
  }
  return {Errc::internal, "test", "no error"};
}

TEST(LoadConfig, FlagsBeatEnvironmentBeatsFileBeatsDefaults) {
  const TempFile file("steps = 10\nseed = 1\nworkers = 3\n");
  const Sources sources{.flags = {flag("steps", "30")},
                        .environment = {{"TROUPE_STEPS", "steps", "20"},
                                        {"TROUPE_SEED", "seed", "2"}},
                        .file = file.path()};
  const Config config = load_config(Verb::sample, sources);
  EXPECT_EQ(config.sampler.steps, 30);
  EXPECT_EQ(config.seed, 2U);
  EXPECT_EQ(config.num_workers, 3);
  EXPECT_EQ(config.num_threads, 0);
}

TEST(LoadConfig, TakesTheSpellingsOfTheField) {
  const Config config = load_config(
      Verb::sample,
      {.flags = {flag("num-inference-steps", "12"),
                 flag("guidance_scale", "2.5"), flag("scheduler", "dpm++2m")},
       .environment = {},
       .file = {}});
  EXPECT_EQ(config.sampler.steps, 12);
  EXPECT_EQ(config.guidance_scale, 2.5);
  EXPECT_EQ(config.sampler.name, "dpm++2m");
}

TEST(LoadConfig, SuggestsTheNearestFlag) {
  const Error error =
      error_of({.flags = {flag("stesp", "3")}, .environment = {}, .file = {}});
  EXPECT_EQ(error.code(), Errc::invalid_argument);
  EXPECT_EQ(error.hint(), "did you mean '--steps'?");
}

TEST(LoadConfig, SuggestsTheNearestKeyOfAFileWithItsLine) {
  const TempFile file("steps = 10\nsede = 1\n");
  const Error error =
      error_of({.flags = {}, .environment = {}, .file = file.path()});
  EXPECT_EQ(error.place(), file.path() + ":2 sede");
  EXPECT_EQ(error.hint(), "did you mean 'seed'?");
}

TEST(LoadConfig, SuggestsTheNearestVariable) {
  const Error error =
      error_of({.flags = {},
                .environment = {{"TROUPE_WORKER", "worker", "2"}},
                .file = {}});
  EXPECT_EQ(error.place(), "TROUPE_WORKER");
  EXPECT_EQ(error.hint(), "did you mean 'workers'?");
}

TEST(LoadConfig, RefusesAFlagThatBelongsToAnotherVerb) {
  EXPECT_EQ(
      error_of(
          {.flags = {flag("grid", "x.png")}, .environment = {}, .file = {}},
          Verb::schedule)
          .code(),
      Errc::invalid_argument);
}

TEST(LoadConfig, RefusesBrokenAndNestedToml) {
  for (const char* text : {"steps = ", "[sampler]\nsteps = 3\n",
                           "class = [[1]]\n", "steps = 1\nsteps = 2\n"}) {
    const TempFile file(text);
    EXPECT_EQ(
        error_of({.flags = {}, .environment = {}, .file = file.path()}).code(),
        Errc::corrupt_file)
        << text;
  }
  EXPECT_EQ(error_of({.flags = {}, .environment = {}, .file = "/no/such.toml"})
                .code(),
            Errc::not_found);
}

TEST(LoadConfig, RefusesOneOptionUnderTwoNames) {
  const TempFile file("steps = 2\nnum_inference_steps = 3\n");
  const Error error =
      error_of({.flags = {}, .environment = {}, .file = file.path()});
  EXPECT_EQ(error.code(), Errc::invalid_argument);
  EXPECT_NE(std::string(error.what()).find("sets too"), std::string::npos)
      << error.what();
  EXPECT_EQ(error_of({.flags = {},
                      .environment = {{"TROUPE_CFG_SCALE", "cfg-scale", "2"},
                                      {"TROUPE_GUIDANCE", "guidance", "3"}},
                      .file = {}})
                .code(),
            Errc::invalid_argument);
}

TEST(LoadConfig, ASwitchTurnedOffTakesBackWeakerSourcesAndExcludesNothing) {
  const Config config = load_config(
      Verb::sample, {.flags = {flag("quiet", "false"), flag("verbose", "true"),
                               flag("karras", "false")},
                     .environment = {{"TROUPE_QUIET", "quiet", "1"},
                                     {"TROUPE_KARRAS", "karras", "1"}},
                     .file = {}});
  EXPECT_FALSE(config.quiet);
  EXPECT_TRUE(config.verbose);
  EXPECT_FALSE(config.sampler.sigma_spacing);
}

TEST(LoadConfig, KnowsWhoAsksForJsonWhateverElseIsWrong) {
  const TempFile file("json = true\nstpes = 3\n");
  EXPECT_TRUE(
      asks_for_json({.flags = {}, .environment = {}, .file = file.path()}));
  EXPECT_FALSE(asks_for_json({.flags = {},
                              .environment = {{"TROUPE_JSON", "json", "off"}},
                              .file = file.path()}));
  EXPECT_TRUE(asks_for_json({.flags = {flag("json", "true")},
                             .environment = {{"TROUPE_JSON", "json", "0"}},
                             .file = "/no/such.toml"}));
}

TEST(LoadConfig, ReadsListsNumbersAndSwitchesFromToml) {
  const TempFile file(
      "class = [\"tench\", 7]\nsigmas = [3.5, 1]\njson = true\n"
      "guidance = 4.5\n");
  const Config config = load_config(
      Verb::sample, {.flags = {}, .environment = {}, .file = file.path()});
  EXPECT_EQ(config.classes, (std::vector<std::string>{"tench", "7"}));
  EXPECT_EQ(config.sampler.sigmas, (std::vector<double>{3.5, 1}));
  EXPECT_TRUE(config.json);
  EXPECT_EQ(config.guidance_scale, 4.5);
}

TEST(LoadConfig, ReadsATimeWithAUnitAndWhatIsPrintedOfIt) {
  const Config said = load_config(
      Verb::worker,
      {.flags = {flag("wait", "1.5m")}, .environment = {}, .file = {}});
  EXPECT_EQ(said.wait_seconds, 90);
  const TempFile printed(to_toml(Verb::worker, said));
  EXPECT_EQ(
      load_config(Verb::worker,
                  {.flags = {}, .environment = {}, .file = printed.path()})
          .wait_seconds,
      90);
  const TempFile written("wait = \"2h\"\n");
  EXPECT_EQ(
      load_config(Verb::worker,
                  {.flags = {}, .environment = {}, .file = written.path()})
          .wait_seconds,
      7200);
}

TEST(LoadConfig, AStrongerSourceReplacesTheRivalChoice) {
  const TempFile file("model = \"somewhere\"\n");
  const Config config =
      load_config(Verb::sample, {.flags = {flag("random-weights", "dit-s-2")},
                                 .environment = {},
                                 .file = file.path()});
  EXPECT_EQ(config.model_dir, "");
  EXPECT_EQ(config.random_weights, "dit-s-2");
}

TEST(LoadConfig, RefusesOptionsThatExcludeEachOther) {
  EXPECT_EQ(error_of({.flags = {flag("model", "a"),
                                flag("random-weights", "dit-s-2")},
                      .environment = {},
                      .file = {}})
                .code(),
            Errc::invalid_argument);
}

TEST(LoadConfig, TakesNothingThatDecidesPixelsFromBelowARecipe) {
  const TempFile file(
      "eta = 0.5\nwindow = 3\ninit-latents = \"a.npy\"\nring-blocks = 4\n");
  Sources sources{.flags = {flag("beta-end", "0.5")},
                  .recipe = {{"x.png: seed", "seed", "7"}},
                  .environment = {{"TROUPE_STEPS", "steps", "9"},
                                  {"TROUPE_SAMPLER", "sampler", "euler"},
                                  {"TROUPE_PRESET", "preset", "asyncdiff"},
                                  {"TROUPE_SIZE", "size", "16"},
                                  {"TROUPE_SHARD_PLAN", "shard-plan", "ring"},
                                  {"TROUPE_SEED", "seed", "1"}},
                  .file = file.path()};
  const Config config = load_config(Verb::sample, sources);
  SamplerConfig flags_only;
  flags_only.beta_end = 0.5;
  EXPECT_EQ(config.sampler, flags_only);
  EXPECT_EQ(config.method, samplers::MethodChoices{});
  EXPECT_EQ(config.init_latents, "");
  EXPECT_EQ(config.size, std::nullopt);
  EXPECT_EQ(config.num_ring_blocks(), 1);
  EXPECT_EQ(config.seed, 7U);
  sources.recipe_needs_latents = true;
  EXPECT_EQ(load_config(Verb::sample, sources).init_latents, "a.npy");
}

TEST(LoadConfig, CallsARecipeWithImpossibleValuesCorrupt) {
  const Error error =
      error_of({.flags = {},
                .recipe = {{"x.png: guidance", "guidance", "1e9"}},
                .environment = {},
                .file = {}});
  EXPECT_EQ(error.code(), Errc::corrupt_file);
  EXPECT_EQ(error.place(), "x.png: guidance");
}

TEST(LoadConfig, AChosenMethodTakesBackTheOptionsOfAnother) {
  const Sources picard{.flags = {},
                       .environment = {{"TROUPE_METHOD", "method", "picard"},
                                       {"TROUPE_WINDOW", "window", "2"},
                                       {"TROUPE_CARRY", "carry", "identity"}},
                       .file = {}};
  const auto with = [&](const std::vector<Setting>& flags) {
    Sources sources = picard;
    sources.flags = flags;
    return load_config(Verb::sample, sources).method;
  };
  EXPECT_EQ(with({}).window_size, 2);
  EXPECT_EQ(with({flag("method", "picard")}).window_size, 2);
  EXPECT_EQ(with({flag("tolerance", "0.1")}).window_size, 2);
  samplers::MethodChoices sequential;
  sequential.kind = samplers::MethodKind::sequential;
  EXPECT_EQ(with({flag("method", "sequential")}), sequential);
  EXPECT_EQ(with({flag("method", "auto")}), samplers::MethodChoices{});
  samplers::MethodChoices preset;
  preset.preset = "asyncdiff2";
  EXPECT_EQ(with({flag("preset", "asyncdiff2")}), preset);
  // Options of one source stay together, in any order.
  EXPECT_EQ(
      with({flag("ages", "2"), flag("stride", "2"), flag("method", "stale")})
          .ages,
      std::vector<int>{2});
}

TEST(LoadConfig, BenchTakesSeveralMethodsAndOthersOne) {
  const auto with = [](Verb verb, const std::vector<Setting>& flags,
                       const std::vector<Setting>& environment = {}) {
    return load_config(
        verb, {.flags = flags, .environment = environment, .file = {}});
  };
  const Config several = with(
      Verb::bench, {flag("method", "cfg,stale"), flag("preset", "asyncdiff")});
  EXPECT_EQ(several.methods, (std::vector{samplers::MethodKind::cfg,
                                          samplers::MethodKind::stale}));
  EXPECT_EQ(several.method.kind, samplers::MethodKind::cfg);
  EXPECT_EQ(find_option("method")->get(several), "cfg,stale");
  const std::vector<Setting> said = {{"TROUPE_METHOD", "method", "cfg,picard"},
                                     {"TROUPE_WINDOW", "window", "2"}};
  EXPECT_EQ(with(Verb::bench, {}, said).methods.size(), 2U);
  const Config one = with(Verb::bench, {flag("method", "picard")}, said);
  EXPECT_TRUE(one.methods.empty());
  EXPECT_EQ(one.method.window_size, 2);
  EXPECT_EQ(with(Verb::bench, {flag("method", "cfg,picard")}, said)
                .method.window_size,
            2);
  EXPECT_TRUE(with(Verb::verify, {}, said).methods.empty());
  EXPECT_THROW((void)with(Verb::sample, {}, said), Error);
  EXPECT_THROW((void)with(Verb::bench, {flag("method", "cfg,nothing")}), Error);
}

TEST(LoadConfig, APresetTakesBackTheStrideOfAWeakerSource) {
  const Config config = load_config(
      Verb::sample, {.flags = {flag("preset", "asyncdiff")},
                     .recipe = {{"x.png: method", "method", "stale"},
                                {"x.png: stride", "stride", "2"}},
                     .environment = {},
                     .file = {}});
  EXPECT_EQ(config.method.stride, std::nullopt);
}

TEST(LoadConfig, BoundsTheErrorWhereAutoChooses) {
  const Setting bound{"TROUPE_MAX_RMSE", "max-rmse", "0.05"};
  const auto most = [&](const Sources& sources, Verb verb = Verb::sample) {
    return load_config(verb, sources).max_rmse;
  };
  EXPECT_EQ(most({.environment = {bound}}), 0.05);
  EXPECT_EQ(most({.flags = {flag("method", "auto")}, .environment = {bound}}),
            0.05);
  EXPECT_EQ(most({.flags = {flag("max-rmse", "0.1")}, .environment = {bound}}),
            0.1);
  EXPECT_EQ(most({.flags = {flag("method", "draft")}, .environment = {bound}}),
            std::nullopt);
  EXPECT_EQ(
      most({.recipe = {{"x.png: seed", "seed", "3"}}, .environment = {bound}}),
      std::nullopt)
      << "a recipe is whole";
  EXPECT_EQ(most({.environment = {bound}}, Verb::bench), std::nullopt);
  EXPECT_EQ(
      error_of({.flags = {flag("method", "draft"), flag("max-rmse", "0.1")}})
          .place(),
      "--max-rmse");
}

TEST(LoadConfig, StepsAndListsTakeEachOtherBack) {
  const Sources lists{.flags = {flag("steps", "4")},
                      .environment = {{"TROUPE_TIMESTEPS", "timesteps", "9,5"}},
                      .file = {}};
  EXPECT_EQ(load_config(Verb::sample, lists).sampler.timesteps,
            std::vector<double>{});
  const Sources steps{.flags = {flag("sigmas", "3,1")},
                      .environment = {{"TROUPE_STEPS", "steps", "4"}},
                      .file = {}};
  EXPECT_EQ(load_config(Verb::sample, steps).sampler.steps, std::nullopt);
}

TEST(ScheduleOptions, StepsTakeBackTheListsOfTheRecipe) {
  samplers::ScheduleOptions options;
  options.timesteps = {900, 500, 100};
  options.sigmas = {3, 2, 1};
  SamplerConfig sampler;
  sampler.eta = 0.5;
  apply(sampler, options);
  EXPECT_EQ(options.timesteps.size(), 3U);
  sampler.steps = 4;
  apply(sampler, options);
  EXPECT_EQ(options.timesteps, std::vector<double>{});
  EXPECT_EQ(options.sigmas, std::vector<double>{});
  EXPECT_EQ(options.num_inference_steps, 4);
}

TEST(OptionTable, SaysTheDefaultOfEveryOption) {
  for (const Option& option : option_table()) {
    for (const std::string& name : names_of<Verb>()) {
      const Verb verb = parse_enum<Verb>("verb", name);
      if (option.serves(verb)) {
        EXPECT_NE(option.help.of(verb), "") << name << " " << option.key;
        EXPECT_NE(default_of(option, verb), "") << name << " " << option.key;
      }
    }
  }
  const samplers::MethodOptions method;
  const auto starts_with = [](const char* key, const std::string& value) {
    return default_of(*find_option(key), Verb::bench).starts_with(value);
  };
  Config picard;
  picard.method.kind = samplers::MethodKind::picard;
  const samplers::MethodOptions chosen =
      make_plan(picard, {.num_calls = 100}).method;
  EXPECT_TRUE(starts_with(
      "window", "one per worker, from " + std::to_string(chosen.window_size)));
  EXPECT_TRUE(starts_with("tolerance", "0.02"));
  EXPECT_EQ(chosen.tolerance, 0.02);
  EXPECT_TRUE(starts_with("carry", name_of(chosen.carry)));
  EXPECT_TRUE(starts_with("guess", name_of(chosen.initial_guess)));
  EXPECT_TRUE(starts_with("accept", name_of(chosen.accept)));
  EXPECT_TRUE(starts_with("ages", std::to_string(method.age)));
  EXPECT_TRUE(starts_with("stride", std::to_string(method.stride)));
  EXPECT_TRUE(starts_with("warmup", std::to_string(method.warmup_steps)));
  EXPECT_TRUE(starts_with("final-fresh", "0; a tenth of the model calls"));
  EXPECT_TRUE(starts_with("stale-at", "latents; cuts with --preset"));
  EXPECT_TRUE(starts_with("workers", "as many as the devices"));
}

TEST(OptionTable, HasNoSpellingTwice) {
  std::set<std::string> names;
  std::set<char> letters;
  for (const Option& option : option_table()) {
    EXPECT_TRUE(names.insert(std::string(option.key)).second) << option.key;
    for (const std::string& alias : parse_list("aliases", option.aliases)) {
      EXPECT_TRUE(names.insert(alias).second) << alias;
    }
    if (option.letter != 0) {
      EXPECT_TRUE(letters.insert(option.letter).second) << option.letter;
    }
  }
}

TEST(LoadConfig, SaysWhatStandsInTheConfigurationFilesPlace) {
  struct Case {
    const char* path;
    Errc code;
    const char* says;
  };
  for (const Case& c : {Case{"/no/such.toml", Errc::not_found, "no such"},
                        {"/", Errc::invalid_argument, "a folder"},
                        {"/dev/zero", Errc::invalid_argument, "a device"}}) {
    const Error error =
        error_of({.flags = {}, .environment = {}, .file = c.path});
    EXPECT_EQ(error.code(), c.code) << c.path;
    EXPECT_EQ(error.place(), c.path);
    EXPECT_NE(error.message().find(c.says), std::string::npos) << error.what();
    EXPECT_NE(error.hint(), "") << c.path;
  }
}

/// `count` of them, between dots.
std::string dotted(const std::string& word, int count) {
  std::string text = word;
  for (int i = 1; i < count; ++i) {
    text += "." + word;
  }
  return text;
}

// The parser calls itself for each part of a key.
TEST(ConfigFile, WithAKeyOfManyDotsIsRefusedAtItsLine) {
  constexpr int kParts = 100'000;
  const std::string deep = dotted("a", kParts);
  for (const std::string& line :
       {deep + " = 1", "[" + deep + "]", "[[" + deep + "]]",
        dotted("\"a\"", kParts) + " = 1", dotted("'a' ", kParts) + "= 1",
        "seed = { " + deep + " = 1 }", "steps = [ { " + deep + " = 1 } ]",
        dotted("a", 20) + " = 1"}) {
    const TempFile file("# a.b.c.d.e.f.g.h.i.j.k\nsteps = 3\n" + line + "\n");
    const Error error = error_of({.file = file.path()});
    EXPECT_EQ(error.code(), Errc::invalid_argument) << line.substr(0, 20);
    EXPECT_EQ(error.place(), file.path() + ":3") << line.substr(0, 20);
    EXPECT_NE(error.message().find("dots"), std::string::npos);
  }
}

TEST(ConfigFile, MayHaveDotsInItsTexts) {
  const std::string dots = dotted("a", 100);
  const TempFile file("prompt = \"" + dots + " \\\" " + dots + "\" # " + dots +
                      "\nout = '" + dots + "'\nprompt-2 = \"\"\"" + dots +
                      "\n\"" + dots + "\"\"\"\"\nsave = ['1.5.6', \"" + dots +
                      "\"]\nsigmas = [1.5, 1.4, 1.3, 1.2, 1.1, 1.0, 0.9, 0.8, "
                      "0.7, 0.6, 0.5]\n");
  const Config config = load_config(Verb::sample, {.file = file.path()});
  EXPECT_EQ(config.out, dots);
  EXPECT_EQ(config.prompts, (std::vector{dots + " \" " + dots}));
  EXPECT_EQ(config.prompt_2, dots + "\n\"" + dots + "\"");
  EXPECT_EQ(config.save, (std::vector<std::string>{"1.5.6", dots}));
  EXPECT_EQ(config.sampler.sigmas.size(), 11U);
}

// The parser calls itself for each level, too.
TEST(ConfigFile, WithManyLevelsIsRefusedAtItsLine) {
  constexpr int kLevels = 200'000;
  const std::string open(kLevels, '[');
  const std::string closed = open + std::string(kLevels, ']');
  std::string tables;
  std::string both;
  for (int i = 0; i < kLevels; ++i) {
    tables += "{a=";
    both += "[{a=";
  }
  for (const std::string& line : std::vector<std::string>{
           "sigmas = " + closed, "sigmas = " + open, "seed = " + tables,
           "seed = " + both, open, "steps = \"]\" [[[[[[[[[",
           "sigmas = [[[[[[[[[1]]]]]]]]]"}) {
    const TempFile file("steps = 3 # [[[[[[[[[[[\n" + line + "\n");
    const Error error = error_of({.file = file.path()});
    EXPECT_EQ(error.code(), Errc::invalid_argument) << line.substr(0, 20);
    EXPECT_EQ(error.place(), file.path() + ":2") << line.substr(0, 20);
    EXPECT_NE(error.message().find("nested too deep"), std::string::npos)
        << error.message();
  }
  const TempFile few("sigmas = [[[1]]]\n");
  EXPECT_EQ(error_of({.file = few.path()}).code(), Errc::corrupt_file);
}

TEST(ConfigFile, MayHaveManyListsAndTexts) {
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    lines += "# [" + std::string(20, '{') + "\n";
  }
  const TempFile file(lines + "prompt = [\"[[[[[[[[[[\", '{{{{{{{{{{']\n" +
                      "save = [\n\"a\", # ]]\n\"b\"]\nsigmas = [2, 1]\n");
  const Config config = load_config(Verb::sample, {.file = file.path()});
  EXPECT_EQ(config.prompts,
            (std::vector<std::string>{"[[[[[[[[[[", "{{{{{{{{{{"}));
  EXPECT_EQ(config.save, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(config.sampler.sigmas.size(), 2U);
}

// Names of other programs, and sides one by one.
TEST(Size, IsMadeOfItsSides) {
  const auto config_of = [](const std::vector<Setting>& flags,
                            const std::vector<Setting>& environment = {}) {
    return load_config(Verb::sample,
                       {.flags = flags, .environment = environment});
  };
  const Setting width{"--width", "width", "512"};
  const Setting height{"--height", "height", "384"};
  EXPECT_EQ(config_of({width, height}).size, (PictureSize{512, 384}));
  EXPECT_EQ(config_of({width}).size, (PictureSize{512, 0}));
  EXPECT_EQ(config_of({width}).place_of("width"), "--width");
  EXPECT_EQ(config_of({width, height}).place_of("size"), "--height");
  EXPECT_NE(to_toml(Verb::sample, config_of({width})).find("\nwidth = 512 "),
            std::string::npos);
  EXPECT_EQ(config_of({height}, {{"TROUPE_SIZE", "size", "64x32"}}).size,
            (PictureSize{64, 384}));
  EXPECT_EQ(config_of({{"--size", "size", "64x32"}},
                      {{"TROUPE_WIDTH", "width", "512"}})
                .size,
            (PictureSize{64, 32}));
  EXPECT_THROW((void)config_of({width, {"--size", "size", "64x32"}}), Error);
  EXPECT_THROW((void)config_of({{"--width", "width", "0"}}), Error);
}

}  // namespace
}  // namespace troupe::config
