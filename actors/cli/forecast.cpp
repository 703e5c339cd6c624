#include "actors/cli/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/network_cuts.h"
#include "actors/plan.h"
#include "kernels/copy.h"
#include "kernels/core/noise.h"
#include "kernels/core/pool.h"
#include "kernels/core/system.h"
#include "kernels/core/text.h"
#include "models/description.h"

namespace troupe::actors {
namespace {

using samplers::Turn;

/// The most blocks of a part, as a share of all.
double part_share(const JobShape& shape) {
  const int parts = samplers::num_network_parts(shape.method);
  const int most = (shape.blocks + parts - 1) / parts;
  return static_cast<double>(most) / shape.blocks;
}

Turn turn_of(const JobShape& shape, int workers) {
  return shape.method.kind->turn(shape.method,
                                 {.num_calls = shape.calls,
                                  .num_workers = workers,
                                  .part_share = part_share(shape)});
}

/// Samples go to whichever group is free.
double path_of(const JobShape& shape, const std::vector<Turn>& turns) {
  const auto samples = static_cast<double>(shape.samples);
  const bool equal = std::ranges::all_of(
      turns, [&](const Turn& turn) { return turn.busy == turns[0].busy; });
  double rate = 0;
  for (const Turn& turn : turns) {
    rate += 1 / turn.busy;
  }
  const double path =
      equal ? std::ceil(samples / static_cast<double>(turns.size())) *
                  turns[0].busy
            : samples / rate;
  return std::max(path, turns[0].latency);
}

/// All workers share the points of all samples.
double spread_path(const JobShape& shape, const Turn& turn) {
  const auto samples = static_cast<double>(shape.samples);
  const double shared = samples * turn.busy + shape.calls;  // Graham's bound
  return std::min(samples * turn.latency, shared);
}

/// Of one picture; 0 where there is nothing to decode.
double decode_flops(const ModelSource& source) {
  return source.decoder()
             ? source.decoder()->flops(source.latent_shape(), source.vae_tile())
             : 0;
}

/// As many of the model's blocks as are worth timing with so many rows; none
/// where a pass through one would already take many seconds.
std::unique_ptr<models::DenoiserDescription> shortened(
    const ModelSource& source, const JobDevice& device, int rows) {
  constexpr double kParameters = 25'000'000;
  const double flops_of_a_pass = device.is_gpu() ? 1e14 : 5e11;
  const models::BlockInfo block = source.info(device.compute).blocks[0];
  const double blocks = std::min(
      std::max(kParameters * static_cast<double>(size_of(device.compute)) /
                   static_cast<double>(block.parameter_bytes),
               1.0),
      flops_of_a_pass / std::max(rows * block.flops, 1.0));
  if (blocks < 1) {
    return nullptr;
  }
  return source.denoiser().with_blocks(
      static_cast<int>(std::min<double>(blocks, source.num_blocks())));
}

/// Loaded with all cores, which are free again when it returns.
std::unique_ptr<models::Denoiser> random_model(
    const models::DenoiserDescription& network, const JobDevice& device) {
  ExecContext ctx(num_usable_cores(), device.device, device.options);
  models::RandomWeights weights(ctx, 0);
  auto model = network.load(ctx, device.compute, weights);
  ctx.synchronize();
  return model;
}

/// Seconds of a forward pass: the median, without those that warm up (the
/// library makes its code, the workspace takes its size) where there is time.
double forward_seconds(const models::Denoiser& model, const Shape& shape,
                       const models::Condition& condition, ExecContext& ctx,
                       int rows) {
  constexpr std::size_t kWarmUp = 2;
  constexpr double kEnough = 0.6;
  constexpr double kTooLong = 2;
  Tensor noise(shape, DType::f32);
  fill_normal({}, noise);
  const auto count = static_cast<std::size_t>(rows);
  const std::vector<Tensor> latents(count, kernels::on_device(ctx, noise));
  std::vector<Tensor> outputs;
  outputs.reserve(count);
  for (int i = 0; i < rows; ++i) {
    outputs.push_back(
        ctx.empty(with_channels(shape, model.info().out_channels), DType::f32));
  }
  const std::vector<double> timesteps(count, 500.0);
  const models::PreparedPtr prepared = model.prepare(ctx, condition, timesteps);
  const std::vector<const models::PreparedCondition*> conditions(
      count, prepared.get());
  ShardContext whole;
  const auto timed = [&] {
    const auto start = std::chrono::steady_clock::now();
    model.predict(ctx, whole, {latents, timesteps, conditions}, outputs);
    ctx.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start)
        .count();
  };
  std::vector<double> times;
  double total = 0;
  while ((times.size() <= kWarmUp || total < kEnough) && total < kTooLong) {
    times.push_back(timed());
    total += times.back();
  }
  const auto kept =
      std::span(times).subspan(std::min(kWarmUp, times.size() - 1));
  std::ranges::nth_element(kept, kept.begin() + std::ssize(kept) / 2);
  return kept[kept.size() / 2];
}

/// How fast this machine runs the model's blocks.
struct Pace {
  double row_seconds = 0;  ///< a whole forward pass of one row, by one worker
  double flops_per_second = 0;  ///< of one worker
  std::string how;              ///< what was measured, for people
};

/// Of the workers of one of the request's devices. Times forward passes through
/// as many blocks of the model's shape (random weights) as make 25 M
/// parameters, at least one, with all workers that have cores at once (on a GPU
/// with one, and as many images as it takes at once), and scales by arithmetic
/// to the whole network. Takes a few seconds at most for networks of billions
/// of parameters. Empty when there is too little memory to do so.
std::optional<Pace> measure_pace(const JobRequest& request,
                                 const JobDevice& device, StopFlag& stop) {
  const config::Plan& plan = request.plan;
  const int cores = num_usable_cores();
  const int threads = device.is_gpu() ? 1 : plan.num_threads;
  const int workers = device.is_gpu() ? 1
                                      : std::clamp(cores / threads, 1,
                                                   std::max(device.workers, 1));
  // The two branches of a row mostly go through the network together.
  const bool pair =
      request.guidance_scale > 1 && !plan.method.kind->splits_guidance;
  const int rows = (pair ? 2 : 1) * std::max(device.rows, 1);
  const Shape& latents = request.source.latent_shape();
  const auto network = shortened(request.source, device, rows);
  if (!network) {
    return std::nullopt;
  }
  const models::NetworkMemory memory = network->memory(latents, device.compute);
  if (memory.weights_bytes +
          memory.of_rows(rows) * static_cast<std::uint64_t>(workers) >
      (device.is_gpu() ? device.available_bytes
                       : memory_info().available_bytes)) {
    return std::nullopt;
  }
  // Making the weights has a pool of its own.
  check_threads(std::max(workers * threads, 2 * cores));
  std::vector<std::unique_ptr<ExecContext>> contexts;
  contexts.reserve(static_cast<std::size_t>(workers));
  for (int w = 0; w < workers; ++w) {
    contexts.push_back(
        std::make_unique<ExecContext>(threads, device.device, device.options));
  }
  const std::stop_callback action(stop.token(), [&contexts] {
    for (const auto& ctx : contexts) {
      ctx->request_stop();
    }
  });
  const std::unique_ptr<models::Denoiser> model =
      random_model(*network, device);
  const models::Condition condition = network->any_condition();
  double seconds = 0;
  try {
    std::vector<std::future<double>> times;
    times.reserve(contexts.size());
    for (const auto& ctx : contexts) {
      times.push_back(std::async(std::launch::async, [&, context = ctx.get()] {
        use_one_openmp_thread();
        return forward_seconds(*model, latents, condition, *context, rows);
      }));
    }
    for (std::future<double>& time : times) {
      seconds += time.get() / workers;
    }
  } catch (const Error&) {
    stop.check("sample", "stopped while speed was measured");
    throw;
  }
  // Workers beyond the cores, and several on one GPU, wait for each other.
  seconds *= std::max(device.workers, 1) / static_cast<double>(workers);
  const models::DenoiserInfo timed = network->info(latents, device.compute);
  const double flops = rows * timed.flops();
  const double whole = request.source.info(device.compute).flops();
  return Pace{
      .row_seconds = seconds / flops * whole,
      .flops_per_second = flops / seconds,
      .how = fmt::format("{} through {} of {} blocks took {:.3g} s, {} {}",
                         counted(rows, "row"), timed.blocks.size(),
                         request.source.num_blocks(), seconds,
                         counted(workers, "worker"),
                         device.is_gpu() ? "on " + to_string(device.device)
                                         : std::string("at once"))};
}

/// Of the average worker: devices take samples as fast as they go.
std::optional<Pace> joint_pace(const JobRequest& request, StopFlag& stop) {
  Pace joint;
  double rows_per_second = 0;
  std::vector<std::string> how;
  std::map<int, Pace> by_class;
  for (const JobDevice& device : request.devices) {
    if (device.workers == 0) {
      continue;
    }
    auto at = by_class.find(device.execution_class);
    if (at == by_class.end()) {
      const std::optional<Pace> measured = measure_pace(request, device, stop);
      if (!measured) {
        return std::nullopt;
      }
      how.push_back(measured->how);
      at = by_class.emplace(device.execution_class, *measured).first;
    }
    const Pace& pace = at->second;
    rows_per_second += device.workers / pace.row_seconds;
    joint.flops_per_second += device.workers * pace.flops_per_second;
  }
  joint.row_seconds = request.plan.num_workers / rows_per_second;
  joint.flops_per_second /= request.plan.num_workers;
  joint.how = fmt::format("{}", fmt::join(how, "; "));
  return joint;
}

}  // namespace

Workload workload_of(const JobShape& shape) {
  if (shape.samples == 0) {
    return {};
  }
  const samplers::MethodKind kind = shape.method.kind;
  std::vector<Turn> turns;
  if (kind->spreads) {
    turns.push_back(turn_of(shape, shape.workers));
  } else {
    const std::vector<int> one_class(static_cast<std::size_t>(shape.workers));
    for (const WorkerGroup& group :
         group_workers(one_class, samplers::num_parts(shape.method))) {
      turns.push_back(turn_of(shape, static_cast<int>(group.workers.size())));
    }
  }
  return {static_cast<double>(shape.samples) * turns[0].evaluations,
          kind->spreads ? spread_path(shape, turns[0]) : path_of(shape, turns),
          kind->may_end_early};
}

PlanSummary forecast(const JobRequest& request, std::uint64_t samples,
                     bool decodes, StopFlag& stop) {
  const int calls = request.schedule.num_model_calls();
  const int workers = request.plan.num_workers;
  const Workload work = workload_of({.samples = samples,
                                     .calls = calls,
                                     .workers = workers,
                                     .blocks = request.source.num_blocks(),
                                     .method = request.plan.method});
  const int branches = request.guidance_scale > 1 ? 2 : 1;
  PlanSummary plan;
  plan.images = samples;
  plan.forward_rows = work.evaluations * branches;
  plan.sequential_rows = static_cast<double>(samples) * calls * branches;
  plan.flops = plan.forward_rows *
               request.source.info(request.devices.front().compute).flops();
  plan.prediction = work.is_bound ? "at most" : "about";
  const samplers::MethodOptions& method = request.plan.method;
  const models::DenoiserInfo info =
      request.source.info(request.devices.front().compute);
  plan.crossing_bytes =
      static_cast<std::uint64_t>(branches) *
      bytes_of_cuts(info, balanced_cuts(info, method), method.cut).crossing;
  const std::optional<Pace> pace = joint_pace(request, stop);
  if (!pace) {
    plan.measured = "too large to measure here";
    return plan;
  }
  const double pictures =
      decodes ? std::ceil(static_cast<double>(samples) / std::max(workers, 1))
              : 0;
  plan.predicted_seconds =
      work.path * branches * pace->row_seconds +
      pictures * decode_flops(request.source) / pace->flops_per_second;
  plan.measured = pace->how;
  return plan;
}

}  // namespace troupe::actors
