#include "kernels/cpu/attention_plan.h"

#include <algorithm>

#include "kernels/row_blocks.h"

namespace troupe::kernels::cpu {
namespace {

constexpr std::int64_t kBlockLogits = 131072;
constexpr std::int64_t kMaxBlockRows = 256;
constexpr std::int64_t kMinBlockRows = kRowBlock;
constexpr std::size_t kBufferAlignment = 64;

std::size_t whole_lines(std::size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

/// Columns of q and k in the product of logits. The matrix unit takes 32 bf16
/// at a time and is almost twice as fast without a remainder (head_dim 72:
/// 16 against 28 µs for 256 × 256 logits); columns of zeros add nothing.
std::int64_t padded_depth(std::int64_t head_dim, DType dtype) {
  constexpr std::int64_t kTileDepth = 32;
  const bool tiles = dtype == DType::bf16 && dnnl::get_effective_cpu_isa() ==
                                                 dnnl::cpu_isa::avx512_core_amx;
  return tiles ? (head_dim + kTileDepth - 1) / kTileDepth * kTileDepth
               : head_dim;
}

/// Hands out parts of a buffer.
class BufferParts {
 public:
  std::size_t take(std::int64_t count, std::size_t element) {
    const std::size_t at = bytes_;
    bytes_ += whole_lines(static_cast<std::size_t>(count) * element);
    return at;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace

std::int64_t attention_block_rows(std::int64_t keys) {
  return std::clamp(kBlockLogits / keys, kMinBlockRows, kMaxBlockRows);
}

AttentionShapes::AttentionShapes(std::int64_t num_keys, std::int64_t columns,
                                 DType type)
    : keys(num_keys),
      head_dim(columns),
      dtype(type),
      depth(padded_depth(columns, type)) {}

MatmulShape AttentionShapes::logits(std::int64_t rows) const {
  return {.m = rows,
          .n = keys,
          .k = depth,
          .dtype = dtype,
          .layout = Layout::transposed};
}

MatmulShape AttentionShapes::mix(std::int64_t rows) const {
  return {.m = rows,
          .n = head_dim,
          .k = keys,
          .dtype = dtype,
          .layout = Layout::rows};
}

AttentionLayout::AttentionLayout(const AttentionShapes& shapes,
                                 std::int64_t block_rows)
    : depth(shapes.depth) {
  const std::size_t element = size_of(shapes.dtype);
  BufferParts head;
  k = head.take(shapes.keys * depth, element);
  v = head.take(shapes.keys * shapes.head_dim, element);
  head_bytes = head.bytes();
  BufferParts block;
  q = block.take(block_rows * depth, element);
  logits = block.take(block_rows * shapes.keys, sizeof(float));
  // f32 powers take the logits' place.
  powers = shapes.dtype == DType::f32
               ? logits
               : block.take(block_rows * shapes.keys, element);
  sums = block.take(block_rows, sizeof(float));
  mixed = block.take(block_rows * shapes.head_dim, sizeof(float));
  for_library = block.bytes();
}

AttentionPlan::AttentionPlan(ExecContext& ctx, const RowCut& cut,
                             const AttentionShapes& shapes)
    : rows(cut.block_rows), last_rows(cut.last_rows()), at(shapes, rows) {
  MatmulCache& cache = MatmulCache::of(ctx);
  logits = &cache.get(shapes.logits(rows));
  last_logits = &cache.get(shapes.logits(last_rows));
  mix = &cache.get(shapes.mix(rows));
  last_mix = &cache.get(shapes.mix(last_rows));
  block_bytes = whole_lines(
      at.for_library +
      std::max({logits->scratch_bytes(), mix->scratch_bytes(),
                last_logits->scratch_bytes(), last_mix->scratch_bytes()}));
}

}  // namespace troupe::kernels::cpu
