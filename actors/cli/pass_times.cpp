#include "actors/cli/pass_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "actors/device_team.h"
#include "actors/thread_team.h"
#include "kernels/copy.h"
#include "kernels/core/noise.h"
#include "kernels/core/pool.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"
#include "models/description.h"

namespace troupe::actors {
namespace {

using SteadyTime = std::chrono::steady_clock;

/// Of all rows that are timed.
constexpr double kTimestep = 500;

double seconds_from(SteadyTime::time_point begin) {
  return std::chrono::duration<double>(SteadyTime::now() - begin).count();
}

double median(std::span<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
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

/// A network on a device, and a condition that is prepared there.
struct OnDevice {
  std::unique_ptr<models::Denoiser> model;
  models::PreparedPtr prepared;
};

/// The network of each device that computes a pass, by the device's index.
using Networks = std::map<int, OnDevice>;

/// With random weights.
OnDevice random_network(const models::DenoiserDescription& network,
                        const JobDevice& device) {
  // Loaded with all cores, which are free again when it returns.
  ExecContext ctx(num_usable_cores(), device.device, device.options);
  models::RandomWeights weights(ctx, 0);
  OnDevice here{.model = network.load(ctx, device.compute, weights),
                .prepared = {}};
  here.prepared = here.model->prepare(ctx, network.any_condition({}),
                                      std::array{kTimestep});
  ctx.synchronize();
  return here;
}

/// Seconds of a forward pass by ctx and its team: the median, without those
/// that warm up (the library makes its code, the workspace takes its size)
/// where there is time.
double forward_seconds(const Networks& networks, const Shape& shape,
                       ExecContext& ctx, int rows,
                       std::int64_t ring_blocks = 1) {
  constexpr std::size_t kWarmUp = 2;
  constexpr double kEnough = 0.6;
  constexpr double kTooLong = 2;
  Tensor noise(shape, DType::f32);
  fill_normal({}, noise);
  const auto count = static_cast<std::size_t>(rows);
  const std::vector<Tensor> latents(count, kernels::on_device(ctx, noise));
  const auto of = [&networks](const ExecContext& on) -> const OnDevice& {
    return networks.at(on.device().index);
  };
  const Shape output = with_channels(shape, of(ctx).model->info().out_channels);
  std::vector<Tensor> outputs;
  for (int i = 0; i < rows; ++i) {
    outputs.push_back(ctx.empty(output, DType::f32));
  }
  const std::vector<double> timesteps(count, kTimestep);
  const auto timed = [&] {
    const SteadyTime::time_point start = SteadyTime::now();
    with_ranks(ctx, [&](ExecContext& on, ShardContext& shard) {
      const std::vector<const models::PreparedCondition*> conditions(
          count, of(on).prepared.get());
      of(on).model->predict(on, shard,
                            {latents, timesteps, conditions, {}, ring_blocks},
                            outputs);
    });
    ctx.synchronize();
    return seconds_from(start);
  };
  std::vector<double> times;
  double total = 0;
  while ((times.size() <= kWarmUp || total < kEnough) && total < kTooLong) {
    times.push_back(timed());
    total += times.back();
  }
  return median(std::span(times).subspan(std::min(kWarmUp, times.size() - 1)));
}

/// Stops what these contexts compute when the program is asked to stop.
/// Errors: Errc::interrupted, when that happened.
double stoppable(std::span<const std::unique_ptr<ExecContext>> contexts,
                 StopFlag& stop, const std::function<double()>& fn) {
  const std::stop_callback action(stop.token(), [contexts] {
    for (const auto& ctx : contexts) {
      ctx->request_stop();
    }
  });
  try {
    return fn();
  } catch (const Error&) {
    stop.check("sample", "stopped while speed was measured");
    throw;
  }
}

struct TimedWorkers {
  int count = 1;
  int threads = 1;  ///< of each shard
  int shards = 1;   ///< of each
  int rows = 1;     ///< of each
  AttentionPlan plan = AttentionPlan::gather;
  std::int64_t ring_blocks = 1;
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
  return stoppable(contexts, stop, [&] {
    Networks networks;
    networks[device.device.index] = random_network(*pass.network, device);
    std::vector<std::future<double>> times;
    times.reserve(contexts.size());
    for (const auto& ctx : contexts) {
      times.push_back(std::async(std::launch::async, [&, context = ctx.get()] {
        use_one_openmp_thread();
        return forward_seconds(networks, pass.latents, *context, workers.rows,
                               workers.ring_blocks);
      }));
    }
    double seconds = 0;
    for (std::future<double>& time : times) {
      seconds += time.get() / workers.count;
    }
    return seconds;
  });
}

/// Whether the weights and so many rows fit beside what is in use.
bool fits(const TimedPass& pass, const JobDevice& device, int rows) {
  const models::NetworkMemory memory =
      pass.network->memory(pass.latents, device.compute);
  return memory.weights_bytes +
             memory.of_rows(static_cast<std::uint64_t>(rows)) <=
         (device.is_gpu() ? device.available_bytes
                          : memory_info().available_bytes);
}

/// "2 rows through 3 of 28 blocks".
std::string what_is_timed(const TimedPass& pass, const JobRequest& request,
                          const JobDevice& device, int rows) {
  return fmt::format(
      "{} through {} of {} blocks{}",
      counted(static_cast<std::uint64_t>(rows), "row"),
      pass.network->info(pass.latents, device.compute).blocks.size(),
      request.source.num_blocks(),
      pass.latents == request.source.latent_shape()
          ? std::string()
          : " with latents " + to_string(pass.latents));
}

/// Of the GPUs of `lead` and `lead.others`. Empty when there is too little
/// memory to measure. Errors: Errc::interrupted, when asked to stop;
/// Errc::unsupported if they can divide the network by no plan;
/// Errc::device_full.
std::optional<GroupTimes> group_times(const JobRequest& request,
                                      const JobDevice& lead, StopFlag& stop) {
  const int shards = static_cast<int>(lead.others.size()) + 1;
  const std::optional<TimedPass> pass =
      shortened(request.source, lead, 1, shards);
  if (!pass || !fits(*pass, lead, 2)) {  // one row, and what ranks exchange
    return std::nullopt;
  }
  const double flops = pass->network->info(pass->latents, lead.compute).flops();
  const double scale = request.source.info(lead.compute).flops() / flops;
  std::vector<std::unique_ptr<ExecContext>> contexts;
  ExecContext& ctx = *contexts.emplace_back(
      std::make_unique<ExecContext>(1, lead.device, lead.options));
  GroupTimes times;
  std::exception_ptr refusal;
  Networks networks;
  const auto seconds = [&] {
    return scale * stoppable(contexts, stop, [&] {
             return forward_seconds(networks, pass->latents, ctx, 1);
           });
  };
  const auto divided = [&](AttentionPlan plan) -> std::optional<double> {
    ctx.set_team(nullptr);  // two teams would watch one queue
    try {
      ctx.set_team(std::make_shared<DeviceTeam>(ctx, lead.others, lead.options,
                                                plan, request.exchange));
      return seconds();
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) {
        throw;
      }
      refusal = std::current_exception();
      return std::nullopt;
    }
  };
  networks[lead.device.index] = random_network(*pass->network, lead);
  times.alone = seconds();
  JobDevice other = lead;
  for (const Device& device : lead.others) {
    other.device = device;
    if (!networks.contains(device.index)) {
      networks[device.index] = random_network(*pass->network, other);
    }
  }
  times.gather = divided(AttentionPlan::gather);
  if (lead.divides_heads()) {
    times.ulysses = divided(AttentionPlan::ulysses);
  }
  ctx.set_team(nullptr);
  if (!times.gather && !times.ulysses) {
    std::rethrow_exception(refusal);
  }
  times.how =
      fmt::format("{} took {:.3g} s on {}, {:.3g} s on {} GPUs",
                  what_is_timed(*pass, request, lead, 1), times.alone / scale,
                  to_string(lead.device), times.best() / scale, shards);
  return times;
}

/// As group_times. Empty also where memory ran out.
std::optional<GroupTimes> time_group(const JobRequest& request,
                                     const JobDevice& lead, StopFlag& stop) {
  try {
    return group_times(request, lead, stop);
  } catch (const Error& error) {
    if (error.code() != Errc::device_full) {
      throw;
    }
    return std::nullopt;
  }
}

/// Of the workers of one of the request's devices. Times forward passes with
/// all workers that have cores at once (on a GPU with one, and as many images
/// as it takes at once).
std::optional<Pace> measure_pace(const JobRequest& request,
                                 const JobDevice& device, StopFlag& stop) {
  const double whole = request.source.info(device.compute).flops();
  if (!device.others.empty()) {
    const std::optional<GroupTimes> times = time_group(request, device, stop);
    if (!times) {
      return std::nullopt;
    }
    const double seconds =
        times->of(request.attention_plan).value_or(times->best());
    // Several workers of the same GPUs wait for each other.
    return Pace{.row_seconds = seconds * device.workers,
                .flops_per_second = whole / (times->alone * device.workers),
                .how = times->how,
                .group = times};
  }
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
  if (!pass || !fits(*pass, device, rows * workers)) {
    return std::nullopt;
  }
  double seconds =
      worker_seconds(*pass, device,
                     {workers, threads, shards, rows, request.attention_plan,
                      request.job.ring_blocks.value_or(1)},
                     stop);
  const std::string how = fmt::format(
      "{} took {:.3g} s, {} {}", what_is_timed(*pass, request, device, rows),
      seconds, counted(static_cast<std::uint64_t>(workers), "worker"),
      device.is_gpu() ? "on " + to_string(device.device)
                      : std::string("at once"));
  // Workers beyond the cores, and several on one GPU, wait for each other.
  seconds *= std::max(device.workers, 1) / static_cast<double>(workers);
  const double flops =
      rows * pass->network->info(pass->latents, device.compute).flops();
  return Pace{.row_seconds = seconds / flops * whole,
              .flops_per_second = flops / seconds,
              .how = how};
}

}  // namespace

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
    joint.group = joint.group ? joint.group : pace.group;
    rows_per_second += device.workers / pace.row_seconds;
    joint.flops_per_second += device.workers * pace.flops_per_second;
  }
  joint.row_seconds = request.num_workers() / rows_per_second;
  joint.flops_per_second /= request.num_workers();
  joint.how = fmt::format("{}", fmt::join(how, "; "));
  return joint;
}

std::optional<GpuLink> probe_link(const JobRequest& request) {
  std::vector<const JobDevice*> gpus;
  for (const JobDevice& one : request.devices) {
    if (one.is_gpu() && one.is_used()) {
      gpus.push_back(&one);
    }
  }
  if (gpus.size() < 2) {
    return std::nullopt;
  }
  constexpr std::int64_t kLong = std::int64_t{64} << 20U;
  constexpr std::int64_t kShort = 1024;
  constexpr int kTimes = 5;
  constexpr int kExchanges = 32;  // in each direction
  ExecContext one(1, gpus[0]->device, gpus[0]->options);
  ExecContext other(1, gpus[1]->device, gpus[1]->options);
  Tensor here = one.empty({kLong}, DType::u8);
  Tensor there = other.empty({kLong}, DType::u8);
  one.synchronize();
  other.synchronize();
  // As at a meeting of ranks: the writer marks, the reader waits and copies.
  const auto bring = [](ExecContext& writer, const Tensor& from,
                        ExecContext& reader, Tensor to) {
    reader.device_backend()->wait_for(*writer.device_backend()->mark());
    kernels::copy(reader, from, to);
  };
  const auto exchange_seconds = [&](std::int64_t bytes, int count) {
    std::vector<double> times;
    for (int i = 0; i < kTimes; ++i) {
      const SteadyTime::time_point begin = SteadyTime::now();
      for (int e = 0; e < count; ++e) {
        bring(other, there.slice(0, bytes), one, here.slice(0, bytes));
        bring(one, here.slice(0, bytes), other, there.slice(0, bytes));
      }
      one.synchronize();
      other.synchronize();
      times.push_back(seconds_from(begin) / (2 * count));
    }
    return median(times);
  };
  const double latency = exchange_seconds(kShort, kExchanges);
  const double whole = exchange_seconds(kLong, 1);
  return GpuLink{.latency = latency,
                 .bytes_per_second = static_cast<double>(kLong) /
                                     std::max(whole - latency, 1e-9)};
}

ShardChoice fastest_plan(const GroupTimes& times, int shards,
                         const std::string& place) {
  // Less is noise, and leaves the other GPUs to other images.
  constexpr double kGain = 0.97;
  const double best = times.best();
  const bool by_heads = times.gather != best;
  const auto said = [](const std::optional<double>& seconds) {
    return seconds ? fmt::format("{:.3g} s", *seconds)
                   : std::string("impossible");
  };
  require(best < kGain * times.alone, Errc::unsupported, place,
          fmt::format("got {}, expected 1: a pass of one image takes {} on {} "
                      "GPUs together and {} on one",
                      shards, said(best), shards, said(times.alone)),
          "leave --shards out: then each GPU has images of its own; or insist "
          "with --shard-plan gather");
  return {.plan = by_heads ? AttentionPlan::ulysses : AttentionPlan::gather,
          .why = fmt::format(
              "--shard-plan auto takes {}: a pass of one image takes {} on "
              "{} GPUs (gather {}, ulysses {}) and {} on one",
              by_heads ? "ulysses" : "gather", said(best), shards,
              said(times.gather), said(times.ulysses), said(times.alone))};
}

std::optional<std::string> choose_shard_plan(const config::Config& config,
                                             JobRequest& request,
                                             StopFlag& stop) {
  const auto lead =
      std::ranges::find_if(request.devices, [](const JobDevice& one) {
        return one.workers > 0 && !one.others.empty();
      });
  if (config.shard_plan != config::ShardPlan::automatic ||
      lead == request.devices.end()) {
    return std::nullopt;
  }
  const std::optional<GroupTimes> times = time_group(request, *lead, stop);
  if (!times) {
    return "--shard-plan auto takes gather: there is too little memory to "
           "measure plans";
  }
  const ShardChoice choice =
      fastest_plan(*times, config.num_shards, config.place_of("shards"));
  request.attention_plan = choice.plan;
  return choice.why;
}

}  // namespace troupe::actors
