#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/cli/job_devices.h"
#include "actors/cli/versions.h"
#include "kernels/core/dtype.h"
#include "samplers/options.h"

namespace troupe::actors {

/// The conditions under which equal recipes give equal bytes.
struct ExecutionConditions {
  std::uint64_t weights_hash = 0;
  std::string build;                      ///< compiler and sources
  std::vector<LibraryVersion> libraries;  ///< those that are loaded
  std::string isa;          ///< `selected_isa`, or a GPU's architecture
  std::uint64_t probe = 0;  ///< kernels::numeric_probe of the device
  DType compute = DType::f32;
  std::string plan;       ///< `logical_plan`
  std::string mode = {};  ///< what a GPU may trade; empty: nothing
};

/// The conditions of a job in this process, on one of its devices. For a GPU:
/// name and architecture, probe and the libraries that compute on it; not the
/// driver, and not the processor of the host.
/// ring_blocks: JobRecord::ring_blocks.
[[nodiscard]] ExecutionConditions execution_conditions(
    std::uint64_t weights_hash, const JobDevice& device,
    const samplers::MethodOptions& method, std::optional<int> ring_blocks = {});

/// Their name: sixteen hexadecimal digits that follow from every field and from
/// nothing else.
[[nodiscard]] std::string execution_class(
    const ExecutionConditions& conditions);

/// "invariant", "free", each with "+tf32" where that is on.
[[nodiscard]] std::string bits_mode(const DeviceOptions& options);

/// The part of a method that decides bytes, and ring blocks, as text; every
/// exact method has the text of the sequential one.
[[nodiscard]] std::string logical_plan(const samplers::MethodOptions& method,
                                       std::optional<int> ring_blocks = {});

/// The instruction sets that the matrix library and our vector loops use here,
/// as "avx512_core_bf16/AVX3". They are chosen apart: ONEDNN_MAX_CPU_ISA
/// holds the first alone.
[[nodiscard]] std::string selected_isa();

/// bf16 where the processor multiplies it natively, and may (--isa), else f32.
[[nodiscard]] DType automatic_dtype();

}  // namespace troupe::actors
