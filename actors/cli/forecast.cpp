#include "actors/cli/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/network_cuts.h"
#include "actors/plan.h"
#include "actors/thread_team.h"
#include "kernels/copy.h"
#include "kernels/core/noise.h"
#include "kernels/core/pool.h"
#include "kernels/core/system/machine.h"
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
             ? source.decoder()
                   ->costs(source.latent_shape(), DType::f32, source.vae_tile())
                   .flops
             : 0;
}

/// What is timed in place of a whole pass of the model.
struct TimedPass {
  std::unique_ptr<models::DenoiserDescription> network;
  Shape latents;
};

double block_flops(const models::DenoiserInfo& info) {
  double flops = 0;
  for (const models::BlockInfo& block : info.blocks) {
    flops += block.flops;
  }
  return flops;
}

/// As many of the model's blocks as are worth timing with so many rows. Where
/// that would still take many seconds: a smaller picture, if the network takes
/// one and so many shards can divide it.
std::optional<TimedPass> shortened(const ModelSource& source,
                                   const JobDevice& device, int rows,
                                   int shards) {
  constexpr double kParameters = 25'000'000;
  const double flops_of_a_pass = device.is_gpu() ? 1e14 : 5e11;
  const models::DenoiserInfo whole = source.info(device.compute);
  const auto count = static_cast<double>(whole.blocks.size());
  double bytes = 0;
  for (const models::BlockInfo& block : whole.blocks) {
    bytes += static_cast<double>(block.parameter_bytes);
  }
  const double worthwhile = kParameters *
                            static_cast<double>(size_of(device.compute)) /
                            std::max(bytes / count, 1.0);
  const double affordable =
      flops_of_a_pass / std::max(rows * block_flops(whole) / count, 1.0);
  const double blocks =
      std::clamp(std::min(worthwhile, affordable), 1.0, count);
  TimedPass pass{source.denoiser().with_blocks(static_cast<int>(blocks)),
                 source.latent_shape()};
  while (rows * block_flops(pass.network->info(pass.latents, device.compute)) >
         flops_of_a_pass) {
    const auto now = models::LatentGeometry::of(pass.latents);
    const Shape smaller = pass.network->nearest_latents(
        now.with_sides(now.height / 2, now.width / 2).shape());
    if (smaller.num_elements() >= pass.latents.num_elements() ||
        pass.network->info(smaller, device.compute).most_shards < shards) {
      return std::nullopt;
    }
    pass.latents = smaller;
  }
  return pass;
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
  const auto timed = [&] {
    const auto start = std::chrono::steady_clock::now();
    with_ranks(ctx, [&](ExecContext& on, ShardContext& shard) {
      model.predict(on, shard, {latents, timesteps, conditions}, outputs);
    });
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

struct TimedWorkers {
  int count = 1;
  int threads = 1;  ///< of each shard
  int shards = 1;   ///< of each
  int rows = 1;     ///< of each
  AttentionPlan plan = AttentionPlan::gather;
};

/// Seconds of a pass with random weights by each of so many workers at once.
/// Errors: Errc::interrupted, when asked to stop.
double worker_seconds(const TimedPass& pass, const JobDevice& device,
                      const TimedWorkers& workers, StopFlag& stop) {
  // Making the weights has a pool of its own.
  check_threads(std::max(2 * workers.count * workers.threads * workers.shards,
                         2 * num_usable_cores()));
  std::vector<std::unique_ptr<ExecContext>> contexts;
  for (int w = 0; w < workers.count; ++w) {
    contexts.push_back(std::make_unique<ExecContext>(
        workers.threads * workers.shards, device.device, device.options));
    if (workers.shards > 1) {
      contexts.back()->set_team(std::make_shared<ThreadTeam>(
          *contexts.back(), workers.shards, workers.plan));
    }
  }
  const std::stop_callback action(stop.token(), [&contexts] {
    for (const auto& ctx : contexts) {
      ctx->request_stop();
    }
  });
  const std::unique_ptr<models::Denoiser> model =
      random_model(*pass.network, device);
  const models::Condition condition = pass.network->any_condition({});
  try {
    std::vector<std::future<double>> times;
    times.reserve(contexts.size());
    for (const auto& ctx : contexts) {
      times.push_back(std::async(std::launch::async, [&, context = ctx.get()] {
        use_one_openmp_thread();
        return forward_seconds(*model, pass.latents, condition, *context,
                               workers.rows);
      }));
    }
    double seconds = 0;
    for (std::future<double>& time : times) {
      seconds += time.get() / workers.count;
    }
    return seconds;
  } catch (const Error&) {
    stop.check("sample", "stopped while speed was measured");
    throw;
  }
}

/// Of the workers of one of the request's devices. Times forward passes through
/// some of the model's blocks (`shortened`, random weights) with all workers
/// that have cores at once (on a GPU with one, and as many images as it takes
/// at once), and scales by arithmetic to the whole network. Takes some seconds
/// for networks of billions of parameters. Empty when there is too little
/// memory to do so.
std::optional<Pace> measure_pace(const JobRequest& request,
                                 const JobDevice& device, StopFlag& stop) {
  const int cores = num_usable_cores();
  const int threads = device.is_gpu() ? 1 : request.num_threads;
  const int shards = device.is_gpu() ? 1 : request.num_shards;
  const int workers = device.is_gpu()
                          ? 1
                          : std::clamp(cores / (threads * shards), 1,
                                       std::max(device.workers, 1));
  // The two branches of a row mostly go through the network together.
  const bool pair =
      request.job.guidance.is_on() && !request.job.method.kind->splits_guidance;
  const int rows = (pair ? 2 : 1) * std::max(device.rows, 1);
  const std::optional<TimedPass> pass =
      shortened(request.source, device, rows, shards);
  if (!pass) {
    return std::nullopt;
  }
  const models::DenoiserDescription& network = *pass->network;
  const Shape& latents = pass->latents;
  const models::NetworkMemory memory = network.memory(latents, device.compute);
  if (memory.weights_bytes +
          memory.of_rows(rows) * static_cast<std::uint64_t>(workers) >
      (device.is_gpu() ? device.available_bytes
                       : memory_info().available_bytes)) {
    return std::nullopt;
  }
  double seconds = worker_seconds(
      *pass, device, {workers, threads, shards, rows, request.attention_plan},
      stop);
  // Workers beyond the cores, and several on one GPU, wait for each other.
  seconds *= std::max(device.workers, 1) / static_cast<double>(workers);
  const models::DenoiserInfo timed = network.info(latents, device.compute);
  const double flops = rows * timed.flops();
  const double whole = request.source.info(device.compute).flops();
  // Of a group one GPU is timed. Exchanges are left out.
  const std::size_t gpus = device.others.size() + 1;
  const double share =
      gpus == 1
          ? 1
          : request.source.denoiser()
                .shard_figures(request.source.latent_shape(), device.compute,
                               DeviceKind::cuda, request.attention_plan,
                               static_cast<int>(gpus))
                .slowest_share(whole);
  return Pace{
      .row_seconds = seconds / flops * whole * share,
      .flops_per_second = flops / seconds,
      .how = fmt::format("{} through {} of {} blocks took {:.3g} s{}, {} {}{}",
                         counted(rows, "row"), timed.blocks.size(),
                         request.source.num_blocks(), seconds,
                         latents == request.source.latent_shape()
                             ? std::string()
                             : " with latents " + to_string(latents),
                         counted(workers, "worker"),
                         device.is_gpu() ? "on " + to_string(device.device)
                                         : std::string("at once"),
                         gpus > 1 ? fmt::format(" of {} that share a pass",
                                                counted(gpus, "GPU"))
                                  : "")};
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
  joint.row_seconds = request.num_workers() / rows_per_second;
  joint.flops_per_second /= request.num_workers();
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

/// Rows of the network for one call, in the mean over a run.
double rows_per_call(const JobRequest& request) {
  const samplers::Guidance& guidance = request.job.guidance;
  const samplers::MethodOptions& method = request.job.method;
  if (!guidance.is_on()) {
    return 1;
  }
  if (!guidance.interval || method.kind->splits_guidance ||
      samplers::num_segments(method) > 1) {
    return 2;  // both branches, also where one of them is left out afterwards
  }
  return 1 + static_cast<double>(request.job.num_guided_calls()) /
                 request.schedule.num_model_calls();
}

/// For the numbers of shards that people have, and the one that was asked for.
/// Empty where passes cannot be divided.
std::vector<ShardPlan> shard_plans(const JobRequest& request) {
  const JobDevice& device = request.devices.front();
  const DeviceKind kind = device.is_gpu() ? DeviceKind::cuda : DeviceKind::cpu;
  const ModelSource& source = request.source;
  const models::DenoiserInfo info = source.info(device.compute);
  const bool is_refused =
      device.is_gpu() &&
      (!info.shards_on_gpus ||
       (device.compute == DType::f32 && device.options.batch_invariant));
  if (info.most_shards < 2 || is_refused) {
    return {};
  }
  std::set<int> wanted = {2, 4, 8, request.num_shards};
  std::vector<ShardPlan> plans = {
      {.plan = "alone",
       .memory_bytes = source.denoiser()
                           .memory(source.latent_shape(), device.compute, kind)
                           .pass_bytes}};
  for (const int shards : wanted) {
    if (shards < 2 || shards > info.most_shards) {
      continue;
    }
    for (const auto& [name, plan] : {
             std::pair{"gather", AttentionPlan::gather},
             std::pair{"ulysses", AttentionPlan::ulysses},
         }) {
      if (device.is_gpu() && plan != AttentionPlan::gather) {
        continue;  // GPUs do not divide heads yet
      }
      const models::ShardFigures figures = source.denoiser().shard_figures(
          source.latent_shape(), device.compute, kind, plan, shards);
      plans.push_back({.plan = name,
                       .shards = shards,
                       .share = figures.slowest_share(info.flops()),
                       .exchanges = figures.exchanges,
                       .received_bytes = figures.most_received_bytes(),
                       .memory_bytes = figures.most_bytes()});
    }
  }
  return plans;
}

PlanSummary forecast(const JobRequest& request, std::uint64_t samples,
                     bool decodes, StopFlag& stop) {
  const int calls = request.schedule.num_model_calls();
  const int workers = request.num_workers();
  const Workload work = workload_of({.samples = samples,
                                     .calls = calls,
                                     .workers = workers,
                                     .blocks = request.source.num_blocks(),
                                     .method = request.job.method});
  const double branches = rows_per_call(request);
  PlanSummary plan;
  plan.images = samples;
  plan.forward_rows = work.evaluations * branches;
  plan.sequential_rows = static_cast<double>(samples) * calls * branches;
  plan.flops = plan.forward_rows *
               request.source.info(request.devices.front().compute).flops();
  plan.prediction = work.is_bound ? "at most" : "about";
  const samplers::MethodOptions& method = request.job.method;
  const models::DenoiserInfo info =
      request.source.info(request.devices.front().compute);
  plan.crossing_bytes =
      (request.job.guidance.is_on() ? 2U : 1U) *
      bytes_of_cuts(info, request.job.cuts, method.cut).crossing;
  plan.shard_plans = shard_plans(request);
  const bool by_heads = request.attention_plan == AttentionPlan::ulysses;
  const auto now =
      std::ranges::find_if(plan.shard_plans, [&](const ShardPlan& one) {
        return one.shards == request.num_shards &&
               (one.shards == 1 || by_heads == (one.plan == "ulysses"));
      });
  if (request.only_directs) {
    plan.measured = "other processes compute";
    return plan;
  }
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
  for (ShardPlan& one : plan.shard_plans) {
    one.row_seconds = pace->row_seconds * one.share / now->share;
  }
  return plan;
}

}  // namespace troupe::actors
