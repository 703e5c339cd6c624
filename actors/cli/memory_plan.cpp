#include "actors/cli/memory_plan.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "actors/artefacts/trace_writer.h"
#include "actors/denoiser_evaluator.h"
#include "actors/network_cuts.h"
#include "actors/plan.h"
#include "models/network/block_cache.h"
#include "models/vae/tiled_decode.h"
#include "samplers/solver.h"

namespace troupe::actors {
namespace {

std::uint64_t f32_bytes(const Shape& shape) {
  return static_cast<std::uint64_t>(shape.num_elements()) * sizeof(float);
}

/// What prepared conditions take: those for all timesteps, and prompts.
std::uint64_t prepared_bytes(const JobRequest& request, DType compute) {
  const models::DenoiserInfo info = request.source.info(compute);
  const std::size_t conditions = request.job.num_used(request.job.conditions);
  const std::size_t others = request.job.num_used(request.job.unconditional);
  return plan_preparation(info, request.schedule.timesteps().size(), conditions,
                          others)
             .bytes +
         std::min((conditions + others) * info.bytes_per_prompt,
                  most_prepared_bytes(info));
}

std::uint64_t bytes_of_pixels(const ModelSource& source) {
  return static_cast<std::uint64_t>(source.pixel_shape().num_elements());
}

/// Of these blocks of the network.
std::uint64_t weights_bytes(const JobRequest& request, const JobDevice& device,
                            models::SegmentRange blocks) {
  return request.source.denoiser()
      .memory(request.source.latent_shape(), device.compute, device.device.kind,
              device.placement, blocks)
      .weights_bytes;
}

/// Of the network's weights, what a process does not hold that reads segments
/// when it uses them: each worker has one.
std::uint64_t unread_bytes(const JobRequest& request, const JobDevice& device) {
  const auto of = [&](models::SegmentRange blocks) {
    return weights_bytes(request, device, blocks);
  };
  const std::uint64_t whole = of({});
  if (!request.reads_in_parts) {
    return 0;
  }
  std::uint64_t held = 0;
  if (!request.only_directs) {
    std::uint64_t largest = 0;
    const std::vector<int>& cuts = request.job.cuts;
    const std::size_t segments = cuts.size() - 1;
    const bool is_onion = request.job.method.cut == samplers::CutShape::onion;
    for (std::size_t i = 0; i < segments; ++i) {
      std::uint64_t part = of({cuts[i], cuts[i + 1]});
      if (is_onion && i < segments / 2) {
        part += of({cuts[segments - 1 - i], cuts[segments - i]});
      }
      largest = std::max(largest, part);
    }
    held += largest * static_cast<std::uint64_t>(std::max(device.workers, 1));
  }
  return whole - std::min(whole, held);
}

}  // namespace

MemoryNeeds memory_needs(const ModelSource& source, DeviceKind kind,
                         DType compute, models::WeightPlacement placement) {
  const Shape& latents = source.latent_shape();
  MemoryNeeds needs;
  needs.network = source.denoiser().memory(latents, compute, kind, placement);
  needs.weights_bytes = needs.network.weights_bytes;
  needs.scratch = needs.network.scratch;
  if (source.decoder()) {
    needs.weights_bytes += source.decoder()->weights_bytes(compute);
    const models::DecodeCosts decode =
        source.decoder()->costs(latents, compute, source.vae_tile());
    needs.decode_bytes = decode.bytes;
    if (kind == DeviceKind::cpu) {
      needs.scratch.add(decode.scratch);
    }
    if (!source.picture_size().empty()) {
      // The decoded pixels and the picture cut from them are in memory
      // together.
      needs.decode_bytes +=
          f32_bytes(source.decoded_shape()) + f32_bytes(source.pixel_shape());
    }
  }
  return needs;
}

std::uint64_t tiling_saves(const ModelSource& source, DType compute) {
  const auto& decoder = source.decoder();
  const Shape& latents = source.latent_shape();
  if (!decoder || source.vae_tile() > 0 || decoder->tile_side() == 0 ||
      !models::exceeds_tile(latents, decoder->tile_side())) {
    return 0;
  }
  const std::uint64_t whole = decoder->costs(latents, compute).bytes;
  return whole -
         std::min(whole,
                  decoder->costs(latents, compute, decoder->tile_side()).bytes);
}

std::uint64_t required_bytes(const ModelSource& source, DType compute,
                             int workers, int threads, std::int64_t rows,
                             int shards) {
  const MemoryNeeds needs = memory_needs(source, DeviceKind::cpu, compute);
  std::uint64_t own = needs.decode_bytes + needs.scratch.of(threads * shards);
  if (shards == 1) {
    own += needs.network.of_rows(rows);
  } else {
    // Ranks compute one row at a time, with contexts of their own.
    own += static_cast<std::uint64_t>(rows) * needs.network.row_bytes +
           source.denoiser()
               .shard_figures(source.latent_shape(), compute, DeviceKind::cpu,
                              AttentionPlan::gather, shards)
               .bytes_in_one_memory() +
           static_cast<std::uint64_t>(shards) * needs.scratch.of(threads);
  }
  return needs.weights_bytes +
         own * static_cast<std::uint64_t>(std::max(workers, 1));
}

ValueSizes value_sizes(const JobRequest& request, bool decode) {
  const models::DenoiserInfo info =
      request.source.info(request.devices.back().compute);
  const Shape& latents = request.source.latent_shape();
  const std::uint64_t branches = request.job.guidance.is_on() ? 2 : 1;
  const CutBytes cut =
      bytes_of_cuts(info, request.job.cuts, request.job.method.cut);
  return {.state = f32_bytes(latents) *
                   static_cast<std::uint64_t>(
                       samplers::most_state_tensors(request.schedule)),
          .output = f32_bytes(with_channels(latents, info.out_channels)),
          .boundary = branches * cut.boundary,
          .skips = branches * cut.skips,
          .pixels = decode ? bytes_of_pixels(request.source) : 0,
          .cache = request.job.method.kind.has(samplers::Modifier::cache)
                       ? branches * models::cache_bytes(info)
                       : 0};
}

std::vector<SegmentFigures> segment_figures(const JobRequest& request) {
  const JobDevice& device = request.devices.back();
  const models::DenoiserInfo info = request.source.info(device.compute);
  const std::vector<int>& cuts = request.job.cuts;
  if (cuts.size() <= 2) {
    return {};
  }
  const std::uint64_t branches = request.job.guidance.is_on() ? 2 : 1;
  std::vector<SegmentFigures> segments;
  for (const double share : segment_shares(info, cuts)) {
    const std::size_t s = segments.size();
    segments.push_back(
        {share, 0, weights_bytes(request, device, {cuts[s], cuts[s + 1]})});
  }
  const CutBytes bytes = bytes_of_cuts(info, cuts, request.job.method.cut);
  for (std::size_t s = 0; s < bytes.sent.size(); ++s) {
    segments[s].sent_bytes = branches * bytes.sent[s];
  }
  return segments;
}

std::uint64_t outcome_bytes(const ModelSource& source, bool decode) {
  return f32_bytes(source.latent_shape()) +
         (decode ? bytes_of_pixels(source) : 0);
}

std::uint64_t sample_value_bytes(const JobRequest& request, DeviceKind memory) {
  const samplers::MethodOptions& method = request.job.method;
  const std::uint64_t bytes =
      bytes_of(samplers::most_live(method, request.schedule.num_model_calls(),
                                   least_ahead(method)),
               value_sizes(request, true));
  if (!request.uses(DeviceKind::cuda)) {
    return bytes;
  }
  return bytes *
         (memory == DeviceKind::cpu ? kCopiesWithCutsAtHome : kCopiesWithCuts);
}

std::uint64_t host_bytes(const JobRequest& request) {
  std::uint64_t bytes = sample_value_bytes(request, DeviceKind::cpu) +
                        TensorStore::bytes_in_memory(request.prompt_bytes);
  const JobDevice& last = request.devices.back();
  if (request.only_directs) {
    return bytes;  // others have the network
  }
  if (!last.is_gpu() && last.workers > 0) {
    const int rows =
        rows_per_forward({.max_rows = request.max_rows,
                          .threads = request.num_threads * request.num_shards},
                         request.job.method);
    const int branches = request.job.guidance.is_on() ? 2 : 1;
    const int contexts = request.is_emulated ? 1 : last.workers;
    bytes += required_bytes(request.source, last.compute, contexts,
                            request.num_threads, rows * branches,
                            request.num_shards) +
             prepared_bytes(request, last.compute) -
             unread_bytes(request, last);
  }
  for (const JobDevice& device : request.devices) {
    if (device.workers > 0) {
      const auto stay = [&](models::WeightPlacement placement) {
        return memory_needs(request.source, device.device.kind, device.compute,
                            placement)
            .weights_bytes;
      };
      bytes += stay(models::WeightPlacement::resident) - stay(device.placement);
    }
  }
  return bytes;
}

std::uint64_t gpu_bytes(const JobDevice& gpu, const JobRequest& request) {
  const MemoryNeeds needs = memory_needs(request.source, DeviceKind::cuda,
                                         gpu.compute, gpu.placement);
  // The network takes all rows at once.
  const int branches = request.job.guidance.is_on() ? 2 : 1;
  std::uint64_t worker = needs.network.of_rows(1) *
                             static_cast<std::uint64_t>(gpu.rows * branches) +
                         needs.network.visiting_bytes + kGpuOverhead;
  worker += needs.decode_bytes;
  if (gpu.lead || !gpu.others.empty()) {
    // What ranks exchange is there twice (ShardContext::share): less than a
    // pass for the network, and less than a picture for the decoder.
    worker += needs.network.of_rows(1) + needs.decode_bytes;
  }
  std::uint64_t values = 0;
  if (!gpu.lead) {  // which steps
    values = sample_value_bytes(request, DeviceKind::cuda);
  }
  return needs.weights_bytes - unread_bytes(request, gpu) +
         prepared_bytes(request, gpu.compute) + values +
         static_cast<std::uint64_t>(std::max(gpu.workers + gpu.ranks, 1)) *
             worker;
}

std::uint64_t held_bytes(const RunOutputs& outputs, const JobRequest& request) {
  // A sheet is made beside the pictures, and its file beside the sheet.
  constexpr double kSheetCopies = 3;
  const int num_calls = request.schedule.num_model_calls();
  double bytes = 0;
  if (!outputs.grid.empty()) {
    const Shape picture = request.source.pixel_shape();
    bytes += kSheetCopies * 3 * static_cast<double>(picture[1] * picture[2]);
  }
  const auto num_samples = static_cast<double>(request.num_samples());
  bytes *= num_samples;
  // Earlier rows (--exists skip) are read as a file and as rows.
  for (const std::string* rows : {&outputs.latents, &outputs.trajectory}) {
    const auto earlier = outputs.standing.find(*rows);
    if (earlier != outputs.standing.end()) {
      bytes += 2 * static_cast<double>(earlier->second.size);
    }
    if (!rows->empty()) {
      std::error_code none;
      const auto left =
          std::filesystem::file_size(AtomicFile::kept_path(*rows), none);
      bytes += none ? 0 : static_cast<double>(left);
    }
  }
  if (!outputs.trace.empty()) {
    constexpr double kDecode = 1;
    const samplers::MethodOptions& method = request.job.method;
    bytes += TraceLog::most_bytes(
        (samplers::most_tasks(method, num_calls) + kDecode) * num_samples);
  }
  constexpr double kMost = 1e18;
  return static_cast<std::uint64_t>(std::min(bytes, kMost));
}

}  // namespace troupe::actors
