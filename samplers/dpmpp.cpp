// Lu et al. 2022, arXiv:2206.00927 (DPM-Solver) and arXiv:2211.01095
// (DPM-Solver++), multistep forms of orders 1 to 3, ODE and SDE.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "samplers/points.h"
#include "samplers/solver_row.h"
#include "samplers/step_arithmetic.h"

namespace troupe::samplers {
namespace {

bool predicts_clean(const ScheduleOptions& o) {
  return o.algorithm == DpmAlgorithm::dpmsolver_pp ||
         o.algorithm == DpmAlgorithm::sde_dpmsolver_pp;
}

/// x' = latents · x + d0 · D0 + d1 · D1 + d2 · D2 + noise · n, where D_k is
/// the k-th divided difference of the converted outputs in λ.
struct Rule {
  double latents = 0.0;
  double d0 = 0.0;
  double d1 = 0.0;
  double d2 = 0.0;
  double noise = 0.0;
};

/// Everything is written with α and σ in place of exp(±h), so that a step to
/// σ' = 0 (h = ∞, first order) needs no special case.
Rule first_order(const ScheduleOptions& o, const NoiseLevel& s,
                 const NoiseLevel& t) {
  const double decay = t.sigma * s.alpha / (t.alpha * s.sigma);  // exp(−h)
  const double grown = t.alpha * s.sigma / s.alpha;              // σ' exp(h)
  Rule rule;
  switch (o.algorithm) {
    case DpmAlgorithm::dpmsolver_pp:
      rule.latents = t.sigma / s.sigma;
      rule.d0 = t.alpha - t.sigma * s.alpha / s.sigma;
      break;
    case DpmAlgorithm::dpmsolver:
      rule.latents = t.alpha / s.alpha;
      rule.d0 = t.sigma - grown;
      break;
    case DpmAlgorithm::sde_dpmsolver_pp:
      rule.latents = t.sigma / s.sigma * decay;
      rule.d0 = t.alpha * (1.0 - decay * decay);
      rule.noise = t.sigma * std::sqrt(std::max(0.0, 1.0 - decay * decay));
      break;
    case DpmAlgorithm::sde_dpmsolver:
      rule.latents = t.alpha / s.alpha;
      rule.d0 = 2.0 * (t.sigma - grown);
      rule.noise = std::sqrt(std::max(0.0, grown * grown - t.sigma * t.sigma));
      break;
  }
  return rule;
}

void add_differences(const ScheduleOptions& o, const NoiseLevel& t, double h,
                     int order, Rule& rule) {
  const bool by_midpoint = order == 2 && o.solver_type == "midpoint";
  switch (o.algorithm) {
    case DpmAlgorithm::dpmsolver_pp:
      rule.d1 = by_midpoint ? 0.5 * rule.d0 : t.alpha - rule.d0 / h;
      rule.d2 = -((t.alpha - rule.d0 / h) / h - 0.5 * t.alpha);
      break;
    case DpmAlgorithm::dpmsolver:
      rule.d1 = by_midpoint ? 0.5 * rule.d0 : rule.d0 / h + t.sigma;
      rule.d2 = (rule.d0 / h + t.sigma) / h + 0.5 * t.sigma;
      break;
    case DpmAlgorithm::sde_dpmsolver_pp:
      rule.d1 = by_midpoint ? 0.5 * rule.d0 : t.alpha - rule.d0 / (2.0 * h);
      rule.d2 = (rule.d0 - 2.0 * h * t.alpha) / (4.0 * h * h) - 0.5 * t.alpha;
      break;
    case DpmAlgorithm::sde_dpmsolver:
      rule.d1 = by_midpoint ? 0.5 * rule.d0 : rule.d0 / h + 2.0 * t.sigma;
      break;
  }
  if (order < 3) {
    rule.d2 = 0.0;
  }
}

/// Weights of m0, m1, m2 once the divided differences are written out.
std::array<double, 3> output_weights(const StepInput& in, const Rule& rule,
                                     int order) {
  std::array<double, 3> weights = {rule.d0, 0.0, 0.0};
  if (order == 1) {
    return weights;
  }
  const double at0 = in.here().log_snr();
  const double h = in.there().log_snr() - at0;
  const double at1 = in.schedule.level(in.state.history_calls[0]).log_snr();
  const double r0 = (at0 - at1) / h;
  if (order == 2) {
    weights[0] += rule.d1 / r0;
    weights[1] -= rule.d1 / r0;
    return weights;
  }
  const double at2 = in.schedule.level(in.state.history_calls[1]).log_snr();
  const double r1 = (at1 - at2) / h;
  // D1 = a·(m0−m1)/r0 + b·(m1−m2)/r1 and D2 likewise.
  const double share = r0 / (r0 + r1);
  const double newer = rule.d1 * (1.0 + share) + rule.d2 / (r0 + r1);
  const double older = -rule.d1 * share - rule.d2 / (r0 + r1);
  weights[0] += newer / r0;
  weights[1] += older / r1 - newer / r0;
  weights[2] -= older / r1;
  return weights;
}

int usable_order(const StepInput& in) {
  const ScheduleOptions& o = in.schedule.options();
  // Up to the end of the whole run.
  const int calls = in.schedule.num_model_calls() + in.schedule.calls_after();
  const bool few =
      o.lower_order_final && calls + in.schedule.calls_before() < 15;
  const bool last = in.to == calls;
  const bool ends_clean = last && (o.final_sigma_zero || !o.sigmas.empty());
  // A step of no length has no differences to take.
  const bool stands_still = in.there().sigma == in.here().sigma;
  if (ends_clean || stands_still || (last && (o.euler_at_final || few))) {
    return 1;
  }
  int order = o.solver_order;
  if (few && in.to == calls - 1) {
    order = std::min(order, 2);
  }
  return std::min(order, static_cast<int>(in.state.history.size()) + 1);
}

Tensor converted(const StepInput& in, Memory memory) {
  const ScheduleOptions& o = in.schedule.options();
  if (predicts_clean(o)) {
    return clean_sample(in, memory);
  }
  if (!o.thresholding) {
    return apply(in.ctx, memory, noise_form(in.schedule, in.from),
                 in.state.latents, in.output);
  }
  const Tensor clean = clean_sample(in, Memory::scratch);
  const NoiseLevel at = in.here();
  return weighted_sum(
      in.ctx, memory,
      {{1.0 / at.sigma, &in.state.latents}, {-at.alpha / at.sigma, &clean}});
}

SolverState step_dpmpp(const StepInput& in) {
  const ScheduleOptions& o = in.schedule.options();
  const auto keep = static_cast<std::size_t>(o.solver_order - 1);
  const Tensor m0 = converted(in, keep > 0 ? Memory::lasting : Memory::scratch);
  const int order = usable_order(in);
  Rule rule = first_order(o, in.here(), in.there());
  if (order > 1) {
    const double h = in.there().log_snr() - in.here().log_snr();
    add_differences(o, in.there(), h, order, rule);
  }
  const std::array<double, 3> weights = output_weights(in, rule, order);
  const Tensor& x = in.state.latents;
  const Tensor& m1 = order > 1 ? in.state.history[0] : m0;
  const Tensor& m2 = order > 2 ? in.state.history[1] : m0;
  const Tensor noise = in.draw();
  SolverState next = summed_state(in, {{rule.latents, &x},
                                       {weights[0], &m0},
                                       {weights[1], &m1},
                                       {weights[2], &m2},
                                       {rule.noise, &noise}});
  next.order = order;
  remember(in, m0, keep, next);
  return next;
}

double carry_dpmpp(const Schedule& schedule, int from, int to) {
  const ScheduleOptions& o = schedule.options();
  const Rule rule = first_order(o, schedule.level(from), schedule.arrival(to));
  const LinearForm form = predicts_clean(o) ? clean_form(schedule, from)
                                            : noise_form(schedule, from);
  return rule.latents + rule.d0 * form.latents;
}

double deviation_dpmpp(const Schedule& schedule, int from, int to) {
  return first_order(schedule.options(), schedule.level(from),
                     schedule.arrival(to))
      .noise;
}

bool is_stochastic(const ScheduleOptions& o) {
  return o.algorithm == DpmAlgorithm::sde_dpmsolver ||
         o.algorithm == DpmAlgorithm::sde_dpmsolver_pp;
}

/// diffusers maps the type names of one multistep family to the other's
/// default.
void resolve(ScheduleOptions& o) {
  if (o.solver_type.empty() || o.solver_type == "bh1" ||
      o.solver_type == "bh2" || o.solver_type == "logrho") {
    o.solver_type = "midpoint";
  }
  const bool predicts_noise = !predicts_clean(o);
  refuse_flow_prediction(o, predicts_noise);
  if (o.use_dynamic_shifting && o.time_shift_linear) {
    refuse_option("time_shift_type", "this solver shifts exponentially only",
                  "");
  }
  if (predicts_noise && o.final_sigma_zero && o.sigmas.empty()) {
    refuse_option("algorithm",
                  "dpmsolver and sde-dpmsolver cannot end at sigma 0",
                  "use --final-sigmas-type sigma_min, or dpm++");
  }
  if (o.algorithm == DpmAlgorithm::sde_dpmsolver && o.solver_order == 3) {
    refuse_option("solver_order", "sde-dpmsolver has orders 1 and 2, got 3",
                  "use sde-dpmsolver++ for order 3");
  }
  if (o.solver_type != "midpoint" && o.solver_type != "heun") {
    refuse_option("solver_type",
                  "got '" + o.solver_type + "', expected midpoint or heun", "");
  }
}

std::string label(const ScheduleOptions& o) {
  const bool is_heun = o.solver_order == 2 && o.solver_type == "heun";
  const char* type = is_heun ? "-heun" : "";  // of two kinds the rarer is said
  if (!predicts_clean(o)) {
    return (is_stochastic(o) ? "sde-dpmsolver" : "dpmsolver") +
           std::string(type);
  }
  return "dpm++" + std::to_string(o.solver_order) +
         (is_stochastic(o) ? "m-sde" : "m") + type;
}

constexpr std::string_view kDpmppNames[] = {
    "dpm++",       "dpm++1m",     "dpm++2m",   "dpm++3m",
    "dpm++2m-sde", "dpm++3m-sde", "dpmsolver", "sde-dpmsolver"};

constexpr auto kOde = DpmAlgorithm::dpmsolver_pp;
constexpr auto kSde = DpmAlgorithm::sde_dpmsolver_pp;
// The forms that predict noise divide by the last σ: they end above 0.
constexpr SolverSpelling kDpmppSpellings[] = {
    {"dpmsolvermultistep"},
    {"dpmpp", std::nullopt, kOde},
    {"dpmsolverpp", std::nullopt, kOde},
    {"dpmpp1m", 1, kOde},
    {"dpmpp2m", 2, kOde},
    {"dpmpp2mheun", 2, kOde, "heun"},
    {"dpmpp3m", 3, kOde},
    {"sdedpmsolverpp", std::nullopt, kSde},
    {"dpmpp1msde", 1, kSde},
    {"dpmpp2msde", 2, kSde},
    {"dpmpp2msdeheun", 2, kSde, "heun"},
    {"dpmpp3msde", 3, kSde},
    {"dpmsolver", std::nullopt, DpmAlgorithm::dpmsolver, {}, false},
    {"sdedpmsolver", std::nullopt, DpmAlgorithm::sde_dpmsolver, {}, false}};

}  // namespace

extern constinit const SolverRow kDpmpp{
    .name = "dpmpp",
    .shown_names = kDpmppNames,
    .spellings = kDpmppSpellings,
    .keys = {kBetaKeys, kZeroSnrKeys, kThresholdKeys, kSpacingKeys,
             kMultistepKeys,
             "algorithm_type euler_at_final use_lu_lambdas "
             "lambda_min_clipped"},
    .is_multistep = true,
    .karras_steps = KarrasSteps::whole_unless_cosine,
    .most_kept = [](const ScheduleOptions& o) { return o.solver_order - 1; },
    .is_stochastic = is_stochastic,
    .points = sigma_points,
    .flow_points = dpmpp_flow_points,
    .resolve = resolve,
    .label = label,
    .step = step_dpmpp,
    .carry = carry_dpmpp,
    .deviation = deviation_dpmpp};

}  // namespace troupe::samplers
