#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/cli/model_source.h"
#include "actors/job_record.h"
#include "actors/process.h"
#include "actors/worker_traits.h"
#include "config/config.h"
#include "config/method_plan.h"
#include "config/recipe.h"
#include "kernels/core/dtype.h"
#include "kernels/core/isa_level.h"
#include "kernels/core/system/machine.h"
#include "kernels/cuda/devices.h"

namespace troupe::actors {

/// What --dtype names; nothing: auto.
[[nodiscard]] std::optional<DType> asked_dtype(const config::Config& config);

/// A device that a job uses, and how it computes.
struct JobDevice {
  Device device;
  std::string name;  ///< as its vendor calls it
  /// The properties of a GPU by which its libraries choose kernels; empty: the
  /// CPU.
  std::string architecture;
  /// Of a GPU that has workers (`lay_out`): kernels::numeric_probe, or 0 where
  /// that failed.
  std::uint64_t probe = 0;
  DType compute = DType::f32;
  std::optional<IsaLevel> isa;  ///< of the CPU, if its level has a name
  DeviceOptions options;
  int execution_class = 0;  ///< devices with equal numbers compute alike
  int workers = 0;
  /// Of the first GPU of a group (--shards): the other GPUs of the group.
  /// Workers of the first GPU compute each pass with all GPUs of the group.
  std::vector<Device> others;
  /// Of another GPU of a group: the first GPU.
  std::optional<Device> lead;
  int ranks = 0;  ///< of workers of `lead` that compute here
  int rows = 0;   ///< most images of a forward pass; 0: a worker's threads
  models::WeightPlacement placement = models::WeightPlacement::resident;
  std::uint64_t required_bytes = 0;   ///< of its own memory; the CPU: 0
  std::uint64_t available_bytes = 0;  ///< the same
  std::uint64_t total_bytes = 0;      ///< the same, in use or not
  std::uint64_t value_budget = 0;     ///< the same, that it keeps for values

  [[nodiscard]] bool is_gpu() const noexcept {
    return device.kind == DeviceKind::cuda;
  }
  /// Whether shards may divide heads (Pass::divides_heads).
  [[nodiscard]] bool divides_heads() const noexcept {
    return !is_gpu() || compute != DType::f32;
  }
  /// Whether it computes for any worker.
  [[nodiscard]] bool is_used() const noexcept { return workers + ranks > 0; }
  /// Whether what it computes needs more device memory than is available.
  [[nodiscard]] bool is_full() const noexcept {
    return is_used() && required_bytes > available_bytes;
  }
  /// "cpu", "cuda:0 (NVIDIA H200)".
  [[nodiscard]] std::string label() const;
  /// Its class, under this name.
  [[nodiscard]] ClassRecord class_record(std::string name) const;
};

/// What a GPU computes: kernels::numeric_probe; 0 where it fails.
[[nodiscard]] std::uint64_t probe_of(const JobDevice& gpu);

/// The GPUs there are; tests describe others.
struct Gpus {
  kernels::CudaDevices found = kernels::cuda_devices();
  std::function<kernels::DeviceMemory(int)> memory = kernels::cuda_memory;
  std::function<std::uint64_t(const JobDevice&)> probe = probe_of;
};

/// The devices that --device and --dtype mean here, GPUs first, in groups of
/// --shards (`group_gpus`). For "auto" all GPUs that can run the kernels, else
/// the CPU; where an image's recipe is run again, devices of the kind that made
/// it if there are any.
/// Errors: Errc::unsupported for a GPU that is not there or too old, and for a
/// dtype that a device does not have; those of group_gpus; in a line, before
/// anything is loaded.
[[nodiscard]] std::vector<JobDevice> choose_devices(
    const config::Config& config, const config::Recipe* recipe,
    const kernels::CudaDevices& found, std::vector<std::string>& notes);

/// Makes groups of --shards GPUs, in their order: the workers of the first
/// compute with all of them. With RANKS_ON_ONE_GPU in the environment
/// each GPU is a group by itself, which has all ranks: for tests of the
/// exchange on a machine with one GPU. Errors: Errc::invalid_argument where
/// there are no such groups, or a group would have GPUs of two kinds.
void group_gpus(const config::Config& config, std::vector<JobDevice>& devices);

/// The kind of each that may have workers.
[[nodiscard]] std::vector<DeviceKind> kinds_of(
    const std::vector<JobDevice>& devices);

/// The memory and devices that a process with these devices states when it
/// joins.
[[nodiscard]] ProcessMeans means_of(const std::vector<JobDevice>& devices,
                                    const MemoryInfo& memory);

/// Numbers the classes of execution from 0 on, in the order of the devices.
void number_classes(std::vector<JobDevice>& devices);

/// All workers of these devices, in their order. `num_threads`, `num_shards`:
/// of a worker of the CPU.
[[nodiscard]] std::vector<WorkerTraits> workers_of(
    const std::vector<JobDevice>& devices, int num_threads, int num_shards,
    int max_rows);

}  // namespace troupe::actors
