#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/parse_value.h"
#include "kernels/core/attention_plan.h"
#include "kernels/core/device.h"
#include "kernels/core/isa_level.h"
#include "samplers/options.h"

namespace troupe::config {

enum class NoiseKind : std::uint8_t { philox, torch };
enum class ComputeType : std::uint8_t { automatic, f32, bf16, f16 };
/// What a GPU may trade: nothing, or that the bits of a row depend on the rows
/// beside it.
enum class BitsMode : std::uint8_t { invariant, free };
/// How shards divide attention (troupe::AttentionPlan). ring: as gather, and
/// the job has as many ring blocks as shards.
enum class ShardPlan : std::uint8_t { automatic, gather, ulysses, ring };
/// What happens to a sample when its execution class has no workers left but
/// another class has some: the sample restarts from the beginning in the other
/// class, waits for a worker of its own class, or fails.
enum class ClassChange : std::uint8_t { begin_anew, wait, refuse };
/// Which process encodes prompts: this process or a worker. `automatic`: this
/// process, unless the encoders exceed its memory and workers can join.
enum class EncodeOn : std::uint8_t { automatic, here, workers };
enum class ExistsPolicy : std::uint8_t { error, skip, replace };
enum class ProgressKind : std::uint8_t { automatic, bar, plain, json, none };

/// What the user says about the sampler. Unset fields keep what the
/// checkpoint's scheduler_config.json says, or the solver's defaults.
struct SamplerConfig {
  std::string name;  ///< ours or a diffusers class name; empty: checkpoint's
  std::optional<int> steps;
  /// bench methods: where --steps names several; the first is `steps`. Empty:
  /// that one alone.
  std::vector<int> step_counts;
  std::optional<double> eta;
  std::optional<int> solver_order;
  std::optional<samplers::TimestepSpacing> timestep_spacing;
  std::optional<samplers::SigmaSpacing> sigma_spacing;
  std::optional<bool> final_sigma_zero;
  std::optional<samplers::PredictionType> prediction_type;
  std::optional<samplers::BetaSchedule> beta_schedule;
  std::optional<double> beta_start;
  std::optional<double> beta_end;
  std::optional<int> num_train_timesteps;
  std::optional<double> shift;
  std::optional<samplers::VarianceType> variance_type;
  std::optional<bool> clip_sample;
  std::vector<double> sigmas;
  std::vector<double> timesteps;
  std::optional<double> denoising_start;  ///< 0: from the beginning
  std::optional<double> denoising_end;    ///< 1: up to the end

  friend bool operator==(const SamplerConfig&, const SamplerConfig&) = default;
};

/// The modelled machine of `bench --emulate`. Unset fields have the defaults of
/// actors/emulation/machine.h.
struct EmulationConfig {
  std::optional<int> devices;
  std::optional<double> step_ms;
  std::optional<double> row_slope;
  std::optional<double> link_gbps;
  std::optional<double> link_us;
  std::vector<double> speeds;  ///< one per device; empty: all 1
  std::optional<double> jitter;
};

/// What SDXL is told of a picture. Unset: the picture's own sides, and that
/// nothing was cut off.
struct SizeConfig {
  std::optional<PictureSize> original;
  std::optional<PictureCorner> crop;
  std::optional<PictureSize> target;
  std::optional<double> aesthetic_score;  ///< of the refiner, in its place

  friend bool operator==(const SizeConfig&, const SizeConfig&) = default;
};

/// Where a value of an option comes from, the weakest first.
enum class Source : std::uint8_t { model, file, environment, recipe, flag };

struct Place {
  Source source = Source::flag;
  std::string text;  ///< opens an error message: "--window", "TROUPE_WINDOW", …
};

/// Every option of the command line, from all sources, parsed once. Groups
/// follow `troupe sample --help`.
struct Config {
  // what
  std::string model_dir;
  std::string random_weights;
  std::vector<std::string> classes;  ///< names or ids; cycles over samples
  std::vector<std::string> prompts;  ///< cycle over samples
  std::string prompt_2;     ///< of the second text encoder; empty: the same
  std::string prompt_file;  ///< a prompt on each line; cycles over samples
  /// One for all prompts, or one for each; empty: the pipeline's own.
  std::vector<std::string> negative_prompts;
  std::string negative_prompt_file;  ///< in their place: one on each line
  std::string negative_prompt_2;     ///< as prompt_2; empty: the same
  int clip_skip = 0;  ///< layers of CLIP left out for prompts, at the end
  int max_sequence_length = 0;  ///< tokens of a prompt; 0: the pipeline's own
  std::string prompt_embeds;    ///< a file of encoded prompts in their place
  std::optional<PictureSize> size;  ///< unset: as the model was trained
  bool no_resolution_bins = false;  ///< sample at `size` whatever it is
  SizeConfig told;                  ///< of `size` in place of what is
  SizeConfig told_negative;  ///< in guidance's other branch; unset: the same
  bool vae_tiling = false;   ///< pictures are decoded in tiles
  SampleRange samples;
  /// `samples` is a count, and so many are made of each prompt.
  bool samples_per_prompt = true;
  Share share;  ///< the part of them that this command draws
  std::uint64_t seed = 0;
  NoiseKind noise = NoiseKind::philox;
  std::string from;  ///< an image with a recipe; of keys: a company's key file
  // how
  SamplerConfig sampler;
  std::optional<double> guidance_scale;
  samplers::Guidance guidance;  ///< its scale: guidance_scale or the default
  samplers::MethodChoices method;
  /// bench: the methods to measure, where --method names several; the first is
  /// `method.kind`. Empty: that one alone.
  std::vector<samplers::MethodKind> methods;
  /// sample: the error that "auto" may take, as the median of the relative RMSE
  /// of latents. Unset: exact methods only.
  std::optional<double> max_rmse;
  std::string method_table;  ///< of measured errors; empty: the model's own
  // with what
  std::vector<DeviceChoice> devices;  ///< empty: auto
  /// Of all devices; 0: as many as they can use, and none where the job
  /// listens. Unset: as many as they can use.
  std::optional<int> num_workers;
  int num_threads = 0;  ///< per shard of a CPU worker; 0: as cores allow
  int num_shards = 1;   ///< groups of threads, or GPUs, of each worker
  ShardPlan shard_plan = ShardPlan::automatic;
  GpuExchange exchange = GpuExchange::peer;
  /// Blocks of keys that attention merges; 1: none.
  std::optional<int> ring_blocks;
  int batch = 0;  ///< most images of a forward pass; 0: as devices like
  ComputeType compute = ComputeType::automatic;
  std::optional<IsaLevel> isa;          ///< of the CPU; unset: the highest
  BitsMode bits = BitsMode::invariant;  ///< of GPUs
  bool tf32 = false;                    ///< of GPUs, where they compute in f32
  std::string require_class;  ///< an execution class, or an image made in it
  // several machines
  std::string listen;
  std::string join;
  std::string secret_file;
  std::string model_root;
  std::string cache;
  std::optional<WaitWorkers> wait_workers;  ///< unset: for nobody
  double wait_seconds = 4;
  bool stay = false;
  ClassChange on_class_change = ClassChange::begin_anew;
  int max_losses = 3;       ///< of a task's workers; 0: any number
  bool keep_going = false;  ///< when the first images fail
  EncodeOn encode_on = EncodeOn::automatic;
  std::string bind;
  std::string advertise;
  bool no_peer = false;
  std::string metrics;                   ///< address; empty: none
  bool follow = false;                   ///< ls
  std::optional<std::uint64_t> cancels;  ///< cancel: one sample; unset: all
  // where to
  std::string out;
  std::string grid;
  ExistsPolicy exists = ExistsPolicy::error;
  std::string init_latents;
  std::string guess_from;         ///< a trajectory
  std::vector<std::string> save;  ///< "latents=FILE", "trajectory=FILE"
  std::string preview;
  int preview_every = 5;
  std::optional<SampleRange> preview_samples;  ///< unset: all
  std::string trace;
  // how it talks
  ProgressKind progress = ProgressKind::automatic;
  bool quiet = false;
  bool verbose = false;
  bool json = false;
  bool dry_run = false;
  bool print_config = false;
  bool print_job = false;
  // other verbs
  std::string plot;           ///< schedule
  std::string against;        ///< verify
  int repeats = 3;            ///< bench
  bool all_settings = false;  ///< bench methods
  bool calibrate = false;     ///< bench methods
  int quality = 0;            ///< bench methods: pictures of it; 0: none
  EmulationConfig emulation;  ///< bench

  /// Where each option that was set stood.
  std::map<std::string, Place> places;
  /// Those of the job; 1: none.
  [[nodiscard]] int num_ring_blocks() const {
    return ring_blocks.value_or(shard_plan == ShardPlan::ring ? num_shards : 1);
  }
  /// The same for errors; the flag of an option that was not set.
  [[nodiscard]] std::string place_of(const std::string& key) const {
    const auto found = places.find(key);
    return found == places.end() ? "--" + key : found->second.text;
  }
  [[nodiscard]] bool is_flag(const std::string& key) const {
    const auto found = places.find(key);
    return found != places.end() && found->second.source == Source::flag;
  }
};

}  // namespace troupe::config
