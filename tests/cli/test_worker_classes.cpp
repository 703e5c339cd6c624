// Jobs of several processes that compute in different execution classes.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/cli/link_job.h"

namespace troupe::test {
namespace {

using Arguments = std::vector<std::string>;

/// Holds the matrix library, and not our loops: a level without a name, that
/// other processes do not follow.
const Program::Environment kOddLevel = {"ONEDNN_MAX_CPU_ISA=AVX2"};
const Arguments kInF32 = {"--method", "batch", "--dtype", "f32",
                          "-n",       "8",     "--steps", "50"};

std::string class_at(const Program::Environment& environment) {
  const Outcome outcome =
      run({"sample", "--random-weights", "dit-tiny", "--dtype", "f32",
           "--steps", "1", "--method", "batch", "--json"},
          environment);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.json()["execution_class"];
}

/// The job's own process computes at the odd level, where there is one.
class WorkersOfAnotherClass : public testing::Test {
 protected:
  void SetUp() override {
    if (class_at({}) == class_at(kOddLevel)) {
      GTEST_SKIP() << "this processor has one class only";
    }
  }
};

TEST_F(WorkersOfAnotherClass, MakeImagesOfTheirs) {
  LinkJob job(kInF32, {}, {}, kOddLevel);
  job.add_worker();
  const Outcome end = job.outcome();
  ASSERT_EQ(end.exit_code, 0) << end.err;
  const nlohmann::json result = end.json();
  EXPECT_NE(
      end.err.find("process 1 (" + std::string(result["nodes"][1]["name"]) +
                   ") computes in another execution class"),
      std::string::npos)
      << end.err;
  EXPECT_EQ(result["nodes"][1]["execution_classes"][0],
            result["execution_class"]);
  const nlohmann::json alone = job.alone();
  EXPECT_EQ(result["execution_class"], alone["execution_class"]);
  EXPECT_EQ(result["latents_xxh3"], alone["latents_xxh3"]);
}

TEST_F(WorkersOfAnotherClass, TakeOverOrWaitOrLetSamplesFail) {
  for (const std::string mode : {"begin-anew", "wait", "refuse"}) {
    Arguments arguments = kInF32;
    arguments.insert(arguments.end(), {"--on-class-change", mode});
    LinkJob job(arguments, {}, {}, kOddLevel);
    job.add_worker({}, kOddLevel);
    job.await_images(1);
    job.add_worker();
    job.await_images(3);
    job.worker(0).signal(SIGKILL);
    if (mode == "wait") {
      job.add_worker({}, kOddLevel);
    }
    const Outcome outcome = job.outcome();
    EXPECT_EQ(outcome.exit_code, mode == "refuse" ? 7 : 0) << outcome.err;
    const nlohmann::json result = outcome.json();
    const bool has_failed = std::ranges::any_of(
        result["images"],
        [](const auto& image) { return image["status"] == "failed"; });
    EXPECT_EQ(has_failed, mode == "refuse") << result;
    EXPECT_EQ(result["execution_class"], "mixed");
  }
}

TEST_F(WorkersOfAnotherClass, AreRefusedWhereOneIsRequired) {
  Arguments arguments = kInF32;
  arguments.insert(arguments.end(), {"--require-class", class_at(kOddLevel)});
  LinkJob job(arguments, {}, {}, kOddLevel);
  job.add_worker();
  const Outcome refused = job.worker(0).wait();
  EXPECT_EQ(refused.exit_code, 8) << refused.err;
  EXPECT_NE(refused.err.find(class_at({})), std::string::npos) << refused.err;
  job.add_worker({}, kOddLevel);
  const Outcome end = job.outcome();
  ASSERT_EQ(end.exit_code, 0) << end.err;
  EXPECT_EQ(end.json()["execution_class"], class_at(kOddLevel));
  EXPECT_NE(
      end.err.find("process 1 (" + std::string(end.json()["nodes"][1]["name"]) +
                   ") is refused: the process computes other bytes than "
                   "the job: got class " +
                   class_at({})),
      std::string::npos)
      << end.err;
}

}  // namespace
}  // namespace troupe::test
