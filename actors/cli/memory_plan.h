#pragma once

#include <cstdint>
#include <vector>

#include "actors/cli/job_devices.h"
#include "actors/cli/job_request.h"
#include "actors/cli/run_outputs.h"
#include "actors/coordinator_events.h"
#include "actors/value_room.h"

// What jobs take of memory: all of this arithmetic. What a network and a
// decoder take comes from their descriptions (models/description.h).

namespace troupe::actors {

/// What a model takes of a device's memory.
struct MemoryNeeds {
  models::NetworkMemory network;
  std::uint64_t weights_bytes = 0;  ///< that stay there, the decoder's too
  std::uint64_t decode_bytes = 0;   ///< while one picture is decoded
  models::ThreadScratch scratch;    ///< of both, on the CPU
};
[[nodiscard]] MemoryNeeds memory_needs(
    const ModelSource& source, DeviceKind kind, DType compute,
    models::WeightPlacement placement = models::WeightPlacement::resident);

/// By how much `decode_bytes` would be smaller with --vae-tiling; 0 where it
/// does nothing or is on.
[[nodiscard]] std::uint64_t tiling_saves(const ModelSource& source,
                                         DType compute);

/// What a worker on a GPU takes beside tensors: libraries, recorded work.
inline constexpr std::uint64_t kGpuOverhead = std::uint64_t{256} << 20U;

/// Packed weights and activations on the CPU: `workers` forward passes of
/// `rows` rows at once, and one picture being decoded per worker. A worker has
/// `shards` shards of `threads` threads.
[[nodiscard]] std::uint64_t required_bytes(const ModelSource& source,
                                           DType compute, int workers,
                                           int threads, std::int64_t rows,
                                           int shards = 1);

/// Bytes of a sample's values: what they are made of follows from the model,
/// the schedule and the latents' shape. Both branches of guidance cross a cut
/// together.
[[nodiscard]] ValueSizes value_sizes(const JobRequest& request, bool decode);

/// The segments of the job's network; empty: it is not cut.
[[nodiscard]] std::vector<SegmentFigures> segment_figures(
    const JobRequest& request);

/// Bytes of a finished sample: its latents, and its pixels if `decode`.
[[nodiscard]] std::uint64_t outcome_bytes(const ModelSource& source,
                                          bool decode);

/// What one sample holds at once, at most, in a GPU's memory or in the host's,
/// with as little ahead as there can be. If there are GPUs, cuts are taken.
[[nodiscard]] std::uint64_t sample_value_bytes(const JobRequest& request,
                                               DeviceKind memory);

/// Of the host's memory: workers of the CPU, the values of one sample, encoded
/// prompts, and blocks that visit a GPU.
[[nodiscard]] std::uint64_t host_bytes(const JobRequest& request);

/// Of a GPU's memory, with the values of one sample, and `gpu.rows` images at
/// once for each of its workers. A GPU that computes for the workers of another
/// one (--shards) has weights and passes, and no values.
[[nodiscard]] std::uint64_t gpu_bytes(const JobDevice& gpu,
                                      const JobRequest& request);

/// Bytes that outputs written at the end hold until then: rows and archive of
/// --save, pictures and sheet of --grid, spans and text of --trace.
[[nodiscard]] std::uint64_t held_bytes(const RunOutputs& outputs,
                                       const JobRequest& request);

}  // namespace troupe::actors
