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

std::vector<RowRange> blocks_of_keys(std::int64_t keys,
                                     std::int64_t key_blocks) {
  std::vector<RowRange> blocks;
  for (std::int64_t b = 0; b < key_blocks; ++b) {
    const RowRange block = key_block(key_blocks, b, keys);
    if (block.size() > 0) {
      blocks.push_back(block);
    }
  }
  return blocks;
}

std::int64_t most_keys(const std::vector<RowRange>& blocks) {
  std::int64_t most = 0;
  for (const RowRange& block : blocks) {
    most = std::max(most, block.size());
  }
  return most;
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

AttentionLayout::AttentionLayout(std::int64_t keys, const AttentionShapes& most,
                                 bool has_several, std::int64_t block_rows)
    : depth(most.depth) {
  const std::size_t element = size_of(most.dtype);
  BufferParts head;
  k = head.take(keys * depth, element);
  v = head.take(keys * most.head_dim, element);
  head_bytes = head.bytes();
  BufferParts block;
  q = block.take(block_rows * depth, element);
  logits = block.take(block_rows * most.keys, sizeof(float));
  // f32 powers take the logits' place.
  powers = most.dtype == DType::f32
               ? logits
               : block.take(block_rows * most.keys, element);
  const auto take_rows = [&] {
    return AttentionRows{
        .sums = block.take(block_rows, sizeof(float)),
        .tops = block.take(has_several ? block_rows : 0, sizeof(float)),
        .mixed = block.take(block_rows * most.head_dim, sizeof(float))};
  };
  first = take_rows();
  if (has_several) {
    next = take_rows();
  }
  for_library = block.bytes();
}

AttentionPlan::AttentionPlan(ExecContext& ctx, const RowCut& cut,
                             const std::vector<RowRange>& blocks,
                             std::int64_t head_dim, DType dtype)
    : rows(cut.block_rows),
      last_rows(cut.last_rows()),
      at(blocks.back().end, {most_keys(blocks), head_dim, dtype},
         blocks.size() > 1, rows) {
  MatmulCache& cache = MatmulCache::of(ctx);
  std::size_t for_library = 0;
  const auto get = [&](const MatmulShape& shape) {
    Matmul& product = cache.get(shape);
    for_library = std::max(for_library, product.scratch_bytes());
    return &product;
  };
  for (const RowRange& keys : blocks) {
    const AttentionShapes shapes(keys.size(), head_dim, dtype);
    products.push_back({.keys = keys,
                        .logits = get(shapes.logits(rows)),
                        .last_logits = get(shapes.logits(last_rows)),
                        .mix = get(shapes.mix(rows)),
                        .last_mix = get(shapes.mix(last_rows))});
  }
  block_bytes = whole_lines(at.for_library + for_library);
}

}  // namespace troupe::kernels::cpu
