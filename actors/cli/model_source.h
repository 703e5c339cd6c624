#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/config.h"
#include "models/autoencoder_kl.h"
#include "models/checkpoint.h"
#include "models/denoiser.h"
#include "models/dit_config.h"
#include "models/placement.h"

namespace troupe::actors {

/// A model with its weights in memory.
struct LoadedModel {
  std::unique_ptr<models::Denoiser> denoiser;
  std::unique_ptr<models::AutoencoderKl> autoencoder;  ///< null: pixel space
  std::uint64_t weights_hash = 0;
};

/// What a model takes of a device's memory.
struct MemoryNeeds {
  std::uint64_t weights_bytes = 0;   ///< that stay there
  std::uint64_t visiting_bytes = 0;  ///< of every worker: offloaded blocks
  std::uint64_t row_bytes = 0;       ///< activations of one row (a branch)
  std::uint64_t decode_bytes = 0;    ///< while one picture is decoded
};

/// A model as its files describe it: known before any weight is read.
class ModelSource {
 public:
  /// A checkpoint folder or a bundled shape.
  /// Errors: those of models::open_checkpoint; Errc::not_found for a bundled
  /// name; Errc::invalid_argument when neither is given.
  [[nodiscard]] static ModelSource open(const config::Config& config);

  /// Folder name or bundled name.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] bool is_random() const noexcept { return !checkpoint_; }
  [[nodiscard]] const models::DitConfig& dit() const noexcept { return dit_; }
  [[nodiscard]] const std::string& scheduler_config() const noexcept {
    return scheduler_config_;
  }
  /// [C, H, W].
  [[nodiscard]] Shape latent_shape() const;
  /// [C, H', W'] of one picture.
  [[nodiscard]] Shape pixel_shape() const;
  [[nodiscard]] bool has_autoencoder() const noexcept {
    return autoencoder_.has_value();
  }
  [[nodiscard]] const std::optional<models::AutoencoderKlConfig>& autoencoder()
      const noexcept {
    return autoencoder_;
  }
  [[nodiscard]] const std::optional<models::Checkpoint>& checkpoint()
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

  /// Bytes of packed weights and activations: `workers` forward passes of
  /// `rows` rows at once, and one picture being decoded per worker.
  [[nodiscard]] std::uint64_t required_bytes(DType compute, int workers,
                                             std::int64_t rows) const;

  /// The parts of `required_bytes`, on such a device.
  [[nodiscard]] MemoryNeeds memory_needs(
      DeviceKind kind, DType compute,
      models::WeightPlacement placement =
          models::WeightPlacement::resident) const;

  /// Bytes of activations while one picture is decoded; 0 without a VAE.
  [[nodiscard]] std::uint64_t decode_bytes(DType compute) const;

  /// Reads and packs the weights.
  [[nodiscard]] LoadedModel load(ExecContext& ctx, DType compute,
                                 models::WeightPlacement placement =
                                     models::WeightPlacement::resident) const;

  /// The hash that a loaded model has: reads the weights and keeps none.
  [[nodiscard]] std::uint64_t weights_hash(ExecContext& ctx) const;

 private:
  [[nodiscard]] std::int64_t the_only_class(
      const std::string& wanted, const std::set<std::int64_t>& ids) const;

  std::string name_;
  models::DitConfig dit_;
  std::optional<models::AutoencoderKlConfig> autoencoder_;
  std::string scheduler_config_;
  std::optional<models::Checkpoint> checkpoint_;
};

}  // namespace troupe::actors
