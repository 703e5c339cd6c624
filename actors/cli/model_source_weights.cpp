// The part of ModelSource for weights: reads them, whole or in parts, and their
// hashes.

#include <algorithm>
#include <array>
#include <memory>

#include "actors/cli/model_source.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "models/parted_denoiser.h"
#include "models/weight_source.h"

namespace troupe::actors {
namespace {

std::uint64_t both(std::uint64_t denoiser, std::uint64_t autoencoder) {
  const std::array<std::uint64_t, 2> parts = {denoiser, autoencoder};
  return xxh3_64(std::as_bytes(std::span(parts)));
}

/// Weights that cannot be read any more cost the worker, not the sample: other
/// processes have them. The part is complete when this returns.
template <typename Read>
void read_part(ExecContext& ctx, const Read& read) {
  try {
    read();
    ctx.synchronize();  // others read the weights in queues of their own
  } catch (const Error& error) {
    if (error.code() == Errc::interrupted ||
        error.code() == Errc::device_full ||
        error.code() == Errc::device_lost) {
      throw;
    }
    throw Error(
        Errc::device_lost, to_string(ctx.device()),
        "its part of the model cannot be read: " + std::string(error.what()),
        "give the folder that the job was started with");
  }
}

}  // namespace

template <typename Fn>
void ModelSource::with_weights(ExecContext& ctx, const Fn& fn) const {
  if (!checkpoint_) {
    models::RandomWeights weights(ctx, kRandomWeightsSeed);
    return fn(weights, weights);
  }
  models::FileWeights denoiser(ctx, checkpoint_->denoiser.weights);
  if (!checkpoint_->vae) {
    return fn(denoiser, denoiser);
  }
  models::FileWeights decoder(ctx, checkpoint_->vae->weights);
  fn(denoiser, decoder);
}

LoadedModel ModelSource::load(ExecContext& ctx, DType compute,
                              models::WeightPlacement placement) const {
  LoadedModel model;
  with_weights(ctx, [&](models::WeightSource& network,
                        models::WeightSource& weights) {
    model.denoiser = model_.denoiser->load(ctx, compute, network,
                                           models::SegmentRange{}, placement);
    model.weights_hash = model.denoiser->info().weights_hash;
    if (model_.decoder) {
      std::shared_ptr<const models::AutoencoderKl> decoder =
          model_.decoder->load(ctx, compute, weights);
      model.weights_hash = both(model.weights_hash, decoder->weights_hash());
      model.decoder = std::make_shared<models::FirstUse<models::AutoencoderKl>>(
          std::move(decoder));
    }
  });
  return model;
}

LoadedModel ModelSource::load_when_used(
    ExecContext& ctx, DType compute, const std::vector<int>& cuts,
    models::WeightPlacement placement) const {
  LoadedModel model;
  if (told_tensors_.empty()) {
    read_through(ctx, model);
  } else {
    take_hashes(ctx, compute, model);
  }
  const auto tensors =
      std::make_shared<const std::vector<std::uint64_t>>(model.tensor_hashes);
  model.denoiser = std::make_shared<models::PartedDenoiser>(
      denoiser().info(denoiser().latent_shape(), compute), cuts,
      [this, compute, placement, tensors](ExecContext& on,
                                          models::SegmentRange blocks) {
        std::shared_ptr<const models::Denoiser> part;
        read_part(on, [&] {
          with_weights(on, [&](models::WeightSource& network,
                               models::WeightSource& /*decoder*/) {
            network.hold_to(*tensors);
            part =
                model_.denoiser->load(on, compute, network, blocks, placement);
          });
        });
        return part;
      });
  if (model_.decoder) {
    model.decoder = std::make_shared<models::FirstUse<models::AutoencoderKl>>(
        [this, compute, tensors](ExecContext& on) {
          std::shared_ptr<const models::AutoencoderKl> decoder;
          read_part(on, [&] {
            with_weights(on, [&](models::WeightSource& /*network*/,
                                 models::WeightSource& weights) {
              weights.hold_to(*tensors);
              decoder = model_.decoder->load(on, compute, weights);
            });
          });
          return decoder;
        });
  }
  return model;
}

void ModelSource::read_through(ExecContext& ctx, LoadedModel& model) const {
  with_weights(
      ctx, [&](models::WeightSource& denoiser, models::WeightSource& decoder) {
        denoiser.note_tensors();
        decoder.note_tensors();
        model.weights_hash = hash_of(ctx, denoiser, decoder);
        model.tensor_hashes = denoiser.tensor_hashes();
        if (&decoder != &denoiser) {
          model.tensor_hashes.insert(model.tensor_hashes.end(),
                                     decoder.tensor_hashes().begin(),
                                     decoder.tensor_hashes().end());
        }
      });
  std::ranges::sort(model.tensor_hashes);
}

void ModelSource::take_hashes(ExecContext& ctx, DType compute,
                              LoadedModel& model) const {
  model.weights_hash = told_hash_;
  model.tensor_hashes = told_tensors_;
  const std::vector<models::BlockInfo> blocks = info(compute).blocks;
  const auto smallest =
      std::ranges::min_element(blocks, {}, &models::BlockInfo::parameter_bytes);
  const auto first = static_cast<int>(smallest - blocks.begin());
  with_weights(ctx, [&](models::WeightSource& network,
                        models::WeightSource& /*decoder*/) {
    network.hold_to(told_tensors_);
    try {
      (void)model_.denoiser->load(ctx, compute, network, {first, first + 1});
    } catch (const Error& error) {
      if (error.code() != Errc::invalid_argument) {
        throw;
      }
      throw Error(Errc::invalid_argument, name(),
                  "other weights than the job's: " + std::string(error.what()),
                  "give the folder that the job was started with");
    }
  });
}

std::uint64_t ModelSource::weights_hash(ExecContext& ctx) const {
  std::uint64_t hash = 0;
  with_weights(
      ctx, [&](models::WeightSource& denoiser, models::WeightSource& decoder) {
        hash = hash_of(ctx, denoiser, decoder);
      });
  return hash;
}

std::uint64_t ModelSource::hash_of(ExecContext& ctx,
                                   models::WeightSource& denoiser,
                                   models::WeightSource& decoder) const {
  const std::uint64_t hash = model_.denoiser->weights_hash(ctx, denoiser);
  return model_.decoder ? both(hash, model_.decoder->weights_hash(ctx, decoder))
                        : hash;
}

void ModelSource::hold_to(const ModelRecord& job) {
  told_hash_ = job.weights_xxh3;
  told_tensors_ = job.tensors_xxh3;
}

}  // namespace troupe::actors
