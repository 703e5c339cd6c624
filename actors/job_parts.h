#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "actors/job_record.h"
#include "kernels/core/device.h"
#include "models/decoder.h"
#include "models/network/denoiser.h"
#include "models/network/first_use.h"
#include "samplers/evaluator.h"
#include "samplers/noise_source.h"
#include "samplers/options.h"
#include "samplers/schedule.h"

namespace troupe::actors {

/// A model in the memory of a device.
struct LoadedModel {
  std::shared_ptr<const models::Denoiser> denoiser;
  /// Null: the network works on pixels.
  std::shared_ptr<models::FirstUse<models::Decoder>> decoder;
  std::uint64_t weights_hash = 0;
  /// Of a model that is read in parts: the hash of every tensor, sorted (see
  /// models::WeightSource::note_tensors).
  std::vector<std::uint64_t> tensor_hashes;
};

/// The model in the memory of a context's device. Errors: Errc::internal.
using ModelOn = std::function<const LoadedModel&(const ExecContext& ctx)>;

/// Latents [C, …] to pixels [3, H', W'], each on ctx's device or on the host;
/// pixels of another shape are replaced. Without a decoder: a copy on the host.
/// The ranks of ctx's team decode together. tile: see JobRecord::vae_tile.
/// picture: height and width to which they are scaled and cut, on the host;
/// empty: they stay as they are decoded. Errors: those of `model_on` and of
/// Decoder::decode. Thread: any, one ctx per thread.
void decode(ExecContext& ctx, const ModelOn& model_on, const Tensor& latents,
            std::int64_t tile, std::span<const std::int64_t> picture,
            Tensor& pixels);

struct DeviceModel {
  Device device;
  LoadedModel model;
};

/// What the workers of a process compute a job with. Its parts share nothing
/// with the command line, and live as long as a worker needs them.
struct JobParts {
  std::shared_ptr<const samplers::Schedule> schedule;
  samplers::MethodOptions method;
  std::shared_ptr<samplers::Evaluator> evaluator;
  std::shared_ptr<samplers::NoiseSource> noise;
};

/// Builds them from the record and its values alone.
/// Errors: as `check`; Errc::corrupt_file for a model with other weights.
[[nodiscard]] JobParts make_parts(
    const JobRecord& job, const JobValues& values,
    const std::vector<DeviceModel>& models,
    models::DenoiserTable table = models::denoiser_table());

/// The job's noise; with given latents those instead of the first draw, and
/// with the given trajectories.
[[nodiscard]] std::shared_ptr<samplers::NoiseSource> make_noise(
    const JobRecord& job, const JobValues& values,
    const samplers::Schedule& schedule);

}  // namespace troupe::actors
