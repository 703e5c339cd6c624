#include <gtest/gtest.h>

#include "actors/artefacts/png.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

TEST(Help, ComesWithoutAVerbAndForEachVerb) {
  EXPECT_EQ(run({}).exit_code, 0);
  for (const char* verb :
       {"sample", "schedule", "inspect", "verify", "bench", "doctor", "keys"}) {
    const Outcome outcome = run({verb, "--help"});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_NE(outcome.out.find("Examples"), std::string::npos) << verb;
  }
}

TEST(Version, NamesTheProgram) {
  EXPECT_TRUE(
      run({"--version"}).out.starts_with("troupe " TROUPE_VERSION " ("));
}

TEST(PrintConfig, MergesAllSources) {
  const TempFolder folder;
  const std::string file =
      folder.write("a.toml", "steps = 10\nseed = 1\nworkers = 3\n");
  const Outcome outcome =
      run({"sample", "--config", file, "--steps", "30", "--print-config"},
          {"TROUPE_SEED=2", "TROUPE_STEPS=20"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("steps = 30 "), std::string::npos);
  EXPECT_NE(outcome.out.find("seed = 2 "), std::string::npos);
  EXPECT_NE(outcome.out.find("workers = 3 "), std::string::npos);
}

TEST(PrintConfig, CannotBeJson) {
  for (const auto& [arguments, environment] :
       {std::pair{
            std::vector<std::string>{"sample", "--print-config", "--json"},
            Program::Environment{}},
        {{"doctor", "--print-config"}, {"TROUPE_JSON=1"}}}) {
    const Outcome outcome = run(arguments, environment);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    EXPECT_NE(outcome.err.find("[--print-config] prints TOML"),
              std::string::npos)
        << outcome.err;
    EXPECT_EQ(outcome.json()["exit_code"], 2);
  }
}

TEST(ScheduleVerb, PrintsTheTableAndDrawsIt) {
  const TempFolder folder;
  const Outcome outcome =
      run({"schedule", "--sampler", "DPMSolverMultistepScheduler", "--steps",
           "5", "--json", "--plot", folder.path("a.svg")});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = outcome.json();
  EXPECT_EQ(json["timesteps"].size(), 5U);
  EXPECT_EQ(json["sigmas"].size(), 6U);
  EXPECT_EQ(json["sigmas"][5], 0.0);
  EXPECT_TRUE(folder.read("a.svg").starts_with("<svg"));
}

TEST(ScheduleVerb, ComparesSeveralSamplersInOnePlot) {
  const TempFolder folder;
  for (const auto& named : std::vector<std::vector<std::string>>{
           {"--sampler", "ddim", "--sampler", "heun", "--sampler", "flow"},
           {"--sampler", "ddim,heun,flow"}}) {
    std::vector<std::string> arguments = {
        "schedule", "--steps", "6", "--json", "--plot", folder.path("b.svg")};
    arguments.insert(arguments.end(), named.begin(), named.end());
    const Outcome outcome = run(arguments);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const nlohmann::json json = outcome.json();
    ASSERT_EQ(json["schedules"].size(), 3U);
    EXPECT_EQ(json["schedules"][1]["sampler"], "heun");
    EXPECT_EQ(json["schedules"][1]["model_calls"], 11);
    EXPECT_FALSE(json.contains("sampler"));
    const std::string svg = folder.read("b.svg");
    for (const char* says : {"3 schedules", ">ddim, 6 steps<",
                             ">heun, 6 steps, 11 calls<", ">network call<",
                             "no model; betas linear from 0.0001 to 0.02 over "
                             "1000 training steps; flow path, shift 1"}) {
      EXPECT_NE(svg.find(says), std::string::npos) << says;
    }
  }
  const Outcome tables =
      run({"schedule", "--sampler", "ddim,euler", "--steps", "3"});
  EXPECT_NE(tables.out.find("ddim with 3 steps"), std::string::npos);
  EXPECT_NE(tables.out.find("\neuler with 3 steps"), std::string::npos);
  const Outcome wrong = run({"schedule", "--sampler", "ddim,eulre"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.err.find("'eulre'"), std::string::npos) << wrong.err;
}

TEST(ScheduleVerb, SaysWhichLevelsTheModelNeverSaw) {
  const auto notes = [](const char* list) {
    const Outcome outcome =
        run({"schedule", "--sampler", "euler", "--sigmas", list, "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json()["notes"].dump();
  };
  EXPECT_NE(notes("200,10,1,0")
                .find("200 is above the trained levels, 0.0100013 to 157.407"),
            std::string::npos);
  EXPECT_NE(notes("1000,10,1,0").find("1000 is above"), std::string::npos);
  EXPECT_NE(notes("80,10,0.002,0").find("0.002 is below"), std::string::npos);
  EXPECT_EQ(notes("157.407,10,1,0"), "[]");
}

TEST(ScheduleVerb, SaysThatItAddedTheFinalZero) {
  const std::string note = "a final noise level of 0 was added to --sigmas";
  const auto schedule = [](const char* list) {
    return run({"schedule", "--sampler", "euler", "--sigmas", list, "--json"});
  };
  const Outcome without = schedule("10,5,1");
  ASSERT_EQ(without.exit_code, 0) << without.err;
  EXPECT_NE(without.err.find(note), std::string::npos) << without.err;
  EXPECT_EQ(without.json()["notes"], nlohmann::json::array({note}));
  EXPECT_EQ(without.json()["sigmas"].back(), 0.0);
  const Outcome with = schedule("10,5,1,0");
  EXPECT_EQ(with.err, "");
  EXPECT_EQ(with.json()["sigmas"], without.json()["sigmas"]);
}

TEST(DoctorVerb, SaysWhatIsThere) {
  const Outcome outcome = run({"doctor", "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = outcome.json();
  EXPECT_GT(json["cores"], 0);
  EXPECT_GT(json["available_bytes"], 0);
  ASSERT_GE(json["memory_limits"].size(), 1U);
  EXPECT_EQ(json["memory_limits"][0]["name"], "this machine");
  int binding = 0;
  for (const auto& limit : json["memory_limits"]) {
    EXPECT_GE(limit["available_bytes"], json["available_bytes"]) << limit;
    binding += limit["binds"].get<bool>() ? 1 : 0;
  }
  EXPECT_EQ(binding, 1);
  EXPECT_GE(json["affinity_cores"], json["cores"]);
  for (const char* library :
       {"oneDNN", "CAF", "Highway", "xxHash", "spdlog", "json", "CLI11",
        "toml++", "Boost.Math", "ZeroMQ", "libsodium"}) {
    const auto version = json["libraries"].value(library, std::string());
    EXPECT_TRUE(!version.empty() &&
                version.find_first_not_of("0123456789.") == std::string::npos)
        << library << " " << version;
  }
  ASSERT_EQ(json["default_plans"].size(), 2U);
  for (const auto& plan : json["default_plans"]) {
    EXPECT_GT(plan["workers"], 0);
    EXPECT_GT(plan["threads"], 0);
  }
}

TEST(DoctorVerb, SaysWhatToInstallForWhatIsMissing) {
  const nlohmann::json json = run({"doctor", "--json"}).json();
  if (json["cuda"] == true) {
    GTEST_SKIP() << "a GPU is there";
  }
  const std::string advice = json["advice"].dump();
  EXPECT_NE(advice.find("install"), std::string::npos) << advice;
  const Outcome text = run({"doctor"});
  EXPECT_NE(text.out.find("! " + json["advice"][0].get<std::string>()),
            std::string::npos)
      << text.out;
}

TEST(InspectVerb, ShowsTheRecipeOfAnImage) {
  const TempFolder folder;
  ASSERT_EQ(run(tiny_sample({"-o", folder.path("a.png")})).exit_code, 0);
  const Outcome outcome = run({"inspect", folder.path("a.png"), "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(
      outcome.json()["items"][0]["recipe"]["schedule"]["num_inference_steps"],
      4);
}

TEST(VerifyVerb, AcceptsTheSameAndReportsTheDifferent) {
  const TempFolder folder;
  ASSERT_EQ(run(tiny_sample({"-o", folder.path("a.png")})).exit_code, 0);
  const Outcome same = run({"verify", folder.path("a.png")});
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  const std::string file = folder.read("a.png");
  actors::Image image =
      actors::decode_png("a.png", std::as_bytes(std::span(file)));
  image.rgb[5] ^= 1;
  const std::vector<std::byte> painted = actors::encode_png(image);
  (void)folder.write(
      "b.png", {reinterpret_cast<const char*>(painted.data()), painted.size()});
  const Outcome painted_over = run({"verify", folder.path("b.png"), "--json"});
  EXPECT_EQ(painted_over.exit_code, 5);
  const nlohmann::json found = painted_over.json()["files"][0];
  EXPECT_EQ(found["largest_absolute_difference"], 1);
  EXPECT_GT(found["psnr_db"], 48);
  EXPECT_NE(found["detail"].get<std::string>().find(
                "; pixels at most 1 of 255 apart, "),
            std::string::npos)
      << found;
  EXPECT_EQ(
      run({"verify", folder.path("b.png"), "--against", folder.path("a.png")})
          .exit_code,
      5);
  EXPECT_EQ(
      run({"verify", folder.path("a.png"), "--against", folder.path("a.png")})
          .exit_code,
      0);
}

TEST(VerifyVerb, SeesAGammaThatTheRecipeDidNotMake) {
  const TempFolder folder;
  ASSERT_EQ(run(tiny_sample({"-o", folder.path("a.png")})).exit_code, 0);
  constexpr std::size_t kBehindHeader = 33;
  std::string file = folder.read("a.png");
  file.insert(kBehindHeader, std::string("\0\0\0\4gAMA\0\0\xb1\x8f"
                                         "\x0b\xfc\x61\x05",
                                         16));
  const std::string other = folder.write("b.png", file);
  EXPECT_EQ(run({"verify", other}).exit_code, 5);
  const Outcome outcome =
      run({"verify", other, "--against", folder.path("a.png")});
  EXPECT_EQ(outcome.exit_code, 5) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("gAMA 45455"), std::string::npos) << outcome.out;
}

TEST(VerifyVerb, ComparesTensorsAsTheyAreStored) {
  const TempFolder folder;
  const auto write = [&](const char* name, const std::string& dtype,
                         const std::string& data) {
    const std::string header = R"({"x":{"dtype":")" + dtype +
                               R"(","shape":[2],"data_offsets":[0,)" +
                               std::to_string(data.size()) + "]}}";
    const std::uint64_t size = header.size();
    return folder.write(
        name, std::string(reinterpret_cast<const char*>(&size), sizeof size) +
                  header + data);
  };
  const auto compare = [](const std::string& a, const std::string& b) {
    return run({"verify", a, "--against", b});
  };
  // 1.0 and the next double, which round to one float; NaN is no obstacle.
  const std::string one("\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\xf8\x7f", 16);
  std::string next = one;
  next[0] = 1;
  const std::string f64 = write("a.safetensors", "F64", one);
  EXPECT_EQ(compare(f64, f64).exit_code, 0);
  const Outcome outcome = compare(f64, write("b.safetensors", "F64", next));
  EXPECT_EQ(outcome.exit_code, 5);
  EXPECT_NE(outcome.out.find("1 of 16 bytes differ"), std::string::npos)
      << outcome.out;
  EXPECT_EQ(compare(write("c.safetensors", "F32", std::string(8, '\0')),
                    write("d.safetensors", "F64", std::string(16, '\0')))
                .exit_code,
            5);
}

TEST(VerifyVerb, SaysOnceWhatTheUserShouldKnow) {
  const TempFolder folder;
  ASSERT_EQ(run(tiny_sample({"-n", "2", "-o", folder.path()})).exit_code, 0);
  const std::vector<std::string> names = folder.names();
  const Outcome outcome =
      run({"verify", folder.path(names[0]), folder.path(names[1]), "--workers",
           "99", "--threads", "1", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("will be slower than fewer"), std::string::npos);
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_EQ(outcome.json()["notes"].size(), 1U);
}

TEST(VerifyVerb, SaysHowFarItIs) {
  const TempFolder folder;
  ASSERT_EQ(run(tiny_sample({"-o", folder.path("a.png")})).exit_code, 0);
  const auto verify = [&](const char* kind) {
    return run({"verify", folder.path("a.png"), "--progress", kind}).err;
  };
  EXPECT_NE(verify("json").find("\"event\":\"progress\""), std::string::npos);
  EXPECT_EQ(verify("none"), "");
  EXPECT_EQ(verify("auto"), "") << "nobody looks at a bar";
}

Outcome tiny_bench(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "bench", "--random-weights", "dit-tiny", "--class",   "1", "--steps",
      "4",     "--dtype",          "f32",      "--repeats", "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run(arguments);
}

TEST(BenchVerb, SaysHowFarAllItsRunsAre) {
  const Outcome lines = tiny_bench({"-n", "2", "--progress", "json"});
  ASSERT_EQ(lines.exit_code, 0) << lines.err;
  const std::size_t last = lines.err.rfind("{\"event\":\"progress\"");
  ASSERT_NE(last, std::string::npos) << lines.err;
  const auto progress =
      nlohmann::json::parse(lines.err.substr(last, lines.err.find('\n', last)));
  // Two baselines and the method, twice each.
  EXPECT_EQ(progress["images_total"], 3 * 2 * 2);
  EXPECT_EQ(progress["images_done"], 3 * 2 * 2);
  EXPECT_EQ(progress["calls_total"], 3 * 2 * 2 * 4);
  EXPECT_EQ(progress["fraction"], 1.0);

  const Outcome plain = tiny_bench({});
  EXPECT_NE(plain.err.find("100 %  6/6 images"), std::string::npos)
      << plain.err;
  EXPECT_EQ(tiny_bench({"--quiet"}).err, "");
  const Outcome emulated =
      run({"bench", "--random-weights", "dit-tiny", "--class", "1", "--steps",
           "4", "--emulate", "2", "--method", "batch,cfg"});
  EXPECT_NE(emulated.err.find("100 %  3/3 images"), std::string::npos)
      << emulated.err;
}

TEST(BenchVerb, ExplainsItsColumns) {
  const auto expect_explained = [](const Outcome& outcome,
                                   const std::vector<std::string>& heads) {
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    for (const std::string& head : heads) {
      const std::size_t in_table = outcome.out.find(head);
      ASSERT_NE(in_table, std::string::npos) << head << outcome.out;
      EXPECT_NE(outcome.out.find("\n" + head + " ", in_table),
                std::string::npos)
          << head << " is not explained:\n"
          << outcome.out;
    }
  };
  expect_explained(tiny_bench({}), {"seconds", "× 1 thr.", "× 2 thr.", "NFE",
                                    "rounds", "rel. RMSE"});
  expect_explained(run({"bench", "--random-weights", "dit-tiny", "--class", "1",
                        "--steps", "4", "--emulate", "2"}),
                   {"emul. sec.", "× 1 dev.", "busy", "÷ bound", "÷ list",
                    "NFE", "rounds", "rel. RMSE"});
}

TEST(BenchVerb, MeasuresSeveralMethodsBesideOneBaseline) {
  const auto rows_of = [](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"-n", "2", "--workers", "2", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = tiny_bench(all);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json()["rows"];
  };
  const auto rows = rows_of({"--method", "batch,cfg,picard,stale", "--window",
                             "3", "--segments", "2"});
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[0]["method"], "sequential");
  EXPECT_EQ(rows[1]["method"], "sequential");
  const std::vector<std::vector<std::string>> alone = {
      {"--method", "batch"},
      {"--method", "cfg"},
      {"--method", "picard", "--window", "3"},
      {"--method", "stale", "--segments", "2"}};
  for (std::size_t i = 0; i < alone.size(); ++i) {
    const auto expected = rows_of(alone[i]);
    ASSERT_EQ(expected.size(), 3U);
    EXPECT_EQ(rows[0]["latents_xxh3"], expected[0]["latents_xxh3"]);
    for (const char* key : {"name", "method", "workers", "threads", "nfe",
                            "rounds", "relative_rmse", "latents_xxh3"}) {
      EXPECT_EQ(rows[i + 2][key], expected[2][key])
          << key << " of " << alone[i][1];
    }
  }
}

TEST(BenchVerb, RefusesAnOptionThatNoneOfItsMethodsTakes) {
  const Outcome none = tiny_bench({"--method", "batch,cfg", "--window", "3"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_NE(
      none.err.find("[--window] this is an option of --method picard, "
                    "draft, chords, parareal, taa or speculative: got method "
                    "batch,cfg"),
      std::string::npos)
      << none.err;
  const Outcome automatic = tiny_bench({"--method", "auto,cfg"});
  EXPECT_EQ(automatic.exit_code, 2);
  EXPECT_NE(automatic.err.find("[--method] auto stands alone"),
            std::string::npos)
      << automatic.err;
}

TEST(BenchVerb, AloneTakesSeveralMethods) {
  const Outcome outcome = run(tiny_sample({"--method", "batch,cfg"}));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find(
                "[--method] only bench takes several methods: got batch,cfg"),
            std::string::npos)
      << outcome.err;
}

TEST(SampleVerb, WarnsOfAMethodThatCannotGainBeforeItDraws) {
  const Outcome outcome =
      run(tiny_sample({"--method", "picard", "--workers", "1", "--progress",
                       "plain", "--class", "1"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::size_t warned =
      outcome.err.find("picard cannot gain with 1 sample on 1 worker: ");
  ASSERT_NE(warned, std::string::npos) << outcome.err;
  EXPECT_LT(warned, outcome.err.find("1/1 images")) << outcome.err;
}

TEST(SampleVerb, SaysThatAMethodApproximates) {
  const auto notes = [](const std::vector<std::string>& method) {
    std::vector<std::string> arguments = {"--dry-run", "--class", "1"};
    arguments.insert(arguments.end(), method.begin(), method.end());
    return run(tiny_sample(arguments)).err;
  };
  for (const std::vector<std::string>& method :
       {std::vector<std::string>{"--method", "stale"},
        {"--preset", "asyncdiff2"},
        {"--method", "draft"},
        {"--method", "chords", "--window", "2"}}) {
    EXPECT_NE(notes(method).find(
                  " approximates, and its error was not measured on this "
                  "model: dit-tiny has no table of measured methods"),
              std::string::npos)
        << method[1] << notes(method);
  }
  EXPECT_EQ(notes({"--method", "stale", "--ages", "0"}), "") << "it is exact";
}

TEST(SampleVerb, OfRandomWeightsSaysItsPeakMemory) {
  const Outcome outcome = run(tiny_sample({}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("; peak memory "), std::string::npos)
      << outcome.out;
}

TEST(BenchVerb, SaysWhatTheUserShouldKnow) {
  const Outcome outcome =
      run({"bench", "--random-weights", "dit-tiny", "--sampler", "euler",
           "--sigmas", "10,5", "--class", "1", "--workers", "99", "--threads",
           "1", "--repeats", "1", "--dtype", "f32", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* note : {"will be slower than fewer",
                           "a final noise level of 0 was added to --sigmas"}) {
    EXPECT_NE(outcome.err.find(note), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(outcome.json()["notes"].size(), 2U);
}

TEST(BenchVerb, PrintsBothBaselines) {
  const Outcome outcome =
      run({"bench", "--random-weights", "dit-tiny", "--steps", "4", "-n", "2",
           "--method", "batch", "--workers", "2", "--repeats", "1", "--dtype",
           "f32", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = outcome.json();
  ASSERT_EQ(json["rows"].size(), 3U);
  EXPECT_EQ(json["rows"][2]["relative_rmse"], 0.0);
  EXPECT_EQ(json["rows"][1]["threads"], 2);
}

TEST(BenchVerb, ShowsWhatPicardSavesOnTheDemoModel) {
  const Outcome outcome =
      run({"bench",     "--model", TROUPE_DEMO, "--class",  "8",
           "--seed",    "3",       "--steps",   "20",       "--guidance",
           "1",         "--dtype", "f32",       "--method", "picard",
           "--workers", "2",       "--repeats", "1",        "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = outcome.json();
  const nlohmann::json& picard = json["rows"].back();
  EXPECT_LE(picard["rounds"], 13) << picard.dump();
  EXPECT_LE(picard["relative_rmse"], 0.05) << picard.dump();
  EXPECT_GT(picard["relative_rmse"], 0.0) << "it approximates";
}

TEST(BenchVerb, ShowsThatStaleDefaultsComeNearest) {
  const auto error = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "bench",      "--model", TROUPE_DEMO, "--class",  "26",
        "--seed",     "3",       "--steps",   "20",       "--guidance",
        "1",          "--dtype", "f32",       "--method", "stale",
        "--segments", "2",       "--repeats", "1",        "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json()["rows"][2]["relative_rmse"].get<double>();
  };
  const double usual = error({});
  EXPECT_GT(usual, 0.0) << "it approximates";
  const double at_cuts = error({"--stale-at", "cuts"});
  EXPECT_LT(usual, at_cuts / 2);
  EXPECT_LT(at_cuts, error({"--stale-at", "cuts", "--final-fresh", "0"}));
}

}  // namespace
}  // namespace troupe::test
