#include "actors/cli/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/cli/pass_times.h"
#include "actors/network_cuts.h"
#include "actors/plan.h"
#include "config/enum_names.h"
#include "kernels/core/text.h"
#include "models/description.h"

namespace troupe::actors {
namespace {

using samplers::Turn;

/// Blocks of each part, as a share of all.
std::vector<double> part_shares(const JobShape& shape) {
  const int parts = samplers::num_network_parts(shape.method);
  std::vector<double> shares;
  for (int part = 0; part < parts; ++part) {
    const int blocks =
        shape.blocks / parts + (part < shape.blocks % parts ? 1 : 0);
    shares.push_back(static_cast<double>(blocks) / shape.blocks);
  }
  return shares;
}

/// Of a method without a plan, as it was measured.
Turn measured_turn(const MeasuredCalls& calls, int workers) {
  const double busy = calls.all / workers;
  return {.evaluations = calls.all,
          .busy = busy,
          .latency = std::max(calls.rounds, busy)};
}

Turn turn_of(const JobShape& shape, int workers) {
  const samplers::MethodOptions& method = shape.method;
  return shape.measured && method.kind->plan == nullptr
             ? measured_turn(*shape.measured, workers)
             : samplers::turn_of(method, {.num_calls = shape.calls,
                                          .num_workers = workers,
                                          .part_shares = part_shares(shape)});
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
          kind->may_end_early && !shape.measured};
}

namespace {

/// For the numbers of shards that people have, and the one that was asked for.
/// Empty where passes cannot be divided.
std::vector<ShardPlan> shard_plans(const JobRequest& request) {
  const JobDevice& device = request.devices.front();
  const DeviceKind kind = device.is_gpu() ? DeviceKind::cuda : DeviceKind::cpu;
  const ModelSource& source = request.source;
  const models::DenoiserInfo info = source.info(device.compute);
  if (info.most_shards < 2) {
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
    for (const AttentionPlan plan :
         {AttentionPlan::gather, AttentionPlan::ulysses}) {
      if (plan == AttentionPlan::ulysses && !device.divides_heads()) {
        continue;
      }
      const models::ShardFigures figures = source.denoiser().shard_figures(
          source.latent_shape(), device.compute, kind, plan, shards);
      plans.push_back({.plan = config::name_of(plan),
                       .shards = shards,
                       .share = figures.slowest_share(info.flops()),
                       .exchanges = figures.exchanges,
                       .received_bytes = figures.most_received_bytes(),
                       .memory_bytes = figures.most_bytes()});
      if (plan == AttentionPlan::gather && !device.is_gpu()) {
        plans.push_back(plans.back());  // the ring exchanges the same
        plans.back().plan = "ring";
      }
    }
  }
  return plans;
}

/// Predicts from a pass without shards what was not measured. `now`: the plan
/// of the request.
void add_times(const JobRequest& request, const Pace& pace,
               const ShardPlan& now, PlanSummary& plan) {
  const auto measured = [&](const ShardPlan& one) -> std::optional<double> {
    if (!pace.group) {
      return &one == &now ? std::optional(pace.row_seconds) : std::nullopt;
    }
    if (one.shards == 1) {
      return pace.group->alone;
    }
    const bool by_heads = one.plan == config::name_of(AttentionPlan::ulysses);
    return one.shards != request.num_shards ? std::nullopt
           : by_heads                       ? pace.group->ulysses
                                            : pace.group->gather;
  };
  const double alone =
      pace.group ? pace.group->alone : pace.row_seconds / now.share;
  const std::optional<GpuLink> link = probe_link(request);
  if (link) {
    plan.link_seconds = link->latency;
    plan.link_bytes_per_second = link->bytes_per_second;
  }
  for (ShardPlan& one : plan.shard_plans) {
    double predicted = alone * one.share;
    if (link) {
      predicted +=
          one.exchanges * link->latency +
          static_cast<double>(one.received_bytes) / link->bytes_per_second;
    }
    const std::optional<double> seconds = measured(one);
    one.is_measured = seconds.has_value();
    one.row_seconds = seconds.value_or(predicted);
  }
}

}  // namespace

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
  const bool by_ring = request.job.ring_blocks.value_or(1) > 1 &&
                       request.attention_plan == AttentionPlan::gather;
  const std::string name = request.num_shards == 1 ? "alone"
                           : by_ring               ? "ring"
                                     : config::name_of(request.attention_plan);
  const auto now =
      std::ranges::find_if(plan.shard_plans, [&](const ShardPlan& one) {
        return one.shards == request.num_shards && one.plan == name;
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
  if (!plan.shard_plans.empty()) {
    add_times(request, *pace, *now, plan);
  }
  return plan;
}

}  // namespace troupe::actors
