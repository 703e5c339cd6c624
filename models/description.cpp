#include "models/description.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::models {

extern const DenoiserRow kDit;
extern const DenoiserRow kPixArt;
extern const DenoiserRow kUNet;
extern const DenoiserRow kUVit;
extern const DenoiserRow kOldTransformer;
extern const DecoderRow kAutoencoderKl;

double ShardFigures::slowest_share(double flops_alone) const {
  const auto slowest = std::ranges::max_element(ranks, {}, &Rank::flops);
  return slowest->flops / flops_alone;
}

std::uint64_t ShardFigures::most_received_bytes() const {
  return std::ranges::max_element(ranks, {}, &Rank::received_bytes)
      ->received_bytes;
}

std::uint64_t ShardFigures::most_bytes() const {
  std::uint64_t most = 0;
  for (const Rank& rank : ranks) {
    most = std::max(most, rank.pass_bytes + rank.shared_bytes);
  }
  return most;
}

std::uint64_t ShardFigures::bytes_in_one_memory() const {
  std::uint64_t own = 0;
  std::uint64_t shared = 0;
  for (const Rank& rank : ranks) {
    own += rank.pass_bytes;
    shared = std::max(shared, rank.shared_bytes);
  }
  return own + shared;
}

ShardFigures DenoiserDescription::shard_figures(const Shape& /*latents*/,
                                                DType /*compute*/,
                                                DeviceKind /*kind*/,
                                                AttentionPlan /*plan*/,
                                                int world_size) const {
  throw Error(
      Errc::unsupported, "network",
      "token shards: got " + std::to_string(world_size) + " ranks, expected 1");
}

DenoiserTable denoiser_table() {
  static constexpr const DenoiserRow* kTable[] = {&kDit, &kPixArt, &kUNet,
                                                  &kUVit, &kOldTransformer};
  return kTable;
}

std::span<const DecoderRow* const> decoder_table() {
  static constexpr const DecoderRow* kTable[] = {&kAutoencoderKl};
  return kTable;
}

namespace {

/// key: of the file `place`, where the name stands.
template <typename Row>
const Row& row_of(const std::string& place, const std::string& key,
                  std::string_view class_name,
                  std::span<const Row* const> table, std::string_view hint) {
  std::string names;
  for (const Row* row : table) {
    if (row->class_name == class_name) {
      return *row;
    }
    names += (names.empty() ? "" : ", ") + std::string(row->class_name);
  }
  throw Error(Errc::unsupported, place,
              key + ": got " + in_quotes(class_name) + ", expected " +
                  (table.size() == 1 ? "" : "one of ") + names,
              hint);
}

constexpr std::string_view kNoNetwork = "this network cannot be run yet";
constexpr std::string_view kNoDecoder = "this autoencoder cannot be run";

/// diffusers makes what model_index.json names of the files, whatever their
/// config.json says. Old folders of DiT and PixArt name Transformer2DModel in
/// one of them or in both.
void check_index_classes(const Checkpoint& checkpoint, DenoiserTable table) {
  const std::string place = checkpoint.index_path().string();
  const Component& network = checkpoint.denoiser;
  if (!network.index_class.empty()) {
    (void)row_of(place, network.folder.filename().string(), network.index_class,
                 table, kNoNetwork);
  }
  if (checkpoint.vae && !checkpoint.vae->index_class.empty()) {
    (void)row_of(place, "vae", checkpoint.vae->index_class, decoder_table(),
                 kNoDecoder);
  }
}

}  // namespace

const DenoiserRow& find_denoiser(const Json& config,
                                 std::string_view class_name,
                                 DenoiserTable table) {
  return row_of(config.place(), "_class_name", class_name, table, kNoNetwork);
}

void DenoiserDescription::check_condition(const Condition& condition) const {
  (void)checked_class_label(condition,
                            info(latent_shape(), DType::f32).num_classes);
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

std::unique_ptr<DecoderDescription> describe_decoder(const Json& config) {
  return row_of(config.place(), "_class_name", config.string("_class_name", ""),
                decoder_table(), kNoDecoder)
      .describe(config);
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
    model.decoder = describe_decoder(checkpoint.vae->config);
    check_tensors(*checkpoint.vae, model.decoder->tensors(), notes);
    check_fit(model, checkpoint.vae->config.place());
  }
  return model;
}

}  // namespace troupe::models
