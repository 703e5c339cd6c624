#include "actors/cli/model_source.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "actors/cli/converter.h"
#include "config/bundled_models.h"
#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/log.h"
#include "kernels/core/text.h"
#include "models/dit.h"
#include "models/dit_info.h"
#include "models/dit_weights.h"
#include "models/factory.h"
#include "models/weight_source.h"

namespace troupe::actors {
namespace {

/// Fixed: random weights shall be the same everywhere.
constexpr std::uint64_t kRandomWeightsSeed = 0;

std::optional<std::int64_t> as_id(const std::string& text) {
  std::int64_t id = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, id);
  return error == std::errc{} && rest == end ? std::optional(id) : std::nullopt;
}

std::uint64_t both(std::uint64_t denoiser, std::uint64_t autoencoder) {
  const std::array<std::uint64_t, 2> parts = {denoiser, autoencoder};
  return xxh3_64(std::as_bytes(std::span(parts)));
}

}  // namespace

ModelSource ModelSource::open(const config::Config& config) {
  ModelSource source;
  if (!config.random_weights.empty()) {
    const config::BundledModel& bundled =
        config::find_bundled_model(config.random_weights);
    source.name_ = config.random_weights;
    source.dit_ = models::parse_dit_config(
        models::Json::parse(bundled.transformer, source.name_));
    if (!bundled.vae.empty()) {
      source.autoencoder_ = models::parse_autoencoder_kl_config(
          models::Json::parse(bundled.vae, source.name_));
    }
    source.scheduler_config_ = bundled.scheduler;
    return source;
  }
  require(!config.model_dir.empty(), Errc::invalid_argument, "--model",
          "no model named",
          "give --model DIR, or --random-weights NAME to measure speed without "
          "a download");
  source.checkpoint_ = models::open_checkpoint(config.model_dir, converter());
  const models::Checkpoint& checkpoint = *source.checkpoint_;
  for (const std::string& note : models::check_supported(checkpoint)) {
    log_message(LogLevel::info, note);
  }
  std::error_code error;
  source.name_ = std::filesystem::weakly_canonical(config.model_dir, error)
                     .filename()
                     .string();
  source.dit_ = models::parse_dit_config(checkpoint.transformer.config);
  if (checkpoint.vae) {
    source.autoencoder_ =
        models::parse_autoencoder_kl_config(checkpoint.vae->config);
  }
  source.scheduler_config_ = checkpoint.scheduler_config;
  return source;
}

Shape ModelSource::latent_shape() const {
  return {dit_.in_channels, dit_.sample_size, dit_.sample_size};
}

Shape ModelSource::pixel_shape() const {
  const Shape latents = latent_shape();
  return autoencoder_ ? Shape{autoencoder_->out_channels,
                              latents[1] * autoencoder_->scale(),
                              latents[2] * autoencoder_->scale()}
                      : latents;
}

std::int64_t ModelSource::the_only_class(
    const std::string& wanted, const std::set<std::int64_t>& ids) const {
  if (ids.size() == 1) {
    return *ids.begin();
  }
  constexpr std::size_t kShown = 8;
  std::vector<std::string> several;
  for (const std::int64_t id : ids) {
    several.push_back(std::to_string(id) + " (" + printable(class_name(id)) +
                      ")");
  }
  throw Error(Errc::invalid_argument, "--class",
              "several classes have the name " + in_quotes(wanted) + ": " +
                  config::join_names(several, kShown),
              "give the number of the one you mean");
}

std::vector<std::int64_t> ModelSource::resolve_classes(
    const std::vector<std::string>& classes) const {
  std::vector<std::int64_t> ids;
  std::map<std::string, std::set<std::int64_t>> by_name;
  std::vector<std::string> names;
  if (checkpoint_) {
    for (const auto& [name, those] : checkpoint_->class_ids) {
      by_name[lowered(name)].insert(those.begin(), those.end());
      names.push_back(name);
    }
  }
  for (const std::string& wanted : classes) {
    const auto found = by_name.find(lowered(wanted));
    if (found != by_name.end()) {
      ids.push_back(the_only_class(wanted, found->second));
      continue;
    }
    const std::optional<std::int64_t> id = as_id(wanted);
    const std::string range =
        "an id from 0 to " + std::to_string(dit_.num_classes - 1);
    if (id && *id >= 0 && *id < dit_.num_classes) {
      ids.push_back(*id);
    } else {
      throw Error(Errc::invalid_argument, "--class",
                  "no such class: got " + in_quotes(wanted) + ", expected " +
                      (names.empty() ? range : "a class name or " + range),
                  config::suggestion(wanted, names,
                                     names.empty()
                                         ? "this model has no class names"
                                         : "troupe inspect lists the classes"));
    }
  }
  return ids;
}

std::string ModelSource::class_name(std::int64_t id) const {
  if (!checkpoint_) {
    return {};
  }
  const auto found = checkpoint_->class_names.find(id);
  return found == checkpoint_->class_names.end() ? std::string()
                                                 : found->second;
}

MemoryNeeds ModelSource::memory_needs(DeviceKind kind, DType compute,
                                      models::WeightPlacement placement) const {
  const bool offloaded = placement == models::WeightPlacement::offloaded;
  const std::uint64_t decode = decode_bytes(compute);
  const std::uint64_t weights = required_bytes(compute, 1, 0) - decode;
  const std::uint64_t moved =
      models::dit_required_bytes(dit_, {}, compute, 0) -
      models::dit_required_bytes(dit_, {}, compute, 0, placement);
  return {.weights_bytes = weights - moved,
          .visiting_bytes =
              offloaded ? models::dit_visiting_bytes(dit_, compute) : 0,
          .row_bytes = models::dit_required_bytes(
                           dit_, {}, compute, 1,
                           models::WeightPlacement::resident, kind) -
                       models::dit_required_bytes(dit_, {}, compute, 0),
          .decode_bytes = decode};
}

std::uint64_t ModelSource::required_bytes(DType compute, int workers,
                                          std::int64_t rows) const {
  // Weights are shared; everything else every worker has for itself.
  std::uint64_t weights = models::dit_required_bytes(dit_, {}, compute, 0);
  std::uint64_t own =
      models::dit_required_bytes(dit_, {}, compute, rows) - weights;
  if (autoencoder_) {
    own += decode_bytes(compute);
    weights +=
        models::autoencoder_kl_required_bytes(*autoencoder_, compute, 0, 0);
  }
  return weights + own * static_cast<std::uint64_t>(std::max(workers, 1));
}

std::uint64_t ModelSource::decode_bytes(DType compute) const {
  if (!autoencoder_) {
    return 0;
  }
  const auto bytes = [&](std::int64_t side) {
    return models::autoencoder_kl_required_bytes(*autoencoder_, compute, side,
                                                 side);
  };
  return bytes(dit_.sample_size) - bytes(0);
}

LoadedModel ModelSource::load(ExecContext& ctx, DType compute,
                              models::WeightPlacement placement) const {
  LoadedModel model;
  if (checkpoint_) {
    model.denoiser =
        models::load_denoiser(ctx, checkpoint_->transformer, compute,
                              models::SegmentRange{}, placement);
    if (checkpoint_->vae) {
      model.autoencoder =
          models::load_autoencoder(ctx, *checkpoint_->vae, compute);
    }
  } else {
    models::RandomWeights weights(ctx, kRandomWeightsSeed);
    model.denoiser = std::make_unique<models::Dit>(
        ctx, dit_, models::SegmentRange{}, compute, weights, placement);
    if (autoencoder_) {
      model.autoencoder = std::make_unique<models::AutoencoderKl>(
          ctx, *autoencoder_, compute, weights);
    }
  }
  model.weights_hash = model.denoiser->info().weights_hash;
  if (model.autoencoder) {
    model.weights_hash =
        both(model.weights_hash, model.autoencoder->weights_hash());
  }
  return model;
}

std::uint64_t ModelSource::weights_hash(ExecContext& ctx) const {
  const models::SegmentRange whole{0, static_cast<int>(dit_.num_layers)};
  const auto hash_of = [&](models::WeightSource& denoiser,
                           models::WeightSource& autoencoder) {
    const std::uint64_t hash =
        models::dit_weights_hash(ctx, dit_, whole, denoiser);
    return autoencoder_ ? both(hash, models::autoencoder_kl_weights_hash(
                                         ctx, *autoencoder_, autoencoder))
                        : hash;
  };
  if (!checkpoint_) {
    models::RandomWeights weights(ctx, kRandomWeightsSeed);
    return hash_of(weights, weights);
  }
  models::FileWeights denoiser(checkpoint_->transformer.weights);
  if (!checkpoint_->vae) {
    return hash_of(denoiser, denoiser);
  }
  models::FileWeights autoencoder(checkpoint_->vae->weights);
  return hash_of(denoiser, autoencoder);
}

}  // namespace troupe::actors
