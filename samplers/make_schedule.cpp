#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/error.h"
#include "samplers/betas.h"
#include "samplers/numeric.h"
#include "samplers/option_fields.h"
#include "samplers/points.h"
#include "samplers/schedule.h"

// A schedule is made once for a job: here the C library's logarithms are taken,
// and its roots.

namespace troupe::samplers {
namespace {

bool integer_steps(const ScheduleOptions& o) {
  return o.solver->levels == Levels::training_steps;
}

NoiseLevel with_logarithms(double alpha, double sigma) {
  return {alpha, sigma, std::log(alpha), std::log(sigma)};
}

NoiseLevel from_alpha_cumprod(double a) {
  return with_logarithms(std::sqrt(a), std::sqrt(std::max(0.0, 1.0 - a)));
}

NoiseLevel from_sigma(const ScheduleOptions& o, double sigma) {
  if (is_flow(o)) {
    return o.invert_sigmas ? with_logarithms(sigma, 1.0 - sigma)
                           : with_logarithms(1.0 - sigma, sigma);
  }
  if (o.solver->has_unit_signal) {
    return with_logarithms(1.0, sigma);
  }
  const double alpha = 1.0 / std::sqrt(sigma * sigma + 1.0);
  return with_logarithms(alpha, sigma * alpha);
}

double stochastic_step_size(const NoiseLevel& from, const NoiseLevel& to) {
  if (!(from.sigma > 0.0) || !(to.alpha > 0.0)) {
    return 0.0;
  }
  const double kept = from.alpha / to.alpha * to.sigma;
  const double variance = from.sigma * from.sigma - kept * kept;
  return to.sigma / from.sigma * std::sqrt(std::max(0.0, variance));
}

/// Fills levels, and arrivals where the points have none.
void add_levels(ScheduleTable& table) {
  const ScheduleOptions& o = table.options;
  if (integer_steps(o)) {
    for (const double t : table.timesteps) {
      table.levels.push_back(from_alpha_cumprod(
          table.alphas_cumprod[static_cast<std::size_t>(t)]));
    }
    table.levels.push_back(table.arrivals.back());
    return;
  }
  for (const double sigma : table.sigmas) {
    table.levels.push_back(from_sigma(o, sigma));
  }
  table.arrivals.assign(table.levels.begin() + 1, table.levels.end());
}

void add_residual_scales(ScheduleTable& table) {
  const std::size_t calls = table.timesteps.size();
  std::vector<double>& scales = table.residual_scales;
  scales.assign(calls + 1, 0.0);
  for (std::size_t p = 1; p <= calls; ++p) {
    double scale =
        stochastic_step_size(table.levels[p - 1], table.arrivals[p - 1]);
    if (table.options.solver->has_two_calls && p >= 2 && p % 2 == 0) {
      scale = scales[p - 1];  // both stages end at one noise level
    }
    if (!(scale > 0.0)) {
      scale = scales[p - 1];
    }
    scales[p] = scale;
  }
  const double floor = std::max(table.levels[0].sigma, table.arrivals[0].sigma);
  for (std::size_t p = calls + 1; p-- > 0;) {
    if (!(scales[p] > 0.0)) {
      scales[p] = p < calls ? scales[p + 1] : floor;
    }
  }
}

/// As the options say, whether steps can use it or not.
ScheduleTable table_of(const ScheduleOptions& options) {
  ScheduleTable table;
  table.options = resolve(options);
  const ScheduleOptions& o = table.options;
  if (o.solver->levels != Levels::flow) {
    table.alphas_cumprod = cumulative_alphas(make_betas(o), !integer_steps(o),
                                             o.rescale_betas_zero_snr);
  }
  const auto make_points =
      o.use_flow_sigmas ? o.solver->flow_points : o.solver->points;
  Points points = make_points(o, table.alphas_cumprod);
  table.timesteps = std::move(points.timesteps);
  table.sigmas = std::move(points.sigmas);
  for (const double a : points.arrival_alphas) {
    table.arrivals.push_back(from_alpha_cumprod(a));
  }
  if (is_flow(o)) {
    table.alphas_cumprod.clear();
  }
  if (o.solver->has_unit_signal) {
    const auto top = static_cast<float>(
        *std::max_element(table.sigmas.begin(), table.sigmas.end()));
    table.init_noise_sigma = o.timestep_spacing == TimestepSpacing::leading
                                 ? std::sqrt(top * top + 1.0F)
                                 : top;
  }
  add_levels(table);
  add_residual_scales(table);
  return table;
}

/// What is wrong with the order of the levels; empty: nothing.
std::string order_fault(const ScheduleTable& table) {
  const ScheduleOptions& o = table.options;
  const double sign = o.invert_sigmas && is_flow(o) ? -1.0 : 1.0;
  const auto rises = [&](const std::vector<double>& list, std::size_t i) {
    return sign * list[i + 1] > sign * list[i];
  };
  // diffusers divides by the noise of every call.
  const bool divides = !is_flow(o);
  // Both stages of a Heun step end at one level.
  const std::size_t stages = o.solver->has_two_calls ? 2 : 1;
  const std::size_t calls = table.timesteps.size();
  for (std::size_t i = 0; i < calls; ++i) {
    if (divides && !(table.sigmas[i] > 0.0)) {
      return "call " + std::to_string(i) + " has no noise to take away";
    }
    if (rises(table.sigmas, i) ||
        (i + 1 < calls && rises(table.timesteps, i))) {
      return "the noise grows after call " + std::to_string(i);
    }
    // An ending at "sigma_min" may repeat the last value: a step of no length.
    // Whole training steps may share a level, as betas of 0 say, but not the
    // one without signal: 0 / 0 in diffusers.
    if (i + stages < calls && table.sigmas[i] == table.sigmas[i + stages] &&
        (!integer_steps(o) || (std::isinf(table.sigmas[i]) &&
                               table.timesteps[i] != table.timesteps[i + 1]))) {
      return "two steps share the noise level " + to_text(table.sigmas[i]);
    }
  }
  return {};
}

std::string fault_of(const ScheduleTable& table) {
  try {
    check_numbers(table);
  } catch (const Error& error) {
    return error.message();
  }
  return order_fault(table);
}

bool is_usable(const ScheduleOptions& options) {
  try {
    return fault_of(table_of(options)).empty();
  } catch (const Error&) {
    return false;
  }
}

/// The addresses of the fields of some options, in the order of a visit.
struct Addresses {
  template <typename T>
  void operator()(const char* /*name*/, const T& value) {
    fields.push_back(&value);
  }
  std::vector<const void*> fields;
};

/// Finds the options behind a fault: those whose default alone would mend it.
class Culprits {
 public:
  explicit Culprits(const ScheduleOptions& options) : trial_(options) {
    ScheduleOptions usual;
    usual.solver = options.solver;
    usual.beta_start = options.solver->beta_start;
    usual.beta_end = options.solver->beta_end;
    usual.num_inference_steps =
        std::min(usual.num_inference_steps, options.num_train_timesteps);
    usual.num_train_timesteps = options.num_train_timesteps;
    // Of the whole run a part is kept afterwards, whatever that is.
    usual.denoising_start = options.denoising_start;
    usual.denoising_end = options.denoising_end;
    const ScheduleOptions defaults = resolve(usual);
    visit_schedule(defaults_, defaults);
    visit_schedule(*this, trial_);
  }
  /// Of visit_schedule: puts the default in the place of one field.
  template <typename T>
  void operator()(const char* name, T& value) {
    const T& usual = *static_cast<const T*>(defaults_.fields[field_++]);
    if (value == usual) {
      return;
    }
    const T kept = std::exchange(value, usual);
    std::string& names = is_usable(trial_) ? mending_ : changed_;
    names.append(names.empty() ? "" : ", ").append(name);
    value = kept;
  }
  /// If no single default mends the fault: all options that have another value.
  [[nodiscard]] const std::string& names() const {
    return mending_.empty() ? changed_ : mending_;
  }

 private:
  ScheduleOptions trial_;
  Addresses defaults_;
  std::size_t field_ = 0;
  std::string mending_;
  std::string changed_;
};

/// How many calls of the whole run, which descends, are at `timestep` or above.
std::size_t calls_down_to(const ScheduleTable& table, double timestep) {
  return static_cast<std::size_t>(std::ranges::count_if(
      table.timesteps, [=](double t) { return t >= timestep; }));
}

/// The timestep at which this share of the training steps is done, rounded as
/// Python rounds.
double timestep_after(const ScheduleOptions& o, double share) {
  const auto steps = static_cast<double>(o.num_train_timesteps);
  return std::nearbyint(steps - share * steps);
}

template <typename T>
void keep(std::vector<T>& list, std::size_t begin, std::size_t end) {
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(end), list.end());
  list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(begin));
}

/// Leaves the part of the whole run that denoising_start and denoising_end
/// name. Errors: Errc::invalid_argument if no call is left. Source: diffusers
/// pipelines/stable_diffusion_xl, get_timesteps and denoising_end.
void keep_part(ScheduleTable& table) {
  const ScheduleOptions& o = table.options;
  const std::size_t whole = table.timesteps.size();
  std::size_t begin = 0;
  std::size_t end = whole;
  if (o.denoising_start) {
    begin = calls_down_to(table, timestep_after(o, *o.denoising_start));
    if (o.solver->has_two_calls && begin % 2 == 1) {
      --begin;  // a step begins with its first call
    }
    table.init_noise_sigma = 1.0;  // the latents are as another run left them
  }
  if (o.denoising_end) {
    end = calls_down_to(table, timestep_after(o, *o.denoising_end));
  }
  if (begin >= end) {
    throw Error(Errc::invalid_argument,
                o.denoising_end ? "--denoising-end" : "--denoising-start",
                "none of the " + std::to_string(o.num_inference_steps) +
                    " steps lies in this part of the run",
                "choose a larger part, or more steps");
  }
  if (end < whole) {
    table.levels[end] = table.arrivals[end - 1];
  }
  keep(table.timesteps, begin, end);
  keep(table.sigmas, begin, end + 1);
  keep(table.levels, begin, end + 1);
  keep(table.arrivals, begin, end);
  keep(table.residual_scales, begin, end + 1);
  table.calls_before = static_cast<int>(begin);
  table.calls_after = static_cast<int>(whole - end);
}

}  // namespace

Schedule::Schedule(const ScheduleOptions& options) : table_(table_of(options)) {
  const std::string fault = fault_of(table_);
  if (!fault.empty()) {
    refuse_option(Culprits(table_.options).names(),
                  "no schedule can be made of this: " + fault,
                  "change or leave out what is named");
  }
  keep_part(table_);
  check_signs();
}

}  // namespace troupe::samplers
