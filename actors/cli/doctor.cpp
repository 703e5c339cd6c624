#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/cli/execution_class.h"
#include "actors/cli/verbs.h"
#include "actors/cli/versions.h"
#include "kernels/core/system.h"
#include "kernels/cuda/devices.h"
#include "kernels/linear.h"

namespace troupe::actors {
namespace {

/// What would make this machine do more, as sentences.
std::vector<std::string> advice(const MemoryInfo& memory) {
  std::vector<std::string> lines;
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
    lines.emplace_back("less than 2 GiB free: large models will not fit" +
                       std::string(memory.is_limited_by_cgroup
                                       ? " (a container limits it)"
                                       : ""));
  }
  return lines;
}

void print_cuda(const kernels::CudaDevices& cuda) {
  if (cuda.devices.empty()) {
    fmt::print("CUDA        none: {}\n", cuda.why_none);
  }
  for (const kernels::CudaDevice& device : cuda.devices) {
    fmt::print("CUDA {}      {}, {}, compute {}.{}\n", device.index,
               device.name, human_bytes(device.memory_bytes),
               device.compute_major, device.compute_minor);
  }
  for (const kernels::LibraryVersion& library : kernels::cuda_libraries()) {
    fmt::print("{:<11} {}\n", library.name, library.version);
  }
}

}  // namespace

int run_doctor(Invocation& invocation) {
  const MemoryInfo memory = memory_info();
  const kernels::CudaDevices cuda = kernels::cuda_devices();
  const std::vector<std::string> lines = advice(memory);
  const bool ok = cpu_is_supported();
  const int code = ok ? 0 : exit_code(Errc::unsupported);
  if (invocation.config.json) {
    nlohmann::ordered_json json = {
        {"schema", 1},
        {"verb", "doctor"},
        {"status", ok ? "done" : "failed"},
        {"exit_code", code},
        {"version", version()},
        {"cpu", cpu_model()},
        {"cpu_features", cpu_features()},
        {"isa", ok ? selected_isa() : ""},
        {"automatic_dtype", to_string(automatic_dtype())},
        {"cores", num_usable_cores()},
        {"memory_bytes", memory.physical_bytes},
        {"available_bytes", memory.available_bytes},
        {"cuda", cuda.why_none.empty()},
        {"cuda_devices", nlohmann::ordered_json::array()}};
    for (const kernels::CudaDevice& device : cuda.devices) {
      json["cuda_devices"].push_back(
          {{"name", device.name}, {"memory_bytes", device.memory_bytes}});
    }
    for (const LibraryVersion& library : library_versions()) {
      json["libraries"][library.name] = library.version;
    }
    json["advice"] = lines;
    fmt::print("{}\n", json.dump());
    return code;
  }
  fmt::print("{}\n\n", version_line());
  fmt::print("processor   {}\n", cpu_model());
  fmt::print("extensions  {}\n", cpu_features());
  fmt::print("kernels     {}\n", ok ? selected_isa() : "none");
  fmt::print("dtype auto  {}\n", to_string(automatic_dtype()));
  fmt::print("cores       {} usable\n", num_usable_cores());
  fmt::print("memory      {}, {} available{}\n",
             human_bytes(memory.physical_bytes),
             human_bytes(memory.available_bytes),
             memory.is_limited_by_cgroup ? " (limited by a container)" : "");
  print_cuda(cuda);
  for (const LibraryVersion& library : library_versions()) {
    fmt::print("{:<11} {}\n", library.name, library.version);
  }
  fmt::print("\n");
  for (const std::string& line : lines) {
    fmt::print("! {}\n", line);
  }
  fmt::print("{}\n", ok ? "ready: troupe sample --random-weights dit-s-2 "
                          "measures this machine"
                        : "not ready");
  return code;
}

}  // namespace troupe::actors
