#include "tests/parallel/support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace troupe::samplers::testing {
namespace {

std::uint64_t mixed(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

void fill(std::uint64_t key, Tensor& out) {
  std::uint64_t element = 0;
  for (float& value : out.span<float>()) {
    double sum = 0;  // of 12 uniforms: mean 6, variance 1
    for (int i = 0; i < 12; ++i) {
      sum +=
          static_cast<double>(mixed(key ^ mixed(element++)) >> 11U) * 0x1p-53;
    }
    value = static_cast<float>(sum - 6);
  }
}

float soft(float x) { return x / (1 + std::fabs(x)); }

/// a + factor · b.
Tensor sum(const Tensor& a, float factor, const Tensor& b) {
  Tensor out = a.clone();
  for (std::size_t i = 0; i < out.span<float>().size(); ++i) {
    out.span<float>()[i] += factor * b.span<float>()[i];
  }
  return out;
}

double squares(const Tensor& x) {
  double all = 0;
  for (const float value : x.span<float>()) {
    all += static_cast<double>(value) * static_cast<double>(value);
  }
  return all;
}

}  // namespace

ToyEvaluator::ToyEvaluator(Shape shape, int num_segments, bool learns_variance)
    : shape_(shape),
      num_segments_(num_segments),
      learns_variance_(learns_variance) {}

Tensor ToyEvaluator::layer(int segment, std::uint64_t sample_index,
                           Branch branch, double timestep,
                           const Tensor& hidden) const {
  const auto found = strength.find(sample_index);
  const float gain = found == strength.end() ? 1.0F : found->second;
  const float time = static_cast<float>(timestep) * 1e-3F;
  const float condition = static_cast<float>(sample_index % 7) * 0.1F +
                          (branch == Branch::uncond ? 0.3F : 0.0F);
  const auto x = hidden.span<float>();
  Tensor out(hidden.shape(), DType::f32);
  const auto y = out.span<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float next = x[(i + 1) % x.size()];
    const float mix = 0.7F * x[i] - 0.4F * next + condition + 0.2F * time;
    y[i] = 0.5F * x[i] + gain * soft(mix * (1 + static_cast<float>(segment)));
  }
  return out;
}

Tensor ToyEvaluator::forward(const EvaluateRow& row, Branch branch) const {
  Tensor hidden = row.latents;
  std::vector<Tensor> skips;
  for (int segment = 0; segment < num_segments_; ++segment) {
    if (2 * segment >= num_segments_ && !skips.empty()) {
      hidden = with_skip(hidden, skips.back());
      skips.pop_back();
    }
    hidden = layer(segment, row.sample_index, branch, row.timestep, hidden);
    if (2 * segment + 2 < num_segments_) {
      skips.push_back(hidden);
    }
  }
  return output_of(hidden);
}

Tensor ToyEvaluator::with_skip(const Tensor& hidden, const Tensor& skip) const {
  Tensor sum = hidden.clone();
  if (skip_weight != 0) {
    for (std::size_t i = 0; i < sum.span<float>().size(); ++i) {
      sum.span<float>()[i] += skip_weight * skip.span<float>()[i];
    }
  }
  return sum;
}

Tensor ToyEvaluator::output_of(const Tensor& hidden) const {
  if (!learns_variance_) {
    return hidden;
  }
  Tensor out(Shape{2 * shape_[0], shape_[1], shape_[2]}, DType::f32);
  const auto x = hidden.span<float>();
  const auto y = out.span<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = x[i];
    y[x.size() + i] = soft(x[i] - 0.6F * x[(i + 2) % x.size()]);
  }
  return out;
}

void ToyEvaluator::combine(ExecContext& /*ctx*/, double /*timestep*/,
                           const Tensor& cond, const Tensor& uncond,
                           Tensor& out) {
  const auto c = cond.span<float>();
  const auto u = uncond.span<float>();
  const auto o = out.span<float>();
  const auto guided = static_cast<std::size_t>(shape_.num_elements());
  for (std::size_t i = 0; i < o.size(); ++i) {
    o[i] = i < guided ? u[i] + 1.5F * (c[i] - u[i]) : c[i];
  }
}

void ToyEvaluator::note(const EvaluateRow& row) {
  ++rows_;
  const auto bytes = row.latents.bytes();
  std::string key = std::to_string(row.sample_index);
  key.append("/").append(std::to_string(row.timestep)).append("/");
  key.append(std::to_string(static_cast<int>(row.branch))).append("/");
  key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ++seen_[key];
}

void ToyEvaluator::evaluate_cached(ExecContext& ctx,
                                   std::span<CachedRow> rows) {
  ++forwards_;
  for (CachedRow& row : rows) {
    note(row);
    std::vector<Branch> branches = {row.branch};
    if (row.branch == Branch::guided) {
      branches = {Branch::cond, Branch::uncond};
    }
    std::vector<Tensor> hidden;
    Boundary cache;
    double difference = 0;
    double norm = 0;
    for (const Branch branch : branches) {
      hidden.push_back(
          layer(0, row.sample_index, branch, row.timestep, row.latents));
      cache.push_back({"first", sum(hidden.back(), -1, row.latents)});
      if (!row.cache.empty()) {
        const Tensor& before = row.cache.at(cache.size() - 1).tensor;
        difference += squares(sum(cache.back().tensor, -1, before));
        norm += squares(before);
      }
    }
    row.is_reused = std::sqrt(difference) < row.threshold * std::sqrt(norm);
    std::vector<Tensor> outputs;
    for (std::size_t b = 0; b < branches.size(); ++b) {
      Tensor last = hidden[b];
      if (row.is_reused) {
        last = sum(last, 1, row.cache.at(branches.size() + b).tensor);
      } else {
        for (int segment = 1; segment < num_segments_; ++segment) {
          last =
              layer(segment, row.sample_index, branches[b], row.timestep, last);
        }
        cache.push_back({"rest", sum(last, -1, hidden[b])});
      }
      outputs.push_back(output_of(last));
    }
    if (!row.is_reused) {
      row.cache = std::move(cache);
    }
    if (outputs.size() > 1) {
      combine(ctx, row.timestep, outputs[0], outputs[1], row.output);
    } else {
      std::copy_n(outputs[0].bytes().data(), outputs[0].num_bytes(),
                  row.output.bytes().data());
    }
  }
}

void ToyEvaluator::evaluate(ExecContext& ctx, std::span<EvaluateRow> rows) {
  ++forwards_;
  for (EvaluateRow& row : rows) {
    note(row);
    Tensor out;
    if (row.branch == Branch::guided) {
      out = Tensor(row.output.shape(), DType::f32);
      combine(ctx, row.timestep, forward(row, Branch::cond),
              forward(row, Branch::uncond), out);
    } else {
      out = forward(row, row.branch);
    }
    std::copy_n(out.bytes().data(), out.num_bytes(), row.output.bytes().data());
  }
}

int ToyEvaluator::largest_repeat() const {
  int largest = 0;
  for (const auto& [key, count] : seen_) {
    largest = std::max(largest, count);
  }
  return largest;
}

void ToyEvaluator::run_segment(ExecContext& ctx, int segment,
                               std::span<SegmentRow> rows) {
  ++forwards_;
  for (SegmentRow& row : rows) {
    ++segment_rows_;
    if (segment == 0) {
      row.boundary = {{"cond", row.latents.clone()},
                      {"uncond", row.latents.clone()}};
    }
    const Branch branches[] = {Branch::cond, Branch::uncond};
    for (std::size_t i = 0; i < 2; ++i) {
      // In place, as real models do.
      Tensor& hidden = row.boundary[i].tensor;
      const Tensor input =
          row.skips.empty() ? hidden : with_skip(hidden, row.skips[i].tensor);
      const Tensor next =
          layer(segment, row.sample_index, branches[i], row.timestep, input);
      std::copy_n(next.bytes().data(), next.num_bytes(), hidden.bytes().data());
    }
    row.skips = row.keeps_skips ? row.boundary : Boundary();
    if (segment + 1 == num_segments_) {
      combine(ctx, row.timestep, output_of(row.boundary[0].tensor),
              output_of(row.boundary[1].tensor), row.output);
    }
  }
}

void ToyEvaluator::decode(ExecContext& /*ctx*/, const Tensor& latents,
                          Tensor& pixels) {
  pixels = latents.clone();
}

void ToyNoise::initial(std::uint64_t sample_index, Tensor& out) {
  fill(mixed(seed_ ^ mixed(2 * sample_index)), out);
}

void ToyNoise::step(std::uint64_t sample_index, int call, Tensor& out) {
  fill(mixed(mixed(seed_ ^ mixed(2 * sample_index + 1)) +
             static_cast<std::uint64_t>(call)),
       out);
}

double ToyNoise::uniform(std::uint64_t sample_index, int call) {
  const std::uint64_t bits = mixed(mixed(~seed_ ^ mixed(2 * sample_index + 1)) +
                                   static_cast<std::uint64_t>(call)) >>
                             12U;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

void ToyNoise::guess(std::uint64_t sample_index, int point, Tensor& out) {
  if (trajectory.empty()) {
    ToyNoise(~seed_).step(sample_index, point, out);
  } else {
    out = trajectory.at(static_cast<std::size_t>(point)).clone();
  }
}

std::map<int, Tensor> points_of(Bench& bench, Evaluator& network,
                                const MethodOptions& options) {
  TaskRunner runner(bench.schedule, network, bench.noise, options);
  const auto method = make_method(options, bench.schedule);
  SlotTable slots;
  slots.put(kInitialSlot, bench.start(0));
  std::map<int, Tensor> points;
  while (!method->done()) {
    std::vector<BoundTask> tasks;
    for (Task& task : method->ready(kNothingAhead)) {
      tasks.push_back({0, std::move(task), &slots});
    }
    const auto results = run_tasks(runner, bench.ctx, tasks);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Task& task = tasks[i].task;
      if (task.op == Op::step) {
        points[task.to] =
            std::get<SolverState>(slots.get(task.outputs.front())).latents;
      }
      EXPECT_TRUE(method->apply(results[i]));
    }
  }
  return points;
}

ScheduleOptions steps(int num_inference_steps, Solver solver) {
  ScheduleOptions options;
  options.solver = solver;
  options.num_inference_steps = num_inference_steps;
  options.clip_sample = false;
  if (solver == Solver::flow_euler) {
    options.prediction_type = PredictionType::flow_prediction;
  }
  return options;
}

ScheduleOptions steps_for(const MethodOptions& options,
                          int num_inference_steps) {
  ScheduleOptions made = steps(num_inference_steps);
  made.eta = options.kind == MethodKind::speculative ? 1.0 : 0.0;
  return made;
}

bool predicts_noise(const ScheduleOptions& options) {
  return options.solver == Solver::dpmpp &&
         (options.algorithm == DpmAlgorithm::dpmsolver ||
          options.algorithm == DpmAlgorithm::sde_dpmsolver);
}

SolverState Bench::start(std::uint64_t sample_index) {
  Tensor unit(evaluator.latent_shape(), DType::f32);
  noise.initial(sample_index, unit);
  return initial_state(ctx, schedule, unit);
}

SolverState Bench::run(const MethodOptions& options,
                       std::uint64_t sample_index) {
  const auto method = make_method(options, schedule);
  return run(*method, options, sample_index);
}

SolverState Bench::run(Method& method, const MethodOptions& options,
                       std::uint64_t sample_index) {
  TaskRunner runner(schedule, evaluator, noise, options);
  return run_local(method, runner, ctx, sample_index, start(sample_index));
}

MethodOptions picard(int window, double tolerance, InitialGuess guess) {
  return {.kind = MethodKind::picard,
          .window_size = window,
          .tolerance = tolerance,
          .initial_guess = guess};
}

std::vector<MethodOptions> method_cases() {
  return {
      {.kind = MethodKind::sequential},
      {.kind = MethodKind::batch},
      {.kind = MethodKind::sequential.with(Modifier::cache),
       .cache_threshold = 0.2},
      {.kind = MethodKind::cfg},
      {.kind = MethodKind::pipeline, .num_segments = 3},
      {.kind = MethodKind::pipeline, .cut = CutShape::onion},
      picard(4),
      picard(5, 0.05, InitialGuess::constant_x0),
      picard(3, 0.05, InitialGuess::trajectory),
      {.kind = MethodKind::picard,
       .window_size = 6,
       .tolerance = 0.02,
       .carry = Carry::deviation,
       .initial_guess = InitialGuess::linear_x0,
       .accept = Accept::settled},
      {.kind = MethodKind::picard.with(Modifier::cache),
       .window_size = 5,
       .cache_threshold = 0.3},
      {.kind = MethodKind::picard.with(Modifier::cache),
       .window_size = 4,
       .tolerance = 0.05,
       .carry = Carry::deviation,
       .initial_guess = InitialGuess::linear_x0,
       .accept = Accept::settled,
       .cache_threshold = 0.3},
      {.kind = MethodKind::taa, .window_size = 4},
      {.kind = MethodKind::taa,
       .window_size = 6,
       .tolerance = 0.02,
       .carry = Carry::deviation,
       .initial_guess = InitialGuess::linear_x0,
       .accept = Accept::settled,
       .memory = 3},
      {.kind = MethodKind::taa,
       .window_size = 3,
       .initial_guess = InitialGuess::trajectory},
      {.kind = MethodKind::speculative, .window_size = 4},
      {.kind = MethodKind::stale, .num_segments = 3},
      {.kind = MethodKind::stale, .cut = CutShape::onion},
      {.kind = MethodKind::stale,
       .num_segments = 3,
       .stale_at = StaleAt::latents,
       .final_fresh_steps = 1},
      {.kind = MethodKind::stale,
       .cut = CutShape::onion,
       .stale_at = StaleAt::latents},
      {.kind = MethodKind::stale,
       .num_segments = 3,
       .stride = 2,
       .warmup_steps = 2,
       .final_fresh_steps = 1},
      {.kind = MethodKind::draft, .window_size = 3},
      {.kind = MethodKind::draft, .window_size = 3, .anchor = Anchor::fresh},
      {.kind = MethodKind::draft.with(Modifier::cache),
       .window_size = 3,
       .cache_threshold = 0.3},
      {.kind = MethodKind::draft.with(Modifier::cache),
       .window_size = 4,
       .anchor = Anchor::fresh,
       .cache_threshold = 0.3},
      {.kind = MethodKind::chords, .window_size = 3},
      {.kind = MethodKind::chords, .window_size = 3, .num_outputs = 2},
      {.kind = MethodKind::chords,
       .window_size = 4,
       .num_outputs = 3,
       .has_early_results = true},
      {.kind = MethodKind::parareal, .window_size = 3},
      {.kind = MethodKind::parareal, .window_size = 3, .iterations = 2},
      {.kind = MethodKind::parareal, .window_size = 2, .iterations = 2},
      {.kind = MethodKind::parareal,
       .window_size = 4,
       .iterations = 3,
       .has_early_results = true}};
}

bool can_carry(const MethodOptions& options, const Schedule& schedule) {
  try {
    (void)make_method(options, schedule);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unsupported) << error.what();
    return false;
  }
}

double rmse(const Tensor& a, const Tensor& b) {
  double sum = 0;
  const auto x = a.span<float>();
  const auto y = b.span<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    sum += d * d;
  }
  return std::sqrt(sum / static_cast<double>(x.size()));
}

}  // namespace troupe::samplers::testing
