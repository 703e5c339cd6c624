#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe {

/// Element type of a tensor. The CPU stores and converts f16, but computes
/// nothing in it.
enum class DType : std::uint8_t { f32, bf16, f16, i64, u8 };

[[nodiscard]] constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::i64:
      return 8;
    case DType::u8:
      return 1;
  }
  return 0;
}

[[nodiscard]] constexpr std::string_view to_string(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
  }
  return "?";
}

/// The upper half of an IEEE binary32; conversion rounds to nearest even.
struct bfloat16 {
  std::uint16_t bits = 0;

  [[nodiscard]] static constexpr bfloat16 from_float(float value) noexcept {
    const auto u = std::bit_cast<std::uint32_t>(value);
    if ((u & 0x7fffffffU) > 0x7f800000U) {  // NaN stays a (quiet) NaN
      return {static_cast<std::uint16_t>((u >> 16U) | 0x40U)};
    }
    return {
        static_cast<std::uint16_t>((u + 0x7fffU + ((u >> 16U) & 1U)) >> 16U)};
  }
  [[nodiscard]] constexpr float to_float() const noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  }
};

/// IEEE binary16. Found in files; GPUs compute with it.
struct float16 {
  std::uint16_t bits = 0;

  /// Rounds to nearest even. Thread: any.
  [[nodiscard]] static float16 from_float(float value) noexcept;
  /// Exact. Thread: any.
  [[nodiscard]] float to_float() const noexcept;
};

}  // namespace troupe
