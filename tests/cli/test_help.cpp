#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "tests/cli/link_job.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

constexpr std::array kVerbs = {"sample", "schedule", "inspect", "verify",
                               "bench",  "doctor",   "keys",    "worker",
                               "ls",     "cancel",   "encode"};

std::string help(const std::string& topic) {
  const Outcome outcome = run({"help", topic});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}

/// Type of each path, by section, as `troupe help json` says.
using Document = std::map<std::string, std::map<std::string, std::string>>;

Document json_document() {
  Document document;
  std::istringstream text(help("json"));
  std::string section;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("    ") && line[4] != ' ') {
      std::istringstream words(line);
      std::string path;
      std::string type;
      words >> path;
      std::getline(words >> std::ws, type);
      document[section][path] +=
          (document[section][path].empty() ? "" : ", ") + type;
    } else if (!line.empty() && line[0] != ' ') {
      section = line;
    }
  }
  return document;
}

const char* type_of(const nlohmann::json& value) {
  return value.is_boolean()          ? "boolean"
         : value.is_number_integer() ? "integer"
         : value.is_number()         ? "number"
         : value.is_string()         ? "string"
         : value.is_null()           ? "null"
         : value.is_array()          ? "array"
                                     : "object";
}

bool is_of(const nlohmann::json& value, const std::string& types) {
  const std::string type = type_of(value);
  return types.find(type) != std::string::npos ||
         (type == "integer" && types.find("number") != std::string::npos);
}

/// Whether an object's keys are data and not names of ours.
bool is_map(const std::string& path) {
  return path == "libraries" || path == "items[].class_names" ||
         path == "items[].metadata" || path == "items[].defaults";
}

class Reader {
 public:
  explicit Reader(Document document) : document_(std::move(document)) {}

  void expect_documented(const nlohmann::json& value,
                         const std::string& section) {
    look(value, section, "");
  }
  /// Rows that no run has printed.
  [[nodiscard]] std::set<std::string> unseen() const {
    std::set<std::string> paths;
    for (const auto& [section, rows] : document_) {
      for (const auto& [path, type] : rows) {
        if (!seen_.contains(section + ": " + path)) {
          paths.insert(section + ": " + path);
        }
      }
    }
    return paths;
  }

 private:
  void look(const nlohmann::json& value, const std::string& section,
            const std::string& path) {
    if (section == "inspect" && path == "items[].recipe" && !value.is_null()) {
      seen_.insert("inspect: items[].recipe");
      look(value, "recipe", "");
      return;
    }
    if (!path.empty()) {
      check(value, section, path);
    }
    if (value.is_object()) {
      for (const auto& [key, item] : value.items()) {
        const std::string name = is_map(path) ? "*" : key;
        look(item, section, path.empty() ? name : path + "." + name);
      }
    } else if (value.is_array()) {
      for (const nlohmann::json& item : value) {
        if (item.is_object()) {
          look(item, section, path + "[]");
        }
      }
    }
  }
  void check(const nlohmann::json& value, const std::string& section,
             const std::string& path) {
    if (path.ends_with("[]")) {
      return;
    }
    for (const std::string& of : {section, std::string("every verb")}) {
      const auto row = document_[of].find(path);
      if (row != document_[of].end()) {
        seen_.insert(of + ": " + path);
        EXPECT_TRUE(is_of(value, row->second))
            << of << ": " << path << " is " << value << ", not " << row->second;
        return;
      }
    }
    ADD_FAILURE() << section << ": " << path << " is in no document";
  }

  Document document_;
  std::set<std::string> seen_;
};

TEST(HelpVerb, ListsVerbsAndTopics) {
  const Outcome outcome = run({"help"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, run({"--help"}).out);
  for (const char* verb : kVerbs) {
    EXPECT_NE(outcome.out.find(std::string("\n  ") + verb + " "),
              std::string::npos);
    EXPECT_EQ(help(verb), run({verb, "--help"}).out);
  }
  for (const char* topic : {"json", "exit-codes", "methods", "glossary"}) {
    EXPECT_TRUE(help(topic).starts_with(std::string(topic) + ": "));
    EXPECT_NE(outcome.out.find(std::string("\n  ") + topic + " "),
              std::string::npos);
  }
  const Outcome unknown = run({"help", "exit-code"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("did you mean 'exit-codes'?"), std::string::npos)
      << unknown.err;
}

TEST(HelpJson, HasEveryKeyThatRunsPrint) {
  const TempFolder folder;
  Reader reader(json_document());
  const auto look = [&](std::vector<std::string> arguments, int code) {
    arguments.emplace_back("--json");
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, code) << arguments[0] << outcome.err;
    const nlohmann::json printed = outcome.json();
    for (const char* key :
         {"schema", "version", "verb", "status", "exit_code"}) {
      EXPECT_TRUE(printed.contains(key)) << arguments[0] << " " << key;
    }
    EXPECT_EQ(printed["verb"], arguments[0]);
    EXPECT_EQ(printed["exit_code"], code);
    EXPECT_EQ(printed["status"], code != 0                  ? "failed"
                                 : printed.contains("plan") ? "planned"
                                                            : "done");
    EXPECT_EQ(printed.contains("error"), code != 0);
    reader.expect_documented(printed, arguments[0]);
    return printed;
  };
  const std::string image = folder.path("a.png");
  const std::string latents = folder.path("a.safetensors");
  const std::string shape = "dit-tiny";
  look(tiny_sample(
           {"-o", image, "--size", "18", "--save", "latents=" + latents}),
       0);
  look(tiny_sample({"-n", "2", "-o", folder.path("out"), "--dry-run"}), 0);
  look(overridden(tiny_sample({"-o", folder.path("out"), "--dry-run"}),
                  {"--size", "64"}),
       0);
  look(tiny_sample({"-o", folder.path("b.jpg")}), 2);
  look({"schedule", "--steps", "5"}, 0);
  look({"schedule", "--steps", "0"}, 2);
  look({"inspect", image, latents, TROUPE_GOLDEN "/dit_default"}, 0);
  look(tiny_sample({"-o", folder.path("p.png"), "--method", "picard",
                    "--tolerance", "0.5"}),
       0);
  look(tiny_sample({"-o", folder.path("s.png"), "--method", "stale",
                    "--segments", "2", "--ages", "1"}),
       0);
  look({"inspect", folder.path("p.png"), folder.path("s.png")}, 0);
  look({"inspect", "/no/such"}, 2);
  look({"verify", image}, 0);
  look({"verify", image, "/no/such.png"}, 2);
  look({"verify"}, 2);
  look({"bench", "--random-weights", shape, "--steps", "2", "--class", "1",
        "--repeats", "1"},
       0);
  look({"bench", "--random-weights", shape, "--steps", "2", "--class", "1",
        "--emulate", "2", "--method", "pipeline"},
       0);
  const std::string figures = folder.path("methods.json");
  const auto look_at_methods = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"bench", "methods"});
    arguments.emplace_back("--json");
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    reader.expect_documented(outcome.json(), "bench methods");
  };
  look_at_methods({"--random-weights", shape, "--steps", "2", "--method",
                   "picard", "--workers", "2", "--repeats", "1",
                   "--guidance-interval", ":5", "--calibrate", "--out",
                   figures});
  reader.expect_documented(nlohmann::json::parse(folder.read("methods.json")),
                           "methods.json");
  look_at_methods({"--model", TROUPE_DEMO, "--steps", "2", "--class", "faces",
                   "-n", "1", "--quality", "1", "--method", "cfg,picard",
                   "--emulate", "2", "--out", folder.path("judged")});
  look({"bench", "--steps", "0"}, 2);
  look({"doctor"}, 0);
  look({"doctor", "--bogus"}, 2);
  {
    LinkJob job({"-n", "40", "--steps", "50"});
    job.add_worker();
    job.await_images(1);
    look({"ls", job.endpoint()}, 0);
    look({"cancel", job.endpoint(), "--sample", "40"}, 2);
    job.worker(0).signal(SIGKILL);
    job.head().await([&] {
      const nlohmann::json now = run({"ls", job.endpoint(), "--json"}).json();
      return now["nodes"][1]["status"] == "left";
    });
    look({"ls", job.endpoint()}, 0);
    job.add_worker();
    reader.expect_documented(job.finish(), "sample");
  }
  {
    LinkJob job({"-n", "4000", "--steps", "50"});
    job.add_worker();
    job.await_images(1);
    look({"cancel", job.endpoint()}, 0);
  }
  look({"worker"}, 2);
  look({"ls"}, 2);
  look({"cancel"}, 2);
  look({"keys", "new", "--out", folder.path("company.key")}, 0);
  const std::vector<std::string> tiny = {"--random-weights",
                                         "tiny-pixart-sigma"};
  const auto look_at_prompts = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), tiny.begin(), tiny.end());
    look(arguments, 0);
  };
  const std::string embeds = folder.path("fox.safetensors");
  look_at_prompts({"sample", "-p", "a fox", "--negative-prompt", "rain",
                   "--max-sequence-length", "20", "-o",
                   folder.path("fox.png")});
  look_at_prompts({"sample", "-p", "a fox", "--dry-run"});
  look_at_prompts({"encode", "-p", "a fox", "-o", embeds});
  look_at_prompts(
      {"sample", "--prompt-embeds", embeds, "-o", folder.path("same.png")});
  look({"sample",
        "--random-weights",
        "tiny-sdxl",
        "-p",
        "a fox",
        "--prompt-2",
        "snow",
        "--negative-prompt",
        "rain",
        "--negative-prompt-2",
        "fog",
        "--clip-skip",
        "1",
        "--size",
        "48x48",
        "--vae-tiling",
        "--guidance-rescale",
        "0.5",
        "--guidance-interval",
        ":5",
        "--original-size",
        "8x8",
        "--crop",
        "1,2",
        "--target-size",
        "8x8",
        "--negative-original-size",
        "9x9",
        "--negative-crop",
        "3,4",
        "--negative-target-size",
        "9x9",
        "--denoising-end",
        "0.9",
        "--ring-blocks",
        "2",
        "-o",
        folder.path("second.png")},
       0);
  const std::string refiner =
      std::string(TROUPE_GOLDEN) + "/pipeline_sdxl_refiner";
  look({"sample", "-m", refiner, "-p", "a fox", "--steps", "2",
        "--denoising-start", "0.5", "--init-latents",
        refiner + "/start.safetensors", "--aesthetic-score", "7",
        "--negative-aesthetic-score", "2", "-o", folder.path("refined.png")},
       0);
  look({"inspect", folder.path("refined.png")}, 0);
  look({"sample", "-m", std::string(TROUPE_GOLDEN) + "/pipeline_pixart_bins",
        "-p", "a fox", "--steps", "1", "--size", "61x40", "-o",
        folder.path("bin.png")},
       0);
  look({"inspect", folder.path("bin.png")}, 0);
  const std::string points = folder.path("points.npz");
  look(tiny_sample({"--save", "trajectory=" + points}), 0);
  look(tiny_sample({"--method", "picard", "--guess-from", points, "-o",
                    folder.path("guessed.png")}),
       0);
  look({"inspect", folder.path("guessed.png")}, 0);
  look({"inspect", folder.path("second.png")}, 0);
  look({"inspect", folder.path("fox.png")}, 0);
  look({"inspect", folder.path("same.png")}, 0);
  look({"inspect", std::string(TROUPE_GOLDEN) + "/pixart_default"}, 0);
  const std::filesystem::path bare = folder.path("bare");
  std::filesystem::copy(std::string(TROUPE_GOLDEN) + "/pipeline_sd15", bare,
                        std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(bare / "text_encoder");
  std::filesystem::remove_all(bare / "tokenizer");
  look({"inspect", bare, "tiny-sdxl", TROUPE_GOLDEN "/pipeline_sdxl"}, 0);
  look({"keys", "new"}, 2);
  change_recipe(folder, "a.png", "/latents_xxh3", "0123456789abcdef");
  look({"verify", image}, 5);
  // What this machine cannot print, or only in trouble.
  const std::set<std::string> elsewhere = {
      "recipe: device",
      "recipe: encoder_device",
      "recipe: bits",
      "recipe: tf32",
      "recipe: schedule.mu",
      "recipe: schedule.lambda_min_clipped",
      "recipe: schedule.shift_terminal",
      "recipe: schedule.sigma_min",
      "recipe: schedule.sigma_max"};
  for (const std::string& path : reader.unseen()) {
    const bool is_rare =
        elsewhere.contains(path) || path.find("gpus[]") != path.npos ||
        path.find("cuda_devices[]") != path.npos ||
        path.find("--progress") != path.npos ||
        path.find("--print-job") != path.npos ||
        path.ends_with("devices[].cause") || path.ends_with("sample: bits") ||
        path.ends_with("bench methods: bits") ||
        path.ends_with("recipe: init_latents_drawn") ||
        path.ends_with("images[].message") ||
        path.find("items[].error") != path.npos ||
        path.find("files[].largest") != path.npos ||
        path.ends_with("files[].rmse") || path.ends_with("files[].psnr_db") ||
        path.ends_with("cancelled_by") ||
        path.ends_with("images[].execution_class") ||
        path.ends_with("defaults.*") || path.ends_with("class_names.*") ||
        path.ends_with("metadata.*");
    EXPECT_TRUE(is_rare) << path << " is documented, and no run prints it";
  }
}

TEST(HelpJson, HasEveryKeyOfAPrintedJob) {
  const TempFolder folder;
  const std::string points = folder.path("points.npz");
  ASSERT_EQ(run(tiny_sample({"--size", "64", "--save", "trajectory=" + points}))
                .exit_code,
            0);
  const nlohmann::json job =
      run(tiny_sample({"--guidance", "2", "--guidance-interval", ":5", "--size",
                       "64", "--ring-blocks", "2", "--method", "picard",
                       "--guess-from", points, "--print-job", "--json"}))
          .json();
  std::set<std::string> printed;
  const std::set<std::string> of_every_verb = {"schema", "version", "verb",
                                               "status", "exit_code"};
  for (const auto& [key, value] : job.items()) {
    if (!of_every_verb.contains(key)) {
      printed.insert(key);
    }
  }
  for (const auto& [key, value] : job["schedule"].items()) {
    printed.insert("schedule." + key);
  }
  EXPECT_EQ(job["verb"], "sample");
  EXPECT_EQ(job["exit_code"], 0);
  std::set<std::string> documented;
  const auto document = json_document();
  for (const auto& [path, type] : document.at("sample --print-job")) {
    documented.insert(path);
  }
  EXPECT_EQ(printed, documented);
}

TEST(HelpJson, HasEveryKeyOfProgress) {
  const TempFolder folder;
  Reader reader(json_document());
  const Outcome outcome = run(tiny_sample(
      {"-o", folder.path("a.png"), "--class", "1", "--progress", "json"}));
  std::istringstream lines(outcome.err);
  for (std::string line; std::getline(lines, line);) {
    reader.expect_documented(nlohmann::json::parse(line), "--progress json");
  }
  for (const std::string& path : reader.unseen()) {
    EXPECT_FALSE(path.starts_with("--progress json")) << path;
  }
}

/// error.code values by exit code, as `troupe help exit-codes` says.
std::map<int, std::set<std::string>> exit_code_document() {
  std::map<int, std::set<std::string>> document;
  std::istringstream text(help("exit-codes"));
  int number = -1;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (line.starts_with("          ")) {
      continue;  // the rest of a description
    }
    if (line.starts_with("         ")) {
      document[number].insert(word);
    } else if (!word.empty() && std::ranges::all_of(word, [](unsigned char c) {
                 return std::isdigit(c) != 0;
               })) {
      number = std::stoi(word);
      document[number];
    }
  }
  return document;
}

TEST(HelpExitCodes, HasEveryCodeThatRunsEndWith) {
  const auto document = exit_code_document();
  std::set<int> numbers;
  for (const auto& [number, codes] : document) {
    numbers.insert(number);
  }
  EXPECT_EQ(numbers, (std::set<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 75, 130}));
  const TempFolder folder;
  const auto expect = [&](const Outcome& outcome, int number) {
    EXPECT_EQ(outcome.exit_code, number) << outcome.err;
    const nlohmann::json printed = outcome.json();
    if (number != 0) {
      EXPECT_TRUE(document.at(number).contains(printed["error"]["code"]))
          << printed["error"];
    }
  };
  const std::string image = folder.path("a.png");
  expect(run(tiny_sample({"-o", image, "--json"})), 0);
  expect(run(tiny_sample({"-o", image, "--json"})), 2);
  expect(run({"inspect", "/no/such", "--json"}), 2);
  expect(run({"serve", "--json"}), 2);
  expect(run(tiny_sample({"-o", folder.path("b.png"), "--json",
                          "--require-class", "0123456789abcdef"})),
         8);
  expect(run({"inspect", folder.write("c.png", "rubbish"), "--json"}), 6);
  (void)folder.write("d.png", folder.read("a.png"));
  change_recipe(folder, "d.png", "/latents_xxh3", "0123456789abcdef");
  expect(run({"verify", folder.path("d.png"), "--json"}), 5);
  change_recipe(folder, "d.png", "/execution_class", "0123456789abcdef");
  expect(run({"verify", folder.path("d.png"), "--json"}), 8);
  for (const auto& [number, code] :
       {std::pair{SIGTERM, 75}, {SIGUSR1, 75}, {SIGINT, 130}}) {
    const TempFolder out;
    Program program(tiny_sample(
        {"-n", "4000", "--class", "1", "-o", out.path("out"), "--json"}));
    program.await([&] { return !out.names().empty(); });
    program.signal(number);
    expect(program.wait(), code);
  }
}

}  // namespace
}  // namespace troupe::test
