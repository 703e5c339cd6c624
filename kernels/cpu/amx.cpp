#include "kernels/cpu/amx.h"

#include <algorithm>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>

#if defined(__x86_64__) && defined(__linux__)

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TROUPE_TILES __attribute__((target("amx-tile,amx-bf16")))

namespace troupe::kernels::cpu {
namespace {

/// Layout of the instruction's operand.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// The compiler does not know that tile instructions read memory.
inline void memory_is_written() { __asm__ volatile("" ::: "memory"); }

constexpr std::int64_t kSumStride = kTileBlock * sizeof(float);

// Tiles 0–3 hold sums, 4 and 5 rows of x, 6 and 7 the packed columns.
template <bool two>
TROUPE_TILES void multiply(const std::byte* x, std::int64_t x_stride,
                           const std::byte* packed, std::int64_t steps,
                           bool add, TilePrefetch prefetch, float* sum) {
  float* lower = sum + kTileRows * kTileBlock;
  const std::byte* x_lower = x + kTileRows * x_stride;
  memory_is_written();
  if (add) {
    _tile_loadd(0, sum, kSumStride);
    _tile_loadd(1, sum + kTileRows, kSumStride);
    if constexpr (two) {
      _tile_loadd(2, lower, kSumStride);
      _tile_loadd(3, lower + kTileRows, kSumStride);
    }
  } else {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (two) {
      _tile_zero(2);
      _tile_zero(3);
    }
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    for (std::int64_t line = 0; line < prefetch.lines_per_step; ++line) {
      _mm_prefetch(reinterpret_cast<const char*>(prefetch.from), _MM_HINT_T1);
      prefetch.from += 64;
    }
    _tile_loadd(6, packed, 64);
    _tile_loadd(4, x, x_stride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, packed + 1024, 64);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (two) {
      _tile_loadd(5, x_lower, x_stride);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    packed += kTileGroupBytes;
    x += 64;
    x_lower += 64;
  }
  _tile_stored(0, sum, kSumStride);
  _tile_stored(1, sum + kTileRows, kSumStride);
  if constexpr (two) {
    _tile_stored(2, lower, kSumStride);
    _tile_stored(3, lower + kTileRows, kSumStride);
  }
  memory_is_written();
}

TROUPE_TILES void load_config(const TileConfig& config) {
  memory_is_written();
  _tile_loadconfig(&config);
}

TROUPE_TILES void release() { _tile_release(); }

bool request_tiles() {
  if (dnnl::get_effective_cpu_isa() != dnnl::cpu_isa::avx512_core_amx) {
    return false;
  }
  // Linux hands out the 8 KiB of tile state to processes that ask (arch_prctl
  // ARCH_REQ_XCOMP_PERM, feature 18).
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool has_tiles() {
  static const bool instance = request_tiles();
  return instance;
}

void pack_tiles(const bfloat16* rows, std::int64_t stride, std::int64_t depth,
                std::byte* packed) {
  auto* to = reinterpret_cast<bfloat16*>(packed);
  for (std::int64_t begin = 0; begin < depth; begin += kTileDepth) {
    for (std::int64_t half = 0; half < kTileBlock; half += kTileRows) {
      for (std::int64_t k = begin; k < begin + kTileDepth; k += 2) {
        for (std::int64_t column = half; column < half + kTileRows; ++column) {
          std::memcpy(to, rows + column * stride + k, 2 * sizeof(bfloat16));
          to += 2;
        }
      }
    }
  }
}

void TileUnit::configure(std::int64_t rows) {
  const std::int64_t upper = std::min(rows, kTileRows);
  const std::int64_t lower = std::max<std::int64_t>(1, rows - kTileRows);
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    const bool is_lower = tile == 2 || tile == 3 || tile == 5;
    config.row_bytes[tile] = 64;
    config.rows[tile] = static_cast<std::uint8_t>(
        tile >= 6 ? kTileRows : (is_lower ? lower : upper));
  }
  load_config(config);
  rows_ = rows;
}

TileUnit::~TileUnit() {
  if (rows_ != 0) {
    release();
  }
}

void multiply_tiles(const void* x, std::int64_t x_stride,
                    const std::byte* packed, std::int64_t depth,
                    std::int64_t rows, bool add, TilePrefetch prefetch,
                    float* sum) {
  const auto* from = static_cast<const std::byte*>(x);
  if (rows > kTileRows) {
    multiply<true>(from, x_stride, packed, depth / kTileDepth, add, prefetch,
                   sum);
  } else {
    multiply<false>(from, x_stride, packed, depth / kTileDepth, add, prefetch,
                    sum);
  }
}

}  // namespace troupe::kernels::cpu

#else

namespace troupe::kernels::cpu {

bool has_tiles() { return false; }
void pack_tiles(const bfloat16*, std::int64_t, std::int64_t, std::byte*) {}
void TileUnit::configure(std::int64_t) {}
TileUnit::~TileUnit() = default;
void multiply_tiles(const void*, std::int64_t, const std::byte*, std::int64_t,
                    std::int64_t, bool, TilePrefetch, float*) {}

}  // namespace troupe::kernels::cpu

#endif
