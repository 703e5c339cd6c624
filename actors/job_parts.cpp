#include "actors/job_parts.h"

#include <cstring>
#include <utility>

#include "actors/denoiser_evaluator.h"
#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/log.h"
#include "kernels/resize.h"

namespace troupe::actors {
namespace {

/// The job's noise with what is given: latents in place of a draw, and
/// trajectories that guesses come from.
class GivenTensors final : public samplers::NoiseSource {
 public:
  GivenTensors(const JobValues& values,
               std::shared_ptr<samplers::NoiseSource> steps)
      : latents_(values.init_latents),
        guesses_(values.guesses),
        steps_(std::move(steps)) {}

  void initial(std::uint64_t sample_index, Tensor& out) override {
    if (latents_.empty()) {
      return steps_->initial(sample_index, out);
    }
    copy(row_of(latents_, sample_index), out);
  }
  void step(std::uint64_t sample_index, int call, Tensor& out) override {
    steps_->step(sample_index, call, out);
  }
  double uniform(std::uint64_t sample_index, int call) override {
    return steps_->uniform(sample_index, call);
  }
  void guess(std::uint64_t sample_index, int point, Tensor& out) override {
    if (guesses_.empty()) {
      return steps_->guess(sample_index, point, out);
    }
    copy(row_of(guesses_, sample_index).item(point), out);
  }

 private:
  /// Row i is of sample i; one is of all.
  static Tensor row_of(const Tensor& given, std::uint64_t sample_index) {
    return given.item(
        given.dim(0) == 1 ? 0 : static_cast<std::int64_t>(sample_index));
  }
  static void copy(const Tensor& from, Tensor& out) {
    std::memcpy(out.bytes().data(), from.bytes().data(), from.num_bytes());
  }

  Tensor latents_;
  Tensor guesses_;
  std::shared_ptr<samplers::NoiseSource> steps_;
};

EvaluatorOptions evaluator_options(const JobRecord& job,
                                   const JobValues& values) {
  EvaluatorOptions options{.job = job};
  for (const auto& [hashes, conditions] :
       {std::pair(&job.conditions, &options.conditions),
        std::pair(&job.unconditional, &options.unconditional)}) {
    for (const std::uint64_t hash : *hashes) {
      conditions->push_back(hash == 0 ? StoredCondition()
                                      : values.conditions.at(hash));
    }
  }
  if (options.unconditional.size() == 1 && job.unconditional.front() != 0) {
    // Every sample uses it: in memory.
    options.unconditional = {options.unconditional.front().get()};
  }
  return options;
}

/// `decode`, as the pixels are decoded.
void decode_as_is(ExecContext& ctx, const ModelOn& model_on,
                  const Tensor& latents, std::int64_t tile, Tensor& pixels) {
  const LoadedModel& here = model_on(ctx);
  const Tensor on_host = kernels::on_host(ctx, latents);
  if (here.decoder == nullptr) {
    pixels = on_host.clone();
    return;
  }
  const Shape wanted = here.decoder->get(ctx)->pixel_shape(latents.shape());
  if (ctx.device().kind != DeviceKind::cpu) {
    pixels = ctx.empty(wanted, DType::f32);
  } else if (pixels.shape() != wanted) {
    pixels = Tensor(wanted, DType::f32);
  }
  const auto on_rank = [&](ExecContext& on, ShardContext& shard) {
    models::ImagePass layers(on, shard);
    model_on(on).decoder->get(on)->decode(layers, on_host, tile, pixels);
  };
  try {
    with_ranks(ctx, on_rank);
  } catch (const Error& error) {
    if (error.code() != Errc::unsupported || ctx.team() == nullptr) {
      throw;
    }
    // The steps were not in vain: one device can decode alone.
    log_message(LogLevel::warning,
                std::string("one device decodes alone: ") + error.what());
    ShardContext alone;
    on_rank(ctx, alone);
  }
}

}  // namespace

void decode(ExecContext& ctx, const ModelOn& model_on, const Tensor& latents,
            std::int64_t tile, std::span<const std::int64_t> picture,
            Tensor& pixels) {
  if (picture.empty()) {
    return decode_as_is(ctx, model_on, latents, tile, pixels);
  }
  Tensor decoded;
  decode_as_is(ctx, model_on, latents, tile, decoded);
  decoded = kernels::on_host(ctx, decoded);
  pixels = Tensor({decoded.dim(0), picture[0], picture[1]}, DType::f32);
  kernels::resize_and_crop(ctx, decoded, pixels);
}

std::shared_ptr<samplers::NoiseSource> make_noise(
    const JobRecord& job, const JobValues& values,
    const samplers::Schedule& schedule) {
  std::shared_ptr<samplers::NoiseSource> noise;
  if (job.noise == config::NoiseKind::torch) {
    noise = std::make_shared<samplers::TorchNoise>(
        job.seed, schedule,
        job.draws_latents ? samplers::InitialLatents::drawn
                          : samplers::InitialLatents::given);
  } else {
    noise = std::make_shared<samplers::PhiloxNoise>(job.seed);
  }
  if (!job.init_latents.empty() || !job.guesses.empty()) {
    noise = std::make_shared<GivenTensors>(values, std::move(noise));
  }
  return noise;
}

JobParts make_parts(const JobRecord& job, const JobValues& values,
                    const std::vector<DeviceModel>& models,
                    models::DenoiserTable table) {
  check(job, values, table);
  for (const DeviceModel& on : models) {
    require(on.model.weights_hash == job.model.weights_xxh3, Errc::corrupt_file,
            to_string(on.device),
            "the model has other weights than the job: got " +
                to_hex(on.model.weights_hash) + ", expected " +
                to_hex(job.model.weights_xxh3));
  }
  JobParts parts;
  parts.schedule = std::make_shared<const samplers::Schedule>(
      samplers::Schedule::from_table(job.schedule));
  parts.method = job.method;
  parts.evaluator = std::make_shared<DenoiserEvaluator>(
      models, evaluator_options(job, values));
  parts.noise = make_noise(job, values, *parts.schedule);
  return parts;
}

}  // namespace troupe::actors
