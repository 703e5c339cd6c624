// Zhao et al. 2023, arXiv:2302.04867: UniP predictor and UniC corrector with
// B(h) = h (bh1) or exp(h) − 1 (bh2).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "samplers/phi_functions.h"
#include "samplers/points.h"
#include "samplers/solver_row.h"
#include "samplers/step_arithmetic.h"

namespace troupe::samplers {
namespace {

constexpr std::size_t kMaxOrder = 3;
using Moments = std::array<double, kMaxOrder>;

/// Solves the leading count × count block of Σ_k ratios[k]^i · ρ[k] = b[i].
Moments solve_moments(const Moments& ratios, const Moments& b,
                      std::size_t count) {
  std::array<std::array<double, kMaxOrder + 1>, kMaxOrder> m{};
  Moments powers = {1.0, 1.0, 1.0};
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < count; ++k) {
      m[i][k] = powers[k];
      powers[k] *= ratios[k];
    }
    m[i][count] = b[i];
  }
  for (std::size_t c = 0; c < count; ++c) {
    std::size_t pivot = c;
    for (std::size_t r = c + 1; r < count; ++r) {
      if (std::fabs(m[r][c]) > std::fabs(m[pivot][c])) {
        pivot = r;
      }
    }
    std::swap(m[c], m[pivot]);
    for (std::size_t r = 0; r < count; ++r) {
      if (r == c) {
        continue;
      }
      const double factor = m[r][c] / m[c][c];
      for (std::size_t k = c; k <= count; ++k) {
        m[r][k] -= factor * m[c][k];
      }
    }
  }
  Moments rho{};
  for (std::size_t i = 0; i < count; ++i) {
    rho[i] = m[i][count] / m[i][i];
  }
  return rho;
}

/// One leg from s to t: x' = latents · x + first · m0 − scale · B(h) · Σ …
struct UniPcLeg {
  double latents;
  double first;
  double scaled_b;  ///< (α' or σ') · B(h)
  double h;         ///< λ' − λ
  double hh;        ///< −h when the clean sample is predicted, else h
  double exp_hh;
};

UniPcLeg make_leg(const ScheduleOptions& o, const NoiseLevel& s,
                  const NoiseLevel& t) {
  UniPcLeg leg{};
  leg.h = t.log_snr() - s.log_snr();
  if (o.predict_x0) {
    leg.hh = -leg.h;
    leg.exp_hh = t.sigma * s.alpha / (t.alpha * s.sigma);
    leg.latents = t.sigma / s.sigma;
    leg.first = t.alpha - t.sigma * s.alpha / s.sigma;
  } else {
    leg.hh = leg.h;
    leg.exp_hh = t.alpha * s.sigma / (t.sigma * s.alpha);
    leg.latents = t.alpha / s.alpha;
    leg.first = t.sigma - t.alpha * s.sigma / s.alpha;
  }
  const double scale = o.predict_x0 ? t.alpha : t.sigma;
  leg.scaled_b = o.solver_type == "bh1" ? scale * leg.hh : -leg.first;
  return leg;
}

/// Right-hand sides b_i = i! · hh · φ_{i+1}(hh) / B(h), i = 1, 2, …; B(h) is
/// hh or exp(hh) − 1 = hh · φ_1(hh).
Moments moments(const ScheduleOptions& o, const UniPcLeg& leg) {
  const std::array<double, 5> phi = phi_functions(leg.hh, leg.exp_hh);
  const double b_h = o.solver_type == "bh1" ? 1.0 : phi[1];
  return {phi[2] / b_h, 2.0 * phi[3] / b_h, 6.0 * phi[4] / b_h};
}

/// ρ of `count` outputs: 1/2 of a single one, as in diffusers.
Moments solve_weights(const ScheduleOptions& o, const UniPcLeg& leg,
                      const Moments& ratios, std::size_t count) {
  if (count == 1) {
    return {0.5, 0.0, 0.0};
  }
  return solve_moments(ratios, moments(o, leg), count);
}

/// λ of older outputs relative to the newest, in units of h.
Moments ratios_of(const Schedule& schedule, const std::vector<int>& calls,
                  std::size_t first, std::size_t count, double origin,
                  double h) {
  Moments ratios{};
  for (std::size_t i = 0; i < count; ++i) {
    ratios[i] = (schedule.level(calls[first + i]).log_snr() - origin) / h;
  }
  return ratios;
}

/// UniC: the sample at `from` once more, now that its own output is known.
Tensor corrected(const StepInput& in, const Tensor& converted) {
  const SolverState& state = in.state;
  const auto order = static_cast<std::size_t>(state.order);
  const NoiseLevel start = in.schedule.level(state.history_calls[0]);
  const UniPcLeg leg = make_leg(in.schedule.options(), start, in.here());
  Moments ratios = ratios_of(in.schedule, state.history_calls, 1, order - 1,
                             start.log_snr(), leg.h);
  ratios[order - 1] = 1.0;
  const Moments rho = solve_weights(in.schedule.options(), leg, ratios, order);
  double newest = leg.first;
  Moments older{};
  for (std::size_t k = 0; k + 1 < order; ++k) {
    older[k] = -leg.scaled_b * rho[k] / ratios[k];
    newest -= older[k];
  }
  const double own = -leg.scaled_b * rho[order - 1];
  newest -= own;
  const std::vector<Tensor>& m = state.history;
  return weighted_sum(in.ctx, Memory::lasting,
                      {{leg.latents, &state.anchor},
                       {newest, &m[0]},
                       {older[0], order > 1 ? &m[1] : &m[0]},
                       {older[1], order > 2 ? &m[2] : &m[0]},
                       {own, &converted}});
}

/// UniP from the (corrected) sample x.
Tensor predicted(const StepInput& in, const Tensor& x, const Tensor& m0,
                 std::size_t order) {
  const SolverState& state = in.state;
  const UniPcLeg leg = make_leg(in.schedule.options(), in.here(), in.there());
  double newest = leg.first;
  Moments older{};
  if (order > 1) {
    const Moments ratios = ratios_of(in.schedule, state.history_calls, 0,
                                     order - 1, in.here().log_snr(), leg.h);
    const Moments rho =
        solve_weights(in.schedule.options(), leg, ratios, order - 1);
    for (std::size_t k = 0; k + 1 < order; ++k) {
      older[k] = -leg.scaled_b * rho[k] / ratios[k];
      newest -= older[k];
    }
  }
  const std::vector<Tensor>& m = state.history;
  return weighted_sum(in.ctx, Memory::lasting,
                      {{leg.latents, &x},
                       {newest, &m0},
                       {older[0], order > 1 ? &m[0] : &m0},
                       {older[1], order > 2 ? &m[1] : &m0}});
}

bool wants_corrector(const StepInput& in) {
  if (in.state.anchor.empty() || in.state.history.empty()) {
    return false;
  }
  const std::vector<int>& off = in.schedule.options().disable_corrector;
  return std::find(off.begin(), off.end(),
                   in.state.history_calls[0] + in.schedule.calls_before()) ==
         off.end();
}

std::size_t unipc_order(const StepInput& in) {
  const ScheduleOptions& o = in.schedule.options();
  const NoiseLevel there = in.there();
  // λ = ∞ at σ' = 0: only the first order has a limit. No length, no order.
  if (!(there.sigma > 0.0) || there.sigma == in.here().sigma) {
    return 1;
  }
  int order = o.solver_order;
  if (o.lower_order_final) {
    const int calls = in.schedule.num_model_calls() + in.schedule.calls_after();
    order = std::min(order, calls - in.to + 1);
  }
  return static_cast<std::size_t>(
      std::min(order, static_cast<int>(in.state.history.size()) + 1));
}

SolverState step_unipc(const StepInput& in) {
  const ScheduleOptions& o = in.schedule.options();
  const Tensor m0 = o.predict_x0 ? clean_sample(in, Memory::lasting)
                                 : apply(in.ctx, Memory::lasting,
                                         noise_form(in.schedule, in.from),
                                         in.state.latents, in.output);
  const std::size_t order = unipc_order(in);
  SolverState next;
  next.anchor = wants_corrector(in) ? corrected(in, m0) : in.state.latents;
  next.latents = predicted(in, next.anchor, m0, order);
  next.order = static_cast<int>(order);
  remember(in, m0, static_cast<std::size_t>(o.solver_order), next);
  return next;
}

double carry_unipc(const Schedule& schedule, int from, int to) {
  const ScheduleOptions& o = schedule.options();
  const UniPcLeg leg = make_leg(o, schedule.level(from), schedule.arrival(to));
  const LinearForm form =
      o.predict_x0 ? clean_form(schedule, from) : noise_form(schedule, from);
  return leg.latents + leg.first * form.latents;
}

/// diffusers maps the type names of one multistep family to the other's
/// default.
void resolve_unipc(ScheduleOptions& o) {
  if (o.solver_type.empty() || o.solver_type == "midpoint" ||
      o.solver_type == "heun" || o.solver_type == "logrho") {
    o.solver_type = "bh2";
  }
  if (o.solver_type != "bh1" && o.solver_type != "bh2") {
    refuse_option("solver_type",
                  "got '" + o.solver_type + "', expected bh1 or bh2", "");
  }
  refuse_flow_prediction(o, !o.predict_x0);
}

/// Of two kinds the rarer is said.
std::string unipc_label(const ScheduleOptions& o) {
  return o.solver_type == "bh1" ? "unipc-bh1" : "unipc";
}

constexpr std::string_view kUniPcNames[] = {"unipc"};
constexpr SolverSpelling kUniPcSpellings[] = {
    {"unipc"},
    {"unipcmultistep"},
    {.key = "unipcbh1", .type = "bh1"},
    {.key = "unipcbh2", .type = "bh2"}};

}  // namespace

extern constinit const SolverRow kUnipc{
    .name = "unipc",
    .shown_names = kUniPcNames,
    .spellings = kUniPcSpellings,
    .keys = {kBetaKeys, kZeroSnrKeys, kThresholdKeys, kSpacingKeys,
             kMultistepKeys,
             "predict_x0 disable_corrector solver_p "
             "shift_terminal"},
    .is_multistep = true,
    .has_karras_flow_sigmas = true,
    .karras_steps = KarrasSteps::whole,
    .repeats_respaced_end = true,
    .begins_at_anchor = true,
    // The corrected sample, and outputs.
    .most_kept = [](const ScheduleOptions& o) { return 1 + o.solver_order; },
    .points = sigma_points,
    .flow_points = unipc_flow_points,
    .resolve = resolve_unipc,
    .label = unipc_label,
    .step = step_unipc,
    .carry = carry_unipc};

}  // namespace troupe::samplers
