#include "actors/cli/job_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "actors/cli/memory_plan.h"
#include "actors/cli/method_choice.h"
#include "actors/cli/notes.h"
#include "actors/emulation/machine.h"
#include "actors/network_cuts.h"
#include "config/load_config.h"
#include "kernels/core/error.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"
#include "kernels/linear.h"
#include "models/network/block_cache.h"
#include "net/nccl.h"

namespace troupe::actors {
namespace {

/// Work of a forward pass that keeps a large GPU busy for some milliseconds:
/// above it more rows gain little, below it the start of kernels shows.
constexpr double kEnoughFlops = 4e12;
constexpr int kMostRows = 64;

void check_gpu_memory(const JobRequest& request) {
  for (const JobDevice& gpu : request.devices) {
    if (gpu.is_full()) {
      throw Error(
          Errc::device_full, to_string(gpu.device),
          "the job does not fit on " + gpu.name + ": got " +
              human_bytes(gpu.available_bytes) + " free, expected " +
              human_bytes(gpu.required_bytes),
          memory_hint(
              request.source, gpu.compute, gpu.workers,
              {gpu.available_bytes, gpu.required_bytes},
              std::string(gpu.compute == DType::f32 ? "use --dtype bf16, "
                                                    : "use ") +
                  (request.num_shards > 1 &&
                           request.source.denoiser().can_offload()
                       ? "no --shards (then weights may visit the GPU), "
                       : "") +
                  "a smaller --batch, a smaller model or --device cpu"));
    }
  }
}

void check_cores(JobRequest& request) {
  if (request.devices.front().is_gpu() || request.is_emulated) {
    return;
  }
  const int cores = num_usable_cores();
  const int wanted =
      request.num_workers() * request.num_threads * request.num_shards;
  if (wanted > cores) {
    request.notes.push_back(
        describe_cpu_company(request.num_workers(), request.num_threads,
                             request.num_shards) +
        " on " + counted(cores, "core") + " will be slower than fewer");
  }
}

/// Errors: Errc::unsupported where NCCL is to be used and cannot be loaded.
void check_exchange(const config::Config& config, JobRequest& request) {
  if (config.exchange == GpuExchange::peer) {
    return;
  }
  if (!request.has_groups()) {
    add_note(request.notes, config.place_of("exchange") +
                                " does nothing without GPUs that share a pass "
                                "(--shards)");
    return;
  }
  try {
    (void)net::nccl_version();
  } catch (const Error& error) {
    throw Error(error.code(), config.place_of("exchange"), error.message(),
                error.hint() + ", or leave --exchange out");
  }
}

/// Errors: Errc::invalid_argument, Errc::unsupported where the passes cannot be
/// divided.
void check_shards(const config::Config& config, JobRequest& request) {
  if (config.num_shards == 1) {
    if (config.shard_plan != config::ShardPlan::automatic) {
      add_note(request.notes, config.place_of("shard-plan") +
                                  " does nothing without --shards");
    }
    return;
  }
  const std::string place = config.place_of("shards");
  const std::string got = "got " + std::to_string(config.num_shards);
  const models::DenoiserInfo info = request.source.info(DType::f32);
  const auto on_gpus =
      std::ranges::find_if(request.devices, &JobDevice::is_gpu);
  const bool has_gpu = on_gpus != request.devices.end();
  if (!request.devices.front().divides_heads() &&
      config.shard_plan == config::ShardPlan::ulysses) {
    add_note(request.notes, config.place_of("shard-plan") +
                                ": in f32, GPUs do not divide heads: the plan "
                                "is gather");
  }
  require(config.num_shards <= info.most_shards, Errc::invalid_argument, place,
          got + ", expected at most " + std::to_string(info.most_shards) +
              " for pictures of this size: a shard has at least 128 tokens",
          request.is_joined ? "start this worker with fewer shards"
                            : "give fewer shards or a larger --size");
  constexpr double kWasteful = 1.5;
  const double share =
      request.source.denoiser()
          .shard_figures(request.source.latent_shape(),
                         request.devices.front().compute,
                         has_gpu ? DeviceKind::cuda : DeviceKind::cpu,
                         request.attention_plan, config.num_shards)
          .slowest_share(info.flops());
  if (share * config.num_shards > kWasteful) {
    add_note(
        request.notes,
        fmt::format("each of {} shards computes {:.0f} % of a pass: all of "
                    "them compute what is too small to be divided; --dry-run "
                    "compares numbers of shards",
                    config.num_shards, 100 * share));
  }
}

/// Errors: Errc::unsupported, Errc::invalid_argument where the job's blocks of
/// keys cannot be computed.
void check_ring(const config::Config& config, const JobRequest& request) {
  if (!request.job.ring_blocks) {
    return;
  }
  const std::string place =
      config.place_of(config.ring_blocks ? "ring-blocks" : "shard-plan");
  const std::string got =
      "got " + std::to_string(*request.job.ring_blocks) + " blocks of keys";
  require(
      std::ranges::none_of(
          request.devices,
          [](const JobDevice& one) { return one.is_gpu() && one.is_used(); }),
      Errc::unsupported, request.is_joined ? "the job" : place,
      got + ", expected 1: GPUs do not merge them yet",
      request.is_joined    ? "start this worker with --device cpu"
      : config.ring_blocks ? "give --device cpu, or --ring-blocks 1"
                           : "give --device cpu, or leave --shard-plan out");
  const std::int64_t most = request.source.info(DType::f32).most_ring_blocks;
  require(*request.job.ring_blocks <= most, Errc::invalid_argument, place,
          got + ", expected at most " + std::to_string(most) +
              " for pictures of this size: a block has at least 64 tokens",
          "give fewer, or a larger --size");
}

/// Errors: Errc::unsupported where GPUs of a group are to read only the parts
/// of the network that they use.
void check_reading(const config::Config& config, const JobRequest& request) {
  require(!request.reads_in_parts || !request.has_groups(), Errc::unsupported,
          config.place_of("shards"),
          "GPUs that compute together hold the whole network: a worker of a "
          "company that cuts it reads its part alone",
          "leave --shards out, or start the job with --method batch");
}

/// GPUs of a group compute the same bytes. Errors: Errc::unsupported.
void check_groups(const config::Config& config, const JobRequest& request) {
  for (const JobDevice& one : request.devices) {
    if (one.lead && one.is_used()) {
      const JobDevice& lead = request.at(*one.lead);
      require(one.execution_class == lead.execution_class, Errc::unsupported,
              config.place_of("shards"),
              lead.label() + " and " + one.label() +
                  " compute other bytes: their probes differ",
              "name GPUs that compute alike (--device), or leave --shards out");
    }
  }
}

/// The speeds by which a cut is chosen: those of the emulated machine, or round
/// numbers for the kind of worker and link. The cut of a stale pipeline decides
/// bytes, and must be the same on every machine. So the cut is always chosen as
/// for machines with a GPU each.
CutPace cut_pace(const config::Config& config, const JobRequest& request,
                 const samplers::MethodOptions& method) {
  constexpr double kCpu = 1e11;  // operations per second
  constexpr double kGpu = 1e13;
  constexpr double kMemory = 1e10;     // bytes per second
  constexpr double kNetwork = 1.25e8;  // as bench has it: 1 Gbit/s
  const bool decides_bytes = samplers::approximates(method);
  const bool on_gpu = request.devices.front().is_gpu() || decides_bytes;
  const bool is_far = !config.listen.empty() || decides_bytes;
  const double flops = request.source.info(DType::f32).flops();
  CutPace pace{.row_seconds = flops / (on_gpu ? kGpu : kCpu),
               .bytes_per_second = is_far ? kNetwork : kMemory,
               .calls_at_once = calls_at_once(method, request.num_samples())};
  const config::EmulationConfig& said = config.emulation;
  if (said.devices && !decides_bytes) {
    const emulation::Machine machine;
    pace.row_seconds = said.step_ms.value_or(machine.step_ms) / 1e3;
    pace.bytes_per_second =
        said.link_gbps.value_or(machine.link_gbps) * 1e9 / 8;
    pace.latency = said.link_us.value_or(machine.link_us) / 1e6;
  }
  return pace;
}

/// Keeps references. `others`: workers of other processes that are there.
config::PlanInputs plan_inputs(const config::Config& config,
                               const JobRequest& request,
                               const config::WorkerCount& others) {
  config::PlanInputs inputs{
      .num_samples = request.num_samples(),
      .is_guided = request.job.guidance.is_on(),
      .num_blocks = request.source.num_blocks(),
      .most_onion_parts = most_onion_parts(request.source.info(DType::f32)),
      .can_leave_out_blocks =
          models::can_leave_out_blocks(request.source.info(DType::f32)),
      .cheaper_cut =
          [&](const samplers::MethodOptions& method) {
            return cheaper_cut(request.source.info(DType::f32), method,
                               cut_pace(config, request, method));
          },
      .method =
          request.is_joined ? std::optional(request.job.method) : std::nullopt,
      .num_calls = request.schedule.num_model_calls(),
      .num_cores = num_usable_cores(),
      .devices = kinds_of(request.devices),
      .only_others = request.only_directs};
  if (!config.listen.empty()) {
    inputs.others = others;
  }
  return inputs;
}

/// Window, segments and warm-up against the schedule, found before any weight
/// is read. Errors: those of make_method, at the source that set the option.
void check_method(const config::Config& config,
                  const samplers::MethodOptions& options,
                  const samplers::Schedule& schedule) {
  try {
    (void)samplers::make_method(options, schedule);
  } catch (const Error& error) {
    throw config::at_its_source(config, error);
  }
}

/// The method, with the cuts of the network that follow from it.
void take_method(samplers::MethodOptions method, JobRequest& request) {
  if (request.is_joined) {
    return;
  }
  request.job.cuts = balanced_cuts(request.source.info(DType::f32), method);
  request.job.method = std::move(method);
}

/// By --max-rmse, where it was given. Notes what it chose.
config::Plan chosen_plan(const config::Config& config,
                         config::PlanInputs inputs, JobRequest& request) {
  if (request.measured) {
    // All shares of a run choose alike.
    const config::SampleRange run = run_samples(config, request.prompts);
    config::PlanInputs whole = inputs;
    whole.num_samples = run.end - run.begin;
    MethodChoice choice = choose_method(config, request, whole);
    request.choice_note = std::move(choice.note);
    inputs.method = std::move(choice.method);
  }
  return config::make_plan(config, inputs);
}

void make_plan(const config::Config& config, JobRequest& request) {
  const config::PlanInputs inputs = plan_inputs(config, request, {});
  config::Plan plan = chosen_plan(config, inputs, request);
  request.method_with_more_workers =
      config::method_with_more_workers(config, inputs);
  auto workers = plan.device_workers.begin();
  for (JobDevice& one : request.devices) {
    one.workers = one.lead ? 0 : *workers++;
  }
  for (JobDevice& one : request.devices) {
    one.ranks = one.lead ? request.at(*one.lead).workers : 0;
  }
  request.num_threads = plan.num_threads;
  // Where shards share memory, ulysses only waits once more.
  request.attention_plan = config.shard_plan == config::ShardPlan::ulysses &&
                                   request.devices.front().divides_heads()
                               ? AttentionPlan::ulysses
                               : AttentionPlan::gather;
  request.exchange = config.exchange;
  // Emulated workers compute alone: only their time is modelled.
  request.num_shards = request.is_emulated ? 1 : config.num_shards;
  check_shards(config, request);
  check_exchange(config, request);
  check_ring(config, request);
  check_method(config, plan.method, request.schedule);
  take_method(std::move(plan.method), request);
  const bool is_cut = samplers::num_segments(request.job.method) > 1;
  request.reads_in_parts =
      request.is_joined
          ? is_cut
          : !config.listen.empty() && (is_cut || request.only_directs);
  check_reading(config, request);
}

/// Rows that a worker can be handed at all, and that pay.
int wanted_rows(const JobRequest& request, int gpu_workers, DType compute) {
  if (request.max_rows > 0) {
    return request.max_rows;
  }
  if (const auto most_rows = request.job.method.kind->most_rows) {
    return most_rows(request.job.method);
  }
  const double flops = request.source.info(compute).flops() *
                       (request.job.guidance.is_on() ? 2 : 1);
  const auto workers = static_cast<std::uint64_t>(std::max(gpu_workers, 1));
  const std::uint64_t share = (request.num_samples() + workers - 1) / workers;
  const double enough = std::ceil(kEnoughFlops / std::max(flops, 1.0));
  return static_cast<int>(std::clamp<double>(
      std::min(enough, static_cast<double>(share)), 1, kMostRows));
}

/// Whether a GPU has room for so many images at once, or for fewer.
bool fit_rows(const JobRequest& request, int rows, JobDevice& gpu) {
  for (gpu.rows = rows;; gpu.rows /= 2) {
    gpu.required_bytes = gpu_bytes(gpu, request);
    if (gpu.required_bytes <= gpu.available_bytes) {
      return true;
    }
    // A size that was asked for is not changed behind the user's back.
    if (gpu.rows == 1 || request.max_rows > 0) {
      return false;
    }
  }
}

/// Sets how many images a GPU takes at once and what that needs: enough work
/// for one forward pass to outlast its start, as memory allows. Where not even
/// one fits beside the weights, blocks are offloaded if the network can do
/// that and its passes are not divided. False when that is not enough either;
/// the numbers are then the offloaded ones.
bool fit(const JobRequest& request, int gpu_workers, JobDevice& gpu) {
  const int rows = wanted_rows(request, gpu_workers, gpu.compute);
  gpu.placement = models::WeightPlacement::resident;
  if (fit_rows(request, rows, gpu)) {
    return true;
  }
  if (!request.source.denoiser().can_offload() || request.num_shards > 1) {
    return false;
  }
  gpu.placement = models::WeightPlacement::offloaded;
  return fit_rows(request, rows, gpu);
}

/// Whether every GPU has room for its part.
bool fit_gpus(const Gpus& gpus, JobRequest& request) {
  int workers = 0;
  for (const JobDevice& device : request.devices) {
    workers += device.is_gpu() ? device.workers : 0;
  }
  bool fits = true;
  for (JobDevice& device : request.devices) {
    if (device.is_gpu() && device.is_used()) {
      const kernels::DeviceMemory memory = gpus.memory(device.device.index);
      device.available_bytes = memory.free_bytes;
      device.total_bytes = memory.total_bytes;
      fits = fit(request, workers, device) && fits;
    }
  }
  for (JobDevice& one : request.devices) {
    if (one.lead) {
      const auto lead =
          std::ranges::find(request.devices, *one.lead, &JobDevice::device);
      lead->rows = std::min(lead->rows, one.rows);
    }
  }
  return fits;
}

/// Devices that "auto" chose and that have no room are left out.
void leave_out_full_gpus(const config::Config& config, const Gpus& gpus,
                         JobRequest& request) {
  // The first GPU of each group in which some GPU is full.
  std::vector<Device> full;
  for (const JobDevice& gpu : request.devices) {
    if (gpu.is_full()) {
      full.push_back(gpu.lead.value_or(gpu.device));
      request.notes.push_back(fmt::format(
          "{} is left out: got {} free, expected {}", gpu.label(),
          human_bytes(gpu.available_bytes), human_bytes(gpu.required_bytes)));
    }
  }
  std::erase_if(request.devices, [&full](const JobDevice& gpu) {
    return std::ranges::find(full, gpu.lead.value_or(gpu.device)) != full.end();
  });
  group_gpus(config, request.devices);
  number_classes(request.devices);
  if (request.devices.empty()) {
    config::Config on_cpu = config;
    on_cpu.devices = {{DeviceKind::cpu, std::nullopt}};
    request.devices =
        choose_devices(on_cpu, nullptr, gpus.found, request.notes);
  }
  make_plan(config, request);
  (void)fit_gpus(gpus, request);  // check_memory says what still does not fit
}

/// Execution classes follow from what GPUs compute. A GPU without workers is
/// not probed: it takes the probe of a GPU with the same architecture.
void probe_gpus(const Gpus& gpus, JobRequest& request) {
  std::map<std::string, std::uint64_t> probes;
  for (JobDevice& device : request.devices) {
    if (device.is_gpu() && device.is_used()) {
      device.probe = gpus.probe(device);
      probes.try_emplace(device.architecture, device.probe);
      if (device.probe == 0) {
        request.notes.push_back(
            device.label() +
            " could not be probed: its execution class is of no other GPU");
      }
    }
  }
  for (JobDevice& device : request.devices) {
    const auto known = probes.find(device.architecture);
    if (!device.is_used() && known != probes.end()) {
      device.probe = known->second;
    }
  }
  number_classes(request.devices);
}

/// The job's devices that may encode its prompts.
EncoderDevices encoder_devices(const JobRequest& request) {
  const JobDevice& last = request.devices.back();
  EncoderDevices devices{.on_cpu = last.is_gpu()
                                       ? encoder_dtype_on_cpu(last.compute)
                                       : last.compute,
                         .only = request.encoder_kind};
  for (JobDevice gpu : request.devices) {
    if (gpu.is_gpu() && gpu.workers > 0) {
      const DType compute = encoder_dtype_on_gpu(gpu.compute);
      if (compute != gpu.compute) {
        gpu.compute = compute;
        gpu.probe = 0;
      }
      devices.gpus.push_back(std::move(gpu));
    }
  }
  return devices;
}

/// Where prompts are encoded: here, if the encoders fit and nobody wants
/// otherwise.
void choose_encoder(const config::Config& config, const Gpus& gpus,
                    JobRequest& request) {
  using config::EncodeOn;
  std::vector<std::string> notes;
  request.encoder = choose_encoder_device(
      encoder_devices(request), gpus,
      [&request](const JobDevice& by) {
        return request.prompts.source->memory(by);
      },
      notes);
  request.encoder.memory.add_prompts(
      TensorStore::bytes_in_memory(request.prompt_bytes));
  const std::uint64_t needed = request.encoder.memory.host;
  const MemoryInfo memory = memory_info();
  const bool gives_way = config.encode_on == EncodeOn::automatic &&
                         !config.listen.empty() &&
                         needed > memory.available_bytes;
  if (gives_way) {
    request.notes.push_back(
        fmt::format("the text encoder does not fit here ({} free, {} needed): "
                    "a worker that comes encodes the prompts",
                    human_bytes(memory.available_bytes), human_bytes(needed)));
  }
  request.encodes_elsewhere =
      gives_way || config.encode_on == EncodeOn::workers;
  if (request.encodes_elsewhere) {
    request.encoder.memory = {};
  } else {
    std::ranges::move(notes, std::back_inserter(request.notes));
  }
}

}  // namespace

void note_gain(const config::WorkerCount& others, JobRequest& request) {
  const samplers::MethodOptions& method = request.job.method;
  const bool on_gpu = others.gpu > 0 || request.uses(DeviceKind::cuda);
  const int num_workers =
      (request.only_directs ? 0 : request.num_workers()) + others.cpu;
  const std::uint64_t samples = request.num_samples();
  if (!method.kind.takes("tolerance") ||
      method.kind.has(samplers::Modifier::cache) || request.is_emulated ||
      on_gpu || num_workers == 0 ||
      samples % static_cast<std::uint64_t>(num_workers) != 0) {
    return;
  }
  add_note(request.notes,
           fmt::format(
               "{} cannot gain with {} on {}: it calls the network as often as "
               "the sequential run, or more; --method auto takes no longer",
               method.kind->name, counted(samples, "sample"),
               counted(static_cast<std::uint64_t>(num_workers), "worker")));
}

void settle_method(const config::Config& config,
                   const config::WorkerCount& others, JobRequest& request) {
  if (config.wait_workers) {
    note_gain(others, request);
  }
  const bool follows_workers = !request.is_joined && !request.measured &&
                               !config.method.window_size &&
                               request.job.method.kind.takes("window");
  if (!request.is_method_open() && !follows_workers) {
    return;
  }
  // The budgets are for values beside those of one sample: these may be more
  // now.
  const auto sample_bytes = [&request](DeviceKind kind) {
    return sample_value_bytes(request, kind);
  };
  const std::uint64_t on_cpu = sample_bytes(DeviceKind::cpu);
  const std::uint64_t on_gpu = sample_bytes(DeviceKind::cuda);
  config::Config here = config;
  if (request.chooses_anew) {
    here.num_workers = request.num_workers();  // as they are laid out
  }
  take_method(
      chosen_plan(here, plan_inputs(here, request, others), request).method,
      request);
  request.method_with_more_workers.reset();
  if (std::exchange(request.chooses_anew, false)) {
    add_note(request.notes, request.choice_note);
  }
  request.value_budget += sample_bytes(DeviceKind::cpu) - on_cpu;
  for (JobDevice& device : request.devices) {
    if (device.is_gpu() && device.workers > 0) {
      device.value_budget += sample_bytes(DeviceKind::cuda) - on_gpu;
    }
  }
}

JobRequest baseline_of(const JobRequest& request, int threads) {
  JobRequest baseline = request;
  take_method({}, baseline);
  baseline.num_threads = threads;
  baseline.num_shards = 1;
  for (JobDevice& device : baseline.devices) {
    device.workers = 0;
    device.ranks = 0;
    device.others.clear();
  }
  baseline.devices.front().workers = 1;
  return baseline;
}

JobRequest on_all_cores(const JobRequest& request) {
  JobRequest wide = request;
  wide.is_emulated = false;
  if (!wide.devices.front().is_gpu()) {
    wide.num_threads = 1;
    wide.devices.front().workers = num_usable_cores();
  }
  wide.required_bytes = host_bytes(wide);
  check_memory(wide);
  return wide;
}

void lay_out(const config::Config& config, const Gpus& gpus,
             JobRequest& request) {
  make_plan(config, request);
  if (!fit_gpus(gpus, request) && config.devices.empty()) {
    leave_out_full_gpus(config, gpus, request);
  }
  for (const JobDevice& device : request.devices) {
    if (device.workers > 0 &&
        device.placement == models::WeightPlacement::offloaded) {
      request.notes.push_back(fmt::format(
          "the model does not fit on {}: its blocks' weights stay in the "
          "host's memory and visit it in turn, which is slower",
          device.label()));
    }
  }
  probe_gpus(gpus, request);
  check_groups(config, request);
  request.required_bytes = host_bytes(request);
  if (request.prompts.source != nullptr) {
    choose_encoder(config, gpus, request);
  }
  set_value_budget(request);
  check_cores(request);
}

std::string memory_hint(const ModelSource& source, DType compute, int decodes,
                        Shortage shortage, std::string otherwise) {
  const std::uint64_t saved =
      tiling_saves(source, compute) * static_cast<std::uint64_t>(decodes);
  if (saved == 0 || shortage.required > shortage.available + saved) {
    return otherwise;
  }
  return "start the job with --vae-tiling: then it takes " +
         human_bytes(shortage.required - saved);
}

int host_decodes(const JobRequest& request) {
  const JobDevice& last = request.devices.back();
  const int workers = request.is_emulated ? 1 : last.workers;
  return last.is_gpu() ? 0 : std::max(workers, 0);
}

void set_value_budget(JobRequest& request) {
  // What the job requires holds the values of one sample.
  const auto budget = [&](std::uint64_t available, std::uint64_t required,
                          DeviceKind kind) {
    return available - std::min(available, required) +
           sample_value_bytes(request, kind);
  };
  request.value_budget = budget(memory_info().available_bytes,
                                request.required_bytes, DeviceKind::cpu);
  for (JobDevice& device : request.devices) {
    if (device.is_gpu() && device.workers > 0) {
      device.value_budget = budget(device.available_bytes,
                                   device.required_bytes, DeviceKind::cuda);
    }
  }
}

void check_memory(const JobRequest& request) {
  check_gpu_memory(request);
  check_encoder_memory(request.encoder.memory,
                       "encode the prompts elsewhere with troupe encode, and "
                       "give --prompt-embeds FILE; with --listen, troupe "
                       "sample lets a worker encode them");
  const MemoryInfo memory = memory_info();
  if (request.required_bytes > memory.available_bytes) {
    const JobDevice& last = request.devices.back();
    const bool could_halve =
        last.compute == DType::f32 && kernels::supports(DType::bf16);
    const std::uint64_t prompts =
        TensorStore::bytes_in_memory(request.prompt_bytes);
    const bool fits_without =
        request.required_bytes - prompts <= memory.available_bytes;
    throw Error(
        Errc::out_of_memory, "memory",
        "the job does not fit: got " + human_bytes(memory.available_bytes) +
            " free, expected " + needed_text(request.required_bytes, prompts) +
            " (" + to_string(memory.binding()) + ")",
        fits_without
            ? std::string(kFewerPrompts)
            : memory_hint(request.source, last.compute, host_decodes(request),
                          {memory.available_bytes, request.required_bytes},
                          could_halve
                              ? "use --dtype bf16 or fewer --workers"
                              : "use fewer --workers, a smaller --window or "
                                "--size, or a smaller model"));
  }
}

}  // namespace troupe::actors
