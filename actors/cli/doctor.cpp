#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/cli/execution_class.h"
#include "actors/cli/job_request.h"
#include "actors/cli/verbs.h"
#include "actors/cli/versions.h"
#include "config/enum_names.h"
#include "config/method_plan.h"
#include "kernels/core/system.h"
#include "kernels/cuda/devices.h"

namespace troupe::actors {
namespace {

/// How jobs that say nothing of workers and threads are laid out, by what they
/// make.
std::vector<std::pair<std::string, config::Plan>> default_plans() {
  const int cores = num_usable_cores();
  const auto plan = [&](std::uint64_t images) {
    return config::make_plan({}, {.num_samples = images,
                                  .is_guided = true,
                                  .num_blocks = 1,
                                  .num_calls = 1,
                                  .num_cores = cores});
  };
  return {{"one image", plan(1)},
          {"many images", plan(static_cast<std::uint64_t>(cores) * 2)}};
}

/// The packages to install so that GPUs are found; empty when a GPU is found.
std::vector<std::string> cuda_advice(
    const kernels::CudaDevices& cuda,
    const std::vector<LibraryVersion>& libraries) {
  std::vector<std::string> lines;
  if (libraries.empty()) {
    lines.emplace_back(
        "to sample on NVIDIA GPUs: install the CUDA Toolkit 12.4 or later and "
        "cuDNN 9, then build with cmake --preset cuda (this build samples on "
        "the CPU)");
  } else if (cuda.devices.empty()) {
    lines.push_back("no GPU can be used: " + cuda.why_none +
                    "; install or update NVIDIA's driver");
  }
  for (const LibraryVersion& library : libraries) {
    // The driver has had its line; nothing here needs NCCL yet.
    if (library.version == "not found" && library.name != "NCCL" &&
        library.name != "CUDA driver") {
      lines.push_back(library.name +
                      " was not found, and GPUs cannot be used without it: "
                      "install the CUDA Toolkit 12.4 or later and cuDNN 9, and "
                      "put their libraries on the loader's path");
    }
  }
  return lines;
}

/// What would make this machine do more, as sentences.
std::vector<std::string> advice(const MemoryInfo& memory,
                                const kernels::CudaDevices& cuda,
                                const std::vector<LibraryVersion>& libraries) {
  std::vector<std::string> lines = cuda_advice(cuda, libraries);
  if (!cpu_is_supported()) {
    lines.emplace_back(
        "this processor lacks AVX2 or FMA: Troupe does not run here");
  } else if (automatic_dtype() == DType::f32) {
    lines.emplace_back(
        "no native bf16: --dtype auto means f32; AVX512-BF16 or AMX would "
        "halve memory and time");
  }
  constexpr std::uint64_t kFew = std::uint64_t{2} << 30U;
  if (memory.available_bytes < kFew) {
    lines.push_back("less than 2 GiB free: large models will not fit (" +
                    to_string(memory.binding()) + ")");
  }
  return lines;
}

/// What a GPU has left, or why it does not say.
struct FreeMemory {
  std::optional<std::uint64_t> bytes;
  std::string why_not;
};

FreeMemory free_memory(const kernels::CudaDevice& device) {
  try {
    return {kernels::cuda_memory(device.index).free_bytes, {}};
  } catch (const Error& error) {
    return {std::nullopt, error.message()};
  }
}

void print_cuda(const kernels::CudaDevices& cuda,
                const std::vector<LibraryVersion>& libraries) {
  if (cuda.devices.empty()) {
    fmt::print("CUDA        none: {}\n", cuda.why_none);
  }
  for (const kernels::CudaDevice& device : cuda.devices) {
    const FreeMemory memory = free_memory(device);
    fmt::print("{:<11} {}, {}, {}, compute {}.{}, {} multiprocessors\n",
               to_string(Device{DeviceKind::cuda, device.index}), device.name,
               human_bytes(device.memory_bytes),
               memory.bytes ? human_bytes(*memory.bytes) + " available"
                            : memory.why_not,
               device.compute_major, device.compute_minor,
               device.num_multiprocessors);
  }
  for (const LibraryVersion& library : libraries) {
    fmt::print("{:<11} {}\n", library.name, library.version);
  }
}

/// What doctor found.
struct Findings {
  MemoryInfo memory = memory_info();
  CoreInfo cores = core_info();
  kernels::CudaDevices cuda = kernels::cuda_devices();
  std::vector<LibraryVersion> cuda_libraries = kernels::cuda_libraries();
  std::vector<std::string> lines = advice(memory, cuda, cuda_libraries);
  bool ok = cpu_is_supported();
};

void print_json(const RunSummary& summary, const Findings& found) {
  using nlohmann::ordered_json;
  ordered_json json = envelope(summary);
  json.update(
      {{"cpu", cpu_model()},
       {"cpu_features", cpu_features()},
       {"isa", found.ok ? selected_isa() : ""},
       {"automatic_dtype", to_string(automatic_dtype())},
       {"cores", found.cores.usable()},
       {"affinity_cores", found.cores.affinity},
       {"quota_cores", found.cores.quota > 0 ? ordered_json(found.cores.quota)
                                             : ordered_json()},
       {"quota_file", found.cores.quota_file},
       {"default_plans", ordered_json::array()},
       {"memory_bytes", found.memory.physical_bytes},
       {"available_bytes", found.memory.available_bytes},
       {"memory_limits", ordered_json::array()},
       {"cuda", found.cuda.why_none.empty()},
       {"cuda_devices", ordered_json::array()}});
  for (const MemoryLimit& limit : found.memory.limits) {
    json["memory_limits"].push_back(
        {{"name", limit.name},
         {"allowed_bytes", limit.allowed_bytes},
         {"used_bytes", limit.used_bytes},
         {"own_bytes", limit.own_bytes},
         {"available_bytes", limit.available_bytes()},
         {"binds", &limit == &found.memory.binding()}});
  }
  for (const auto& [what, plan] : default_plans()) {
    json["default_plans"].push_back({{"for", what},
                                     {"method", plan.method.kind->name},
                                     {"workers", plan.num_workers},
                                     {"threads", plan.num_threads}});
  }
  for (const kernels::CudaDevice& device : found.cuda.devices) {
    const FreeMemory memory = free_memory(device);
    json["cuda_devices"].push_back(
        {{"device", to_string(Device{DeviceKind::cuda, device.index})},
         {"name", device.name},
         {"memory_bytes", device.memory_bytes},
         {"available_bytes",
          memory.bytes ? ordered_json(*memory.bytes) : ordered_json()},
         {"compute",
          fmt::format("{}.{}", device.compute_major, device.compute_minor)},
         {"multiprocessors", device.num_multiprocessors}});
  }
  for (const LibraryVersion& library : all_libraries()) {
    json["libraries"][library.name] = library.version;
  }
  for (const LibraryVersion& library : found.cuda_libraries) {
    json["libraries"][library.name] = library.version;
  }
  json["advice"] = found.lines;
  fmt::print("{}\n", dump(json));
}

void print_text(const Findings& found) {
  fmt::print("{}\n\n", version_line());
  fmt::print("processor   {}\n", cpu_model());
  fmt::print("extensions  {}\n", cpu_features());
  fmt::print("kernels     {}\n", found.ok ? selected_isa() : "none");
  fmt::print("dtype auto  {}\n", to_string(automatic_dtype()));
  fmt::print("cores       {} usable{}\n", found.cores.usable(),
             found.cores.quota > 0
                 ? fmt::format(" of {}: {} grants the time of {:.3g}",
                               found.cores.affinity, found.cores.quota_file,
                               found.cores.quota)
                 : "");
  for (const auto& [what, plan] : default_plans()) {
    fmt::print("threads     {}: {} on {}\n", what, plan.method.kind->name,
               describe_cpu_company(plan.num_workers, plan.num_threads));
  }
  fmt::print("memory      {}, {} available\n",
             human_bytes(found.memory.physical_bytes),
             human_bytes(found.memory.available_bytes));
  for (const MemoryLimit& limit : found.memory.limits) {
    fmt::print("  limit     {}{}\n", to_string(limit),
               &limit == &found.memory.binding() ? " (this one binds)" : "");
  }
  print_cuda(found.cuda, found.cuda_libraries);
  for (const LibraryVersion& library : all_libraries()) {
    fmt::print("{:<11} {}\n", library.name, library.version);
  }
  fmt::print("\n");
  for (const std::string& line : found.lines) {
    fmt::print("! {}\n", line);
  }
  fmt::print("{}\n", found.ok ? "ready: troupe sample --random-weights dit-s-2 "
                                "measures this machine"
                              : "not ready");
}

}  // namespace

int run_doctor(Invocation& invocation) {
  const Findings found;
  RunSummary& summary = invocation.summary;
  summary.status = found.ok ? "done" : "failed";
  summary.exit_code = found.ok ? 0 : exit_code(Errc::unsupported);
  invocation.take_last_word();
  if (invocation.config.json) {
    print_json(summary, found);
  } else {
    print_text(found);
  }
  return summary.exit_code;
}

}  // namespace troupe::actors
