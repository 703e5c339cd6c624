#include "models/files/stored_values.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

namespace troupe::models {
namespace {

/// Index of the first element whose exponent bits are all ones, or -1.
template <typename Bits>
std::int64_t first_non_finite(std::span<const std::byte> bytes, Bits exponent) {
  const std::size_t count = bytes.size() / sizeof(Bits);
  constexpr std::size_t kBlock = 4096;
  std::array<Bits, kBlock> values;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = std::min(kBlock, count - begin);
    std::memcpy(values.data(), bytes.data() + begin * sizeof(Bits),
                n * sizeof(Bits));
    unsigned found = 0;
    for (std::size_t i = 0; i < n; ++i) {
      found |= static_cast<unsigned>((values[i] & exponent) == exponent);
    }
    if (found != 0) {
      const auto* bad =
          std::find_if(values.data(), values.data() + n,
                       [&](Bits v) { return (v & exponent) == exponent; });
      return static_cast<std::int64_t>(begin) + (bad - values.data());
    }
  }
  return -1;
}

template <typename T>
T element_at(const std::byte* bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

template <typename From, typename To>
void convert(const std::byte* from, std::size_t count, To* to) {
  for (std::size_t i = 0; i < count; ++i) {
    float value = 0.0F;
    if constexpr (std::is_floating_point_v<From>) {
      value = static_cast<float>(element_at<From>(from, i));
    } else {
      value = element_at<From>(from, i).to_float();
    }
    if constexpr (std::is_same_v<To, float>) {
      to[i] = value;
    } else {
      to[i] = To::from_float(value);
    }
  }
}

template <typename To>
void convert(FileDType dtype, const std::byte* from, std::size_t count,
             To* to) {
  switch (dtype) {
    case FileDType::bf16:
      return convert<bfloat16>(from, count, to);
    case FileDType::f16:
      return convert<float16>(from, count, to);
    case FileDType::f64:
      return convert<double>(from, count, to);
    default:
      return convert<float>(from, count, to);
  }
}

}  // namespace

std::int64_t first_non_finite(FileDType dtype,
                              std::span<const std::byte> bytes) {
  switch (dtype) {
    case FileDType::f32:
      return first_non_finite<std::uint32_t>(bytes, 0x7f800000U);
    case FileDType::bf16:
      return first_non_finite<std::uint16_t>(bytes, 0x7f80U);
    case FileDType::f16:
      return first_non_finite<std::uint16_t>(bytes, 0x7c00U);
    case FileDType::f64:
      return first_non_finite<std::uint64_t>(bytes, 0x7ff0000000000000ULL);
    default:
      return -1;
  }
}

std::size_t stored_bytes_of(FileDType dtype) {
  return dtype == FileDType::f64 ? 8 : size_of(*tensor_dtype(dtype));
}

bool is_float(FileDType dtype) {
  return dtype == FileDType::f32 || dtype == FileDType::bf16 ||
         dtype == FileDType::f16 || dtype == FileDType::f64;
}

void convert_stored(FileDType dtype, std::span<const std::byte> from,
                    std::size_t begin, Tensor& out) {
  const std::size_t count = from.size() / stored_bytes_of(dtype);
  if (out.dtype() == DType::f32) {
    convert(dtype, from.data(), count, out.data<float>() + begin);
  } else {
    convert(dtype, from.data(), count, out.data<bfloat16>() + begin);
  }
}

}  // namespace troupe::models
