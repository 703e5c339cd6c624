#include "actors/cli/job_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "actors/cli/execution_class.h"
#include "actors/cli/isa_in_force.h"
#include "config/enum_names.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/log.h"
#include "kernels/core/system/temporary_files.h"
#include "kernels/core/text.h"
#include "kernels/linear.h"
#include "kernels/numeric_probe.h"

namespace troupe::actors {
namespace {

/// The kernels are built from here on (compute capability).
constexpr int kOldestMajor = 8;

DType cpu_dtype(const config::Config& config) {
  const std::optional<DType> asked = asked_dtype(config);
  if (!asked) {
    return automatic_dtype();
  }
  require(*asked != DType::f16, Errc::unsupported, config.place_of("dtype"),
          "the CPU does not compute in f16",
          "use --dtype bf16, f32 or auto, or a GPU (--device cuda)");
  require(kernels::supports(*asked), Errc::unsupported, "--dtype",
          "this processor cannot multiply bf16 matrices" +
              (config.isa ? ", held to " + config::name_of(*config.isa)
                          : std::string()),
          "use --dtype f32 or auto");
  return *asked;
}

DType gpu_dtype(const config::Config& config) {
  return asked_dtype(config).value_or(DType::bf16);
}

JobDevice the_cpu(const config::Config& config) {
  return {.device = {},
          .name = cpu_model(),
          .architecture = {},
          .compute = cpu_dtype(config),
          .isa = isa_in_force()};
}

bool is_new_enough(const kernels::CudaDevice& gpu) {
  return gpu.compute_major >= kOldestMajor;
}

JobDevice the_gpu(const config::Config& config,
                  const kernels::CudaDevice& gpu) {
  require(is_new_enough(gpu), Errc::unsupported, config.place_of("device"),
          fmt::format("cuda:{} is too old: got compute capability {}.{} ({}), "
                      "expected at least {}.0",
                      gpu.index, gpu.compute_major, gpu.compute_minor, gpu.name,
                      kOldestMajor),
          "run on the CPU (--device cpu)");
  return {
      .device = {DeviceKind::cuda, gpu.index},
      .name = gpu.name,
      .architecture = fmt::format("{}, compute {}.{}, {} multiprocessors",
                                  gpu.name, gpu.compute_major,
                                  gpu.compute_minor, gpu.num_multiprocessors),
      .compute = gpu_dtype(config),
      .options = {.batch_invariant = config.bits == config::BitsMode::invariant,
                  .tf32 = config.tf32}};
}

std::vector<JobDevice> all_gpus(const config::Config& config,
                                const kernels::CudaDevices& found) {
  std::vector<JobDevice> devices;
  for (const kernels::CudaDevice& gpu : found.devices) {
    if (is_new_enough(gpu)) {
      devices.push_back(the_gpu(config, gpu));
    }
  }
  if (devices.empty() && !found.devices.empty()) {
    (void)the_gpu(config, found.devices.front());  // says what is wrong
  }
  return devices;
}

void add_gpus(const config::Config& config, const config::DeviceChoice& choice,
              const kernels::CudaDevices& found,
              std::vector<JobDevice>& devices) {
  const std::string place = config.place_of("device");
  require(!found.devices.empty(), Errc::unsupported, place,
          "no GPU can be used: " + found.why_none,
          "run on the CPU (--device cpu), or see troupe doctor");
  if (!choice.index) {
    std::ranges::move(all_gpus(config, found), std::back_inserter(devices));
    return;
  }
  const auto gpu = std::ranges::find(found.devices, *choice.index,
                                     &kernels::CudaDevice::index);
  require(gpu != found.devices.end(), Errc::unsupported, place,
          fmt::format("there is no cuda:{}: this machine has {}", *choice.index,
                      counted(found.devices.size(), "GPU")),
          found.devices.size() == 1 ? std::string("use cuda:0")
                                    : fmt::format("choose cuda:0 to cuda:{}",
                                                  found.devices.size() - 1));
  devices.push_back(the_gpu(config, *gpu));
}

std::vector<JobDevice> automatic_devices(const config::Config& config,
                                         const config::Recipe* recipe,
                                         const kernels::CudaDevices& found,
                                         std::vector<std::string>& notes) {
  const bool by_cpu = recipe != nullptr && !recipe->device;
  const bool any_new = std::ranges::any_of(found.devices, is_new_enough);
  if (any_new && !by_cpu) {
    return all_gpus(config, found);
  }
  if (recipe != nullptr && recipe->device) {
    notes.emplace_back(
        "the image was made on a GPU, and none can be used here: the CPU gives "
        "other bytes");
  }
  return {the_cpu(config)};
}

}  // namespace

std::optional<DType> asked_dtype(const config::Config& config) {
  switch (config.compute) {
    case config::ComputeType::f32:
      return DType::f32;
    case config::ComputeType::bf16:
      return DType::bf16;
    case config::ComputeType::f16:
      return DType::f16;
    case config::ComputeType::automatic:
      break;
  }
  return std::nullopt;
}

ClassRecord JobDevice::class_record(std::string class_name) const {
  return {.name = std::move(class_name),
          .device = device.kind,
          .dtype = compute,
          .isa = isa,
          .architecture = architecture,
          .batch_invariant = options.batch_invariant,
          .tf32 = options.tf32};
}

std::string JobDevice::label() const {
  return is_gpu() ? fmt::format("{} ({})", to_string(device), name) : "cpu";
}

std::uint64_t probe_of(const JobDevice& gpu) {
  try {
    return kernels::numeric_probe(gpu.compute, gpu.device, gpu.options);
  } catch (const Error& error) {
    log_message(LogLevel::debug,
                gpu.label() + " cannot be probed: " + error.what());
    return 0;
  }
}

void number_classes(std::vector<JobDevice>& devices) {
  std::map<std::tuple<DeviceKind, std::string, std::uint64_t>, int> numbers;
  for (JobDevice& on : devices) {
    const auto next = static_cast<int>(numbers.size());
    on.execution_class =
        numbers.try_emplace({on.device.kind, on.architecture, on.probe}, next)
            .first->second;
  }
}

std::vector<JobDevice> choose_devices(const config::Config& config,
                                      const config::Recipe* recipe,
                                      const kernels::CudaDevices& found,
                                      std::vector<std::string>& notes) {
  std::vector<JobDevice> devices;
  if (config.devices.empty()) {
    devices = automatic_devices(config, recipe, found, notes);
  }
  bool with_cpu = false;
  for (const config::DeviceChoice& choice : config.devices) {
    if (choice.kind == DeviceKind::cpu) {
      with_cpu = true;
    } else {
      add_gpus(config, choice, found, devices);
    }
  }
  if (with_cpu) {
    devices.push_back(the_cpu(config));
  }
  group_gpus(config, devices);
  number_classes(devices);
  const bool has_gpu = devices.front().is_gpu();
  if (has_gpu && config.bits == config::BitsMode::free) {
    notes.emplace_back(
        "--bits free: an image's bytes may depend on the images computed "
        "beside it, and no method is exact");
  } else if (!has_gpu &&
             (config.bits == config::BitsMode::free || config.tf32)) {
    notes.emplace_back(
        "--bits and --tf32 are about GPUs: the CPU computes as always");
  }
  return devices;
}

void group_gpus(const config::Config& config, std::vector<JobDevice>& devices) {
  const auto size = static_cast<std::size_t>(config.num_shards);
  std::vector<JobDevice*> gpus;
  for (JobDevice& one : devices) {
    one.others.clear();
    one.lead.reset();
    if (one.is_gpu() && size > 1) {
      gpus.push_back(&one);
    }
  }
  if (std::getenv("RANKS_ON_ONE_GPU") != nullptr) {
    for (JobDevice* gpu : gpus) {
      gpu->others.assign(size - 1, gpu->device);
    }
    return;
  }
  const std::string place = config.place_of("shards");
  require(gpus.empty() || size <= gpus.size(), Errc::invalid_argument, place,
          fmt::format("more shards than GPUs: got {}, expected at most {}",
                      size, gpus.size()),
          "name more GPUs (--device), give fewer shards, or --device cpu");
  require(gpus.size() % size == 0, Errc::invalid_argument, place,
          fmt::format("GPUs are left over: got {} for {} shards each, expected "
                      "a multiple",
                      counted(gpus.size(), "GPU"), size),
          "name fewer GPUs (--device), or give another number of shards");
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    JobDevice& lead = *gpus[i / size * size];
    JobDevice& one = *gpus[i];
    require(one.architecture == lead.architecture, Errc::invalid_argument,
            place,
            fmt::format("GPUs of two kinds would compute a picture together: "
                        "got {} and {}",
                        lead.label(), one.label()),
            "name GPUs of one kind (--device)");
    if (&one != &lead) {
      one.lead = lead.device;
      lead.others.push_back(one.device);
    }
  }
}

std::vector<DeviceKind> kinds_of(const std::vector<JobDevice>& devices) {
  std::vector<DeviceKind> kinds;
  for (const JobDevice& one : devices) {
    if (!one.lead) {
      kinds.push_back(one.device.kind);
    }
  }
  return kinds;
}

ProcessMeans means_of(const std::vector<JobDevice>& devices,
                      const MemoryInfo& memory) {
  const ProcessStamp here = this_process();
  ProcessMeans means{.memory_bytes = memory.physical_bytes,
                     .available_memory_bytes = memory.available_bytes,
                     .devices = {},
                     .machine = xxh3_64(std::as_bytes(
                         std::span(here.boot == "0" ? here.host : here.boot)))};
  for (const MemoryLimit& limit : memory.limits) {
    means.memory_bytes = std::min(means.memory_bytes, limit.allowed_bytes);
  }
  for (const JobDevice& one : devices) {
    if (one.is_used()) {
      means.devices.push_back(
          {one.device, one.is_gpu() ? one.name : "", one.total_bytes});
      if (!one.others.empty()) {
        // Speeds of earlier jobs are kept by name, and a group is faster.
        means.devices.back().name =
            fmt::format("{} x {}", one.others.size() + 1, one.name);
      }
    }
  }
  return means;
}

std::vector<WorkerTraits> workers_of(const std::vector<JobDevice>& devices,
                                     int num_threads, int num_shards,
                                     int max_rows) {
  std::vector<WorkerTraits> workers;
  for (const JobDevice& on : devices) {
    for (int w = 0; w < on.workers; ++w) {
      workers.push_back({.execution_class = on.execution_class,
                         .device = on.device,
                         .max_rows = on.is_gpu() ? on.rows : max_rows,
                         .value_budget = on.value_budget,
                         .threads = on.is_gpu() ? 1 : num_threads * num_shards,
                         .shards = on.is_gpu() ? 1 : num_shards,
                         .others = on.others,
                         .options = on.options});
    }
  }
  return workers;
}

}  // namespace troupe::actors
