#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::samplers {

class Schedule;
struct Points;
struct ScheduleOptions;
struct SolverState;
struct StepInput;

enum class DpmAlgorithm : std::uint8_t {
  dpmsolver,
  dpmsolver_pp,
  sde_dpmsolver,
  sde_dpmsolver_pp
};

/// What the levels of a solver's schedule are.
enum class Levels : std::uint8_t {
  training_steps,  ///< ᾱ of whole training steps (DDIM, DDPM, PNDM)
  sigmas,          ///< σ between the training steps
  flow             ///< σ of a flow model, without betas
};

/// Whether timesteps that belong to Karras σ are rounded to whole steps.
enum class KarrasSteps : std::uint8_t { between, whole_unless_cosine, whole };

/// A name that users and files may give a solver, and what it says beside the
/// rule: normalised (lower case, "++" → "pp", letters and digits only).
struct SolverSpelling {
  std::string_view key;
  std::optional<int> order = std::nullopt;
  std::optional<DpmAlgorithm> algorithm = std::nullopt;
  std::string_view type = {};  ///< solver_type, or empty
  std::optional<bool> final_sigma_zero = std::nullopt;
  std::optional<bool> skip_prk_steps = std::nullopt;
};

// Groups of keys of scheduler_config.json that several of diffusers' classes
// have, for the rows' `keys`.

/// Of every class whose noise levels come from betas.
inline constexpr std::string_view kBetaKeys =
    "num_train_timesteps beta_start beta_end beta_schedule trained_betas "
    "prediction_type timestep_spacing steps_offset";
inline constexpr std::string_view kZeroSnrKeys = "rescale_betas_zero_snr";
inline constexpr std::string_view kClipKeys = "clip_sample clip_sample_range";
inline constexpr std::string_view kThresholdKeys =
    "thresholding dynamic_thresholding_ratio sample_max_value";
/// diffusers reads the two ends from the file also where they are no arguments
/// of the class.
inline constexpr std::string_view kSpacingKeys =
    "use_karras_sigmas use_exponential_sigmas use_beta_sigmas "
    "sigma_min sigma_max";
inline constexpr std::string_view kMultistepKeys =
    "solver_order solver_type lower_order_final final_sigmas_type "
    "use_flow_sigmas flow_shift use_dynamic_shifting time_shift_type";

/// All facts about one solver; the row stands at the end of the solver's file.
/// To add one: see README.md.
struct SolverRow {
  /// In recipes and cuts: never changed.
  std::string_view name;
  /// In help texts and messages, the usual one first. Each is a spelling.
  std::span<const std::string_view> shown_names;
  std::span<const SolverSpelling> spellings;
  /// The keys of scheduler_config.json that its diffusers class has, and eta,
  /// which is an argument there. Each entry is a list of words. Other keys of a
  /// file are ignored, other flags refused. Four keys change the arithmetic:
  /// clip_sample (clean samples are clipped), final_sigmas_type (without it the
  /// last σ is 0), lambda_min_clipped (training steps below it are left out)
  /// and set_alpha_to_one (the last ᾱ).
  std::array<std::string_view, 6> keys;

  Levels levels = Levels::sigmas;
  /// x = clean + σ · noise; the network is given x / √(σ² + 1).
  bool has_unit_signal = false;
  /// Integrates in λ with earlier outputs, up to its order, over betas or a
  /// flow. The network is handed whole training steps, of n + 1 points without
  /// the last.
  bool is_multistep = false;
  bool draws_at_timestep_zero = true;
  bool has_sample_prediction = true;
  bool has_karras_flow_sigmas = false;
  KarrasSteps karras_steps = KarrasSteps::between;
  /// Respaced σ that do not end at 0 repeat their last value.
  bool repeats_respaced_end = false;
  /// A step begins at the corrected sample of the step before: its latents
  /// count through the network's output alone.
  bool begins_at_anchor = false;
  /// Each step goes back by the same stride, whatever the spacing.
  bool goes_by_stride = false;
  /// Tensors of the latents' shape that a SolverState holds beside them, at
  /// most; null: none.
  int (*most_kept)(const ScheduleOptions&) = nullptr;
  /// Each step calls the network twice, the last step once.
  bool has_two_calls = false;
  /// Other calls beyond one a step, for resolved options; null: none.
  int (*extra_calls)(const ScheduleOptions&) = nullptr;
  double beta_start = 1e-4;
  double beta_end = 0.02;
  bool set_alpha_to_one = true;  ///< the default of its diffusers class

  bool (*is_stochastic)(const ScheduleOptions&) = nullptr;
  /// The network scales the noise of the steps; null: it does not.
  bool (*learns_variance)(const ScheduleOptions&) = nullptr;
  /// Points over the training steps, or of a flow model.
  Points (*points)(const ScheduleOptions&,
                   const std::vector<float>& alphas_cumprod);
  /// With use_flow_sigmas; null: it has none.
  Points (*flow_points)(const ScheduleOptions&,
                        const std::vector<float>& alphas_cumprod) = nullptr;
  /// Fills in and checks what only this solver has; may be null.
  /// Errors: Errc::invalid_argument.
  void (*resolve)(ScheduleOptions&) = nullptr;
  /// As in a table of results: "dpm++2m".
  std::string (*label)(const ScheduleOptions&) = nullptr;

  /// One step, and its 1-step carry coefficient: see solver.h.
  SolverState (*step)(const StepInput&);
  double (*carry)(const Schedule&, int from, int to);
  /// Of the noise that a step adds: see step_deviation. Null: it adds none.
  double (*deviation)(const Schedule&, int from, int to) = nullptr;

  [[nodiscard]] bool has_key(std::string_view key) const;
};

/// A solver: its row, which lives as long as the program.
class Solver {
 public:
  constexpr explicit Solver(const SolverRow& row) noexcept : row_(&row) {}
  [[nodiscard]] constexpr const SolverRow* operator->() const noexcept {
    return row_;
  }
  bool operator==(const Solver&) const = default;

  static const Solver ddim;
  static const Solver ddpm;
  static const Solver dpmpp;  ///< DPM-Solver++ and its siblings, orders 1–3
  static const Solver euler;
  static const Solver euler_ancestral;
  static const Solver heun;
  static const Solver flow_euler;
  static const Solver unipc;
  static const Solver pndm;  ///< PLMS, or begun by Runge–Kutta steps

 private:
  const SolverRow* row_;
};

/// Solvers in the order in which help texts show them.
using SolverTable = std::span<const Solver>;
/// Those that Troupe has.
[[nodiscard]] SolverTable solver_table();

}  // namespace troupe::samplers
