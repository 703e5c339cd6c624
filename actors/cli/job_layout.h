#pragma once

#include <cstdint>
#include <string>

#include "actors/cli/job_devices.h"
#include "actors/cli/job_request.h"
#include "config/config.h"

namespace troupe::actors {

/// Decides for the request's devices how many workers each has, how many images
/// at once, and what memory that takes; leaves out GPUs without room where
/// --device is "auto" (the CPU takes over from the last). Errors: those of
/// config::make_plan; of a GPU that does not answer.
void lay_out(const config::Config& config, const Gpus& gpus,
             JobRequest& request);

/// Chooses the method for good where "auto" has left it open: `others` are
/// there, and the job begins. Workers, rows and memory of this process stay as
/// they are laid out, which fits every method that "auto" takes. Where the job
/// has waited for them, notes that a method does not pay with them.
void settle_method(const config::Config& config,
                   const config::WorkerCount& others, JobRequest& request);

/// The same job by one worker on the request's first device, without a parallel
/// method. `threads`: of a worker of the CPU.
[[nodiscard]] JobRequest baseline_of(const JobRequest& request, int threads);

/// The same job, where CPUs compute it, by a worker with one thread on each
/// core. Its bytes are the same. Errors: as check_memory.
[[nodiscard]] JobRequest on_all_cores(const JobRequest& request);

/// Notes that the job's method ends no sooner than whole samples would, each on
/// one worker, with this process's workers and `others`. On CPUs only: a row
/// takes them the same time in any pass.
void note_gain(const config::WorkerCount& others, JobRequest& request);

/// What is free beside required_bytes is for values, and the room for one
/// sample that is in them. Jobs with GPUs have no limit: their values lie
/// there.
void set_value_budget(JobRequest& request);

/// Bytes of a memory that is too small.
struct Shortage {
  std::uint64_t available = 0;
  std::uint64_t required = 0;
};

/// What helps against it: --vae-tiling, where `decodes` pictures at once in
/// tiles would do; else `otherwise`.
[[nodiscard]] std::string memory_hint(const ModelSource& source, DType compute,
                                      int decodes, Shortage shortage,
                                      std::string otherwise);

/// Pictures that the job's workers decode at once in the host's memory.
[[nodiscard]] int host_decodes(const JobRequest& request);

/// Errors: Errc::out_of_memory, Errc::device_full, with the numbers, where the
/// host or a GPU has less than the job needs.
void check_memory(const JobRequest& request);

}  // namespace troupe::actors
