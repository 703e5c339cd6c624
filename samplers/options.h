#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "samplers/parallel/method_row.h"
#include "samplers/solver_row.h"

namespace troupe::samplers {

enum class BetaSchedule : std::uint8_t {
  linear,
  scaled_linear,
  squaredcos_cap_v2,
  sigmoid,  ///< GeoDiff's; in diffusers of DDPM only, as laplace
  laplace
};
enum class PredictionType : std::uint8_t {
  epsilon,
  v_prediction,
  sample,
  flow_prediction
};
enum class TimestepSpacing : std::uint8_t { leading, trailing, linspace };
enum class SigmaSpacing : std::uint8_t { none, karras, exponential, beta };
enum class VarianceType : std::uint8_t {
  fixed_small,
  fixed_small_log,
  fixed_large,
  fixed_large_log,
  learned,
  learned_range
};
/// Everything a schedule and its step rule are made of: the union of the keys
/// of diffusers' scheduler configs under their own names. Unset optionals take
/// the default of the chosen solver's diffusers class.
/// Source: diffusers schedulers/scheduling_*.py.
struct ScheduleOptions {
  Solver solver = Solver::ddim;
  int num_inference_steps = 50;

  int num_train_timesteps = 1000;
  double beta_start = 1e-4;
  double beta_end = 0.02;
  BetaSchedule beta_schedule = BetaSchedule::linear;
  std::vector<double> trained_betas;
  bool rescale_betas_zero_snr = false;

  /// Unset: flow_prediction for flow_euler, epsilon for the others.
  std::optional<PredictionType> prediction_type;
  std::optional<TimestepSpacing> timestep_spacing;
  int steps_offset = 0;
  SigmaSpacing sigma_spacing = SigmaSpacing::none;
  bool set_alpha_to_one = true;
  bool final_sigma_zero = true;  ///< final_sigmas_type "zero" or "sigma_min"
  std::optional<double> sigma_min;
  std::optional<double> sigma_max;

  std::optional<bool> clip_sample;
  double clip_sample_range = 1.0;
  bool thresholding = false;
  double dynamic_thresholding_ratio = 0.995;
  double sample_max_value = 1.0;

  double eta = 0.0;                                        ///< DDIM
  bool skip_prk_steps = false;                             ///< PNDM: PLMS
  VarianceType variance_type = VarianceType::fixed_small;  ///< DDPM
  int solver_order = 2;                                    ///< dpmpp, unipc
  DpmAlgorithm algorithm = DpmAlgorithm::dpmsolver_pp;     ///< dpmpp
  /// dpmpp: "midpoint" or "heun"; unipc: "bh1" or "bh2"; empty: default
  std::string solver_type;
  bool lower_order_final = true;
  bool euler_at_final = false;
  bool predict_x0 = true;              ///< unipc
  std::vector<int> disable_corrector;  ///< unipc
  double lambda_min_clipped = -std::numeric_limits<double>::infinity();
  bool use_lu_lambdas = false;

  bool use_flow_sigmas = false;  ///< dpmpp, unipc
  double flow_shift = 1.0;
  double shift = 1.0;  ///< flow_euler
  bool use_dynamic_shifting = false;
  bool time_shift_linear = false;  ///< time_shift_type "linear"
  double base_shift = 0.5;
  double max_shift = 1.15;
  int base_image_seq_len = 256;
  int max_image_seq_len = 4096;
  std::optional<double> mu;  ///< dynamic shifting's exponent
  std::optional<double> shift_terminal;
  bool invert_sigmas = false;
  bool stochastic_sampling = false;

  std::vector<double> sigmas;     ///< explicit, descending; overrides spacing
  std::vector<double> timesteps;  ///< explicit, descending; overrides spacing

  // The part of a run that is made, when several networks share one: from and
  // up to this share of the training steps, between 0 and 1. No keys of a file,
  // but arguments of diffusers' pipelines.
  std::optional<double> denoising_start;  ///< unset: from the beginning
  std::optional<double> denoising_end;    ///< unset: up to the end

  friend bool operator==(const ScheduleOptions&,
                         const ScheduleOptions&) = default;
};

enum class Carry : std::uint8_t { identity, coefficient, deviation };
enum class InitialGuess : std::uint8_t {
  last_point,
  constant_x0,
  linear_x0,
  trajectory  ///< of another run: NoiseSource::guess
};
/// When points of a Picard window are final (see samplers/parallel/picard.cpp).
enum class Accept : std::uint8_t { first_failing, settled };
/// Where the drafts of a window begin: with the output of the last draft, or
/// with one at the refined state (see samplers/parallel/draft.cpp).
enum class Anchor : std::uint8_t { draft, fresh };

/// What is old in a stale pipeline: the latents that the first part begins
/// with, of which it makes a draft for its own step, or what a part hands to
/// the next one (AsyncDiff).
enum class StaleAt : std::uint8_t { latents, cuts };

/// Where a network is cut in parts: one behind the other, or like an onion,
/// whose layers each have first blocks and the last blocks that take their
/// skips. An onion of N parts has 2 N − 1 segments: inward, the core, outward.
enum class CutShape : std::uint8_t { chain, onion };

/// How the work of one job is laid out in parallel. Part of the logical plan:
/// these may change the result of the approximate methods, and nothing else
/// may.
struct MethodOptions {
  MethodKind kind = MethodKind::sequential;

  /// picard, taa, draft: points that are evaluated together; chords: cores;
  /// parareal: blocks.
  int window_size = 8;
  Anchor anchor = Anchor::draft;  ///< draft
  /// chords: outputs that are waited for. The first is the fastest core's, the
  /// last, of as many as cores, the sequential run's.
  int num_outputs = 1;
  /// parareal: corrections of where blocks begin. As many as blocks: exact.
  int iterations = 1;

  // picard, taa. Defaults of a job: the rows (samplers/parallel/picard.cpp).
  double tolerance = 0.0;  ///< 0: bit-equal to sequential, T rounds
  /// coefficient solves chains that are linear in the latents in one sweep, but
  /// ignores clipping. deviation is identity where the latents keep unit
  /// variance (see samplers/parallel/README.md).
  Carry carry = Carry::identity;
  InitialGuess initial_guess = InitialGuess::last_point;
  Accept accept = Accept::first_failing;
  int memory = 2;  ///< taa: iterates that are mixed; 1: none, as in picard

  /// +cache: how much of what the first block adds may change, as a part of it,
  /// before the other blocks run again. 0: bit-equal to the method without.
  double cache_threshold = 0.025;

  // pipeline, stale
  /// Parts of the network, for one worker each.
  int num_segments = 2;
  /// How fast the workers of the parts are, relative to each other. A faster
  /// one gets more of the network. Empty: all are equally fast.
  std::vector<double> segment_speeds = {};
  CutShape cut = CutShape::chain;
  StaleAt stale_at = StaleAt::cuts;  ///< stale; its row has a job's default
  int age = 1;                       ///< stale: steps by which each cut may lag
  std::vector<int> ages = {};        ///< stale: one per cut; overrides `age`
  int stride = 1;  ///< stale: 2 is AsyncDiff's, one more executor
  int warmup_steps = 1;
  int final_fresh_steps = 0;
  /// chords, parareal: the plan has the results of fewer outputs or iterations,
  /// too, for previews. No byte of the result follows from it, and only who
  /// plans reads it.
  bool has_early_results = false;
};

/// The user's choices of MethodOptions. Unset: chosen for the job, or the
/// method's default.
struct MethodChoices {
  std::optional<MethodKind> kind;  ///< unset: auto
  std::string preset;              ///< "asyncdiff", "asyncdiff2"
  std::optional<int> window_size;
  std::optional<Anchor> anchor;
  std::optional<int> num_outputs;
  std::optional<int> iterations;
  std::optional<double> tolerance;
  std::optional<Carry> carry;
  std::optional<InitialGuess> initial_guess;
  std::optional<Accept> accept;
  std::optional<int> memory;
  std::optional<double> cache_threshold;
  std::optional<int> num_segments;
  std::vector<double> segment_speeds;
  std::optional<CutShape> cut;  ///< unset: the cheaper one
  std::optional<StaleAt> stale_at;
  std::vector<int> ages;
  std::optional<int> stride;
  std::optional<int> warmup_steps;
  std::optional<int> final_fresh_steps;

  friend bool operator==(const MethodChoices&, const MethodChoices&) = default;
};

/// Puts the choices over the options. The kind stays.
void apply_choices(const MethodChoices& choices, MethodOptions& options);
/// The choices that give these options.
[[nodiscard]] MethodChoices choices_of(const MethodOptions& options);

}  // namespace troupe::samplers
