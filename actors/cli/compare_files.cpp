#include "actors/cli/compare_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "actors/cli/image_recipe.h"
#include "actors/cli/tensor_file.h"
#include "kernels/core/dtype.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

/// The differences of values, summed up.
class Differences {
 public:
  /// Of one value.
  void add(long double difference) {
    largest_ = std::max(largest_, std::abs(difference));
    squares_ += difference * difference;
    ++count_;
  }
  /// Of all since the last call the values are at most `largest`.
  void end_tensor(double largest) {
    const auto apart = static_cast<double>(std::exchange(largest_, 0));
    peak_ = std::max(peak_, largest);
    distance_.largest_absolute = std::max(distance_.largest_absolute, apart);
    if (apart > 0) {
      distance_.largest_relative =
          std::max(distance_.largest_relative, apart / largest);
    }
  }
  [[nodiscard]] Distance distance() const {
    Distance distance = distance_;
    if (squares_ > 0) {
      distance.rmse = static_cast<double>(
          std::sqrt(squares_ / static_cast<long double>(count_)));
      if (peak_ > 0) {
        distance.psnr_db = 20 * std::log10(peak_ / distance.rmse);
      }
    }
    return distance;
  }

 private:
  Distance distance_;  ///< without means
  long double largest_ = 0;
  long double squares_ = 0;
  std::uint64_t count_ = 0;
  double peak_ = 0;
};

/// How many bytes of two equally long spans differ.
std::size_t num_different(std::span<const std::byte> a,
                          std::span<const std::byte> b) {
  return std::transform_reduce(a.begin(), a.end(), b.begin(), std::size_t{0},
                               std::plus<>(), std::not_equal_to<>());
}

std::string describe(const StoredColour& stored) {
  return fmt::format("{} bits a channel{}, {}", stored.bit_depth,
                     stored.has_alpha ? " with transparency" : "",
                     stored.space.empty() ? "no colour space" : stored.space);
}

Comparison compare_images(const std::string& path, const std::string& other) {
  const Image a = read_image(path);
  const Image b = read_image(other);
  if (a.width != b.width || a.height != b.height) {
    return {false, fmt::format("{}×{} pixels against {}×{}", a.width, a.height,
                               b.width, b.height)};
  }
  if (a.stored != b.stored) {
    return {false, describe(a.stored) + " against " + describe(b.stored)};
  }
  require(a.stored.bit_depth == 8 && !a.stored.has_alpha, Errc::unsupported,
          path,
          "only 8-bit pixels without transparency are compared: got " +
              describe(a.stored),
          "compare the files with cmp");
  Comparison found;
  found.distance = distance_of(a, b);
  const std::size_t different = num_different(std::as_bytes(std::span(a.rgb)),
                                              std::as_bytes(std::span(b.rgb)));
  found.same = different == 0;
  found.detail = found.same ? "same pixels"
                            : fmt::format("{} of {} bytes differ", different,
                                          a.rgb.size());
  return found;
}

/// Element `i` of some bytes, as the widest type there is, which holds 64-bit
/// integers too.
using ReadElement = long double (*)(std::span<const std::byte>, std::size_t i);

template <typename T>
long double element(std::span<const std::byte> bytes, std::size_t i) {
  T value{};
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  if constexpr (requires { value.to_float(); }) {
    return value.to_float();
  } else {
    return value;
  }
}

/// Null for types that are no plain numbers.
ReadElement reader_of(std::string_view dtype) {
  static const std::map<std::string_view, ReadElement> kReaders = {
      {"F32", element<float>},         {"F64", element<double>},
      {"BF16", element<bfloat16>},     {"F16", element<float16>},
      {"I64", element<std::int64_t>},  {"U64", element<std::uint64_t>},
      {"I32", element<std::int32_t>},  {"U32", element<std::uint32_t>},
      {"I16", element<std::int16_t>},  {"U16", element<std::uint16_t>},
      {"I8", element<std::int8_t>},    {"U8", element<std::uint8_t>},
      {"BOOL", element<std::uint8_t>},
  };
  const auto found = kReaders.find(dtype);
  return found == kReaders.end() ? nullptr : found->second;
}

/// Adds how far `a` is from `b`, which has its shape; false where that cannot
/// be said: NaN or infinity in one of them alone, or types without numbers.
bool add_tensor(const StoredTensor& a, const StoredTensor& b,
                Differences& differences) {
  const auto count = static_cast<std::size_t>(a.shape.num_elements());
  const ReadElement read_a = reader_of(a.dtype);
  const ReadElement read_b = reader_of(b.dtype);
  if (count > 0 && (read_a == nullptr || read_b == nullptr)) {
    return false;
  }
  long double largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const long double x = read_a(a.bytes, i);
    const long double y = read_b(b.bytes, i);
    const bool are_finite = std::isfinite(x) && std::isfinite(y);
    const bool are_alike =
        x == y || (std::isnan(x) && std::isnan(y));  // also infinities
    if (!are_finite && !are_alike) {
      return false;
    }
    if (are_finite) {
      differences.add(x - y);
      largest = std::max(largest, std::abs(y));
    }
  }
  differences.end_tensor(static_cast<double>(largest));
  return true;
}

/// In what two tensors differ; empty: in nothing.
std::string difference(const StoredTensor& a, const StoredTensor& b) {
  if (a.name != b.name) {
    return "tensor " + in_quotes(a.name) + " against " + in_quotes(b.name);
  }
  if (a.dtype != b.dtype || a.shape != b.shape) {
    return fmt::format("tensor {}: {} {} against {} {}", in_quotes(a.name),
                       printable(a.dtype), to_string(a.shape),
                       printable(b.dtype), to_string(b.shape));
  }
  const std::size_t different = num_different(a.bytes, b.bytes);
  return different == 0
             ? std::string()
             : fmt::format("tensor {}: {} of {} bytes differ",
                           in_quotes(a.name), different, a.bytes.size());
}

Comparison compare_tensors(const std::string& path, const std::string& other) {
  const std::vector<StoredTensor> a = read_stored(path);
  const std::vector<StoredTensor> b = read_stored(other);
  if (a.size() != b.size()) {
    return {false, fmt::format("{} tensors against {}", a.size(), b.size())};
  }
  Comparison found;
  Differences differences;
  bool has_distance = true;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::string what = difference(a[i], b[i]);
    if (a[i].name != b[i].name || a[i].shape != b[i].shape) {
      return {false, what};
    }
    if (found.detail.empty()) {
      found.detail = what;
    }
    // Equal bytes may be of a type without numbers.
    has_distance =
        has_distance && (what.empty() || add_tensor(a[i], b[i], differences));
  }
  found.same = found.detail.empty();
  if (found.same) {
    found.detail = fmt::format("{} tensors, same bytes", a.size());
  }
  if (!has_distance) {
    return {false, found.detail + "; some elements are no finite numbers"};
  }
  found.distance = differences.distance();
  return found;
}

/// A plane of numbers; after `blurred` smaller by the window on each side.
struct Plane {
  int width = 0;
  int height = 0;
  std::vector<double> values;

  [[nodiscard]] double at(int x, int y) const {
    return values[static_cast<std::size_t>(y) *
                      static_cast<std::size_t>(width) +
                  static_cast<std::size_t>(x)];
  }
};

/// A Gaussian's weighted means in windows along one axis.
Plane blurred(const Plane& in, const std::vector<double>& weights,
              bool is_across) {
  const int less = static_cast<int>(weights.size()) - 1;
  Plane out{.width = in.width - (is_across ? less : 0),
            .height = in.height - (is_across ? 0 : less),
            .values = {}};
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x) {
      double sum = 0;
      for (int i = 0; i <= less; ++i) {
        sum += weights[static_cast<std::size_t>(i)] *
               (is_across ? in.at(x + i, y) : in.at(x, y + i));
      }
      out.values.push_back(sum);
    }
  }
  return out;
}

std::vector<double> gaussian(int side) {
  constexpr int kSide = 11;
  constexpr double kDeviation = 1.5;
  const int size = std::min(kSide, side % 2 == 1 ? side : side - 1);
  std::vector<double> weights;
  double sum = 0;
  for (int i = 0; i < size; ++i) {
    const double at = (i - size / 2) / kDeviation;
    sum += weights.emplace_back(std::exp(-at * at / 2));
  }
  for (double& weight : weights) {
    weight /= sum;
  }
  return weights;
}

}  // namespace

double structural_similarity(const Image& a, const Image& b) {
  require(a.width == b.width && a.height == b.height, Errc::internal, "ssim",
          "pictures of two sizes");
  constexpr double kC1 = (0.01 * 255) * (0.01 * 255);
  constexpr double kC2 = (0.03 * 255) * (0.03 * 255);
  const std::vector<double> across = gaussian(a.width);
  const std::vector<double> down = gaussian(a.height);
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const auto mean_of = [&](const Image& x, const Image* y) {
      Plane plane{.width = x.width, .height = x.height, .values = {}};
      for (std::size_t i = channel; i < x.rgb.size(); i += 3) {
        plane.values.push_back(static_cast<double>(x.rgb[i]) *
                               (y == nullptr ? 1 : y->rgb[i]));
      }
      return blurred(blurred(plane, across, true), down, false).values;
    };
    const std::vector<double> mean_a = mean_of(a, nullptr);
    const std::vector<double> mean_b = mean_of(b, nullptr);
    const std::vector<double> aa = mean_of(a, &a);
    const std::vector<double> bb = mean_of(b, &b);
    const std::vector<double> ab = mean_of(a, &b);
    for (std::size_t i = 0; i < ab.size(); ++i) {
      const double product = mean_a[i] * mean_b[i];
      const double squares = mean_a[i] * mean_a[i] + mean_b[i] * mean_b[i];
      sum += (2 * product + kC1) * (2 * (ab[i] - product) + kC2) /
             ((squares + kC1) * (aa[i] + bb[i] - squares + kC2));
    }
    count += ab.size();
  }
  return sum / static_cast<double>(count);
}

Distance distance_of(const Image& a, const Image& b) {
  constexpr double kWhite = 255;
  require(a.rgb.size() == b.rgb.size(), Errc::internal, "verify",
          "pictures of two sizes");
  Differences differences;
  for (std::size_t i = 0; i < a.rgb.size(); ++i) {
    differences.add(int{a.rgb[i]} - int{b.rgb[i]});
  }
  differences.end_tensor(kWhite);
  return differences.distance();
}

std::string describe(const Distance& distance, std::string_view unit) {
  std::string text =
      fmt::format("at most {:.3g}{} apart, {:.3g} relative; RMSE {:.3g}",
                  distance.largest_absolute, unit, distance.largest_relative,
                  distance.rmse);
  if (distance.psnr_db) {
    text += fmt::format(", PSNR {:.1f} dB", *distance.psnr_db);
  }
  return text;
}

Comparison compare_files(const std::string& path, const std::string& other,
                         const std::optional<double>& tolerance) {
  const bool is_image = is_png_name(path);
  require(
      is_image == is_png_name(other), Errc::invalid_argument, "--against",
      "an image and tensors cannot be compared: got " + path + " and " + other,
      "give two .png images, or two tensor files");
  Comparison found =
      is_image ? compare_images(path, other) : compare_tensors(path, other);
  if (!found.same && found.distance) {
    const Distance& distance = *found.distance;
    found.same = tolerance && distance.largest_relative <= *tolerance;
    found.detail += "; " + describe(distance, is_image ? kOfPicture : "");
    if (tolerance) {
      found.detail += fmt::format(", {} --tolerance {:g}",
                                  found.same ? "within" : "beyond", *tolerance);
    }
  }
  return found;
}

}  // namespace troupe::actors
