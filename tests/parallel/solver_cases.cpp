#include <string>
#include <utility>
#include <vector>

#include "tests/parallel/support.h"

namespace troupe::samplers::testing {
namespace {

class Cases {
 public:
  explicit Cases(int num_inference_steps) : num_steps_(num_inference_steps) {}

  ScheduleOptions& add(std::string name, Solver solver) {
    all_.push_back({std::move(name), steps(num_steps_, solver)});
    return all_.back().options;
  }
  /// With room for the quantile between 1 and the largest value.
  ScheduleOptions& add_thresholded(std::string name, Solver solver) {
    ScheduleOptions& options = add(std::move(name), solver);
    options.thresholding = true;
    options.dynamic_thresholding_ratio = 0.9;
    options.sample_max_value = 4;
    return options;
  }
  [[nodiscard]] std::vector<SolverCase> take() { return std::move(all_); }

  /// From `first` down, each the `ratio` of the one before.
  [[nodiscard]] std::vector<double> falling(double first, double ratio) const {
    std::vector<double> values;
    for (int i = 0; i < num_steps_; ++i) {
      values.push_back(first);
      first *= ratio;
    }
    return values;
  }
  /// Whole training steps at unequal distances.
  [[nodiscard]] std::vector<double> uneven_timesteps() const {
    std::vector<double> values;
    for (int i = num_steps_; i > 0; --i) {
      values.push_back(static_cast<double>(i * (40 + i) - 3));
    }
    return values;
  }

 private:
  int num_steps_;
  std::vector<SolverCase> all_;
};

void add_ddim(Cases& cases) {
  cases.add("ddim", Solver::ddim);
  cases.add("ddim_eta", Solver::ddim).eta = 1;
  cases.add("ddim_clipped", Solver::ddim).clip_sample = true;
  cases.add_thresholded("ddim_thresholded", Solver::ddim);
  cases.add("ddim_alpha_not_one", Solver::ddim).set_alpha_to_one = false;
  cases.add("ddim_trailing", Solver::ddim).timestep_spacing =
      TimestepSpacing::trailing;
  cases.add("ddim_linspace", Solver::ddim).timestep_spacing =
      TimestepSpacing::linspace;
  cases.add("ddim_timesteps", Solver::ddim).timesteps =
      cases.uneven_timesteps();
  cases.add("ddim_sample", Solver::ddim).prediction_type =
      PredictionType::sample;
  ScheduleOptions& zero_snr = cases.add("ddim_v_zero_snr", Solver::ddim);
  zero_snr.prediction_type = PredictionType::v_prediction;
  zero_snr.rescale_betas_zero_snr = true;
  zero_snr.timestep_spacing = TimestepSpacing::trailing;
  ScheduleOptions& signs = cases.add("ddim_zero_snr_clipped", Solver::ddim);
  signs.clip_sample = true;
  signs.rescale_betas_zero_snr = true;
  signs.timestep_spacing = TimestepSpacing::trailing;
}

void add_pndm(Cases& cases) {
  const auto add = [&](std::string name) -> ScheduleOptions& {
    ScheduleOptions& options = cases.add(std::move(name), Solver::pndm);
    options.skip_prk_steps = true;
    return options;
  };
  add("plms");
  add("plms_v").prediction_type = PredictionType::v_prediction;
  add("plms_timesteps").timesteps = cases.uneven_timesteps();
  cases.add("pndm", Solver::pndm);
  cases.add("pndm_v", Solver::pndm).prediction_type =
      PredictionType::v_prediction;
  cases.add("pndm_timesteps", Solver::pndm).timesteps =
      cases.uneven_timesteps();
}

void add_ddpm(Cases& cases) {
  cases.add("ddpm", Solver::ddpm);
  cases.add("ddpm_large", Solver::ddpm).variance_type =
      VarianceType::fixed_large;
  cases.add("ddpm_learned_range", Solver::ddpm).variance_type =
      VarianceType::learned_range;
  cases.add_thresholded("ddpm_thresholded", Solver::ddpm);
  cases.add("ddpm_timesteps", Solver::ddpm).timesteps =
      cases.uneven_timesteps();
}

/// DPM-Solver in its four forms. Those that predict the noise cannot end at
/// sigma 0.
void add_dpm(Cases& cases) {
  const auto add = [&](std::string name, DpmAlgorithm algorithm, int order,
                       std::string type = "midpoint") -> ScheduleOptions& {
    ScheduleOptions& options = cases.add(std::move(name), Solver::dpmpp);
    options.algorithm = algorithm;
    options.solver_order = order;
    options.solver_type = std::move(type);
    options.final_sigma_zero = !predicts_noise(options);
    return options;
  };
  constexpr auto kPp = DpmAlgorithm::dpmsolver_pp;
  constexpr auto kSdePp = DpmAlgorithm::sde_dpmsolver_pp;
  constexpr auto kPlain = DpmAlgorithm::dpmsolver;
  constexpr auto kSde = DpmAlgorithm::sde_dpmsolver;
  add("dpmpp_1m", kPp, 1);
  add("dpmpp_2m", kPp, 2);
  add("dpmpp_2m_heun", kPp, 2, "heun");
  add("dpmpp_3m", kPp, 3);
  add("dpmpp_sde", kSdePp, 2);
  add("dpmpp_sde_heun", kSdePp, 2, "heun");
  add("dpmpp_sde_3m", kSdePp, 3);
  add("dpmsolver_2m", kPlain, 2);
  add("dpmsolver_2m_heun", kPlain, 2, "heun");
  add("dpmsolver_3m", kPlain, 3);
  add("sde_dpmsolver_1m", kSde, 1);
  add("sde_dpmsolver", kSde, 2);
  add("sde_dpmsolver_heun", kSde, 2, "heun");
  cases.add_thresholded("dpmpp_thresholded", Solver::dpmpp);
  ScheduleOptions& noise =
      cases.add_thresholded("dpmsolver_thresholded", Solver::dpmpp);
  noise.algorithm = kPlain;
  noise.final_sigma_zero = false;
  add("dpmpp_lu", kPp, 2).use_lu_lambdas = true;
  ScheduleOptions& euler = add("dpmpp_euler_at_final", kPp, 2);
  euler.euler_at_final = true;
  euler.lower_order_final = false;
  euler.final_sigma_zero = false;
  add("dpmpp_sigmas", kPp, 2).sigmas = cases.falling(80, 0.5);
  add("dpmpp_timesteps", kPp, 2).timesteps = cases.uneven_timesteps();
}

void add_unipc(Cases& cases) {
  cases.add("unipc", Solver::unipc);
  cases.add("unipc_3", Solver::unipc).solver_order = 3;
  cases.add("unipc_bh1", Solver::unipc).solver_type = "bh1";
  ScheduleOptions& noise = cases.add("unipc_predicts_noise", Solver::unipc);
  noise.predict_x0 = false;
  noise.solver_order = 3;
  cases.add_thresholded("unipc_thresholded", Solver::unipc);
  cases.add("unipc_uncorrected", Solver::unipc).disable_corrector = {0, 2};
  cases.add("unipc_sigmas", Solver::unipc).sigmas = cases.falling(80, 0.5);
}

void add_euler(Cases& cases) {
  cases.add("euler", Solver::euler);
  cases.add("euler_karras", Solver::euler).sigma_spacing = SigmaSpacing::karras;
  cases.add("euler_sigmas", Solver::euler).sigmas = cases.falling(80, 0.5);
  cases.add("euler_timesteps", Solver::euler).timesteps =
      cases.uneven_timesteps();
  cases.add("euler_ancestral", Solver::euler_ancestral);
  cases.add("euler_ancestral_v", Solver::euler_ancestral).prediction_type =
      PredictionType::v_prediction;
  cases.add("heun", Solver::heun);
  cases.add("heun_sigmas", Solver::heun).sigmas = cases.falling(80, 0.5);
}

void add_flow(Cases& cases) {
  cases.add("flow_euler", Solver::flow_euler);
  cases.add("flow_euler_shifted", Solver::flow_euler).shift = 3;
  cases.add("flow_euler_stochastic", Solver::flow_euler).stochastic_sampling =
      true;
  cases.add("flow_euler_inverted", Solver::flow_euler).invert_sigmas = true;
  cases.add("flow_euler_sigmas", Solver::flow_euler).sigmas =
      cases.falling(1, 0.7);
  const auto add = [&](std::string name, Solver solver) -> ScheduleOptions& {
    ScheduleOptions& options = cases.add(std::move(name), solver);
    options.prediction_type = PredictionType::flow_prediction;
    options.use_flow_sigmas = true;
    options.flow_shift = 3;
    return options;
  };
  add("dpmpp_flow", Solver::dpmpp).solver_order = 3;
  add("dpmpp_sde_flow", Solver::dpmpp).algorithm =
      DpmAlgorithm::sde_dpmsolver_pp;
  add("dpmpp_flow_sigmas", Solver::dpmpp).sigmas = cases.falling(0.99, 0.7);
  add("unipc_flow", Solver::unipc).solver_order = 3;
  add("unipc_flow_sigmas", Solver::unipc).sigmas = cases.falling(0.99, 0.7);
}

}  // namespace

std::vector<SolverCase> solver_cases(int num_inference_steps) {
  Cases cases(num_inference_steps);
  add_ddim(cases);
  add_ddpm(cases);
  add_pndm(cases);
  add_dpm(cases);
  add_unipc(cases);
  add_euler(cases);
  add_flow(cases);
  return cases.take();
}

}  // namespace troupe::samplers::testing
