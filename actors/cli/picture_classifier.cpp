#include "actors/cli/picture_classifier.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/system/atomic_file.h"
#include "models/files/safetensors.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOfTraining =
    "is it as scripts/train_classifier.py wrote it?";

[[noreturn]] void fail_in_classifier(const fs::path& path,
                                     const std::string& what) {
  throw Error(Errc::corrupt_file, path.string(), what, kOfTraining);
}

/// What config.json says of a convolution.
struct ConvLayer {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};

struct ClassifierShape {
  int side = 0;
  std::vector<ConvLayer> layers = {};
  std::vector<std::string> labels = {};
};

ClassifierShape read_shape(const fs::path& path) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20U;
  constexpr std::size_t kMostLayers = 64;
  ClassifierShape shape;
  try {
    const auto config = nlohmann::json::parse(read_file(path, kMostBytes));
    shape.side = config.at("resolution").get<int>();
    for (const auto& layer : config.at("layers")) {
      const ConvLayer& said = shape.layers.emplace_back(
          ConvLayer{layer.at("stride").get<std::int64_t>(),
                    layer.at("padding").get<std::int64_t>()});
      if (said.stride < 1 || said.padding < 0) {
        fail_in_classifier(path, "a layer whose stride or padding cannot be");
      }
    }
    const auto& labels = config.at("id2label");
    for (std::size_t i = 0; i < labels.size(); ++i) {
      shape.labels.push_back(labels.at(std::to_string(i)).get<std::string>());
    }
    const bool is_known =
        config.at("activation") == "relu" &&
        config.at("value_range") == nlohmann::json::array({-1.0, 1.0}) &&
        !shape.labels.empty() && shape.side > 0 && !shape.layers.empty() &&
        shape.layers.size() <= kMostLayers;
    if (!is_known) {
      fail_in_classifier(path, "a classifier of another kind");
    }
  } catch (const nlohmann::json::exception& problem) {
    fail_in_classifier(path, problem.what());
  }
  return shape;
}

Tensor read_weight(const models::SafetensorsFile& file, const std::string& name,
                   std::size_t rank) {
  const auto entry = file.find(name);
  if (!entry || entry->shape.rank() != rank) {
    fail_in_classifier(file.path(), "expected a tensor " + name + " of " +
                                        std::to_string(rank) + " axes");
  }
  return file.read(*entry, DType::f32);
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

/// A triangle R of as many rows as `rows` has columns, with RᵀR = XᵀX for the
/// matrix X of these rows (modified Gram-Schmidt).
std::vector<std::vector<double>> triangle_of(
    const std::vector<std::vector<double>>& rows) {
  const std::size_t size = rows.front().size();
  std::vector<std::vector<double>> columns(size);
  for (const std::vector<double>& row : rows) {
    for (std::size_t i = 0; i < size; ++i) {
      columns[i].push_back(row[i]);
    }
  }
  std::vector<std::vector<double>> triangle(size, std::vector<double>(size));
  for (std::size_t i = 0; i < size; ++i) {
    const double norm = std::sqrt(dot(columns[i], columns[i]));
    if (norm == 0) {
      continue;
    }
    for (double& value : columns[i]) {
      value /= norm;
    }
    triangle[i][i] = norm;
    for (std::size_t j = i + 1; j < size; ++j) {
      const double share = dot(columns[i], columns[j]);
      triangle[i][j] = share;
      for (std::size_t k = 0; k < rows.size(); ++k) {
        columns[j][k] -= share * columns[i][k];
      }
    }
  }
  return triangle;
}

/// Points without their mean, a row each; at most as many rows as axes, whose
/// products are those of the points.
struct Cloud {
  std::vector<double> mean;
  std::vector<std::vector<double>> rows;
  double variance = 0;  ///< of all axes together

  explicit Cloud(std::span<const std::vector<float>> points)
      : mean(points.front().size()) {
    const auto count = static_cast<double>(points.size());
    for (const std::vector<float>& point : points) {
      for (std::size_t i = 0; i < mean.size(); ++i) {
        mean[i] += point.at(i) / count;
      }
    }
    for (const std::vector<float>& point : points) {
      auto& row = rows.emplace_back(point.begin(), point.end());
      for (std::size_t i = 0; i < mean.size(); ++i) {
        row[i] -= mean[i];
        variance += row[i] * row[i] / count;
      }
    }
    if (rows.size() > mean.size()) {
      rows = triangle_of(rows);
    }
  }
};

/// The sum of the singular values of a matrix of these rows: they are turned in
/// pairs until all are orthogonal (one-sided Jacobi, Hestenes 1958).
double nuclear_norm(std::vector<std::vector<double>> rows) {
  constexpr int kMostSweeps = 60;
  constexpr double kNone = 1e-12;
  bool has_turned = true;
  for (int sweep = 0; sweep < kMostSweeps && has_turned; ++sweep) {
    has_turned = false;
    for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
      for (std::size_t j = i + 1; j < rows.size(); ++j) {
        const double aa = dot(rows[i], rows[i]);
        const double bb = dot(rows[j], rows[j]);
        const double ab = dot(rows[i], rows[j]);
        if (std::fabs(ab) <= kNone * std::sqrt(aa * bb)) {
          continue;
        }
        has_turned = true;
        const double zeta = (bb - aa) / (2 * ab);
        const double tangent = std::copysign(1.0, zeta) /
                               (std::fabs(zeta) + std::hypot(1.0, zeta));
        const double cosine = 1 / std::hypot(1.0, tangent);
        const double sine = cosine * tangent;
        for (std::size_t k = 0; k < rows[i].size(); ++k) {
          const double old = rows[i][k];
          rows[i][k] = cosine * old - sine * rows[j][k];
          rows[j][k] = sine * old + cosine * rows[j][k];
        }
      }
    }
  }
  double sum = 0;
  for (const auto& row : rows) {
    sum += std::sqrt(dot(row, row));
  }
  return sum;
}

}  // namespace

PictureClassifier::PictureClassifier(const fs::path& folder) {
  ClassifierShape shape = read_shape(folder / "config.json");
  const models::SafetensorsFile file(folder / "model.safetensors");
  constexpr std::size_t kMostBytes = std::size_t{1} << 30U;
  Xxh3Stream hash;
  for (const char* name : {"config.json", "model.safetensors"}) {
    const std::string bytes = read_file(folder / name, kMostBytes);
    hash.update(std::as_bytes(std::span(bytes)));
  }
  hash_ = hash.digest();
  side_ = shape.side;
  labels_ = std::move(shape.labels);
  std::int64_t channels = 3;
  std::int64_t side = side_;
  for (std::size_t i = 0; i < shape.layers.size(); ++i) {
    const std::string name = "conv." + std::to_string(i);
    const Tensor weight = read_weight(file, name + ".weight", 4);
    const ConvLayer& said = shape.layers[i];
    const std::int64_t kernel = weight.dim(2);
    if (weight.dim(1) != channels || weight.dim(3) != kernel ||
        said.padding >= kernel || said.stride > side ||
        side + 2 * said.padding < kernel) {
      fail_in_classifier(
          file.path(),
          name +
              " does not fit the layer before it, its stride or its padding");
    }
    channels = weight.dim(0);
    side = (side + 2 * said.padding - kernel) / said.stride + 1;
    layers_.push_back(
        {.weights = kernels::PackedConv2d(
             ctx_, weight, read_weight(file, name + ".bias", 1), said.stride,
             kernels::Padding::all(said.padding), DType::f32),
         .side = side});
  }
  weight_ = read_weight(file, "linear.weight", 2);
  bias_ = read_weight(file, "linear.bias", 1);
  if (weight_.dim(0) != static_cast<std::int64_t>(labels_.size()) ||
      weight_.dim(1) != channels || bias_.dim(0) != weight_.dim(0)) {
    fail_in_classifier(file.path(),
                       "linear.weight is not one row for each label");
  }
}

PictureClassifier::Judgement PictureClassifier::judge(const Image& picture) {
  require(picture.width == side_ && picture.height == side_,
          Errc::shape_mismatch, "classifier",
          "got a picture of " + std::to_string(picture.width) + "x" +
              std::to_string(picture.height) + ", expected sides of " +
              std::to_string(side_));
  Tensor x({1, side_, side_, 3}, DType::f32);
  std::ranges::transform(
      picture.rgb, x.span<float>().begin(),
      [](std::uint8_t byte) { return static_cast<float>(byte) / 127.5F - 1; });
  for (const Layer& layer : layers_) {
    Tensor out({1, layer.side, layer.side, layer.weights.out_channels()},
               DType::f32);
    kernels::conv2d(ctx_, x, layer.weights, out);
    for (float& value : out.span<float>()) {
      value = std::max(value, 0.0F);
    }
    x = std::move(out);
  }
  const auto count = static_cast<std::size_t>(weight_.dim(1));
  const auto values = std::as_const(x).span<float>();
  std::vector<double> means(count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    means[i % count] += values[i];
  }
  const std::size_t positions = values.size() / count;
  for (double& mean : means) {
    mean /= static_cast<double>(positions);
  }
  const auto weight = std::as_const(weight_).span<float>();
  const auto bias = std::as_const(bias_).span<float>();
  std::vector<double> scores(bias.begin(), bias.end());
  for (std::size_t i = 0; i < weight.size(); ++i) {
    scores[i / count] += weight[i] * means[i % count];
  }
  return {.features = std::vector<float>(means.begin(), means.end()),
          .label = std::ranges::max_element(scores) - scores.begin()};
}

double frechet_distance(std::span<const std::vector<float>> a,
                        std::span<const std::vector<float>> b) {
  const auto fits = [&](const std::vector<float>& point) {
    return point.size() == a.front().size();
  };
  require(std::ranges::all_of(a, fits) && std::ranges::all_of(b, fits),
          Errc::shape_mismatch, "frechet_distance",
          "points of several lengths");
  const Cloud one(a);
  const Cloud other(b);
  double distance = one.variance + other.variance;
  for (std::size_t i = 0; i < one.mean.size(); ++i) {
    const double step = one.mean[i] - other.mean[i];
    distance += step * step;
  }
  // With A = XᵀX/n and B = YᵀY/m, tr √(A B) is the nuclear norm of X Yᵀ by
  // √(n m).
  std::vector<std::vector<double>> products;
  for (const auto& row : one.rows) {
    auto& line = products.emplace_back();
    for (const auto& column : other.rows) {
      line.push_back(dot(row, column));
    }
  }
  const double shared =
      nuclear_norm(std::move(products)) /
      std::sqrt(static_cast<double>(a.size()) * static_cast<double>(b.size()));
  return std::max(distance - 2 * shared, 0.0);
}

}  // namespace troupe::actors
