#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "actors/job_parts.h"
#include "config/config.h"
#include "models/description.h"
#include "models/text/prompt_pipeline.h"

namespace troupe::actors {

/// Fixed: random weights shall be the same everywhere.
inline constexpr std::uint64_t kRandomWeightsSeed = 0;

/// Where convert_checkpoint.py lies for the program at `program`: in the share
/// folder beside it if it is installed, in the source tree above it if it was
/// just built; its bare name if it is in neither folder.
[[nodiscard]] std::filesystem::path converter_of(
    const std::filesystem::path& program);

/// The checkpoint in a folder, and the folder's name.
/// Errors: those of models::open_checkpoint.
[[nodiscard]] models::Checkpoint open_folder(const std::string& folder);
[[nodiscard]] std::string folder_name(const std::string& folder);

/// Makes the condition of a prompt, or of a negative prompt, whole.
using ConditionFinisher =
    std::function<void(models::Condition& condition, bool is_negative)>;

/// A model as its files describe it: known before any weight is read.
class ModelSource {
 public:
  /// A bundled shape, or, if that is empty, a checkpoint folder; for latents of
  /// the shape that it was trained with.
  /// Errors: those of models::open_checkpoint; Errc::not_found for a bundled
  /// name; Errc::invalid_argument when neither is given.
  [[nodiscard]] static ModelSource open(
      const std::string& bundled, const std::string& folder,
      models::DenoiserTable table = models::denoiser_table());
  /// The model of the options, for pictures of the size that they ask for.
  /// Errors: the same; Errc::invalid_argument for a size that it does not have.
  [[nodiscard]] static ModelSource open(
      const config::Config& config,
      models::DenoiserTable table = models::denoiser_table());
  /// Takes latents, pictures and tiles of a job that was checked.
  void fit_to(const JobRecord& job);

  /// Folder name or bundled name.
  [[nodiscard]] const std::string& name() const noexcept {
    return record_.name;
  }
  [[nodiscard]] bool is_random() const noexcept {
    return record_.random_weights;
  }
  [[nodiscard]] const models::DenoiserDescription& denoiser() const noexcept {
    return *model_.denoiser;
  }
  /// None for a model that works on pixels.
  [[nodiscard]] const std::shared_ptr<const models::DecoderDescription>&
  decoder() const noexcept {
    return model_.decoder;
  }
  /// Of the network, for latents of the job's shape.
  [[nodiscard]] models::DenoiserInfo info(DType compute) const {
    return model_.denoiser->info(latents_, compute);
  }
  /// The model as a job's record names it.
  [[nodiscard]] ModelRecord record(std::uint64_t weights_hash) const;
  /// The table in which the network was found.
  [[nodiscard]] models::DenoiserTable table() const noexcept { return table_; }
  [[nodiscard]] const std::string& scheduler_config() const noexcept {
    return scheduler_config_;
  }
  [[nodiscard]] int num_blocks() const {
    return static_cast<int>(info(DType::f32).blocks.size());
  }
  /// Of one sample of the job.
  [[nodiscard]] const Shape& latent_shape() const noexcept { return latents_; }
  /// Size of the job's picture, if it differs from the size that the model was
  /// trained with.
  [[nodiscard]] const std::optional<config::PictureSize>& size()
      const noexcept {
    return size_;
  }
  /// Side of the tiles that its picture is decoded in, in latents; 0: whole.
  [[nodiscard]] std::int64_t vae_tile() const noexcept { return vae_tile_; }
  /// [C, H', W'] of the decoded latents.
  [[nodiscard]] Shape decoded_shape() const {
    return model_.pixel_shape(latents_);
  }
  /// [C, H', W'] of its picture.
  [[nodiscard]] Shape pixel_shape() const;
  /// Height and width of its picture if what is decoded is scaled and cut to
  /// them, else empty (JobRecord::picture_size).
  [[nodiscard]] const std::vector<std::int64_t>& picture_size() const noexcept {
    return picture_size_;
  }
  /// The sizes that the pipeline samples at; none: any.
  [[nodiscard]] std::span<const models::ResolutionBin> bins() const;
  /// What the network is told of the picture in place of its sides: of the
  /// branch that guidance leads away from, or of the other one.
  [[nodiscard]] const config::SizeConfig& told(
      bool is_negative) const noexcept {
    return is_negative ? told_negative_ : told_;
  }
  /// The sides that the network is told, if it takes sides at all.
  [[nodiscard]] models::PictureIds ids(bool is_negative) const;
  /// Adds that to a condition of a branch. It needs nothing of this object.
  [[nodiscard]] ConditionFinisher side_adder() const;
  /// The pipeline that model_index.json names: how prompts are encoded, and its
  /// default settings. Null for a folder without a known pipeline.
  [[nodiscard]] const models::PromptPipeline* pipeline() const noexcept {
    return pipeline_;
  }
  /// Its class; empty: null.
  [[nodiscard]] std::string_view pipeline_class() const noexcept {
    return pipeline_ == nullptr ? std::string_view() : pipeline_->class_name;
  }
  [[nodiscard]] bool takes_prompts() const {
    return denoiser().prompt_width() > 0;
  }
  /// Null: a bundled shape.
  [[nodiscard]] const std::shared_ptr<const models::Checkpoint>& checkpoint()
      const noexcept {
    return checkpoint_;
  }

  /// Class ids for what the user wrote: ids, or names with any of their
  /// synonyms, case ignored. Errors: Errc::invalid_argument with the nearest
  /// name, or with the ids where a name belongs to several.
  [[nodiscard]] std::vector<std::int64_t> resolve_classes(
      const std::vector<std::string>& classes) const;
  /// The name of a class; empty when the model has none.
  [[nodiscard]] std::string class_name(std::int64_t id) const;

  /// Reads and packs the weights.
  [[nodiscard]] LoadedModel load(ExecContext& ctx, DType compute,
                                 models::WeightPlacement placement =
                                     models::WeightPlacement::resident) const;

  /// Blocks [cuts[i], cuts[i + 1]) of the network, and the decoder, are read
  /// and packed when they are first used. Before, the weights are read through
  /// once for their hash; of what `hold_to` named only the smallest block is
  /// read, which shows whether the folder is of another model. A part that has
  /// become another, or cannot be read any more, is Errc::device_lost of the
  /// device: the worker ends, and other workers do its tasks. This object
  /// outlives the model.
  /// Errors: Errc::invalid_argument for other weights than those of `hold_to`.
  [[nodiscard]] LoadedModel load_when_used(
      ExecContext& ctx, DType compute, const std::vector<int>& cuts,
      models::WeightPlacement placement =
          models::WeightPlacement::resident) const;

  /// The hash that a loaded model has: reads the weights and keeps none.
  [[nodiscard]] std::uint64_t weights_hash(ExecContext& ctx) const;

  /// What the weights are, if a job says so tensor by tensor: load_when_used
  /// need not read all of them.
  void hold_to(const ModelRecord& job);

  /// Called with what is wrong when a part that is read later is not the job's,
  /// or cannot be read: the folder is of no use for the job. Thread: any.
  void on_wrong_model(std::function<void(const Error&)> call) {
    on_wrong_model_ = std::move(call);
  }

 private:
  /// Latents for pictures of --size: of the nearest bin, or of that size.
  /// Errors: Errc::invalid_argument with the nearest size that works.
  void choose_size(const config::Config& config);
  void resize(const config::PictureSize& size, const std::string& place,
              const char* hint);
  /// Whether the network is told an aesthetic score.
  [[nodiscard]] bool has_score() const;
  /// Errors: Errc::invalid_argument for what the network is not told.
  void check_told(const config::Config& config) const;
  /// Errors: those of check_told; Errc::invalid_argument for a negative size
  /// without the other one.
  void take_told(const config::Config& config);
  /// Errors: Errc::unsupported for a decoder that has no tiles.
  void take_tiles(const std::string& place);
  void open_checkpoint(const std::string& folder);
  [[nodiscard]] std::uint64_t hash_of(ExecContext& ctx,
                                      models::WeightSource& denoiser,
                                      models::WeightSource& decoder) const;
  /// Reads all weights for their hash, and for the hash of each tensor.
  void read_through(ExecContext& ctx, LoadedModel& model) const;
  /// Takes the hashes from the job, and holds the smallest block to them.
  void take_hashes(ExecContext& ctx, DType compute, LoadedModel& model) const;
  /// Calls fn(denoiser's weights, decoder's weights).
  template <typename Read>
  void read_part(ExecContext& ctx, const Read& read) const;
  template <typename Fn>
  void with_weights(ExecContext& ctx, const Fn& fn) const;
  [[nodiscard]] std::int64_t the_only_class(
      const std::string& wanted, const std::set<std::int64_t>& ids) const;

  ModelRecord record_;  ///< without the weights' hashes
  /// The hashes that a job named; none: the weights are read for them.
  std::uint64_t told_hash_ = 0;
  std::vector<std::uint64_t> told_tensors_;
  std::function<void(const Error&)> on_wrong_model_;
  models::DenoiserTable table_;
  models::ModelDescription model_;
  Shape latents_;
  std::optional<config::PictureSize> size_;
  std::vector<std::int64_t> picture_size_;
  config::SizeConfig told_;
  config::SizeConfig told_negative_;
  std::int64_t vae_tile_ = 0;
  std::string scheduler_config_;
  const models::PromptPipeline* pipeline_ = nullptr;
  std::shared_ptr<const models::Checkpoint> checkpoint_;
};

}  // namespace troupe::actors
