#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/tensor.h"

/// Matrix products on the tile unit (Intel AMX, bf16 with f32 sums). Source:
/// Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1,
/// chapter 18.
///
/// An element of a product is the sum over ascending k, in whatever block it is
/// computed. So an element's bits depend on the row and the column alone.
namespace troupe::kernels::cpu {

/// True when the CPU has the unit, the system lets us use it and the library is
/// allowed to (ONEDNN_MAX_CPU_ISA).
[[nodiscard]] bool has_tiles();

/// A tile holds 16 rows of 64 bytes; blocks are two by two tiles.
constexpr std::int64_t kTileRows = 16;
constexpr std::int64_t kTileDepth = 32;
constexpr std::int64_t kTileBlock = 32;
/// Bytes of 32 packed columns per 32 of depth.
constexpr std::int64_t kTileGroupBytes = 2048;

/// Packs 32 columns of the second operand. They are given as 32 rows of `depth`
/// bf16, `stride` elements apart. Each 32 of depth become two tiles of 16
/// columns, in which pairs along the depth lie side by side.
void pack_tiles(const bfloat16* rows, std::int64_t stride, std::int64_t depth,
                std::byte* packed);

/// Configures the calling thread's tile unit, and releases it in the end.
class TileUnit {
 public:
  TileUnit() = default;
  ~TileUnit();
  TileUnit(const TileUnit&) = delete;
  TileUnit& operator=(const TileUnit&) = delete;

  /// Prepares for blocks of `rows` ≤ 32 rows.
  void set_rows(std::int64_t rows) {
    if (rows != rows_) {
      configure(rows);
    }
  }

 private:
  void configure(std::int64_t rows);

  std::int64_t rows_ = 0;
};

/// Memory that `multiply_tiles` prefetches for the next call, spread over its
/// own steps.
struct TilePrefetch {
  const std::byte* from = nullptr;
  std::int64_t lines_per_step = 0;
};

/// sum = (add ? sum : 0) + x · packed for one block. x: `rows` rows of bf16,
/// `x_stride` bytes apart; sum: [rows, 32] dense. TileUnit::set_rows(rows) was
/// called before.
void multiply_tiles(const void* x, std::int64_t x_stride,
                    const std::byte* packed, std::int64_t depth,
                    std::int64_t rows, bool add, TilePrefetch prefetch,
                    float* sum);

}  // namespace troupe::kernels::cpu
