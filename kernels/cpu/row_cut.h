#pragma once

#include <cstdint>
#include <functional>

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/packed_matrix.h"

namespace troupe::kernels::cpu {

/// How the rows of one item are cut into products: blocks of `block_rows` rows,
/// the last one with what is left.
struct RowCut {
  std::int64_t rows = 0;
  std::int64_t block_rows = 0;
  std::int64_t num_blocks = 0;

  [[nodiscard]] std::int64_t last_rows() const {
    return rows - (num_blocks - 1) * block_rows;
  }
};

/// Cuts into blocks of at most `most` rows if `stand_alone` holds for every
/// height that then occurs; otherwise into blocks of kRowBlock rows. Both cuts
/// give the same bytes, and so does a shard of the rows (kernels/row_blocks.h).
[[nodiscard]] RowCut cut_rows(
    std::int64_t rows, std::int64_t most,
    const std::function<bool(std::int64_t height)>& stand_alone);

/// Whether each row of this product has the bytes that it has in a product of
/// kRowBlock rows, wherever it stands in either. The first call for a shape
/// tries it with random numbers, at two alignments and two offsets of the
/// blocks, and takes the time of four such products. The answer depends on the
/// shape, the library and the CPU alone. Thread: as MatmulCache.
[[nodiscard]] bool rows_stand_alone(ExecContext& ctx, const MatmulShape& shape);

/// The same for every panel of a matrix. All but the last have one width.
[[nodiscard]] bool panels_stand_alone(ExecContext& ctx,
                                      const PackedMatrix& matrix,
                                      std::int64_t height);

}  // namespace troupe::kernels::cpu
