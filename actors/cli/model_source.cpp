#include "actors/cli/model_source.h"

#include <algorithm>
#include <array>

#include "config/bundled_models.h"
#include "config/option_table.h"
#include "config/parse_value.h"
#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/log.h"
#include "kernels/core/text.h"
#include "models/files/weight_source.h"
#include "models/network/parted_denoiser.h"
#include "models/vae/tiled_decode.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;
using models::LatentGeometry;

// Of diffusers' StableDiffusionXLImg2ImgPipeline.
constexpr double kAestheticScore = 6.0;
constexpr double kNegativeScore = 2.5;

/// Of a bundled config; empty where there is none.
std::string canonical(std::string_view config) {
  return config.empty() ? std::string()
                        : models::Json::parse(config, "bundled").canonical();
}

std::uint64_t both(std::uint64_t denoiser, std::uint64_t autoencoder) {
  const std::array<std::uint64_t, 2> parts = {denoiser, autoencoder};
  return xxh3_64(std::as_bytes(std::span(parts)));
}

/// What is wrong with a model that was held to a job's. `error`: what was found
/// when it was read.
Error wrong_model(const std::string& name, const Error& error) {
  if (error.code() != Errc::invalid_argument) {
    return error;
  }
  return {Errc::invalid_argument, name,
          "other weights than the job's: " + std::string(error.what()),
          "give the folder that the job was started with"};
}

}  // namespace

fs::path converter_of(const fs::path& program) {
  const fs::path folder = program.parent_path();
  // <prefix>/bin/troupe; <source>/build/<preset>/troupe; <source>/build/troupe.
  for (const fs::path& scripts :
       {folder.parent_path() / "share" / "troupe" / "scripts",
        folder.parent_path().parent_path() / "scripts",
        folder.parent_path() / "scripts"}) {
    std::error_code error;
    if (fs::is_regular_file(scripts / models::kConverter, error)) {
      return scripts / models::kConverter;
    }
  }
  return models::kConverter;
}

models::Checkpoint open_folder(const std::string& folder) {
  std::error_code error;
  return models::open_checkpoint(
      folder, converter_of(fs::read_symlink("/proc/self/exe", error)));
}

std::string folder_name(const std::string& folder) {
  std::error_code error;
  return fs::weakly_canonical(folder, error).filename().string();
}

ModelSource ModelSource::open(const std::string& bundled,
                              const std::string& folder,
                              models::DenoiserTable table) {
  ModelSource source;
  source.table_ = table;
  if (!bundled.empty()) {
    const config::BundledModel& model = config::find_bundled_model(bundled);
    source.record_ = {.name = bundled,
                      .denoiser_config = canonical(model.denoiser),
                      .decoder_config = canonical(model.vae),
                      .random_weights = true};
    source.model_ = describe(source.record_, table);
    source.scheduler_config_ = model.scheduler;
    source.pipeline_ = models::find_prompt_pipeline(model.pipeline);
  } else {
    source.open_checkpoint(folder);
  }
  source.latents_ = source.denoiser().latent_shape();
  return source;
}

void ModelSource::fit_to(const JobRecord& job) {
  latents_ = Shape(job.latent_shape);
  picture_size_ = job.picture_size;
  vae_tile_ = job.vae_tile;
}

ModelSource ModelSource::open(const config::Config& config,
                              models::DenoiserTable table) {
  ModelSource source = open(config.random_weights, config.model_dir, table);
  source.choose_size(config);
  source.take_told(config);
  if (config.vae_tiling) {
    source.take_tiles(config.place_of("vae-tiling"));
  }
  return source;
}

std::span<const models::ResolutionBin> ModelSource::bins() const {
  return decoder() && pipeline_ != nullptr && pipeline_->bins != nullptr
             ? pipeline_->bins(
                   LatentGeometry::of(denoiser().latent_shape()).width)
             : std::span<const models::ResolutionBin>();
}

void ModelSource::choose_size(const config::Config& config) {
  const bool has_bins = !config.no_resolution_bins && !bins().empty();
  if (!config.size && !has_bins) {
    return;
  }
  const auto trained = LatentGeometry::of(decoded_shape());
  // A side that is 0 is left to the model.
  config::PictureSize wanted = config.size.value_or(config::PictureSize{0, 0});
  const std::string place =
      config.place_of(wanted.height == wanted.width ? "size"
                      : wanted.height == 0          ? "width"
                      : wanted.width == 0           ? "height"
                                                    : "size");
  wanted.width = wanted.width > 0 ? wanted.width : trained.width;
  wanted.height = wanted.height > 0 ? wanted.height : trained.height;
  if (!has_bins) {
    return resize(wanted, place, "ask for that, or for another size");
  }
  const models::ResolutionBin& bin =
      models::nearest_bin(bins(), wanted.height, wanted.width);
  resize({bin.width, bin.height}, place,
         "--no-resolution-bins samples at the size that you ask for");
  if (bin.width != wanted.width || bin.height != wanted.height) {
    picture_size_ = {wanted.height, wanted.width};
    size_ = wanted;
  }
}

Shape ModelSource::pixel_shape() const {
  const Shape decoded = decoded_shape();
  return picture_size_.empty()
             ? decoded
             : Shape{decoded[0], picture_size_[0], picture_size_[1]};
}

void ModelSource::resize(const config::PictureSize& size,
                         const std::string& place, const char* hint) {
  const std::int64_t scale = decoder() ? decoder()->scale() : 1;
  const auto latent_side = [&](std::int64_t pixels) {
    return std::max<std::int64_t>((pixels + scale / 2) / scale, 1);
  };
  latents_ = denoiser().nearest_latents(
      LatentGeometry::of(latents_)
          .with_sides(latent_side(size.height), latent_side(size.width))
          .shape());
  const auto picture = LatentGeometry::of(decoded_shape());
  const config::PictureSize nearest{picture.width, picture.height};
  require(nearest == size, Errc::invalid_argument, place,
          "the model makes no pictures of this size: got " +
              config::to_string(size) + ", the nearest that works is " +
              config::to_string(nearest),
          hint);
  const auto trained =
      LatentGeometry::of(model_.pixel_shape(denoiser().latent_shape()));
  if (trained != picture) {
    size_ = size;
  }
}

void ModelSource::take_tiles(const std::string& place) {
  if (!decoder()) {
    return;
  }
  const std::int64_t side = decoder()->tile_side();
  require(side > 0, Errc::unsupported, place,
          "the model's autoencoder has no tiles: sample_size in its "
          "config.json is less than two latents",
          "leave it out");
  // What is no larger is decoded whole: the same job, and the same recipe.
  if (models::exceeds_tile(latents_, side)) {
    vae_tile_ = side;
  }
}

bool ModelSource::has_score() const {
  return pipeline_ != nullptr && pipeline_->goes_on && checkpoint_ &&
         checkpoint_->wants_score;
}

void ModelSource::check_told(const config::Config& config) const {
  struct Told {
    const char* key;
    bool is_read;
    const char* hint;
  };
  const bool sides = denoiser().takes_sides();
  constexpr const char* kSides = "leave it out: Stable Diffusion XL takes it";
  constexpr const char* kTarget =
      "leave it out: the refiner is told --aesthetic-score in its place";
  constexpr const char* kScore =
      "leave it out: the refiner of Stable Diffusion XL takes it";
  const char* const target = sides ? kTarget : kSides;
  for (const Told& told :
       {Told{"original-size", sides, kSides}, Told{"crop", sides, kSides},
        Told{"target-size", sides && !has_score(), target},
        Told{"negative-original-size", sides, kSides},
        Told{"negative-crop", sides, kSides},
        Told{"negative-target-size", sides && !has_score(), target},
        Told{"aesthetic-score", has_score(), kScore},
        Told{"negative-aesthetic-score", has_score(), kScore}}) {
    require(told.is_read || config::find_option(told.key)->get(config).empty(),
            Errc::invalid_argument, config.place_of(told.key),
            "the model is not told this of a picture", told.hint);
  }
}

void ModelSource::take_told(const config::Config& config) {
  check_told(config);
  told_ = config.told;
  told_negative_ = config.told_negative;
  config::SizeConfig& other = told_negative_;
  // The pipeline that draws takes all of the other branch or nothing.
  const bool one_by_one = pipeline_ != nullptr && pipeline_->goes_on;
  const bool is_given = other.original || other.crop || other.target;
  if (is_given && !one_by_one && !(other.original && other.target)) {
    throw Error(
        Errc::invalid_argument,
        config.place_of(other.original ? "negative-original-size"
                        : other.target ? "negative-target-size"
                                       : "negative-crop"),
        "the network is told all of the other branch, or nothing",
        "give --negative-original-size and --negative-target-size, too");
  }
  if (one_by_one || !is_given) {
    other.original = other.original ? other.original : told_.original;
    other.target = other.target ? other.target : told_.target;
    other.crop = one_by_one ? other.crop : told_.crop;
  }
}

models::PictureIds ModelSource::ids(bool is_negative) const {
  const auto picture = LatentGeometry::of(decoded_shape());
  const config::PictureSize whole{picture.width, picture.height};
  const config::SizeConfig& told = this->told(is_negative);
  const config::PictureSize original = told.original.value_or(whole);
  const config::PictureCorner crop =
      told.crop.value_or(config::PictureCorner{});
  const config::PictureSize target = told.target.value_or(whole);
  std::optional<double> score;
  if (has_score()) {
    score = told.aesthetic_score.value_or(is_negative ? kNegativeScore
                                                      : kAestheticScore);
  }
  return {.original_height = original.height,
          .original_width = original.width,
          .crop_top = crop.top,
          .crop_left = crop.left,
          .target_height = target.height,
          .target_width = target.width,
          .aesthetic_score = score};
}

ConditionFinisher ModelSource::side_adder() const {
  return
      [denoiser = model_.denoiser, positive = ids(false), negative = ids(true)](
          models::Condition& condition, bool is_negative) {
        denoiser->add_sides(is_negative ? negative : positive, condition);
      };
}

void ModelSource::open_checkpoint(const std::string& folder) {
  require(!folder.empty(), Errc::invalid_argument, "--model", "no model named",
          "give --model DIR, or --random-weights NAME to measure speed without "
          "a download");
  checkpoint_ = std::make_shared<const models::Checkpoint>(open_folder(folder));
  std::vector<std::string> notes;
  model_ = models::describe_model(*checkpoint_, notes, table_);
  record_.denoiser_config = checkpoint_->denoiser.config.canonical();
  if (checkpoint_->vae) {
    record_.decoder_config = checkpoint_->vae->config.canonical();
  }
  for (const std::string& note : notes) {
    log_message(LogLevel::info, note);
  }
  record_.name = folder_name(folder);
  scheduler_config_ = checkpoint_->scheduler_config;
  pipeline_ = models::find_prompt_pipeline(checkpoint_->pipeline_class);
  if (checkpoint_->lacks_first_encoder) {
    pipeline_ = pipeline_->without_first;
  }
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
  const std::int64_t num_classes = info(DType::f32).num_classes;
  for (const std::string& wanted : classes) {
    const auto found = by_name.find(lowered(wanted));
    if (found != by_name.end()) {
      ids.push_back(the_only_class(wanted, found->second));
      continue;
    }
    std::int64_t id = -1;
    const std::string range =
        "an id from 0 to " + std::to_string(num_classes - 1);
    if (config::read_number(wanted, id) && id >= 0 && id < num_classes) {
      ids.push_back(id);
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

ModelRecord ModelSource::record(std::uint64_t weights_hash) const {
  ModelRecord record = record_;
  record.weights_xxh3 = weights_hash;
  return record;
}

// ---- weights

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
      std::shared_ptr<const models::Decoder> decoder =
          model_.decoder->load(ctx, compute, weights);
      model.weights_hash = both(model.weights_hash, decoder->weights_hash());
      model.decoder = std::make_shared<models::FirstUse<models::Decoder>>(
          std::move(decoder));
    }
  });
  return model;
}

/// Weights that cannot be read any more cost the worker, not the sample: other
/// processes have them. The part is complete when this returns.
template <typename Read>
void ModelSource::read_part(ExecContext& ctx, const Read& read) const {
  try {
    read();
    ctx.synchronize();  // others read the weights in queues of their own
  } catch (const Error& error) {
    if (error.code() == Errc::interrupted ||
        error.code() == Errc::device_full ||
        error.code() == Errc::device_lost) {
      throw;
    }
    // Where memory is short, another device may have more.
    if (on_wrong_model_ && error.code() != Errc::out_of_memory) {
      on_wrong_model_(wrong_model(name(), error));
    }
    throw Error(
        Errc::device_lost, to_string(ctx.device()),
        "its part of the model cannot be read: " + std::string(error.what()),
        "give the folder that the job was started with");
  }
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
    model.decoder = std::make_shared<models::FirstUse<models::Decoder>>(
        [this, compute, tensors](ExecContext& on) {
          std::shared_ptr<const models::Decoder> decoder;
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
      throw wrong_model(name(), error);
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
