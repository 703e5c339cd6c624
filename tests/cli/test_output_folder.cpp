#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <tuple>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

/// A run that would take minutes and writes all the time.
std::vector<std::string> long_run(const std::string& out) {
  return tiny_sample({"-n", "4000", "-o", out, "--exists", "skip"});
}

std::optional<std::string> temporary_in(const TempFolder& folder) {
  for (const std::string& name : folder.names()) {
    if (name.starts_with(".troupe-")) {
      return name;
    }
  }
  return std::nullopt;
}

/// Kills runs until one leaves a half-written file behind, and names it.
std::string leave_half_a_file(const TempFolder& folder) {
  for (;;) {
    Program program(long_run(folder.path()));
    program.await([&] { return temporary_in(folder).has_value(); });
    program.signal(SIGKILL);
    (void)program.wait();
    if (const auto name = temporary_in(folder)) {
      return *name;
    }
  }
}

TEST(OutputFolder, IsRidOfWhatAKilledRunLeft) {
  const TempFolder folder;
  const std::string left = leave_half_a_file(folder);
  // A leftover of another machine, whose processes cannot be seen from here.
  const std::string other =
      ".troupe-elsewhere" + left.substr(left.find('-', 8));
  (void)folder.write(other, "half");
  const auto arguments = [&](std::vector<std::string> more) {
    more.insert(more.end(),
                {"-n", "2", "-o", folder.path(), "--exists", "skip"});
    return tiny_sample(std::move(more));
  };
  ASSERT_EQ(run(arguments({"--dry-run"})).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder.path(left)));
  const Outcome outcome = run(arguments({}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(folder.path(left)));
  EXPECT_TRUE(std::filesystem::exists(folder.path(other)));
}

/// A run that stands still once it has written its first image.
class HeldRun {
 public:
  /// Images 0 to 199 of a seed go to out/ in the folder.
  HeldRun(const TempFolder& folder, std::vector<std::string> more)
      : program_(arguments(folder, std::move(more))) {
    program_.await([&] {
      return std::filesystem::exists(folder.path("out/00000.png")) ||
             std::filesystem::exists(folder.path("out/00001.png"));
    });
    program_.signal(SIGSTOP);
  }
  /// Lets it go on to its end.
  [[nodiscard]] Outcome go_on() {
    program_.signal(SIGCONT);
    return program_.wait();
  }

 private:
  static std::vector<std::string> arguments(const TempFolder& folder,
                                            std::vector<std::string> more) {
    more.insert(more.begin(),
                {"-n", "200", "-o", folder.path("out"), "--class", "1",
                 "--seed", "7", "--json", "--progress", "none"});
    return tiny_sample(std::move(more));
  }
  Program program_;
};

/// The last image of such a run, of another seed or of its own.
std::string last_image(const char* seed) {
  const TempFolder folder;
  EXPECT_EQ(run(tiny_sample({"-n", "199:200", "-o", folder.path("out"),
                             "--class", "1", "--seed", seed}))
                .exit_code,
            0);
  return folder.read("out/00199.png");
}

/// Puts a file there as another run would, whole at once.
void put(const TempFolder& folder, const std::string& name,
         const std::string& content) {
  EXPECT_FALSE(std::filesystem::exists(folder.path(name)));
  (void)folder.write("put", content);
  std::filesystem::rename(folder.path("put"), folder.path(name));
}

constexpr const char* kLast = "out/00199.png";

TEST(TwoJobs, NeverReplaceAnImageThatCameMeanwhile) {
  const std::string other = last_image("8");
  for (const auto& [policy, says] :
       {std::pair{"skip", "seed is 8 there and 7 here"},
        std::pair{"error", "the file is there already"}}) {
    const TempFolder folder;
    HeldRun held(folder, {"--exists", policy});
    put(folder, kLast, other);
    const Outcome outcome = held.go_on();
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(kLast), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.json()["status"], "failed");
    EXPECT_EQ(folder.read(kLast), other);
  }
}

TEST(TwoJobs, KeepAnImageOfThisJobThatCameMeanwhile) {
  const std::string own = last_image("7");
  const TempFolder folder;
  HeldRun held(folder, {"--exists", "skip"});
  put(folder, kLast, own);
  const auto before = std::filesystem::last_write_time(folder.path(kLast));
  const Outcome outcome = held.go_on();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json summary = outcome.json();
  EXPECT_EQ(summary["images"][199]["status"], "skipped");
  EXPECT_EQ(summary["images"][198]["status"], "done");
  EXPECT_TRUE(summary.contains("latents_xxh3")) << "all were computed here";
  EXPECT_EQ(std::filesystem::last_write_time(folder.path(kLast)), before);
}

TEST(TwoJobs, MendADamagedImageOfThisJobThatCameMeanwhile) {
  const std::string own = last_image("7");
  const TempFolder folder;
  HeldRun held(folder, {"--exists", "skip"});
  put(folder, kLast, own.substr(0, own.size() - 20));
  const Outcome outcome = held.go_on();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(folder.read(kLast), own);
}

TEST(TwoJobs, KeepEachOthersSheetRowsAndTrace) {
  for (const auto& [flag, name] : {std::pair{"--grid", "a.png"},
                                   {"--save", "a.npz"},
                                   {"--trace", "a.json"}}) {
    for (const char* policy : {"skip", "error"}) {
      const TempFolder folder;
      const std::string value = std::string(flag) == "--save"
                                    ? "latents=" + folder.path(name)
                                    : folder.path(name);
      HeldRun held(folder, {"--exists", policy, flag, value});
      put(folder, name, "another's");
      const Outcome outcome = held.go_on();
      EXPECT_EQ(outcome.exit_code, 2) << flag << policy << outcome.err;
      EXPECT_NE(outcome.err.find("the file is there already"),
                std::string::npos)
          << outcome.err;
      EXPECT_EQ(folder.read(name), "another's");
      EXPECT_TRUE(std::filesystem::exists(folder.path(kLast)));
    }
  }
}

TEST(TwoJobs, KeepAnImageThatTookThePlaceOfAPreview) {
  const std::string other = last_image("8");
  for (const char* policy : {"skip", "error"}) {
    const TempFolder folder;
    HeldRun held(folder,
                 {"--exists", policy, "--preview", folder.path("p-{index}.png"),
                  "--preview-samples", "198:200", "--preview-every", "1"});
    put(folder, "p-198.png", other);
    const Outcome outcome = held.go_on();
    // A preview is no reason to lose what the run is for.
    EXPECT_EQ(outcome.exit_code, 0) << policy << outcome.err;
    const std::string notes = outcome.json()["notes"].dump();
    EXPECT_NE(notes.find("no more previews"), std::string::npos) << notes;
    EXPECT_NE(notes.find("p-198.png"), std::string::npos) << notes;
    EXPECT_EQ(folder.read("p-198.png"), other);
    EXPECT_TRUE(std::filesystem::exists(folder.path(kLast)));
  }
}

TEST(TwoJobs, KeepNoImageOfAClassThatIsNotTheRequiredOne) {
  const TempFolder other;
  const Outcome made =
      run(tiny_sample({"-n", "199:200", "-o", other.path("out"), "--class", "1",
                       "--seed", "7", "--json"}));
  const std::string here = made.json()["execution_class"];
  const char* there = "0123456789abcdef";
  change_recipe(other, kLast, "/execution_class", there);
  {
    const TempFolder folder;
    HeldRun held(folder, {"--exists", "skip", "--require-class", here});
    put(folder, kLast, other.read(kLast));
    const Outcome outcome = held.go_on();
    EXPECT_EQ(outcome.exit_code, 8) << outcome.err;
    EXPECT_NE(outcome.err.find(kLast), std::string::npos) << outcome.err;
    EXPECT_EQ(folder.read(kLast), other.read(kLast));
  }
  const TempFolder folder;
  HeldRun held(folder, {"--exists", "skip"});
  put(folder, kLast, other.read(kLast));
  const nlohmann::json summary = held.go_on().json();
  EXPECT_EQ(summary["exit_code"], 0);
  EXPECT_EQ(summary["images"][199]["execution_class"], there);
  EXPECT_NE(summary["notes"].dump().find("another execution class"),
            std::string::npos)
      << summary["notes"];
}

/// Both runs at once, into one folder.
std::pair<Outcome, Outcome> race(const TempFolder& folder,
                                 const std::string& one,
                                 const std::string& other) {
  const auto arguments = [&](const std::string& seed) {
    return tiny_sample({"-n", "8", "-o", folder.path("out"), "--grid",
                        folder.path("grid.png"), "--class", "1", "--seed", seed,
                        "--exists", "skip", "--json"});
  };
  Program first(arguments(one));
  Program second(arguments(other));
  Outcome outcome = first.wait();
  return {std::move(outcome), second.wait()};
}

TEST(TwoJobs, OfOneFolderLoseNoImage) {
  constexpr int kTrials = 8;
  for (int trial = 0; trial < kTrials; ++trial) {
    const TempFolder folder;
    const auto [seven, eight] = race(folder, "7", "8");
    EXPECT_FALSE(seven.exit_code == 0 && eight.exit_code == 0);
    for (const auto& [outcome, seed, other] :
         {std::tuple{&seven, 7, 8}, std::tuple{&eight, 8, 7}}) {
      if (outcome->exit_code != 0) {
        EXPECT_EQ(outcome->exit_code, 2) << outcome->err;
        const std::string says = "seed is " + std::to_string(other) +
                                 " there and " + std::to_string(seed) + " here";
        EXPECT_NE(outcome->err.find(says), std::string::npos) << outcome->err;
      }
      // Every image that the run reports exists, with the run's own seed.
      const nlohmann::json made = outcome->json();
      for (const auto& image : made["images"]) {
        if (image["status"] == "done") {
          const std::string name =
              std::filesystem::path(image["path"].get<std::string>())
                  .filename();
          const std::string file = folder.read("out/" + name);
          EXPECT_NE(file.find("\"seed\":" + std::to_string(seed)),
                    std::string::npos)
              << name;
        }
      }
    }
  }
}

TEST(TwoJobs, OfOneCommandShareTheWork) {
  constexpr int kTrials = 4;
  for (int trial = 0; trial < kTrials; ++trial) {
    const TempFolder folder;
    const auto [one, other] = race(folder, "7", "7");
    for (const Outcome& outcome : {one, other}) {
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
      const nlohmann::json made = outcome.json();
      for (const auto& image : made["images"]) {
        EXPECT_TRUE(std::filesystem::exists(image["path"]));
      }
    }
  }
}

/// The arguments of a second run of HeldRun's command.
std::vector<std::string> second_of(const TempFolder& folder,
                                   std::vector<std::string> more) {
  more.insert(more.begin(), {"-o", folder.path("out"), "--class", "1", "--seed",
                             "7", "--json", "--progress", "none"});
  return tiny_sample(std::move(more));
}

/// Until it waits for a run that is held: it has opened the file of locks.
void await_waiting(const Program& program, const TempFolder& folder) {
  program.await([&] {
    std::error_code error;
    const auto files = "/proc/" + std::to_string(program.pid()) + "/fd";
    for (const auto& one : std::filesystem::directory_iterator(files, error)) {
      std::error_code gone;
      if (std::filesystem::read_symlink(one.path(), gone) ==
          folder.path("out/.troupe.lock")) {
        return true;
      }
    }
    return false;
  });
}

TEST(SecondRun, OfACommandWaitsAndTakesWhatTheFirstMade) {
  const TempFolder folder;
  HeldRun held(folder, {"--exists", "skip"});
  Program second(second_of(folder, {"-n", "200", "--exists", "skip"}));
  await_waiting(second, folder);
  EXPECT_EQ(held.go_on().exit_code, 0);
  const Outcome outcome = second.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["nfe"], 0);
  EXPECT_NE(outcome.err.find("waiting until it ends"), std::string::npos)
      << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(folder.path("out/.troupe.lock")));
}

TEST(SecondRun, GoesOnWhereTheFirstIsKilledAndStopsWhenItIsTold) {
  const TempFolder folder;
  std::optional<HeldRun> held(std::in_place, folder,
                              std::vector<std::string>{"--exists", "skip"});
  Program told(second_of(folder, {"-n", "200", "--exists", "skip"}));
  await_waiting(told, folder);
  told.signal(SIGTERM);
  EXPECT_EQ(told.wait().exit_code, 75);
  Program second(second_of(folder, {"-n", "8", "--exists", "skip"}));
  await_waiting(second, folder);
  held.reset();
  const Outcome outcome = second.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(folder.path("out/.troupe.lock")));
}

TEST(SecondRun, ThatTakesNothingIsRefusedAtOnce) {
  const TempFolder folder;
  const HeldRun held(folder, {"--exists", "skip"});
  const Outcome outcome = run(second_of(folder, {"-n", "150:151"}));
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("another run makes images of this name now"),
            std::string::npos)
      << outcome.err;
}

/// Ranges of one run, and other names, may share a folder. A run that makes
/// nothing waits for nothing.
TEST(SecondRun, OfOtherImagesDoesNotWait) {
  const TempFolder folder;
  const HeldRun held(folder, {"--exists", "skip"});
  for (const std::vector<std::string>& other :
       {std::vector<std::string>{"-n", "200:202"},
        {"-n", "2", "-o", folder.path("out/b-{index}.png")},
        {"-n", "1", "-o", folder.path("out/b.png")},
        {"-n", "2", "--exists", "skip", "--dry-run"}}) {
    const Outcome outcome =
        run(overridden(second_of(folder, {"-n", "2"}), other));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  }
}

TEST(OutputFolder, ThatIsMovedAwayEndsTheJob) {
  const TempFolder folder;
  HeldRun held(folder, {"--exists", "skip"});
  std::filesystem::rename(folder.path("out"), folder.path("elsewhere"));
  const Outcome outcome = held.go_on();
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_NE(outcome.err.find("moved away while the job ran"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find(folder.path("elsewhere")), std::string::npos);
  EXPECT_EQ(outcome.json()["exit_code"], 3);
  EXPECT_FALSE(std::filesystem::exists(folder.path("out"))) << "made again";
  EXPECT_TRUE(std::filesystem::exists(folder.path("elsewhere/00000.png")) ||
              std::filesystem::exists(folder.path("elsewhere/00001.png")));
}

TEST(OutputFolder, ThatIsReplacedOrRemovedEndsTheJob) {
  for (const bool replaced : {true, false}) {
    const TempFolder folder;
    HeldRun held(folder, {"--exists", "skip"});
    if (replaced) {
      std::filesystem::rename(folder.path("out"), folder.path("elsewhere"));
      std::filesystem::create_directory(folder.path("out"));
    } else {
      std::error_code error;
      do {  // until it has come to a stand, it may put a file there
        std::filesystem::remove_all(folder.path("out"), error);
      } while (error);
    }
    const Outcome outcome = held.go_on();
    EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
    EXPECT_NE(outcome.err.find(replaced ? "moved away" : "was removed"),
              std::string::npos)
        << outcome.err;
    EXPECT_EQ(std::filesystem::exists(folder.path("out")), replaced);
  }
}

}  // namespace
}  // namespace troupe::test
