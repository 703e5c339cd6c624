// `bench methods`: all methods against the sequential run.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

/// Of modelled devices, whose times are the same every time.
std::vector<std::string> methods_bench(const TempFolder& folder,
                                       const std::vector<std::string>& more) {
  return overridden(
      {"bench", "methods", "--random-weights", "dit-tiny", "--class", "1,2",
       "--steps", "12", "--guidance", "2", "-n", "2", "--dtype", "f32",
       "--emulate", "4", "--out", folder.path("out")},
      more);
}

const nlohmann::json& row_of(const nlohmann::json& report,
                             const std::string& name) {
  const auto& rows = report["rows"];
  const auto found = std::ranges::find_if(
      rows, [&](const nlohmann::json& row) { return row["name"] == name; });
  EXPECT_NE(found, rows.end()) << name;
  return *found;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

TEST(BenchMethods, RanksAllSettingsAgainstTheSequentialRun) {
  const TempFolder folder;
  const Outcome outcome = run(methods_bench(folder, {"--json"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json report = outcome.json();
  double last = 1e9;
  for (const nlohmann::json& row : report["rows"]) {
    EXPECT_EQ(row["emulated"], true);
    EXPECT_EQ(row["runs"], 2);
    EXPECT_EQ(row["above_bound"], false) << row;
    EXPECT_LE(row["speedup"], row["bound"].get<double>() * 1.001) << row;
    EXPECT_LE(row["speedup"], last);
    last = row["speedup"];
  }
  EXPECT_EQ(row_of(report, "sequential")["speedup"], 1);
  EXPECT_EQ(row_of(report, "sequential")["nfe"], 12);
  const nlohmann::json& half = row_of(report, "sequential --steps 6");
  EXPECT_EQ(half["role"], "fewer_steps");
  EXPECT_EQ(half["rounds"], 6);
  EXPECT_NEAR(half["speedup"], 2, 0.01);
  EXPECT_GT(half["relative_rmse"]["median"], 0);
  EXPECT_EQ(row_of(report, "sequential --steps 3")["rounds"], 3);
  const nlohmann::json& cfg = row_of(report, "cfg");
  EXPECT_EQ(cfg["relative_rmse"]["worst"], 0);
  EXPECT_EQ(cfg["psnr_db"]["median"], nullptr);
  EXPECT_EQ(cfg["ssim"]["worst"], 1);
  EXPECT_EQ(cfg["workers"], 2);
  // The noise is moved by that much, and this network adds little.
  const nlohmann::json& floor =
      row_of(report, "sequential, noise moved by 1e-6");
  EXPECT_GT(floor["relative_rmse"]["median"], 1e-8);
  EXPECT_LT(floor["relative_rmse"]["median"], 1e-4);
  EXPECT_EQ(floor["over_floor"], 1);
  EXPECT_EQ(report["left_out"][0]["name"], "chords --window 8");
  EXPECT_FALSE(report["left_out"][0]["reason"].get<std::string>().empty());
  EXPECT_EQ(nlohmann::json::parse(folder.read("out/results.json")), report);
  EXPECT_NE(folder.read("out/front-12.svg").find("emulated"),
            std::string::npos);
  const std::string html = folder.read("out/report.html");
  for (const nlohmann::json& row : report["rows"]) {
    EXPECT_NE(html.find(">" + row["name"].get<std::string>() + "<"),
              std::string::npos)
        << row["name"];
  }
  const std::string passes = folder.read("out/passes-12.svg");
  EXPECT_NE(html.find(passes), std::string::npos);
  // The sequential run has a bar for each call.
  EXPECT_NE(passes.find("<title>step 11, 0.880 to 0.960 s</title>"),
            std::string::npos)
      << passes;
  // It needs nothing but itself.
  for (const char* outer : {"src=", "href=", "<script", "url(", "@import"}) {
    EXPECT_EQ(html.find(outer), std::string::npos) << outer;
  }
}

/// One of a worker, after another, within the run's time.
TEST(BenchMethods, KeepsThePassesOfTheFirstPicture) {
  const TempFolder folder;
  ASSERT_EQ(run(methods_bench(folder, {"--method", "cfg,stale"})).exit_code, 0);
  std::map<std::string, std::size_t> num_passes;
  for (const std::string& line : lines_of(folder.read("out/runs.jsonl"))) {
    const nlohmann::json run = nlohmann::json::parse(line);
    EXPECT_EQ(run.contains("passes"), run.value("index", 9) == 0) << line;
    std::map<int, double> ends;
    double busy = 0;
    for (const nlohmann::json& pass :
         run.value("passes", nlohmann::json::array())) {
      double& end = ends[pass[0].get<int>()];
      EXPECT_GE(pass[3].get<double>(), end - 1e-9) << pass;
      end = pass[3].get<double>() + pass[4].get<double>();
      EXPECT_LE(end, run["seconds"].get<double>());
      busy += pass[4].get<double>();
      ++num_passes[run["name"]];
    }
    if (run.contains("passes")) {
      // Of 40 ms for a row; a call of which segments are left out counts, too.
      const double calls = run["nfe"];
      EXPECT_LT(busy, calls * 0.080 + 1e-6) << line;
      EXPECT_GT(busy, (calls - 1) * 0.080) << line;
    }
  }
  EXPECT_EQ(num_passes["sequential"], 12U);
  EXPECT_EQ(num_passes["cfg"], 24U);
  EXPECT_EQ(num_passes["stale --segments 4"], 48U);
}

TEST(BenchMethods, DrawsTheResidualsOfSweeps) {
  const TempFolder folder;
  const std::vector<std::string> bench = methods_bench(
      folder, {"--method", "picard,taa,cfg", "--all", "-n", "1", "--json"});
  const nlohmann::json report = run(bench).json();
  const std::string picture = folder.read("out/residuals-12.svg");
  std::size_t num_cells = 0;
  for (const nlohmann::json& row : report["rows"]) {
    const std::string method = row["method"];
    const bool converges = method == "picard" || method == "taa";
    ASSERT_EQ(row.contains("residuals"), converges) << row;
    for (const nlohmann::json& step :
         row.value("residuals", nlohmann::json::array())) {
      num_cells += row["tolerance"] > 0 ? step.size() : 0;
    }
  }
  EXPECT_GT(num_cells, 7U * 12);
  std::size_t num_drawn = 0;
  for (const std::string& line : lines_of(picture)) {
    num_drawn += line.find("<title>step ") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(num_drawn, num_cells);
  EXPECT_NE(folder.read("out/report.html").find(picture), std::string::npos);

  std::filesystem::remove(folder.path("out/residuals-12.svg"));
  EXPECT_EQ(run(bench).json()["rows"], report["rows"]);
  EXPECT_EQ(folder.read("out/residuals-12.svg"), picture);

  // A grid without a converging method has no heat map.
  ASSERT_EQ(
      run(methods_bench(folder, {"--method", "cfg", "--out", folder.path("b")}))
          .exit_code,
      0);
  EXPECT_FALSE(std::filesystem::exists(folder.path("b/residuals-12.svg")));
  EXPECT_EQ(folder.read("b/report.html").find("sweeps"), std::string::npos);
}

TEST(BenchMethods, HasTheFiguresOfBench) {
  const TempFolder folder;
  ASSERT_EQ(run(methods_bench(folder, {"--method", "picard"})).exit_code, 0);
  const nlohmann::json expected =
      run({"bench",  "--random-weights", "dit-tiny", "--class",
           "1,2",    "--steps",          "12",       "--guidance",
           "2",      "--samples",        "1:2",      "--dtype",
           "f32",    "--emulate",        "4",        "--method",
           "picard", "--window",         "4",        "--json"})
          .json()["rows"]
          .back();
  std::size_t num_found = 0;
  for (const std::string& line : lines_of(folder.read("out/runs.jsonl"))) {
    const nlohmann::json run = nlohmann::json::parse(line);
    if (run.value("name", "") == "picard --window 4" && run["index"] == 1) {
      ++num_found;
      EXPECT_EQ(run["relative_rmse"], expected["relative_rmse"]);
      EXPECT_EQ(run["nfe"], expected["nfe"]);
      EXPECT_EQ(run["rounds"], expected["rounds"]);
      EXPECT_EQ(run["seconds"], expected["seconds"]);
    }
  }
  EXPECT_EQ(num_found, 1U);
}

TEST(BenchMethods, GoesOnWithWhatIsMissing) {
  const TempFolder folder;
  const std::vector<std::string> bench =
      methods_bench(folder, {"--method", "draft,cfg", "--json"});
  const Outcome whole = run(bench);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const std::vector<std::string> lines =
      lines_of(folder.read("out/runs.jsonl"));
  ASSERT_EQ(lines.size(), 1U + 2 * 10);
  // What a killed process leaves: whole lines and a part of one.
  std::string part;
  for (std::size_t i = 0; i < 4; ++i) {
    part += lines[i] + "\n";
  }
  (void)folder.write("out/runs.jsonl", part + lines[4].substr(0, 20));
  const Outcome rest = run(bench);
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_EQ(rest.json()["rows"], whole.json()["rows"]);
  // 17 that are missing, the reference of each picture, and the sequential run
  // again: speed-ups are of one process.
  EXPECT_NE(rest.err.find("20/20 images"), std::string::npos) << rest.err;
  const Outcome nothing = run(bench);
  EXPECT_EQ(nothing.json()["rows"], whole.json()["rows"]);
  EXPECT_EQ(nothing.err.find("images  "), std::string::npos) << nothing.err;

  const Outcome other = run(overridden(bench, {"--guidance", "3"}));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("the runs there are of another bench: guidance is "
                           "2.0, here 3.0"),
            std::string::npos)
      << other.err;
  // The label of the sampler does not say it, and the job does.
  EXPECT_NE(run(overridden(bench, {"--eta", "0.5"}))
                .err.find("another bench: job of sequential, 12 steps is"),
            std::string::npos);
  nlohmann::json no_time = nlohmann::json::parse(lines[1]);
  no_time["seconds"] = 0;
  nlohmann::json no_error = nlohmann::json::parse(lines[1]);
  no_error.erase("ssim");
  for (const std::string& bad :
       {std::string("{\"steps\":12}"), no_time.dump(), no_error.dump()}) {
    (void)folder.write("out/runs.jsonl", lines[0] + "\n" + bad + "\n");
    const Outcome damaged = run(bench);
    EXPECT_EQ(damaged.exit_code, 6) << damaged.err;
    EXPECT_NE(
        damaged.err.find("line 2 is not as troupe bench methods wrote it"),
        std::string::npos)
        << damaged.err;
  }
}

/// How near is for a quiet machine to say.
TEST(BenchMethods, PredictsMeasuredTimes) {
  const TempFolder folder;
  std::vector<std::string> bench =
      methods_bench(folder, {"--workers", "2", "--threads", "1", "--repeats",
                             "2", "--method", "cfg,draft", "--json"});
  std::erase(bench, "--emulate");
  std::erase(bench, "4");
  const Outcome outcome = run(bench);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json report = outcome.json();
  std::vector<double> off;
  for (const nlohmann::json& row : report["rows"]) {
    EXPECT_FALSE(row.contains("emulated"));
    const double predicted = row["predicted_seconds"];
    EXPECT_GT(predicted, 0) << row;
    EXPECT_NEAR(row["predicted_off"].get<double>(),
                predicted / row["seconds"].get<double>() - 1, 1e-12);
    if (row["workers"] > 1) {
      off.push_back(std::abs(row["predicted_off"].get<double>()));
    }
  }
  const nlohmann::json& prediction = report["prediction"];
  EXPECT_EQ(prediction["settings"], off.size());
  ASSERT_EQ(off.size(), 6U);
  std::ranges::sort(off);
  EXPECT_DOUBLE_EQ(prediction["median_off"], (off[2] + off[3]) / 2);
  EXPECT_EQ(prediction["worst_off"], off.back());
  EXPECT_GT(prediction["row_ms"], 0);
  EXPECT_GT(prediction["solo_speed"], 0);
  EXPECT_NE(folder.read("out/report.html").find("<td data-head='predicted'>"),
            std::string::npos);

  // A process was killed when all was measured and nothing predicted.
  std::string measured;
  std::size_t num_predicted = 0;
  for (const std::string& line : lines_of(folder.read("out/runs.jsonl"))) {
    const bool is_predicted = line.find("\"repeat\":-2") != std::string::npos;
    num_predicted += is_predicted ? 1 : 0;
    measured += is_predicted ? "" : line + "\n";
  }
  EXPECT_EQ(num_predicted, 2 * report["rows"].size());
  (void)folder.write("out/runs.jsonl", measured);
  const nlohmann::json again = run(bench).json();
  for (std::size_t i = 0; i < report["rows"].size(); ++i) {
    EXPECT_EQ(again["rows"][i]["seconds"], report["rows"][i]["seconds"]);
    EXPECT_GT(again["rows"][i]["predicted_seconds"], 0);
  }
}

/// One picture on two workers: passes beside each other are of another prompt.
TEST(BenchMethods, EncodesThePromptsOfItsProbes) {
  const TempFolder folder;
  const Outcome outcome = run({"bench",
                               "methods",
                               "--random-weights",
                               "tiny-pixart-sigma",
                               "--prompt",
                               "a",
                               "--prompt",
                               "b",
                               "--samples",
                               "0:1",
                               "--steps",
                               "2",
                               "--workers",
                               "2",
                               "--threads",
                               "1",
                               "--repeats",
                               "1",
                               "--method",
                               "draft",
                               "--out",
                               folder.path("out"),
                               "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["samples"], 1);
  EXPECT_GT(row_of(outcome.json(), "sequential")["predicted_seconds"], 0);
}

TEST(BenchMethods, StopsAndGoesOn) {
  const TempFolder folder;
  const std::vector<std::string> bench = {
      "bench",   "methods",   "-m",       TROUPE_DEMO, "--workers",
      "1",       "--threads", "1",        "--steps",   "40",
      "--class", "faces",     "--method", "draft",     "--repeats",
      "2",       "-n",        "1",        "--out",     folder.path("out")};
  Program program(bench);
  program.await([&] {
    return std::filesystem::exists(folder.path("out/runs.jsonl")) &&
           lines_of(folder.read("out/runs.jsonl")).size() > 1;
  });
  // One process at a time.
  const Outcome second = run(bench);
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_NE(second.err.find("another process measures there"),
            std::string::npos)
      << second.err;
  program.signal(SIGTERM);
  const Outcome stopped = program.wait();
  EXPECT_EQ(stopped.exit_code, 75);
  EXPECT_NE(stopped.err.find("the same command goes on"), std::string::npos)
      << stopped.err;
  EXPECT_FALSE(std::filesystem::exists(folder.path("out/report.html")));
}

TEST(BenchMethods, CalibratesWithoutTimes) {
  const TempFolder folder;
  const Outcome outcome =
      run(methods_bench(folder, {"--steps", "6,12", "--calibrate", "--out",
                                 folder.path("figures.json"), "--json"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json report = outcome.json();
  const auto figures = nlohmann::json::parse(folder.read("figures.json"));
  EXPECT_EQ(figures["weights_xxh3"], report["weights_xxh3"]);
  std::multiset<std::string> expected;
  for (const nlohmann::json& row : report["rows"]) {
    if (row["role"] == "method") {
      expected.insert(row["method"].get<std::string>() + " " +
                      std::to_string(row["steps"].get<int>()) + " " +
                      row["rounds"].dump());
    }
  }
  std::multiset<std::string> found;
  std::set<std::string> schedules;
  for (const nlohmann::json& figure : figures["methods"]) {
    found.insert(figure["method"]["kind"].get<std::string>() + " " +
                 std::to_string(figure["steps"].get<int>()) + " " +
                 figure["rounds"].dump());
    schedules.insert(figure["schedule_xxh3"]);
    EXPECT_EQ(figure["runs"], 2);
    EXPECT_EQ(figure["dtype"], "f32");
    EXPECT_EQ(figure["guidance_scale"], 2);
  }
  EXPECT_EQ(schedules.size(), 2U);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(folder.read("figures.json").find("seconds"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(folder.path("figures/report.html")));
}

TEST(BenchMethods, JudgesPicturesByTheModelsClassifier) {
  const TempFolder folder;
  const std::vector<std::string> bench = {"bench",     "methods",
                                          "-m",        TROUPE_DEMO,
                                          "--emulate", "2",
                                          "--steps",   "3",
                                          "--class",   "faces,hearts",
                                          "-n",        "1",
                                          "--quality", "4",
                                          "--method",  "cfg,picard,draft,stale",
                                          "--out",     folder.path("out"),
                                          "--json"};
  const Outcome outcome = run(bench);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json report = outcome.json();
  const auto& sequential = row_of(report, "sequential")["quality"];
  const auto& cfg = row_of(report, "cfg")["quality"];
  EXPECT_EQ(cfg["pictures"], 4);
  EXPECT_EQ(cfg["noise"], "paired");
  EXPECT_EQ(sequential["noise"], "other");
  EXPECT_NE(outcome.err.find("--quality 4 is below the classifier's"),
            std::string::npos);
  // The same pictures as the sequential run's first set.
  EXPECT_NEAR(cfg["frechet_distance"], 0, 1e-6);
  EXPECT_EQ(cfg["accuracy"], sequential["accuracy"]);
  EXPECT_EQ(cfg["within_chance"], true);
  // Of the ten distances between two of its five sets.
  const nlohmann::json& chance = sequential["frechet_range"];
  EXPECT_GT(chance["least"], 0.01);
  EXPECT_GE(sequential["frechet_distance"], chance["least"]);
  EXPECT_GE(chance["most"], sequential["frechet_distance"]);
  EXPECT_LE(sequential["accuracy_range"]["least"], sequential["accuracy"]);
  EXPECT_GE(sequential["accuracy_range"]["most"], sequential["accuracy"]);
  for (const nlohmann::json& row : report["rows"]) {
    const nlohmann::json& quality = row["quality"];
    if (row["name"] != "sequential") {
      EXPECT_EQ(quality["within_chance"].get<bool>(),
                quality["frechet_other"] <= chance["most"])
          << row;
    }
  }
  EXPECT_GT(row_of(report, "stale --segments 2")["quality"]["frechet_distance"],
            0.001);

  // Drawn together they are what they are alone: every second line is lost, so
  // a job has one picture.
  std::map<std::string, nlohmann::json> judged;
  std::string part;
  for (const std::string& line : lines_of(folder.read("out/runs.jsonl"))) {
    const nlohmann::json run = nlohmann::json::parse(line);
    if (!run.contains("features")) {
      part += line + "\n";
      continue;
    }
    EXPECT_FALSE(run["features"].empty());
    const int index = run["index"];
    judged[run["name"].get<std::string>() + std::to_string(index)] = run;
    part += index % 2 == 0 ? line + "\n" : "";
  }
  EXPECT_EQ(judged.size(), 5 * 4 + 4 * (report["rows"].size() - 1));
  (void)folder.write("out/runs.jsonl", part);
  const Outcome again = run(bench);
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.json()["rows"], report["rows"]);
  for (const std::string& line : lines_of(folder.read("out/runs.jsonl"))) {
    const nlohmann::json run = nlohmann::json::parse(line);
    if (run.contains("features")) {
      const nlohmann::json& together =
          judged.at(run["name"].get<std::string>() +
                    std::to_string(run["index"].get<int>()));
      for (const char* key : {"features", "label", "nfe", "rounds"}) {
        EXPECT_EQ(run[key], together[key]) << run["name"] << " " << key;
      }
    }
  }
}

TEST(BenchMethods, RefusesBeforeWorkWhatDoesNotFit) {
  const TempFolder folder;
  const auto refusal = [&](const std::vector<std::string>& more) {
    const Outcome outcome = run(methods_bench(folder, more));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    return outcome.err;
  };
  EXPECT_NE(refusal({"--window", "3"}).find("[--window] bench methods has"),
            std::string::npos);
  EXPECT_NE(refusal({"--calibrate"}).find("give --out FILE.json"),
            std::string::npos);
  EXPECT_NE(refusal({"--quality", "4"}).find("no classifier/"),
            std::string::npos);
  EXPECT_NE(refusal({"--steps", "4,8,4"}).find("got 4 twice"),
            std::string::npos);
  EXPECT_NE(refusal({"--method", "cfg,pipeline"})
                .find("[--method] no setting of pipeline is compared on one "
                      "picture without --all"),
            std::string::npos);
  EXPECT_TRUE(folder.names().empty());
  const auto fault = [](const std::vector<std::string>& arguments) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    return outcome.err;
  };
  EXPECT_NE(fault({"bench", "methods", "--random-weights", "dit-tiny"})
                .find("got neither --workers nor --emulate"),
            std::string::npos);
  EXPECT_NE(fault({"bench", "methods", "-m", TROUPE_DEMO, "--emulate", "2",
                   "--class", "faces,hearts", "--quality", "3"})
                .find("got 3, expected a multiple of 2"),
            std::string::npos);
  EXPECT_NE(fault({"bench", "method", "--random-weights", "dit-tiny"})
                .find("methods is the only one"),
            std::string::npos);
  EXPECT_NE(fault({"bench", "--random-weights", "dit-tiny", "--steps", "2,4"})
                .find("[--steps] goes with bench methods alone"),
            std::string::npos);
  EXPECT_NE(fault({"sample", "--random-weights", "dit-tiny", "--steps", "2,4"})
                .find("[--steps] only bench methods takes several"),
            std::string::npos);
}

}  // namespace
}  // namespace troupe::test
