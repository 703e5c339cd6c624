// Which devices a job gets, on machines that are described here.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "actors/cli/execution_class.h"
#include "actors/cli/job_devices.h"
#include "actors/cli/job_layout.h"
#include "actors/cli/job_request.h"
#include "actors/cli/memory_plan.h"
#include "actors/cli/pass_times.h"
#include "config/parse_value.h"
#include "tests/cli/described_machines.h"

namespace troupe::actors {
namespace {

/// As the devices of a class make it.
config::Recipe recipe_of(const JobRequest& request, std::uint64_t index,
                         int execution_class) {
  return request.recipe_of(
      index, request.device_of(execution_class).class_record("test"));
}

TEST(Company, TakesEveryGpuByItself) {
  const JobRequest request = make_request(
      job("auto"), nullptr, machine({gpu(0, "A", 9), gpu(1, "A", 9)}));
  ASSERT_EQ(request.devices.size(), 2U);
  EXPECT_EQ(request.devices.front().compute, DType::bf16);
  EXPECT_EQ(request.devices[0].execution_class, 0);
  EXPECT_EQ(request.devices[1].execution_class, 0);
  EXPECT_EQ(request.required_bytes,
            sample_value_bytes(request, DeviceKind::cpu))
      << "the host holds results and cuts alone";
  const std::vector<WorkerTraits> places =
      workers_of(request.devices, 1, 1, request.max_rows);
  ASSERT_EQ(places.size(), 2U);
  EXPECT_EQ(places[1].value_budget,
            request.devices[1].available_bytes -
                request.devices[1].required_bytes +
                sample_value_bytes(request, DeviceKind::cuda));
  const MemoryInfo memory{
      .physical_bytes = 64,
      .available_bytes = 9,
      .limits = {{.allowed_bytes = 64}, {.allowed_bytes = 32}}};
  const ProcessMeans means = means_of(request.devices, memory);
  EXPECT_EQ(means, (ProcessMeans{32,
                                 9,
                                 {{{DeviceKind::cuda, 0}, "A", 80 * kGiB},
                                  {{DeviceKind::cuda, 1}, "A", 80 * kGiB}},
                                 means.machine}));
  EXPECT_NE(means.machine, 0U) << "it is told from other machines";
  EXPECT_EQ(places[1].device, (Device{DeviceKind::cuda, 1}));
  EXPECT_EQ(places[1].threads, 1);
  EXPECT_EQ(places[1].max_rows, 4) << "half of eight small images";
  EXPECT_TRUE(places[1].options.batch_invariant);
  EXPECT_EQ(describe_company(request),
            "1 worker on cuda:0 and 1 worker on cuda:1");
}

/// So many shards of a network of 256 tokens.
config::Config divided(const std::string& devices, int shards) {
  config::Config config = job(devices);
  config.random_weights = "dit-tiny";
  config.size = {32, 32};
  config.num_shards = shards;
  return config;
}

TEST(Company, MakesGroupsOfGpusThatDivideAPicture) {
  const Gpus four =
      machine({gpu(0, "A", 9), gpu(1, "A", 9), gpu(2, "B", 9), gpu(3, "B", 9)});
  const JobRequest request = make_request(divided("cuda", 2), nullptr, four);
  ASSERT_EQ(request.devices.size(), 4U);
  const std::vector<WorkerTraits> workers =
      workers_of(request.devices, 1, request.num_shards, request.max_rows);
  ASSERT_EQ(workers.size(), 2U);
  for (int w = 0; w < 2; ++w) {
    const WorkerTraits& one = workers[static_cast<std::size_t>(w)];
    EXPECT_EQ(one.device, (Device{DeviceKind::cuda, 2 * w}));
    EXPECT_EQ(one.others, (std::vector<Device>{{DeviceKind::cuda, 2 * w + 1}}));
    EXPECT_EQ(one.shards, 1);
  }
  EXPECT_EQ(describe_company(request),
            "1 worker × 2 shards on cuda:0,cuda:1 and "
            "1 worker × 2 shards on cuda:2,cuda:3");
  // Each of a group has the weights; the first one has values and pictures.
  const JobDevice& lead = request.devices[0];
  const JobDevice& other = request.devices[1];
  EXPECT_TRUE(lead.is_used() && other.is_used());
  EXPECT_GT(other.required_bytes, kGpuOverhead);
  EXPECT_GT(lead.required_bytes, other.required_bytes);
  EXPECT_EQ(other.value_budget, 0U);
  EXPECT_EQ(num_threads(workers), 4) << "each rank has one";
  const ProcessMeans means = means_of(request.devices, {});
  EXPECT_EQ(device_name(means, lead.device), "2 x A")
      << "speeds of earlier jobs stand under this name";
  EXPECT_EQ(device_name(means, other.device), "A");
  // One sample keeps one group busy.
  config::Config one = divided("cuda", 2);
  one.samples = {0, 1};
  one.method.kind = samplers::MethodKind::sequential;
  EXPECT_EQ(describe_company(make_request(one, nullptr, four)),
            "1 worker × 2 shards on cuda:0,cuda:1");
}

TEST(Company, TakesThePlanByWhichGpusAreFaster) {
  const auto chosen = [](double gather, double ulysses, int gpus) {
    return fastest_plan(
        {.alone = 0.155, .gather = gather, .ulysses = ulysses, .how = ""}, gpus,
        "--shards");
  };
  EXPECT_EQ(chosen(0.09, 0.1, 2).plan, AttentionPlan::gather);
  EXPECT_EQ(chosen(0.2, 0.1, 4).plan, AttentionPlan::ulysses);
  EXPECT_EQ(chosen(0.09, 0.1, 2).why,
            "--shard-plan auto takes gather: a pass of one image takes 0.09 s "
            "on 2 GPUs (gather 0.09 s, ulysses 0.1 s) and 0.155 s on one");
  const ShardChoice only = fastest_plan(
      {.alone = 1, .gather = {}, .ulysses = 0.5, .how = ""}, 2, "--shards");
  EXPECT_EQ(only.plan, AttentionPlan::ulysses);
  EXPECT_TRUE(contains(only.why, "(gather impossible, ulysses 0.5 s)"));
  for (const double slow : {0.155, 0.172}) {
    try {
      (void)chosen(slow, 0.3, 2);
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::unsupported);
      EXPECT_TRUE(contains(error.what(),
                           "[--shards] got 2, expected 1: a pass of one image "
                           "takes " +
                               std::string(slow < 0.16 ? "0.155" : "0.172") +
                               " s on 2 GPUs together and 0.155 s on one"));
    }
  }
}

TEST(Company, NotesOnceWhatItPlansTwice) {
  // A full GPU is left out, and what is left is planned again.
  config::Config config = job("auto");
  config.shard_plan = config::ShardPlan::gather;
  Gpus gpus = machine({gpu(0, "A", 9), gpu(1, "A", 9)});
  gpus.memory = [](int index) {
    return kernels::DeviceMemory{index == 1 ? kGiB / 8 : 70 * kGiB, 80 * kGiB};
  };
  const JobRequest request = make_request(config, nullptr, gpus);
  ASSERT_EQ(request.devices.size(), 1U);
  EXPECT_EQ(std::ranges::count_if(request.notes,
                                  [](const std::string& note) {
                                    return contains(
                                        note, "does nothing without --shards");
                                  }),
            1);
}

TEST(Company, GathersInF32OnGpus) {
  config::Config config = divided("cuda", 2);
  config.compute = config::ComputeType::f32;
  config.shard_plan = config::ShardPlan::ulysses;
  const JobRequest request =
      make_request(config, nullptr, machine({gpu(0, "A", 9), gpu(1, "A", 9)}));
  EXPECT_EQ(request.attention_plan, AttentionPlan::gather);
  EXPECT_TRUE(std::ranges::any_of(request.notes, [](const std::string& note) {
    return contains(note, "in f32, GPUs do not divide heads");
  }));
}

TEST(Company, RefusesShardsThatNoGroupOfGpusHas) {
  const auto refused = [](const config::Config& config,
                          std::vector<kernels::CudaDevice> gpus) {
    return refusal(config, machine(std::move(gpus)));
  };
  EXPECT_TRUE(
      contains(refused(divided("cuda:0", 2), {gpu(0, "A", 9), gpu(1, "A", 9)}),
               "[--shards] more shards than GPUs: got 2, expected at most 1"));
  EXPECT_TRUE(
      contains(refused(divided("cuda", 2),
                       {gpu(0, "A", 9), gpu(1, "A", 9), gpu(2, "A", 9)}),
               "[--shards] GPUs are left over: got 3 GPUs for 2 shards each"));
  EXPECT_TRUE(contains(
      refused(divided("cuda", 2), {gpu(0, "A", 9), gpu(1, "B", 9)}),
      "[--shards] GPUs of two kinds would compute a picture together: got "
      "cuda:0 (A) and cuda:1 (B)"));
  EXPECT_TRUE(
      contains(refused(divided("cuda", 2), {gpu(0, "A", 8), gpu(1, "A", 9)}),
               "[--shards] GPUs of two kinds"));
  const std::vector<kernels::CudaDevice> two = {gpu(0, "A", 9), gpu(1, "A", 9)};
  config::Config config = divided("cuda", 2);
  config.shard_plan = config::ShardPlan::ring;
  EXPECT_TRUE(contains(refused(config, two),
                       "[--shard-plan] got 2 blocks of keys, expected 1: GPUs "
                       "do not merge them yet"));
  config = divided("cuda", 1);
  config.ring_blocks = 3;
  EXPECT_TRUE(contains(refused(config, two),
                       "[--ring-blocks] got 3 blocks of keys, expected 1"));
  config = divided("cuda", 2);
  config.listen = "tcp://127.0.0.1:5555";
  config.num_workers = 1;
  config.method.kind = samplers::MethodKind::pipeline;
  EXPECT_TRUE(contains(refused(config, two),
                       "GPUs that compute together hold the whole network"));
  Gpus unlike = machine(two);
  unlike.probe = [](const JobDevice& one) {
    return static_cast<std::uint64_t>(one.device.index + 1);
  };
  EXPECT_TRUE(contains(refusal(divided("cuda", 2), unlike),
                       "cuda:0 (A) and cuda:1 (A) compute other bytes"));
}

TEST(Company, StaysOnTheCpuWhereThereIsNoGpu) {
  const JobRequest request = make_request(job("auto"), nullptr, no_gpu());
  ASSERT_EQ(request.devices.size(), 1U);
  EXPECT_FALSE(request.devices[0].is_gpu());
  EXPECT_GT(request.required_bytes, 0U);
  const std::string recipe = config::to_json(request.recipe_of(0));
  for (const char* key : {"device", "bits", "tf32"}) {
    EXPECT_FALSE(contains(recipe, std::string("\"") + key + "\"")) << recipe;
  }
}

TEST(Company, PutsDifferentArchitecturesIntoDifferentClasses) {
  const JobRequest request =
      make_request(job("cuda,cpu"), nullptr,
                   machine({gpu(0, "A", 9), gpu(1, "B", 8), gpu(2, "A", 9)}));
  ASSERT_EQ(request.devices.size(), 4U);
  std::vector<int> classes;
  for (const JobDevice& device : request.devices) {
    classes.push_back(device.execution_class);
  }
  EXPECT_EQ(classes, (std::vector<int>{0, 1, 0, 2}));
  EXPECT_FALSE(request.device_of(2).is_gpu());
  EXPECT_FALSE(recipe_of(request, 3, 2).device);
  EXPECT_EQ(recipe_of(request, 3, 1).device, DeviceKind::cuda);
  EXPECT_EQ(recipe_of(request, 3, 1).dtype, "bf16");
}

TEST(Company, NamesAGpuThatIsNotThere) {
  EXPECT_TRUE(contains(refusal(job("cuda"), no_gpu()),
                       "[--device] no GPU can be used: no NVIDIA driver is "
                       "installed"));
  const std::string two =
      refusal(job("cuda:5"), machine({gpu(0, "A", 9), gpu(1, "A", 9)}));
  EXPECT_TRUE(contains(two, "there is no cuda:5: this machine has 2 GPUs"));
  EXPECT_TRUE(contains(two, "choose cuda:0 to cuda:1"));
  EXPECT_TRUE(contains(refusal(job("cuda"), machine({gpu(0, "Old", 7)})),
                       "compute capability 7.0 (Old), expected at least 8.0"));
}

TEST(Company, LeavesOldGpusToOthers) {
  const JobRequest request = make_request(
      job("auto"), nullptr, machine({gpu(0, "Old", 7), gpu(1, "A", 9)}));
  ASSERT_EQ(request.devices.size(), 1U);
  EXPECT_EQ(request.devices[0].device.index, 1);
  EXPECT_FALSE(make_request(job("auto"), nullptr, machine({gpu(0, "Old", 7)}))
                   .devices[0]
                   .is_gpu());
}

TEST(Company, HasF16OnGpusOnly) {
  config::Config config = job("cuda");
  config.compute = config::ComputeType::f16;
  const Gpus one = machine({gpu(0, "A", 9)});
  EXPECT_EQ(make_request(config, nullptr, one).devices.front().compute,
            DType::f16);
  config.devices = config::parse_devices("--device", "cuda,cpu");
  EXPECT_TRUE(
      contains(refusal(config, one), "the CPU does not compute in f16"));
  config.devices = {};
  EXPECT_TRUE(contains(refusal(config, no_gpu()),
                       "[--dtype] the CPU does not compute in f16"));
}

TEST(Company, RunsARecipeOnTheKindOfDeviceThatMadeIt) {
  config::Recipe by_cpu;
  config::Recipe by_gpu;
  by_gpu.device = DeviceKind::cuda;
  const Gpus one = machine({gpu(0, "A", 9)});
  std::vector<std::string> notes;
  EXPECT_FALSE(
      choose_devices(job("auto"), &by_cpu, one.found, notes)[0].is_gpu());
  EXPECT_TRUE(
      choose_devices(job("auto"), &by_gpu, one.found, notes)[0].is_gpu());
  EXPECT_TRUE(
      choose_devices(job("cuda"), &by_cpu, one.found, notes)[0].is_gpu());
  EXPECT_TRUE(notes.empty());
  EXPECT_FALSE(
      choose_devices(job("auto"), &by_gpu, no_gpu().found, notes)[0].is_gpu());
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(contains(notes[0], "other bytes"));
}

TEST(Company, SaysInTheRecipeWhatAGpuTraded) {
  config::Config config = job("cuda,cpu");
  config.bits = config::BitsMode::free;
  config.tf32 = true;
  const JobRequest request =
      make_request(config, nullptr, machine({gpu(0, "A", 9)}));
  EXPECT_EQ(recipe_of(request, 0, 0).bits, config::BitsMode::free);
  EXPECT_EQ(recipe_of(request, 0, 0).tf32, true);
  EXPECT_FALSE(recipe_of(request, 0, 1).bits);
  EXPECT_FALSE(request.devices.front().options.batch_invariant);
  EXPECT_TRUE(std::ranges::any_of(request.notes, [](const auto& note) {
    return contains(note, "--bits free");
  }));
}

TEST(Company, HasTwoClassesOfGpusThatOnlyLookAlike) {
  Gpus gpus = machine({gpu(0, "A", 9), gpu(1, "A", 9), gpu(2, "A", 9)});
  const auto classes = [&](std::uint64_t samples) {
    std::vector<int> numbers;
    for (const JobDevice& on :
         make_request(job("cuda", samples), nullptr, gpus).devices) {
      numbers.push_back(on.execution_class);
    }
    return numbers;
  };
  EXPECT_EQ(classes(8), (std::vector<int>{0, 0, 0}));
  int probed = 0;
  gpus.probe = [&probed](const JobDevice& on) {
    ++probed;
    EXPECT_EQ(on.compute, DType::bf16);
    return on.device.index == 1 ? kProbe + 1 : kProbe;
  };
  EXPECT_EQ(classes(8), (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(probed, 3);
  EXPECT_EQ(classes(1), (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(probed, 5) << "a guided image has work for two";
}

TEST(Company, SaysThatAGpuCouldNotBeProbed) {
  Gpus gpus = machine({gpu(0, "A", 9)});
  gpus.probe = [](const JobDevice&) { return std::uint64_t{0}; };
  const JobRequest request = make_request(job("cuda"), nullptr, gpus);
  EXPECT_TRUE(std::ranges::any_of(request.notes, [](const auto& note) {
    return contains(note, "cuda:0 (A) could not be probed");
  }));
}

TEST(ExecutionClass, OfAGpuFollowsFromItsArchitectureProbeAndMode) {
  const JobDevice one{.device = {DeviceKind::cuda, 0}, .architecture = "A"};
  JobDevice twin = one;
  twin.device.index = 1;
  twin.name = "another name";
  const auto name = [](const JobDevice& device) {
    return execution_class(execution_conditions(7, device, {}));
  };
  EXPECT_EQ(name(one), name(twin));
  JobDevice other = one;
  other.architecture = "B";
  JobDevice probed = one;
  probed.probe = kProbe;
  JobDevice free = one;
  free.options.batch_invariant = false;
  JobDevice tf32 = one;
  tf32.options.tf32 = true;
  JobDevice cpu = one;
  cpu.device = {};
  for (const JobDevice& changed : {other, probed, free, tf32, cpu}) {
    EXPECT_NE(name(changed), name(one));
  }
  for (const LibraryVersion& library :
       execution_conditions(7, one, {}).libraries) {
    EXPECT_NE(library.name, "CUDA driver");
    EXPECT_NE(library.name, "oneDNN");
  }
}

}  // namespace
}  // namespace troupe::actors
