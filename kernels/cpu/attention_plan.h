#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/core/shard_context.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/row_cut.h"

namespace troupe::kernels::cpu {

/// Query rows of a block, where rows stand alone: few enough that its logits
/// stay in the cache, so that memory does not grow with the square of the
/// tokens. keys: of the largest block of keys.
[[nodiscard]] std::int64_t attention_block_rows(std::int64_t keys);

/// The blocks that keys are cut into (AttentionMask::key_blocks).
[[nodiscard]] std::vector<RowRange> blocks_of_keys(std::int64_t keys,
                                                   std::int64_t key_blocks);

/// Of the largest.
[[nodiscard]] std::int64_t most_keys(const std::vector<RowRange>& blocks);

/// The two products of a block of query rows with a block of keys.
struct AttentionShapes {
  std::int64_t keys;
  std::int64_t head_dim;
  DType dtype;
  std::int64_t depth;  ///< columns of q and k, with those of zeros

  AttentionShapes(std::int64_t num_keys, std::int64_t columns, DType type);
  [[nodiscard]] MatmulShape logits(std::int64_t rows) const;
  [[nodiscard]] MatmulShape mix(std::int64_t rows) const;
};

/// What the rows of a block have of some keys: f32, `mixed` with a row of
/// head_dim for each. Offsets in bytes.
struct AttentionRows {
  std::size_t sums = 0, tops = 0, mixed = 0;
};

/// Where operands and results lie: k and v of a head in one buffer, what
/// belongs to a block of its rows in another. Offsets in bytes.
struct AttentionLayout {
  std::int64_t depth;
  std::size_t k = 0, v = 0;
  std::size_t head_bytes = 0;
  std::size_t q = 0, logits = 0, powers = 0;
  AttentionRows first;  ///< of the first block of keys, and then of all so far
  AttentionRows next;   ///< of another one; unused where there is one
  std::size_t for_library = 0;  ///< scratch of the library, behind all else

  /// most: of the largest block of keys.
  AttentionLayout(std::int64_t keys, const AttentionShapes& most,
                  bool has_several, std::int64_t block_rows);
};

/// Both products of each block of keys compiled, for blocks of `rows` and for
/// the last one, which may have fewer.
struct AttentionPlan {
  struct Products {
    RowRange keys;
    Matmul* logits;
    Matmul* last_logits;
    Matmul* mix;
    Matmul* last_mix;
  };
  std::int64_t rows;
  std::int64_t last_rows;
  AttentionLayout at;
  std::vector<Products> products;
  std::size_t block_bytes;

  AttentionPlan(ExecContext& ctx, const RowCut& cut,
                const std::vector<RowRange>& blocks, std::int64_t head_dim,
                DType dtype);
};

}  // namespace troupe::kernels::cpu
