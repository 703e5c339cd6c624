#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "actors/artefacts/png.h"
#include "kernels/conv2d.h"
#include "kernels/core/context.h"

namespace troupe::actors {

/// A small network that says which class a picture shows: convolutions with
/// bias and ReLU, the mean over positions, and a linear layer. It is in the
/// folder `classifier` of a model: config.json and model.safetensors, as
/// scripts/train_classifier.py writes them. Thread: one.
class PictureClassifier {
 public:
  /// Errors: Errc::corrupt_file naming the file and the key or tensor; those of
  /// read_file and SafetensorsFile.
  explicit PictureClassifier(const std::filesystem::path& folder);

  struct Judgement {
    std::vector<float> features;  ///< that the linear layer reads
    std::int64_t label = 0;       ///< of the largest score
  };
  /// Errors: Errc::shape_mismatch unless the picture has `side`.
  [[nodiscard]] Judgement judge(const Image& picture);
  /// Of both sides of a picture, in pixels.
  [[nodiscard]] int side() const noexcept { return side_; }
  /// Of a picture.
  [[nodiscard]] std::int64_t num_features() const { return weight_.dim(1); }
  /// XXH3-64 of both files.
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }
  /// Names of the classes, by label.
  [[nodiscard]] const std::vector<std::string>& labels() const noexcept {
    return labels_;
  }

 private:
  struct Layer {
    kernels::PackedConv2d weights;
    std::int64_t side = 0;  ///< of what it makes
  };

  ExecContext ctx_{1};
  int side_ = 0;
  std::uint64_t hash_ = 0;
  std::vector<std::string> labels_;
  std::vector<Layer> layers_;
  Tensor weight_;  ///< [labels, features] f32
  Tensor bias_;    ///< [labels] f32
};

/// Fréchet distance of two normal distributions with the means and covariances
/// (divided by the number of points) of these points, each of the same length:
/// |a − b|² + tr(A + B − 2 √(A B)). Of features of an Inception network it is
/// FID (Heusel et al. 2017). `a` and `b` are not empty. Errors:
/// Errc::shape_mismatch for points of several lengths.
[[nodiscard]] double frechet_distance(std::span<const std::vector<float>> a,
                                      std::span<const std::vector<float>> b);

}  // namespace troupe::actors
