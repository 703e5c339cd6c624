#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "actors/cli/execution_class.h"
#include "actors/cli/job_request.h"
#include "actors/cli/json_fields.h"
#include "actors/cli/json_rows.h"
#include "actors/cli/verbs.h"
#include "actors/cli/versions.h"
#include "config/enum_names.h"
#include "config/method_plan.h"
#include "kernels/core/system/machine.h"
#include "kernels/cuda/devices.h"

namespace troupe::actors {
namespace {

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
    // The driver has had its line; --exchange nccl alone needs NCCL.
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

struct DefaultPlan {
  std::string what;
  std::string method;
  int workers = 0;
  int threads = 0;
};

void visit_fields(auto& visit, AnyConst<DefaultPlan> auto& r) {
  visit({"for", "one image or many images"}, r.what);
  visit({"method", "parallel method"}, r.method);
  visit({"workers", "workers of the company"}, r.workers);
  visit({"threads", "threads of each"}, r.threads);
}

/// How jobs that say nothing of workers and threads are laid out, by what they
/// make.
std::vector<DefaultPlan> default_plans() {
  const int cores = num_usable_cores();
  const auto plan = [&](const char* what, int images) {
    const config::Plan made = config::make_plan(
        {}, {.num_samples = static_cast<std::uint64_t>(images),
             .is_guided = true,
             .num_blocks = 1,
             .num_calls = 1,
             .num_cores = cores});
    return DefaultPlan{what, to_string(made.method.kind), made.num_workers,
                       made.num_threads};
  };
  return {plan("one image", 1), plan("many images", 2 * cores)};
}

struct ShownLimit {
  MemoryLimit limit;
  bool binds = false;
};

void visit_fields(auto& visit, AnyConst<ShownLimit> auto& r) {
  visit({"name", "the machine, a container or a limit"}, r.limit.name);
  visit({"allowed_bytes", "what it allows"}, r.limit.allowed_bytes);
  visit({"used_bytes", "what of that is in use"}, r.limit.used_bytes);
  visit({"own_bytes", "what is kept for the program"}, r.limit.own_bytes);
  visit({"available_bytes", "what it leaves"}, r.limit.available_bytes());
  visit({"binds", "whether it is the tightest"}, r.binds);
}

struct ShownGpu {
  kernels::CudaDevice device;
  FreeMemory free;

  [[nodiscard]] std::string label() const {
    return to_string(Device{DeviceKind::cuda, device.index});
  }
};

void visit_fields(auto& visit, AnyConst<ShownGpu> auto& r) {
  visit({"device", "cuda:N"}, r.label());
  visit({"name", "model"}, r.device.name);
  visit({"memory_bytes", "its memory"}, r.device.memory_bytes);
  visit(or_null({"available_bytes", "what is free"}), r.free.bytes);
  visit({"compute", "compute capability"},
        fmt::format("{}.{}", r.device.compute_major, r.device.compute_minor));
  visit({"multiprocessors", "multiprocessors"}, r.device.num_multiprocessors);
}

/// What doctor found.
struct Diagnosis {
  bool ok = false;
  std::string isa;
  CoreInfo cores;
  std::vector<DefaultPlan> default_plans;
  MemoryInfo memory;
  std::vector<ShownLimit> limits;
  std::string why_no_gpu;  ///< empty: there is one
  std::vector<ShownGpu> gpus;
  std::vector<LibraryVersion> cuda_libraries;
  std::vector<std::string> advice;
};

void visit_fields(auto& visit, AnyConst<Diagnosis> auto& r) {
  visit({"cpu", "processor"}, cpu_model());
  visit({"cpu_features", "instruction sets that matter here"}, cpu_features());
  visit({"isa", "sets in use: matrix library / our loops"}, r.isa);
  visit({"automatic_dtype", "what --dtype auto means on the CPU"},
        automatic_dtype());
  visit({"cores", "cores this process may use"}, r.cores.usable());
  visit({"affinity_cores", "cores its affinity leaves"}, r.cores.affinity);
  visit(or_null({"quota_cores", "cores a container's quota leaves"}),
        r.cores.quota > 0 ? std::optional(r.cores.quota) : std::nullopt);
  visit({"quota_file", "the file that says so; empty: no quota"},
        r.cores.quota_file);
  visit({"default_plans", "layouts when nothing is said"}, r.default_plans);
  visit({"memory_bytes", "memory of the machine"}, r.memory.physical_bytes);
  visit({"available_bytes", "memory that is free to this process"},
        r.memory.available_bytes);
  visit({"memory_limits", "what bounds the memory"}, r.limits);
  visit({"cuda", "whether a GPU can be used"}, r.why_no_gpu.empty());
  visit({"cuda_devices", "GPUs"}, r.gpus);
  JsonObject<std::string> versions;
  for (const auto& group : {all_libraries(), r.cuda_libraries}) {
    for (const LibraryVersion& library : group) {
      versions.emplace_back(library.name, library.version);
    }
  }
  visit(each_is("version, as loaded or as built with",
                {"libraries", "versions by library"}),
        versions);
  visit({"advice", "what would make this machine do more"}, r.advice);
}

Diagnosis diagnose() {
  const kernels::CudaDevices cuda = kernels::cuda_devices();
  const bool ok = cpu_is_supported();
  Diagnosis found = {.ok = ok,
                     .isa = ok ? selected_isa() : "",
                     .cores = core_info(),
                     .default_plans = default_plans(),
                     .memory = memory_info(),
                     .why_no_gpu = cuda.why_none,
                     .cuda_libraries = kernels::cuda_libraries()};
  for (const MemoryLimit& limit : found.memory.limits) {
    found.limits.push_back({limit, &limit == &found.memory.binding()});
  }
  for (const kernels::CudaDevice& device : cuda.devices) {
    found.gpus.push_back({device, free_memory(device)});
  }
  found.advice = advice(found.memory, cuda, found.cuda_libraries);
  return found;
}

void print(const std::vector<LibraryVersion>& libraries) {
  for (const LibraryVersion& library : libraries) {
    fmt::print("{:<11} {}\n", library.name, library.version);
  }
}

void print(const Diagnosis& found) {
  fmt::print("{}\n\n", version_line());
  fmt::print("processor   {}\n", cpu_model());
  fmt::print("extensions  {}\n", cpu_features());
  fmt::print("kernels     {}\n", found.ok ? found.isa : "none");
  fmt::print("dtype auto  {}\n", to_string(automatic_dtype()));
  fmt::print("cores       {} usable{}\n", found.cores.usable(),
             found.cores.quota > 0
                 ? fmt::format(" of {}: {} grants the time of {:.3g}",
                               found.cores.affinity, found.cores.quota_file,
                               found.cores.quota)
                 : "");
  for (const DefaultPlan& plan : found.default_plans) {
    fmt::print("threads     {}: {} on {}\n", plan.what, plan.method,
               describe_cpu_company(plan.workers, plan.threads));
  }
  fmt::print("memory      {}, {} available\n",
             human_bytes(found.memory.physical_bytes),
             human_bytes(found.memory.available_bytes));
  for (const ShownLimit& one : found.limits) {
    fmt::print("  limit     {}{}\n", to_string(one.limit),
               one.binds ? " (this one binds)" : "");
  }
  if (found.gpus.empty()) {
    fmt::print("CUDA        none: {}\n", found.why_no_gpu);
  }
  for (const ShownGpu& gpu : found.gpus) {
    fmt::print("{:<11} {}, {}, {}, compute {}.{}, {} multiprocessors\n",
               gpu.label(), gpu.device.name,
               human_bytes(gpu.device.memory_bytes),
               gpu.free.bytes ? human_bytes(*gpu.free.bytes) + " available"
                              : gpu.free.why_not,
               gpu.device.compute_major, gpu.device.compute_minor,
               gpu.device.num_multiprocessors);
  }
  print(found.cuda_libraries);
  print(all_libraries());
  fmt::print("\n");
  for (const std::string& line : found.advice) {
    fmt::print("! {}\n", line);
  }
  fmt::print("{}\n", found.ok ? "ready: troupe sample --random-weights dit-s-2 "
                                "measures this machine"
                              : "not ready");
}

}  // namespace

std::vector<JsonField> doctor_json_fields() {
  return json_rows_of<Diagnosis>();
}

int run_doctor(Invocation& invocation) {
  const Diagnosis found = diagnose();
  RunSummary& summary = invocation.summary;
  summary.status = found.ok ? "done" : "failed";
  summary.exit_code = found.ok ? 0 : exit_code(Errc::unsupported);
  invocation.take_last_word();
  if (invocation.config.json) {
    fmt::print("{}\n", dump(document(summary, found)));
  } else {
    print(found);
  }
  return summary.exit_code;
}

}  // namespace troupe::actors
