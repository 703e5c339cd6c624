#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/polynomials.h"
#include "kernels/core/text.h"
#include "samplers/numeric.h"
#include "samplers/points.h"
#include "samplers/schedule.h"

// A schedule from a table that somebody else made.

namespace troupe::samplers {
namespace {

constexpr double kLargest = std::numeric_limits<float>::max();
/// In float32 a flow's shift may round σ = 1 up, and α below 0.
constexpr double kFlowRounding = 1e-6;

[[noreturn]] void refuse_record(const std::string& what) {
  throw Error(Errc::corrupt_file, "schedule table", what);
}

void check_size(std::string_view list, std::size_t got, std::size_t want) {
  if (got != want) {
    refuse_record(std::string(list) + ": got " + std::to_string(got) +
                  " entries, expected " + std::to_string(want));
  }
}

/// NaN is in no range.
void check_number(const std::string& place, double value, double low,
                  double high) {
  if (!(value >= low && value <= high)) {
    refuse_record(place + ": got " + to_text(value) + ", expected " +
                  (high < kLargest
                       ? to_text(low) + " to " + to_text(high)
                       : "a finite number, at least " + to_text(low)));
  }
}

std::string entry(std::string_view list, std::size_t index) {
  return std::string(list) + '[' + std::to_string(index) + ']';
}

template <typename Enum>
void check_name(std::string_view option, Enum value, Enum last) {
  if (value > last) {
    refuse_record("options." + std::string(option) +
                  ": got the unknown value " +
                  std::to_string(static_cast<int>(value)));
  }
}

void check_options(const ScheduleOptions& o) {
  check_name("beta_schedule", o.beta_schedule, BetaSchedule::laplace);
  check_name("sigma_spacing", o.sigma_spacing, SigmaSpacing::beta);
  check_name("variance_type", o.variance_type, VarianceType::learned_range);
  check_name("algorithm", o.algorithm, DpmAlgorithm::sde_dpmsolver_pp);
  if (!o.prediction_type || !o.timestep_spacing || !o.clip_sample) {
    refuse_record("options: not resolved");
  }
  check_name("prediction_type", *o.prediction_type,
             PredictionType::flow_prediction);
  check_name("timestep_spacing", *o.timestep_spacing,
             TimestepSpacing::linspace);
  bool is_resolved = false;
  try {
    is_resolved = resolve(o) == o;
  } catch (const Error& error) {
    refuse_record("options: " + printable(error.message()));
  }
  if (!is_resolved) {
    refuse_record("options: not resolved");
  }
}

void check_logarithm(const std::string& place, double log, double number) {
  const double want = detail::log_of_any(number);
  const bool is_same =
      std::isfinite(want)
          ? std::fabs(log - want) <= 1e-12 * std::max(1.0, std::fabs(want))
          : log == want || (std::isnan(log) && std::isnan(want));
  if (!is_same) {
    refuse_record(place + ": got " + std::to_string(log) +
                  ", the logarithm of " + std::to_string(number) + " is " +
                  std::to_string(want));
  }
}

void check_level(const std::string& place, const NoiseLevel& level,
                 double smallest) {
  check_number(place + ".alpha", level.alpha, smallest, kLargest);
  check_number(place + ".sigma", level.sigma, smallest, kLargest);
  check_logarithm(place + ".log_alpha", level.log_alpha, level.alpha);
  check_logarithm(place + ".log_sigma", level.log_sigma, level.sigma);
}

/// The calls of the whole run that `table` is of, or is a part of.
std::size_t whole_calls(const ScheduleTable& table) {
  constexpr int kMost = 1'000'000'000;
  const ScheduleOptions& o = table.options;
  const int before = table.calls_before;
  const int after = table.calls_after;
  if (before < 0 || before > (o.denoising_start ? kMost : 0) ||
      (o.solver->has_two_calls && before % 2 == 1)) {
    refuse_record("calls_before: got " + std::to_string(before));
  }
  if (after < 0 || after > (o.denoising_end ? kMost : 0)) {
    refuse_record("calls_after: got " + std::to_string(after));
  }
  return table.timesteps.size() + static_cast<std::size_t>(before) +
         static_cast<std::size_t>(after);
}

void check_calls(const ScheduleOptions& o, std::size_t calls) {
  const bool twice = o.solver->has_two_calls;
  const auto steps = static_cast<std::size_t>(o.num_inference_steps);
  const auto extra = o.solver->extra_calls;
  const std::size_t most = twice ? 2 * steps - 1
                           : extra == nullptr
                               ? steps
                               : steps + static_cast<std::size_t>(extra(o));
  // Extra calls have fixed places.
  if (calls == 0 || calls > most || (twice && calls % 2 == 0) ||
      (extra != nullptr && calls != most)) {
    refuse_record("timesteps: got " + std::to_string(calls) + " entries for " +
                  std::to_string(steps) + " steps");
  }
}

void check_table(const ScheduleTable& table) {
  const ScheduleOptions& o = table.options;
  check_options(o);
  const std::size_t calls = table.timesteps.size();
  if (calls == 0) {
    refuse_record("timesteps: there are none");
  }
  check_calls(o, whole_calls(table));
  check_size("sigmas", table.sigmas.size(), calls + 1);
  check_size("levels", table.levels.size(), calls + 1);
  check_size("arrivals", table.arrivals.size(), calls);
  check_size("residual_scales", table.residual_scales.size(), calls + 1);
  check_size("alphas_cumprod", table.alphas_cumprod.size(),
             is_flow(o) ? 0 : static_cast<std::size_t>(o.num_train_timesteps));
  check_numbers(table);
}

}  // namespace

void check_numbers(const ScheduleTable& table) {
  const ScheduleOptions& o = table.options;
  const std::size_t calls = table.timesteps.size();
  const double smallest = is_flow(o) ? -kFlowRounding : 0.0;
  for (std::size_t i = 0; i < calls; ++i) {
    check_number(entry("timesteps", i), table.timesteps[i], -1.0, kLargest);
    check_level(entry("arrivals", i), table.arrivals[i], smallest);
  }
  for (std::size_t i = 0; i <= calls; ++i) {
    check_level(entry("levels", i), table.levels[i], smallest);
    // √((1 − ᾱ)/ᾱ) without signal.
    const bool may_be_infinite = !(table.levels[i].alpha > 0.0);
    check_number(
        entry("sigmas", i), table.sigmas[i], smallest,
        may_be_infinite ? std::numeric_limits<double>::infinity() : kLargest);
    check_number(entry("residual_scales", i), table.residual_scales[i],
                 std::numeric_limits<double>::min(), kLargest);
  }
  check_number("init_noise_sigma", table.init_noise_sigma, 0.0, kLargest);
  for (std::size_t i = 0; i < table.alphas_cumprod.size(); ++i) {
    const auto alpha = static_cast<double>(table.alphas_cumprod[i]);
    if (!(alpha >= 0.0 && alpha <= 1.0)) {
      check_number(entry("alphas_cumprod", i), alpha, 0.0, 1.0);
    }
  }
}

Schedule Schedule::from_table(ScheduleTable table) {
  check_table(table);
  Schedule schedule;
  schedule.table_ = std::move(table);
  try {
    schedule.check_signs();
  } catch (const Error& error) {
    refuse_record(error.message());
  }
  return schedule;
}

}  // namespace troupe::samplers
