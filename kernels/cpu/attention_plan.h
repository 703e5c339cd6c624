#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/row_cut.h"

namespace troupe::kernels::cpu {

/// Query rows of a block, where rows stand alone: few enough that its logits
/// stay in the cache, so that memory does not grow with the square of the
/// tokens.
[[nodiscard]] std::int64_t attention_block_rows(std::int64_t keys);

/// The two products of a block of query rows.
struct AttentionShapes {
  std::int64_t keys;
  std::int64_t head_dim;
  DType dtype;
  std::int64_t depth;  ///< columns of q and k, with those of zeros

  AttentionShapes(std::int64_t num_keys, std::int64_t columns, DType type);
  [[nodiscard]] MatmulShape logits(std::int64_t rows) const;
  [[nodiscard]] MatmulShape mix(std::int64_t rows) const;
};

/// Where operands and results lie: k and v of a head in one buffer, what
/// belongs to a block of its rows in another. Offsets in bytes.
struct AttentionLayout {
  std::int64_t depth;
  std::size_t k = 0, v = 0;
  std::size_t head_bytes = 0;
  std::size_t q = 0, logits = 0, powers = 0, sums = 0, mixed = 0;
  std::size_t for_library = 0;  ///< scratch of the library, behind all else

  AttentionLayout(const AttentionShapes& shapes, std::int64_t block_rows);
};

/// Both products compiled, for blocks of `rows` and for the last one, which may
/// have fewer.
struct AttentionPlan {
  std::int64_t rows;
  std::int64_t last_rows;
  AttentionLayout at;
  Matmul* logits;
  Matmul* last_logits;
  Matmul* mix;
  Matmul* last_mix;
  std::size_t block_bytes;

  AttentionPlan(ExecContext& ctx, const RowCut& cut,
                const AttentionShapes& shapes);
};

}  // namespace troupe::kernels::cpu
