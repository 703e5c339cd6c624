#include "actors/cli/compare_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "actors/cli/image_recipe.h"
#include "actors/cli/tensor_file.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

/// The largest differences seen so far.
struct Distance {
  double absolute = 0;
  double relative = 0;

  void add(double difference, double largest) {
    absolute = std::max(absolute, difference);
    if (difference > 0) {
      relative = std::max(relative, difference / largest);
    }
  }
};

Comparison judge(Comparison found, const Distance& distance,
                 const std::optional<double>& tolerance) {
  found.largest_absolute = distance.absolute;
  found.largest_relative = distance.relative;
  if (!found.same) {
    found.same = tolerance && distance.relative <= *tolerance;
    found.detail += fmt::format("; at most {:.3g} apart, {:.3g} relative",
                                distance.absolute, distance.relative);
    if (tolerance) {
      found.detail += fmt::format(", {} --tolerance {:g}",
                                  found.same ? "within" : "beyond", *tolerance);
    }
  }
  return found;
}

std::string describe(const StoredColour& stored) {
  return fmt::format("{} bits a channel{}, {}", stored.bit_depth,
                     stored.has_alpha ? " with transparency" : "",
                     stored.space.empty() ? "no colour space" : stored.space);
}

Comparison compare_images(const std::string& path, const std::string& other,
                          const std::optional<double>& tolerance) {
  const Image a = read_image(path);
  const Image b = read_image(other);
  if (a.width != b.width || a.height != b.height) {
    return {false, fmt::format("{}×{} pixels against {}×{}", a.width, a.height,
                               b.width, b.height)};
  }
  if (a.stored != b.stored) {
    return {false, describe(a.stored) + " against " + describe(b.stored)};
  }
  if (a.stored.bit_depth != 8 || a.stored.has_alpha) {
    throw Error(Errc::unsupported, path,
                "only 8-bit pixels without transparency are compared: got " +
                    describe(a.stored),
                "compare the files with cmp");
  }
  constexpr double kWhite = 255;
  std::size_t different = 0;
  Distance distance;
  for (std::size_t i = 0; i < a.rgb.size(); ++i) {
    different += a.rgb[i] == b.rgb[i] ? 0U : 1U;
    distance.add(std::abs(int{a.rgb[i]} - int{b.rgb[i]}), kWhite);
  }
  if (different == 0) {
    return judge({true, "same pixels"}, distance, tolerance);
  }
  return judge(
      {false, fmt::format("{} of {} bytes differ", different, a.rgb.size())},
      distance, tolerance);
}

template <typename T>
T stored_value(std::span<const std::byte> bytes, std::size_t i) {
  T value{};
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}

double from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16U);
}

double from_f16(std::uint16_t bits) {
  constexpr int kExponentBias = 15;
  constexpr int kFractionBits = 10;
  const int exponent = bits >> kFractionBits & 31;
  const double fraction = bits & 1023;
  const double size =
      exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
      : exponent == 0 ? std::ldexp(fraction, 1 - kExponentBias - kFractionBits)
                      : std::ldexp(fraction + 1024,
                                   exponent - kExponentBias - kFractionBits);
  return (bits & 0x8000U) != 0 ? -size : size;
}

/// Element `i` as the widest type there is, which holds 64-bit integers too.
/// Nothing for types that are no plain numbers.
std::optional<long double> element(const StoredTensor& tensor, std::size_t i) {
  const std::string_view type = tensor.dtype;
  const std::span<const std::byte> bytes = tensor.bytes;
  if (type == "F32") {
    return stored_value<float>(bytes, i);
  }
  if (type == "F64") {
    return stored_value<double>(bytes, i);
  }
  if (type == "BF16") {
    return from_bf16(stored_value<std::uint16_t>(bytes, i));
  }
  if (type == "F16") {
    return from_f16(stored_value<std::uint16_t>(bytes, i));
  }
  if (type == "I64") {
    return stored_value<std::int64_t>(bytes, i);
  }
  if (type == "U64") {
    return stored_value<std::uint64_t>(bytes, i);
  }
  if (type == "I32") {
    return stored_value<std::int32_t>(bytes, i);
  }
  if (type == "U32") {
    return stored_value<std::uint32_t>(bytes, i);
  }
  if (type == "I16") {
    return stored_value<std::int16_t>(bytes, i);
  }
  if (type == "U16") {
    return stored_value<std::uint16_t>(bytes, i);
  }
  if (type == "I8") {
    return stored_value<std::int8_t>(bytes, i);
  }
  if (type == "U8" || type == "BOOL") {
    return stored_value<std::uint8_t>(bytes, i);
  }
  return std::nullopt;
}

/// Adds how far `a` is from `b`, which has its shape; false where that cannot
/// be said: NaN or infinity in one of them alone, or types without numbers.
bool add_distance(const StoredTensor& a, const StoredTensor& b,
                  Distance& distance) {
  const auto count = static_cast<std::size_t>(a.shape.num_elements());
  long double apart = 0;
  long double largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::optional<long double> x = element(a, i);
    const std::optional<long double> y = element(b, i);
    if (!x || !y) {
      return false;
    }
    const bool are_finite = std::isfinite(*x) && std::isfinite(*y);
    const bool are_alike =
        *x == *y || (std::isnan(*x) && std::isnan(*y));  // also infinities
    if (!are_finite && !are_alike) {
      return false;
    }
    if (are_finite) {
      apart = std::max(apart, std::abs(*x - *y));
      largest = std::max(largest, std::abs(*y));
    }
  }
  distance.add(static_cast<double>(apart), static_cast<double>(largest));
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
  std::size_t different = 0;
  for (std::size_t i = 0; i < a.bytes.size(); ++i) {
    different += a.bytes[i] == b.bytes[i] ? 0U : 1U;
  }
  return different == 0
             ? std::string()
             : fmt::format("tensor {}: {} of {} bytes differ",
                           in_quotes(a.name), different, a.bytes.size());
}

/// Whether two tensors can be compared element by element.
bool are_comparable(const StoredTensor& a, const StoredTensor& b) {
  return a.name == b.name && a.shape == b.shape;
}

Comparison compare_tensors(const std::string& path, const std::string& other,
                           const std::optional<double>& tolerance) {
  const std::vector<StoredTensor> a = read_stored(path);
  const std::vector<StoredTensor> b = read_stored(other);
  if (a.size() != b.size()) {
    return {false, fmt::format("{} tensors against {}", a.size(), b.size())};
  }
  std::string first;
  Distance distance;
  bool has_distance = true;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::string what = difference(a[i], b[i]);
    if (!what.empty() && !are_comparable(a[i], b[i])) {
      return {false, what};
    }
    first = first.empty() ? what : first;
    // Equal bytes may be of a type without numbers.
    has_distance =
        has_distance && (what.empty() || add_distance(a[i], b[i], distance));
  }
  if (first.empty()) {
    return judge({true, fmt::format("{} tensors, same bytes", a.size())},
                 distance, tolerance);
  }
  if (!has_distance) {
    return {false, first + "; some elements are no finite numbers"};
  }
  return judge({false, first}, distance, tolerance);
}

}  // namespace

Comparison compare_files(const std::string& path, const std::string& other,
                         const std::optional<double>& tolerance) {
  if (path.ends_with(".png") != other.ends_with(".png")) {
    throw Error(Errc::invalid_argument, "--against",
                "an image and tensors cannot be compared: got " + path +
                    " and " + other,
                "give two .png images, or two tensor files");
  }
  return path.ends_with(".png") ? compare_images(path, other, tolerance)
                                : compare_tensors(path, other, tolerance);
}

}  // namespace troupe::actors
