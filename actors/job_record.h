#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/condition_store.h"
#include "config/config.h"
#include "kernels/core/dtype.h"
#include "kernels/core/isa_level.h"
#include "models/condition.h"
#include "models/description.h"
#include "samplers/guidance.h"
#include "samplers/options.h"
#include "samplers/schedule.h"

namespace troupe::actors {

/// The model of a job: what it is, not where it lies.
struct ModelRecord {
  std::string name;  ///< of the folder, or a bundled name: to recognise it
  std::string denoiser_config;  ///< JSON of its config.json, keys in order
  std::string decoder_config;   ///< the same; empty: it works on pixels
  bool random_weights = false;  ///< made from a fixed seed
  std::uint64_t weights_xxh3 = 0;
  /// The hashes of the model's tensors, sorted, for a network in segments: a
  /// worker checks its own segment by them and reads no other segment. Empty:
  /// every worker reads the whole network. The hashes follow from the weights,
  /// so the job's hash leaves them out.
  std::vector<std::uint64_t> tensors_xxh3;
};

/// How the devices of one execution class compute.
struct ClassRecord {
  std::string name;  ///< sixteen hexadecimal digits
  DeviceKind device = DeviceKind::cpu;
  DType dtype = DType::f32;
  /// The level that a CPU is held to; unset: a GPU, or a level without a name.
  std::optional<IsaLevel> isa;
  std::string architecture;  ///< of a GPU
  bool batch_invariant = true;
  bool tf32 = false;
};

/// A job as a value: all that a process needs to compute any of its tasks with
/// the same bytes. It is made once, when a job is submitted, and never changes.
/// It holds no path, host or key, and no tensor: conditions, given latents and
/// trajectories are named by their hashes (JobValues).
/// Its fields are listed once, in job_fields.h; actors/wire encodes it.
struct JobRecord {
  ModelRecord model;
  samplers::ScheduleTable schedule;
  samplers::MethodOptions method;  ///< with its graph, if it has one
  /// Segment s of the network is blocks [cuts[s], cuts[s + 1]); of an onion
  /// see network_cuts.h.
  std::vector<int> cuts;
  samplers::Guidance guidance;
  std::vector<std::int64_t> latent_shape;  ///< [C, …] of one sample
  std::uint64_t begin = 0;                 ///< samples [begin, end),
  std::uint64_t end = 1;                   ///< by global index
  /// Sample i has conditions[i modulo their number]: models::Condition::hash.
  /// 0: no sample that is drawn has it.
  std::vector<std::uint64_t> conditions;
  /// Of guidance's other branch, as `conditions`; none: the job has one branch.
  std::vector<std::uint64_t> unconditional;
  config::NoiseKind noise = config::NoiseKind::philox;
  std::uint64_t seed = 0;
  /// Torch noise draws latents even if others are given (see
  /// samplers::InitialLatents).
  bool draws_latents = true;
  /// XXH3-64 of the given latents of each sample, or of one for all; empty:
  /// they are drawn.
  std::vector<std::uint64_t> init_latents;
  /// The same of the given trajectories that guesses come from
  /// (samplers::InitialGuess::trajectory).
  std::vector<std::uint64_t> guesses;
  std::vector<ClassRecord> execution_classes;  ///< by number
  /// Height and width of the pictures, in pixels, where what is decoded is
  /// scaled and cut to them; empty: they stay as they are decoded.
  std::vector<std::int64_t> picture_size;
  /// Pictures are decoded in tiles of so many latents a side; 0: whole.
  std::int64_t vae_tile = 0;
  /// In which type devices compute whose kind has no execution class yet.
  /// Unset: each chooses.
  std::optional<DType> dtype;
  /// Attention over tokens merges so many blocks of keys (models::Batch), at
  /// least 2. They follow from the number of tokens: whoever computes, the
  /// bytes are the same. Unset: attention is to all keys at once.
  std::optional<int> ring_blocks;

  /// Calls of a sample that guidance's interval leaves guided.
  [[nodiscard]] int num_guided_calls() const;
  /// How many of such conditions the samples have.
  [[nodiscard]] std::size_t num_used(
      const std::vector<std::uint64_t>& conditions) const;
};

/// What a record names by hash: once per process.
struct JobValues {
  std::map<std::uint64_t, StoredCondition> conditions;
  Tensor init_latents;  ///< [n, C, …] f32 on the host, or empty
  Tensor guesses;       ///< [n, calls + 1, C, …] f32 on the host, or empty
};

/// The name of a job: follows from every field but the model's name and the
/// hashes of its tensors, and from nothing else, whatever bytes the record
/// travelled in.
[[nodiscard]] std::uint64_t hash_of(const JobRecord& job);

/// Checks a record of unknown origin: the range of every number, and whether
/// the fields agree with each other. A record that passes can be computed.
/// Errors: Errc::corrupt_file with the field's name; Errc::unsupported for a
/// model that Troupe does not have.
void check(const JobRecord& job,
           models::DenoiserTable table = models::denoiser_table());
/// Checks the values that a record names: every value is present, has the hash
/// that the record gives, and has a shape that the model takes.
void check(const JobRecord& job, const JobValues& values,
           models::DenoiserTable table = models::denoiser_table());

/// The model that a record describes. Errors: as `check`.
[[nodiscard]] models::ModelDescription describe(
    const ModelRecord& model,
    models::DenoiserTable table = models::denoiser_table());

}  // namespace troupe::actors
