// The program itself on emulated GPUs, as a user would run it.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "actors/artefacts/png.h"
#include "tests/cli/link_job.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

const Program::Environment kTwoGpus = {"EMULATED_GPUS=2"};

/// Four steps of a tiny network.
std::vector<std::string> tiny(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"sample", "--random-weights",
                                        "dit-tiny", "--steps", "4"};
  arguments = overridden(std::move(arguments), more);
  return arguments;
}

/// Four guided samples of it.
Outcome sample(std::vector<std::string> more,
               const Program::Environment& environment = {}) {
  std::vector<std::string> arguments = {"--samples", "4", "--guidance", "2",
                                        "--class",   "1", "--json",     "-q"};
  arguments = overridden(std::move(arguments), more);
  return run(tiny(arguments), environment);
}

std::string hash_of(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.exit_code == 0 ? outcome.json()["latents_xxh3"] : "failed";
}

actors::Image picture(const TempFolder& folder, const std::string& name) {
  const std::string content = folder.read(name);
  return actors::decode_png(name, std::as_bytes(std::span(content)));
}

TEST(ProgramOnGpu, DrawsThePictureOfTheCpu) {
  const TempFolder folder;
  for (const std::string device : {"cpu", "cuda:0"}) {
    const Outcome outcome = run(
        tiny({"--device", device, "--dtype", "f32", "-o",
              folder.path(device == "cpu" ? "cpu.png" : "gpu.png"), "--json"}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  }
  const actors::Image cpu = picture(folder, "cpu.png");
  const actors::Image gpu = picture(folder, "gpu.png");
  ASSERT_EQ(gpu.rgb.size(), cpu.rgb.size());
  int most = 0;
  for (std::size_t i = 0; i < cpu.rgb.size(); ++i) {
    most = std::max(most, std::abs(static_cast<int>(gpu.rgb[i]) -
                                   static_cast<int>(cpu.rgb[i])));
  }
  EXPECT_LE(most, 1);  // of 255: another rounding at most
}

TEST(ProgramOnGpu, GivesEqualBytesByEveryExactMethod) {
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--device", "cuda:0", "--dtype", "bf16"});
    return hash_of(sample(more));
  };
  const std::string want = with({"--method", "sequential"});
  EXPECT_EQ(with({"--method", "sequential"}), want) << "run to run";
  EXPECT_EQ(with({"--method", "batch", "--batch", "4"}), want);
  EXPECT_EQ(with({"--method", "batch", "--batch", "3"}), want);
  EXPECT_EQ(with({"--method", "cfg"}), want);
  EXPECT_EQ(with({"--method", "pipeline", "--segments", "2"}), want);
  EXPECT_EQ(with({"--method", "picard", "--window", "3", "--tolerance", "0"}),
            want);
  EXPECT_EQ(with({"--method", "stale", "--segments", "2", "--age", "0"}), want);
}

TEST(ProgramOnGpu, GivesEqualBytesInEveryType) {
  // Heads of f32 go through the softmax kernel, which the emulator walks thread
  // by thread: two samples are enough.
  for (const std::string dtype : {"f16", "f32"}) {
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.end(), {"--device", "cuda:0", "--dtype", dtype,
                               "--samples", "2", "--json", "-q"});
      std::vector<std::string> arguments = {"sample", "--random-weights",
                                            "dit-tiny", "--steps", "2"};
      arguments = overridden(std::move(arguments), more);
      return hash_of(run(arguments));
    };
    const std::string want = with({"--method", "sequential"});
    EXPECT_EQ(with({"--method", "batch", "--batch", "2"}), want) << dtype;
    EXPECT_EQ(with({"--method", "picard", "--window", "2", "--tolerance", "0"}),
              want)
        << dtype;
  }
}

TEST(ProgramOnGpu, GivesTheSameBytesOnOneGpuAndOnTwo) {
  const std::string one = hash_of(sample({"--device", "cuda:0"}));
  EXPECT_EQ(hash_of(sample({"--device", "cuda"}, kTwoGpus)), one);
  EXPECT_EQ(hash_of(sample({"--device", "cuda", "--workers", "4"}, kTwoGpus)),
            one);
  EXPECT_EQ(hash_of(sample({"--device", "cuda:1"}, kTwoGpus)), one);
  // Boundaries travel from GPU to GPU.
  EXPECT_EQ(hash_of(sample(
                {"--device", "cuda", "--method", "pipeline", "--segments", "2"},
                kTwoGpus)),
            one);
}

TEST(ProgramOnGpu, DividesAPictureAmongGpus) {
  // Other algorithms of the library have other bits for fewer rows.
  const auto drawn = [](int gpus, std::vector<std::string> more,
                        bool is_steady = true) {
    Program::Environment environment = {"EMULATED_GPUS=" +
                                        std::to_string(gpus)};
    if (is_steady) {
      environment.push_back("EMULATED_STEADY=1");
    }
    more.insert(more.end(), {"--steps", "2", "--samples", "2", "--size", "32"});
    return sample(more, environment);
  };
  const std::string one = hash_of(drawn(1, {"--device", "cuda:0"}));
  const std::vector<std::string> two = {"--device", "cuda:0,cuda:1", "--shards",
                                        "2",        "--shard-plan",  "gather"};
  const auto with = [](std::vector<std::string> arguments,
                       const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const Outcome shared = drawn(2, two);
  EXPECT_EQ(hash_of(shared), one);
  EXPECT_EQ(shared.json()["workers"], 1);
  EXPECT_EQ(shared.json()["devices"].size(), 2U);
  EXPECT_EQ(
      hash_of(drawn(2, with(two, {"--method", "pipeline", "--segments", "2"}))),
      one);
  EXPECT_EQ(hash_of(drawn(4, {"--device", "cuda", "--shards", "2",
                              "--shard-plan", "gather", "--method", "cfg"})),
            one);
  EXPECT_EQ(hash_of(drawn(2, overridden(two, {"--shard-plan", "ulysses"}))),
            one);
  // As a machine with one GPU tries the exchange.
  EXPECT_EQ(hash_of(sample(
                {"--device", "cuda:0", "--shards", "2", "--shard-plan",
                 "gather", "--steps", "2", "--samples", "2", "--size", "32"},
                {"EMULATED_STEADY=1", "RANKS_ON_ONE_GPU=1"})),
            one);
  EXPECT_EQ(hash_of(drawn(2, with(two, {"--exchange", "nccl"}))), one);
  // What it takes depends on the machine.
  const Outcome by_itself = drawn(2, overridden(two, {"--shard-plan", "auto"}));
  if (by_itself.exit_code == 0) {
    EXPECT_EQ(hash_of(by_itself), one);
  } else {
    EXPECT_EQ(by_itself.exit_code, 2);
    EXPECT_NE(by_itself.err.find("[--shards] got 2, expected 1: a pass of one "
                                 "image takes"),
              std::string::npos)
        << by_itself.err;
  }
  const nlohmann::json plan = drawn(2, with(two, {"--dry-run"})).json()["plan"];
  EXPECT_GT(plan["link_seconds"], 0);
  EXPECT_GT(plan["link_bytes_per_second"], 0);
  for (const nlohmann::json& way : plan["shard_plans"]) {
    EXPECT_EQ(way["is_measured"], way["shards"] <= 2) << way;
    EXPECT_GT(way["row_seconds"], 0) << way;
  }
  const Outcome refused = drawn(2, two, false);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("cuBLASLt computes other bits for"),
            std::string::npos)
      << refused.err << refused.out;
}

// As many jobs as FAULTY_JOBS says; the moments of the faults are drawn.
TEST(ProgramOnGpu, GoesOnWithoutAGpuOfAGroup) {
  const char* const wanted = std::getenv("FAULTY_JOBS");
  const int cases = wanted == nullptr ? 2 : std::atoi(wanted);
  const auto drawn = [](const std::string& devices,
                        Program::Environment environment) {
    environment.insert(environment.end(),
                       {"EMULATED_GPUS=3", "EMULATED_STEADY=1"});
    return run(
        tiny({"--device", devices, "--shards", devices == "cuda:0" ? "1" : "3",
              "--shard-plan", "gather", "--steps", "3", "--samples", "2",
              "--size", "40", "--json"}),
        environment);
  };
  const std::string all = "cuda:0,cuda:1,cuda:2";
  const std::string want = hash_of(drawn("cuda:0", {}));
  EXPECT_EQ(hash_of(drawn(all, {})), want);
  std::mt19937 random(5);
  std::map<std::string, int> lost;
  for (int i = 0; i < cases; ++i) {
    const std::string victim = std::to_string(1 + random() % 2);
    const std::string fault = i % 2 == 1 ? "EMULATED_HANG" : "EMULATED_LOSS";
    // Not before the job: the probe of a GPU and its weights come first.
    const std::string at = std::to_string(400 + random() % 400);
    SCOPED_TRACE(fault + "=" + victim + ":" + at);
    const Outcome outcome = drawn(all, {fault + "=" + victim + ":" + at});
    EXPECT_EQ(hash_of(outcome), want) << outcome.err;
    lost[fault] +=
        outcome.err.find("cuda:" + victim + " is lost (") != std::string::npos
            ? 1
            : 0;
  }
  EXPECT_GT(lost["EMULATED_LOSS"], 0);
  EXPECT_GT(lost["EMULATED_HANG"], 0);
  std::printf("%d jobs lost a GPU, in %d more it hung\n", lost["EMULATED_LOSS"],
              lost["EMULATED_HANG"]);
}

TEST(ProgramOnGpu, LetsWeightsVisitAGpuThatIsTooSmall) {
  const std::vector<std::string> here = {"--device", "cuda:0",  "--method",
                                         "batch",    "--batch", "1"};
  std::vector<std::string> dry = here;
  dry.emplace_back("--dry-run");
  const Outcome plan = sample(dry);
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  const auto needed =
      plan.json()["plan"]["gpus"][0]["memory_bytes"].get<std::uint64_t>();
  const Program::Environment small = {"EMULATED_MEMORY=" +
                                      std::to_string(needed - 100'000)};
  EXPECT_EQ(hash_of(sample(here, small)), hash_of(sample(here)));
  std::vector<std::string> loud = {
      "sample", "--random-weights", "dit-tiny", "--steps", "1", "--samples",
      "4",      "--guidance",       "2"};
  loud = overridden(std::move(loud), here);
  const Outcome noted = run(loud, small);
  EXPECT_NE(noted.err.find("its blocks' weights stay in the host's memory"),
            std::string::npos)
      << noted.err;
}

/// From a prompt to latents: text encoders and the network run on GPUs.
class PromptsOnGpu : public testing::TestWithParam<const char*> {};

TEST_P(PromptsOnGpu, GiveEqualBytesByEveryExactMethod) {
  const auto with = [&](std::vector<std::string> more) {
    // One sample: the emulator takes seconds for a pass of a UNet.
    std::vector<std::string> arguments = {
        "sample",    "--random-weights", GetParam(), "--prompt",
        "a red fox", "--steps",          "2",        "--dtype",
        "bf16",      "--device",         "cuda",     "--json",
        "-q"};
    arguments = overridden(std::move(arguments), more);
    return hash_of(run(arguments, kTwoGpus));
  };
  const std::string want = with({"--method", "batch"});
  EXPECT_EQ(with({"--method", "cfg"}), want);
  EXPECT_EQ(with({"--method", "pipeline", "--segments", "2"}), want);
  EXPECT_EQ(with({"--method", "picard", "--window", "2", "--tolerance", "0"}),
            want);
}

INSTANTIATE_TEST_SUITE_P(Models, PromptsOnGpu,
                         testing::Values("tiny-pixart-sigma", "tiny-sd15",
                                         "tiny-sdxl"));

/// A prompt's run on an emulated GPU or the CPU, in `folder`.
Outcome draw(std::vector<std::string> more) {
  std::vector<std::string> arguments = {
      "sample", "--random-weights", "tiny-sd15", "--prompt", "a fox", "--steps",
      "1",      "--guidance",       "1",         "--size",   "64x64", "--dtype",
      "f32",    "--json",           "-q"};
  arguments = overridden(std::move(arguments), more);
  Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome;
}

TEST(ProgramOnGpu, EncodesPromptsWhereTheRecipeSays) {
  const TempFolder folder;
  const auto drawn = [&](const std::string& name,
                         std::vector<std::string> more) {
    more.insert(more.end(), {"-o", folder.path(name)});
    return draw(more).json()["encoder_device"].get<std::string>();
  };
  EXPECT_EQ(drawn("cpu.png", {"--device", "cpu"}), "cpu");
  EXPECT_EQ(drawn("gpu.png", {"--device", "cuda:0"}), "cuda");
  const auto again = [&](const std::string& from, const std::string& name) {
    const Outcome outcome = run({"sample", "--from", folder.path(from), "-o",
                                 folder.path(name), "--json", "-q"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json()["encoder_device"].get<std::string>();
  };
  EXPECT_EQ(again("gpu.png", "gpu2.png"), "cuda");
  EXPECT_EQ(folder.read("gpu2.png"), folder.read("gpu.png"));
  EXPECT_EQ(again("cpu.png", "cpu2.png"), "cpu");
  EXPECT_EQ(folder.read("cpu2.png"), folder.read("cpu.png"));
}

TEST(ProgramOnGpu, ForecastsWhatEncodersTakeOfAGpu) {
  const auto planned = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--dry-run", "-o", "a.png"});
    return draw(more).json()["plan"]["encoder"];
  };
  const auto gpu = planned({"--device", "cuda:0"});
  const auto cpu = planned({"--device", "cpu"});
  EXPECT_TRUE(gpu["device"].get<std::string>().starts_with("cuda:0"));
  EXPECT_EQ(cpu["device"], "cpu");
  EXPECT_GT(gpu["memory_bytes"].get<std::uint64_t>(), 0U);
  EXPECT_GT(gpu["available_memory_bytes"], gpu["memory_bytes"]);
}

TEST(ProgramOnGpu, EncodesAFileOfPrompts) {
  const TempFolder folder;
  const auto encoded = [&](const std::string& device) {
    const Outcome outcome =
        run({"encode", "--random-weights", "tiny-sd15", "--prompt", "a fox",
             "--device", device, "-o", folder.path(device + ".safetensors"),
             "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json()["device"].get<std::string>();
  };
  EXPECT_EQ(encoded("cuda"), "cuda");
  EXPECT_EQ(encoded("auto"), "cuda");
  EXPECT_EQ(encoded("cpu"), "cpu");
  EXPECT_EQ(folder.read("auto.safetensors"), folder.read("cuda.safetensors"));
  EXPECT_NE(folder.read("cpu.safetensors"), folder.read("cuda.safetensors"));
}

TEST(ProgramOnGpu, EncodesForTheFirstProcess) {
  const TempFolder folder;
  const std::string endpoint = "ipc://" + folder.path("socket");
  for (const bool on_gpu : {true, false}) {
    const std::string picture = folder.path(on_gpu ? "gpu.png" : "cpu.png");
    Program worker({"worker", "--join", endpoint, "--device",
                    on_gpu ? "cuda:0" : "cpu", "--wait", "60", "--no-peer"});
    const Outcome job =
        draw({"--device", "cpu", "--workers", "0", "--listen", endpoint,
              "--encode-on", "workers", "-o", picture});
    EXPECT_EQ(job.json()["encoder_device"], on_gpu ? "cuda" : "cpu");
    EXPECT_EQ(worker.wait().exit_code, 0);
  }
}

TEST(ProgramOnGpu, JoinsACompanyOfProcesses) {
  for (const std::string method : {"batch", "cfg", "pipeline"}) {
    std::vector<std::string> arguments = {
        "--device", "cuda:0", "--dtype", "bf16", "--method",   method,
        "-n",       "4",      "--class", "1",    "--guidance", "2"};
    if (method == "pipeline") {
      arguments.insert(arguments.end(), {"--segments", "2"});
    }
    LinkJob job(arguments);
    job.add_worker({"--device", "cuda:0"});
    job.add_worker({"--device", "cuda:0"});
    const nlohmann::json together = job.finish();
    EXPECT_EQ(together["latents_xxh3"], job.alone()["latents_xxh3"]) << method;
    EXPECT_EQ(together["recoveries"], 0) << method;
  }
}

/// An image has the bytes of its own execution class.
TEST(ProgramOnGpu, SharesAJobWithTheCoresOfAnotherProcess) {
  const std::vector<std::string> same = {"--dtype",  "f32",   "--steps", "1",
                                         "--method", "batch", "-n",      "16"};
  std::map<std::string, nlohmann::json> alone;
  for (const std::string device : {"cpu", "cuda:0"}) {
    std::vector<std::string> arguments = {
        "sample", "--random-weights", "dit-tiny", "--json", "--device", device};
    arguments = overridden(std::move(arguments), same);
    const Outcome one = run(arguments);
    ASSERT_EQ(one.exit_code, 0) << one.err;
    alone[one.json()["execution_class"]] = one.json()["images"];
  }
  ASSERT_EQ(alone.size(), 2U);

  LinkJob job(same);
  job.add_worker({"--device", "cuda:0", "--batch", "1"});
  job.await_images(1);
  job.add_worker({"--device", "cpu"});  // much quicker than an emulated GPU
  const nlohmann::json together = job.finish();
  std::set<std::string> classes;
  for (std::size_t i = 0; i < 16; ++i) {
    const auto& image = together["images"][i];
    const std::string made_by =
        image.value("execution_class", together["execution_class"]);
    ASSERT_TRUE(alone.contains(made_by)) << made_by;
    EXPECT_EQ(image["latents_xxh3"], alone[made_by][i]["latents_xxh3"]) << i;
    classes.insert(made_by);
  }
  EXPECT_EQ(classes.size(), 2U) << together["nodes"];
}

/// The first process has no such device, and its cores have nothing to do with
/// it.
TEST(ProgramOnGpu, MayBeLostWithTheProcessThatJoined) {
  LinkJob job({"--dtype", "f32", "--steps", "1", "--method", "batch", "-n",
               "16", "--device", "cpu"});
  job.add_worker({"--device", "cuda:0", "--batch", "1"});
  job.await_images(1);
  job.add_worker({"--device", "cpu"});
  job.worker(0).signal(SIGKILL);
  const nlohmann::json summary = job.finish();
  EXPECT_EQ(summary["images"].size(), 16U);
  for (const auto& device : summary["devices"]) {
    EXPECT_NE(device["status"], "lost") << device;
  }
}

TEST(ProgramOnGpu, RepeatsAPictureFromItself) {
  const TempFolder folder;
  const std::string first = folder.path("first.png");
  ASSERT_EQ(run(tiny({"--device", "cuda:0", "-o", first})).exit_code, 0);
  const Outcome again = run({"sample", "--from", first, "--device", "cuda:0",
                             "-o", folder.path("again.png"), "--json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(folder.read("again.png"), folder.read("first.png"));
  EXPECT_EQ(run({"verify", first, "--device", "cuda:0"}).exit_code, 0);
}

TEST(ProgramOnGpu, ListsTheGpuAndRefusesOneThatIsNotThere) {
  const auto doctor = run({"doctor", "--json"}, kTwoGpus).json();
  EXPECT_EQ(doctor["cuda"], true);
  EXPECT_EQ(doctor["cuda_devices"].size(), 2U);
  const Outcome outcome = sample({"--device", "cuda:2"}, kTwoGpus);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
}

}  // namespace
}  // namespace troupe::test
