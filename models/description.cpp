#include "models/description.h"

#include <string>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "models/vae/tiled_decode.h"

namespace troupe::models {

extern const DenoiserRow kDit;
extern const DenoiserRow kPixArt;
extern const DenoiserRow kUNet;
extern const DenoiserRow kUVit;
extern const DenoiserRow kOldTransformer;

DenoiserTable denoiser_table() {
  static constexpr const DenoiserRow* kTable[] = {&kDit, &kPixArt, &kUNet,
                                                  &kUVit, &kOldTransformer};
  return kTable;
}

namespace {

/// key: of the file `place`, where the name stands.
const DenoiserRow& row_of(const std::string& place, const std::string& key,
                          std::string_view class_name, DenoiserTable table) {
  std::string names;
  for (const DenoiserRow* row : table) {
    if (row->class_name == class_name) {
      return *row;
    }
    names += (names.empty() ? "" : ", ") + std::string(row->class_name);
  }
  throw Error(
      Errc::unsupported, place,
      key + ": got " + in_quotes(class_name) + ", expected one of " + names,
      "this network cannot be run yet");
}

void check_decoder_class(const std::string& place, const std::string& key,
                         std::string_view class_name) {
  require(class_name == "AutoencoderKL", Errc::unsupported, place,
          key + ": got " + in_quotes(class_name) + ", expected AutoencoderKL",
          "this autoencoder cannot be run");
}

/// diffusers makes what model_index.json names of the files, whatever their
/// config.json says. Old folders of DiT and PixArt name Transformer2DModel in
/// one of them or in both.
void check_index_classes(const Checkpoint& checkpoint, DenoiserTable table) {
  const std::string place = checkpoint.index_path().string();
  const Component& network = checkpoint.denoiser;
  if (!network.index_class.empty()) {
    (void)row_of(place, network.folder.filename().string(), network.index_class,
                 table);
  }
  if (checkpoint.vae && !checkpoint.vae->index_class.empty()) {
    check_decoder_class(place, "vae", checkpoint.vae->index_class);
  }
}

}  // namespace

const DenoiserRow& find_denoiser(const Json& config,
                                 std::string_view class_name,
                                 DenoiserTable table) {
  return row_of(config.place(), "_class_name", class_name, table);
}

void DenoiserDescription::check_condition(const Condition& condition) const {
  const std::int64_t num_classes = info(latent_shape(), DType::f32).num_classes;
  const std::int64_t label = condition.class_label();
  require(condition.tensors().size() == 1, Errc::invalid_argument, "condition",
          "the network takes a class_label and nothing else");
  require(label >= 0 && label <= num_classes, Errc::invalid_argument,
          "class_label",
          "got " + std::to_string(label) + ", expected 0 to " +
              std::to_string(num_classes));
}

DecoderDescription::DecoderDescription(const Json& config)
    : config_(parse_autoencoder_kl_config(config)),
      has_quant_conv_(config.boolean("use_quant_conv", true)) {}

std::string_view DecoderDescription::config_keys() {
  // The other keys are the encoder's, or change nothing here.
  static const std::string kKeys = keys_of<AutoencoderKlConfig>(
      "down_block_types force_upcast in_channels use_quant_conv");
  return kKeys;
}

Shape DecoderDescription::pixel_shape(const Shape& latents) const {
  return config_.pixel_shape(latents);
}

std::int64_t DecoderDescription::tile_side() const noexcept {
  const std::int64_t side = config_.tile_side();
  return side < kSmallestTile ? 0 : side;
}

double DecoderDescription::flops(const Shape& latents,
                                 std::int64_t tile) const {
  return tiled_costs(config_, DType::f32, latents, tile).flops;
}

std::uint64_t DecoderDescription::weights_bytes(DType compute) const {
  return autoencoder_kl_weights_bytes(config_, compute);
}

std::uint64_t DecoderDescription::picture_bytes(const Shape& latents,
                                                DType compute,
                                                std::int64_t tile) const {
  return tiled_costs(config_, compute, latents, tile).bytes;
}

ThreadScratch DecoderDescription::scratch(const Shape& latents, DType compute,
                                          std::int64_t tile) const {
  return tiled_costs(config_, compute, latents, tile).scratch;
}

/// The encoder is never read: names of modules identify its tensors.
ClassTensors DecoderDescription::tensors() const {
  ClassTensors tensors{
      .names = autoencoder_kl_names(config_),
      .prefixes = {"encoder.conv_in.", "encoder.conv_norm_out.",
                   "encoder.conv_out.", "encoder.mid_block."}};
  for (std::size_t i = 0; i < config_.block_out_channels.size(); ++i) {
    tensors.prefixes.push_back("encoder.down_blocks." + std::to_string(i) +
                               ".");
  }
  if (has_quant_conv_) {
    tensors.prefixes.emplace_back("quant_conv.");
  }
  return tensors;
}

std::unique_ptr<AutoencoderKl> DecoderDescription::load(
    ExecContext& ctx, DType compute, WeightSource& weights) const {
  return std::make_unique<AutoencoderKl>(ctx, config_, compute, weights);
}

std::uint64_t DecoderDescription::weights_hash(ExecContext& ctx,
                                               WeightSource& weights) const {
  return autoencoder_kl_weights_hash(ctx, config_, weights);
}

namespace {

constexpr std::int64_t kMostPixelsPerSide = 16384;

void check_tensors(const Component& component, ClassTensors known,
                   std::vector<std::string>& notes) {
  const UnusedTensors unused =
      check_class_tensors(component.weights, component.folder.string(),
                          component.class_name, std::move(known));
  if (unused.count > 0) {
    notes.push_back(component.folder.string() + ": " +
                    counted(unused.count, "tensor") +
                    (unused.count == 1 ? " is" : " are") +
                    " not used, the first is " + in_quotes(unused.first));
  }
}

/// A sampler steps the latents that the network is given. So the network has to
/// predict a value for each channel of the latents.
void check_prediction(const DenoiserDescription& denoiser,
                      const std::string& place) {
  const Shape latents = denoiser.latent_shape();
  const std::int64_t predicted =
      denoiser.info(latents, DType::f32).guided_channels;
  require(latents[0] <= predicted, Errc::unsupported, place,
          "in_channels: got " + std::to_string(latents[0]) +
              ", expected out_channels, " + std::to_string(predicted) +
              ": the network takes more than latents, such as a mask and a "
              "picture for inpainting",
          "give a checkpoint that draws from a prompt or a class alone");
}

}  // namespace

DecoderDescription describe_decoder(const Json& config) {
  check_decoder_class(config.place(), "_class_name",
                      config.string("_class_name", ""));
  return DecoderDescription(config);
}

void check_fit(const ModelDescription& model, const std::string& place) {
  const Shape latents = model.denoiser->latent_shape();
  require(model.decoder->latent_channels() == latents[0], Errc::corrupt_file,
          place,
          "latent_channels: got " +
              std::to_string(model.decoder->latent_channels()) + ", expected " +
              std::to_string(latents[0]) + " as the network has",
          "this autoencoder belongs to another model");
  // No tensor of the checkpoint bounds sample_size.
  const std::int64_t side =
      LatentGeometry::of(model.pixel_shape(latents)).width;
  require(side <= kMostPixelsPerSide, Errc::unsupported, place,
          "pictures: got " + std::to_string(side) +
              " pixels a side, expected at most " +
              std::to_string(kMostPixelsPerSide),
          "correct sample_size in the network's config.json");
}

ModelDescription describe_model(const Checkpoint& checkpoint,
                                std::vector<std::string>& notes,
                                DenoiserTable table) {
  check_index_classes(checkpoint, table);
  const Component& network = checkpoint.denoiser;
  ModelDescription model;
  model.denoiser = find_denoiser(network.config, network.class_name, table)
                       .describe(network.config);
  check_tensors(network, model.denoiser->tensors(), notes);
  check_prediction(*model.denoiser, network.config.place());
  if (checkpoint.vae) {
    const DecoderDescription decoder = describe_decoder(checkpoint.vae->config);
    check_tensors(*checkpoint.vae, decoder.tensors(), notes);
    model.decoder = decoder;
    check_fit(model, checkpoint.vae->config.place());
  }
  return model;
}

}  // namespace troupe::models
