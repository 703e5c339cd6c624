#include "samplers/step_arithmetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/copy.h"

namespace troupe::samplers {
namespace {

/// Linear interpolation between order statistics, as torch.quantile.
float quantile(std::vector<float>& values, double ratio) {
  const float rank =
      static_cast<float>(ratio) * static_cast<float>(values.size() - 1);
  const auto low = static_cast<std::size_t>(rank);
  const float weight = rank - static_cast<float>(low);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(low);
  std::nth_element(values.begin(), at, values.end());
  const float below = *at;
  if (low + 1 >= values.size()) {
    return below;
  }
  const float above = *std::min_element(at + 1, values.end());
  const float difference = above - below;
  return weight < 0.5F ? below + weight * difference
                       : above - difference * (1.0F - weight);
}

void threshold(ExecContext& ctx, const ScheduleOptions& o, Tensor& sample) {
  const Tensor host = kernels::on_host(ctx, sample);
  std::vector<float> magnitudes;
  magnitudes.reserve(static_cast<std::size_t>(host.num_elements()));
  for (const float value : host.span<float>()) {
    if (std::isnan(value)) {
      return;  // no order, no quantile; the step is found not to be finite
    }
    magnitudes.push_back(std::fabs(value));
  }
  const float limit = std::min(
      std::max(quantile(magnitudes, o.dynamic_thresholding_ratio), 1.0F),
      static_cast<float>(o.sample_max_value));
  if (std::isnan(limit)) {
    return;  // between two infinities
  }
  kernels::clamp(ctx, -static_cast<double>(limit), limit, sample);
  const kernels::Term term{1.0 / static_cast<double>(limit), &sample};
  kernels::combine(ctx, {&term, 1}, sample);
}

/// α² + σ², by whose root a mixture is divided for the network: its world is
/// variance preserving, the Euler family's is not. A flow's is taken as it is.
double power(const Schedule& schedule, const NoiseLevel& at) {
  return schedule.options().use_flow_sigmas
             ? 1.0
             : at.alpha * at.alpha + at.sigma * at.sigma;
}

}  // namespace

Tensor new_tensor(ExecContext& ctx, Memory memory, const Shape& shape) {
  return memory == Memory::lasting ? ctx.empty(shape, DType::f32)
                                   : ctx.workspace().take(shape, DType::f32);
}

Tensor StepInput::draw() const {
  if (!schedule.draws_noise(from)) {
    return {};
  }
  Tensor drawn = new_tensor(ctx, Memory::scratch, state.latents.shape());
  if (drawn.device().kind == DeviceKind::cpu) {
    noise.step(sample_index, from, drawn);
    return drawn;
  }
  Tensor host(drawn.shape(), DType::f32);
  noise.step(sample_index, from, host);
  kernels::copy(ctx, host, drawn);
  return drawn;
}

LinearForm clean_form(const Schedule& schedule, int call) {
  const NoiseLevel at = schedule.level(call);
  switch (*schedule.options().prediction_type) {
    case PredictionType::epsilon:
      return {1.0 / at.alpha, -at.sigma / at.alpha};
    case PredictionType::v_prediction:
      return {at.alpha / power(schedule, at),
              -at.sigma / std::sqrt(power(schedule, at))};
    case PredictionType::sample:
      return {0.0, 1.0};
    case PredictionType::flow_prediction:
      break;
  }
  // An inverted flow runs from σ = 0 to 1 and points at the clean sample.
  const double sigma = schedule.sigmas()[static_cast<std::size_t>(call)];
  return schedule.options().invert_sigmas ? LinearForm{1.0, 1.0 - sigma}
                                          : LinearForm{1.0, -sigma};
}

LinearForm noise_form(const Schedule& schedule, int call) {
  const NoiseLevel at = schedule.level(call);
  if (schedule.options().prediction_type == PredictionType::epsilon) {
    return {0.0, 1.0};
  }
  if (schedule.options().prediction_type == PredictionType::v_prediction) {
    return {at.sigma / power(schedule, at),
            at.alpha / std::sqrt(power(schedule, at))};
  }
  if (!(at.sigma > 0.0)) {
    return {0.0, 0.0};
  }
  const LinearForm clean = clean_form(schedule, call);
  return {(1.0 - at.alpha * clean.latents) / at.sigma,
          -at.alpha * clean.output / at.sigma};
}

LinearForm slope_form(const Schedule& schedule, int call) {
  const double sigma = schedule.level(call).sigma;
  const LinearForm clean = clean_form(schedule, call);
  return {(1.0 - clean.latents) / sigma, -clean.output / sigma};
}

Tensor weighted_sum(ExecContext& ctx, Memory memory,
                    std::initializer_list<kernels::Term> terms) {
  std::array<kernels::Term, 8> kept{};
  std::size_t count = 0;
  for (const kernels::Term& term : terms) {
    if (term.coefficient != 0.0 && !term.tensor->empty()) {
      kept.at(count++) = term;
    }
  }
  if (count == 0) {
    return kernels::on_device(
        ctx, Tensor::zeros(terms.begin()->tensor->shape(), DType::f32));
  }
  Tensor out = new_tensor(ctx, memory, kept[0].tensor->shape());
  kernels::combine(ctx, {kept.data(), count}, out);
  return out;
}

Tensor apply(ExecContext& ctx, Memory memory, const LinearForm& form,
             const Tensor& latents, const Tensor& output) {
  return weighted_sum(ctx, memory,
                      {{form.latents, &latents}, {form.output, &output}});
}

Tensor read_clean(ExecContext& ctx, Memory memory, const Schedule& schedule,
                  int call, const Tensor& latents, const Tensor& output) {
  if (!schedule.tells_sign_only(call)) {
    return apply(ctx, memory, clean_form(schedule, call), latents, output);
  }
  // (x − σ·ε)/0, the difference first: ∞·x − ∞·ε would be NaN.
  Tensor clean = weighted_sum(
      ctx, memory, {{1.0, &latents}, {-schedule.level(call).sigma, &output}});
  const kernels::Term term{std::numeric_limits<double>::infinity(), &clean};
  kernels::combine(ctx, {&term, 1}, clean);
  return clean;
}

double clean_slope(const Schedule& schedule, int call) {
  return schedule.tells_sign_only(call) ? 0.0
                                        : clean_form(schedule, call).latents;
}

SolverState summed_state(const StepInput& in,
                         std::initializer_list<kernels::Term> terms) {
  SolverState next;
  next.latents = weighted_sum(in.ctx, Memory::lasting, terms);
  return next;
}

void remember(const StepInput& in, const Tensor& output, std::size_t most,
              SolverState& next) {
  if (most == 0) {
    return;
  }
  next.history.push_back(output);
  next.history_calls.push_back(in.from);
  const std::vector<Tensor>& older = in.state.history;
  for (std::size_t i = 0; i < older.size() && next.history.size() < most; ++i) {
    next.history.push_back(older[i]);
    next.history_calls.push_back(in.state.history_calls[i]);
  }
}

void clip_clean(ExecContext& ctx, const ScheduleOptions& o, bool may_clip,
                Tensor& clean) {
  if (o.thresholding) {
    threshold(ctx, o, clean);
  } else if (may_clip && *o.clip_sample) {
    kernels::clamp(ctx, -o.clip_sample_range, o.clip_sample_range, clean);
  }
}

Tensor clean_sample(const StepInput& in, Memory memory) {
  const ScheduleOptions& options = in.schedule.options();
  Tensor clean = read_clean(in.ctx, memory, in.schedule, in.from,
                            in.state.latents, in.output);
  clip_clean(in.ctx, options, options.solver->has_key("clip_sample"), clean);
  return clean;
}

}  // namespace troupe::samplers
